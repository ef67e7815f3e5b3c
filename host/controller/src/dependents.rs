//! Calls of `dependents`: which primaries a change concerns, as only the plugin knows.

use std::sync::Arc;

use patchbay_core::{CallId, ClusterId, Dependent, FoundObject, Query};
use patchbay_plugin::contract::{self, Verbs};
use patchbay_plugin::{Executor, LogSink};
use tokio::sync::mpsc::Sender;

use crate::attached::Attached;
use crate::messages::Message;
use crate::scrub::{ScrubbedLog, Secrets};
use crate::translate;

/// One of a controller's declared watches.
#[derive(Clone)]
pub(crate) struct Declared {
    pub(crate) id: String,
    pub(crate) query: Query,
}

impl Attached {
    /// Checks what the plugin's description says beyond what its contract can tell.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn check(&self) -> Result<(), String> {
        for watch in &self.plugin.description().watches {
            if let contract::Cluster::ById(id) = &watch.cluster {
                return Err(format!(
                    "the watch {:?} names the cluster {id:?}: it can watch the primaries' cluster or the host's",
                    watch.id
                ));
            }
            translate::declared(watch).map_err(|failure| failure.message)?;
        }
        Ok(())
    }

    /// The declared watches that concern one of the plugin's primary kinds, in a cluster. One that is not granted is left out
    /// and named.
    pub(crate) fn declared(&self, primary: &contract::PrimaryKind, cluster: ClusterId) -> Vec<Declared> {
        let description = self.plugin.description();
        let first = description.primaries.first().map(|primary| &primary.kind);
        let concerns = |watch: &&contract::DeclaredWatch| watch.primaries.as_ref().or(first) == Some(&primary.kind);
        let declared = description.watches.iter().filter(concerns).filter_map(|watch| {
            let (kind, plugin) = (&watch.kind, self.plugin.name());
            if let Err(refusal) = self.grants.check_objects(&kind.api_version, &kind.kind, Verbs::READ) {
                tracing::error!(plugin, watch = watch.id, "{refusal}; the watch is not kept");
                return None;
            }
            let cluster = match watch.cluster {
                contract::Cluster::HostCluster => ClusterId::HOST,
                _ => cluster,
            };
            let query = translate::declared(watch).ok()?.on(cluster);
            let id = watch.id.clone();
            Some(Declared { id, query })
        });
        declared.collect()
    }
}

/// A call that is to be made.
pub(crate) struct Call {
    pub(crate) id: CallId,
    pub(crate) watch: Declared,
    pub(crate) change: contract::Change,
}

/// Has the plugin say whom a change concerns, on a plugin thread.
pub(crate) fn start_call(attached: Arc<Attached>, executor: Arc<Executor>, call: Call, driver: Sender<Message>) {
    tokio::spawn(async move {
        let id = call.id;
        let plugin = attached.plugin.name().to_owned();
        let watch = call.watch.id.clone();
        let secrets = Arc::<Secrets>::default();
        let job_secrets = secrets.clone();
        let found = executor.run(move || dependents(&attached, &call, job_secrets)).await;
        let found = found.unwrap_or_else(|error| Err(error.to_string()));
        if let Err(message) = &found {
            let message = secrets.masked(message, false);
            tracing::warn!(plugin, watch, "dependents: {message}; it is asked again");
        }
        let _ = driver.send(Message::Dependents(id, found.ok())).await;
    });
}

fn dependents(attached: &Attached, call: &Call, secrets: Arc<Secrets>) -> Result<Vec<Dependent>, String> {
    let plugin = &attached.plugin;
    if *call.watch.query.kind.kind == *"Secret" {
        let states = [&call.change.before, &call.change.after];
        secrets.add(states.into_iter().flatten().map(|object| object.json.as_str().into()));
    }
    let log: Arc<dyn LogSink> = Arc::new(ScrubbedLog::new(
        plugin.name(),
        format!("watch {}", call.watch.id),
        secrets,
    ));
    let mut instance = plugin.instantiate(log).map_err(|error| error.to_string())?;
    let dependents = instance
        .dependents(&call.watch.id, &call.change)
        .map_err(|error| error.to_string())?
        .map_err(|failure| format!("{}: {}", failure.reason, failure.message))?;
    Ok(dependents.into_iter().map(translate::dependent).collect())
}

/// The states of an object, as the plugin is told.
pub(crate) fn change(
    before: Option<FoundObject>,
    after: Option<FoundObject>,
    cluster_id: impl Fn(ClusterId) -> String,
) -> contract::Change {
    let object = |found: FoundObject| translate::object(&found, &cluster_id);
    contract::Change {
        before: before.map(&object),
        after: after.map(object),
    }
}
