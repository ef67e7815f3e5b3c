//! What is answered, as JSON and for whoever prints it.

use serde::{Deserialize, Serialize};

/// What is known of an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Which object.
    pub object: ObjectExplained,
    /// The version at which the host knows it. Without one it is not there, or nobody asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// What it is as a primary, for each plugin that reconciles it.
    pub primaries: Vec<PrimaryExplained>,
    /// Who depends on it.
    pub dependents: Vec<DependentExplained>,
    /// Further ones, which are not told.
    pub more_dependents: usize,
}

/// An object by its names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectExplained {
    /// The cluster that it is in, as plugins and messages call it.
    pub cluster: String,
    /// Its apiVersion.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace, unless it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// An object as the primary of a plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PrimaryExplained {
    /// The plugin's name.
    pub plugin: String,
    /// The plugin's version.
    pub plugin_version: String,
    /// What the primary does.
    pub state: PrimaryState,
    /// The moment until which it is slowed down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowed_until: Option<String>,
    /// Runs in a row that failed.
    pub failures: u32,
    /// Why it is about to run.
    pub wakes: Vec<String>,
    /// The run that comes though nothing changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<NextExplained>,
    /// What it depends on.
    pub queries: Vec<QueryExplained>,
    /// Strings under which the plugin's `dependents` finds it.
    pub join_keys: Vec<String>,
    /// Objects that must not be deleted while it exists.
    pub protected: Vec<ObjectExplained>,
    /// Its last runs, the newest first.
    pub runs: Vec<RunExplained>,
}

/// What a primary does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PrimaryState {
    /// Nothing: it waits for a change, or for its next run.
    Idle,
    /// It waits for its turn.
    Queued,
    /// It runs.
    Running,
    /// It waits until all that it depends on is known.
    Waiting,
    /// It runs in circles, so it is slowed down.
    Slowed,
}

/// A run that is due at some time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextExplained {
    /// When.
    pub time: String,
    /// Why.
    pub reason: String,
}

/// Something that a primary depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryExplained {
    /// The id that the plugin gave it. One without an id is of an earlier run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The newest run did not name it. It stays until a run succeeds, so that its repair is followed, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub earlier: bool,
    /// The query in words.
    pub text: String,
    /// Where it looks, if that is not the primary's own cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// What it finds.
    pub finding: FindingExplained,
    /// The watches that serve it.
    pub watches: Vec<WatchExplained>,
}

/// What a query finds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum FindingExplained {
    /// The object, at this version.
    Found {
        /// Its version.
        resource_version: String,
    },
    /// The object is not there.
    Missing,
    /// So many objects.
    Matches {
        /// How many.
        count: usize,
        /// The first of them.
        names: Vec<String>,
    },
    /// Nothing is known.
    Failed {
        /// For machines.
        reason: String,
        /// For people.
        message: String,
    },
    /// Nothing is known yet.
    Pending,
}

/// A watch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchExplained {
    /// Where it looks.
    pub scope: String,
    /// Whether it sees metadata alone.
    pub metadata: bool,
    /// How it stands.
    pub state: WatchState,
    /// What is wrong with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// How a watch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WatchState {
    /// Every change is told.
    Stands,
    /// It is about to stand.
    Starting,
    /// Its cluster is not connected.
    Unconnected,
    /// It is tried again.
    Failed,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunExplained {
    /// When it began.
    pub time: String,
    /// How long it took.
    pub milliseconds: f64,
    /// Why it ran.
    pub wakes: Vec<String>,
    /// Further reasons, which are not told.
    pub more_wakes: usize,
    /// How it ended.
    pub result: RunResult,
    /// Why it failed, for machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why it failed, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What it wrote.
    pub writes: Vec<WriteExplained>,
    /// Further writes, which are not told.
    pub more_writes: usize,
    /// Whether the host changed the status or the finalizers of the primary for it.
    pub changed_primary: bool,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RunResult {
    /// All that it wanted is so.
    Done,
    /// Not all that it wanted could be written.
    WriteFailed,
    /// It could not decide. It is tried again.
    Failed,
    /// It could not decide, and only a change can help.
    FailedForGood,
    /// Not all that it depends on was known. It began again when that was so.
    PutOff,
}

/// One write of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteExplained {
    /// `apply`, `delete`, `patch` or `status`.
    pub action: String,
    /// Which object.
    pub object: ObjectExplained,
    /// What became of it.
    pub state: WriteState,
    /// What is wrong with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WriteState {
    /// It was written.
    Applied,
    /// It was so already.
    Unchanged,
    /// It could not be written.
    Failed,
    /// A write before it failed.
    Skipped,
}

/// Somebody who depends on an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "as", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum DependentExplained {
    /// A primary, whose query names or finds it.
    Query {
        /// The plugin's name.
        plugin: String,
        /// The primary.
        primary: ObjectExplained,
        /// The id that the plugin gave the query.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// The query in words.
        text: String,
    },
    /// A primary, whose last run wrote it.
    Writer {
        /// The plugin's name.
        plugin: String,
        /// The primary.
        primary: ObjectExplained,
    },
    /// A plugin, which finds it as a primary.
    Primary {
        /// The plugin's name.
        plugin: String,
    },
    /// A plugin, which says itself which of its primaries it concerns.
    Declared {
        /// The plugin's name.
        plugin: String,
        /// The declared watch in words.
        text: String,
    },
    /// A cluster, whose kubeconfig it holds.
    Kubeconfig {
        /// Which cluster.
        cluster: String,
    },
    /// A kind that is not served, which it may define.
    Definition {
        /// In which cluster.
        cluster: String,
        /// The kind's apiVersion.
        api_version: String,
        /// The kind.
        kind: String,
    },
}
