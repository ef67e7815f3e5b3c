//! `patchbay render`: what a plugin would do with the objects in some files.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use patchbay_controller::decide::{Decision, GivenUp, World, decide};
use patchbay_controller::offline::{CLUSTER_ID, Offline};
use patchbay_plugin::contract::{
    self, Answer, ApplyMode, Cluster, Fields, Finding, Namespaces, ObjectKind, Outcome, Primary, Purpose, Query,
    QueryTarget, ReferenceSet, Write,
};
use patchbay_plugin::{LogSink, Plugin, TracingSink};
use serde_json::{Value, json};

use crate::cli::{RenderArguments, RenderOutput};
use crate::{load, manifests, output};

pub(crate) fn render(arguments: &RenderArguments) -> anyhow::Result<ExitCode> {
    start_logging();
    let plugin = load::file(&load::engine()?, &arguments.plugin)?;
    let mut world = Offline::default();
    let mut primaries = Vec::new();
    for path in &arguments.files {
        for (file, objects) in manifests::read(path)? {
            for (number, object) in objects.into_iter().enumerate() {
                let object = world
                    .add(object)
                    .map_err(|problem| anyhow!("{}: object {}: {problem}", file.display(), number + 1))?;
                if is_primary(&plugin, &object) {
                    primaries.push(object);
                }
            }
        }
    }
    if primaries.is_empty() {
        let kinds: Vec<_> = plugin
            .description()
            .primaries
            .iter()
            .map(|primary| kind(&primary.kind))
            .collect();
        bail!(
            "none of the objects is a primary of plugin {}: it reconciles {}",
            plugin.name(),
            kinds.join(", ")
        );
    }
    let rendered: Vec<Rendered> = primaries
        .iter()
        .map(|primary| render_one(&plugin, primary, &mut world))
        .collect();
    let failed = rendered.iter().any(|rendered| rendered.failed);
    let documents: Vec<Value> = rendered.into_iter().map(|rendered| rendered.document).collect();
    // Of a run that failed it is not known what else it would have asked for.
    for unused in world.unused().filter(|_| !failed) {
        if !primaries.contains(unused) {
            let (of, name) = (&unused["kind"], &unused["metadata"]["name"]);
            let (of, name) = (of.as_str().unwrap_or_default(), name.as_str().unwrap_or_default());
            eprintln!(
                "patchbay: note: {of} {name} ({}) is none of what plugin {} reconciles, and no query finds it",
                unused["apiVersion"].as_str().unwrap_or_default(),
                plugin.name()
            );
        }
    }
    output::print(&print(&documents, arguments.output)?)?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What the plugin logs, such as the trace of an exception, goes to standard error; standard output holds the result alone.
fn start_logging() {
    tracing_subscriber::fmt()
        .with_env_filter("warn,patchbay=info")
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .without_time()
        .init();
}

fn print(documents: &[Value], format: RenderOutput) -> anyhow::Result<String> {
    match format {
        RenderOutput::Json => Ok(serde_json::to_string_pretty(documents)? + "\n"),
        RenderOutput::Yaml => {
            let documents: Result<Vec<String>, _> = documents.iter().map(serde_saphyr::to_string).collect();
            Ok(documents.context("the result cannot be shown as YAML")?.join("---\n"))
        }
    }
}

fn is_primary(plugin: &Plugin, object: &Value) -> bool {
    plugin
        .description()
        .primaries
        .iter()
        .any(|primary| object["apiVersion"] == *primary.kind.api_version && object["kind"] == *primary.kind.kind)
}

struct Rendered {
    document: Value,
    failed: bool,
}

/// Remembers the last answers, to show what was found.
struct Watched<'a> {
    world: &'a mut Offline,
    found: Vec<(Query, Answer)>,
}

impl World for Watched<'_> {
    fn find(&mut self, set: &ReferenceSet) -> Result<Vec<Answer>, GivenUp> {
        let answers = self.world.find(set)?;
        self.found = set.queries.iter().cloned().zip(answers.iter().cloned()).collect();
        Ok(answers)
    }
}

fn render_one(plugin: &Plugin, object: &Value, world: &mut Offline) -> Rendered {
    let metadata = &object["metadata"];
    let deleting = !metadata["deletionTimestamp"].is_null();
    let primary = Primary {
        object: contract::Object {
            cluster_id: CLUSTER_ID.to_owned(),
            resource_version: metadata["resourceVersion"].as_str().unwrap_or_default().to_owned(),
            json: object.to_string(),
        },
        parent: None,
        purpose: if deleting {
            Purpose::Finalize
        } else {
            Purpose::Reconcile
        },
        last_writes: Vec::new(),
        config: "{}".to_owned(),
        time: 0,
    };
    world.asks(metadata["uid"].as_str().unwrap_or_default());
    let log: Arc<dyn LogSink> = Arc::new(TracingSink::new(plugin.name()));
    let mut watched = Watched {
        world,
        found: Vec::new(),
    };
    let decision = decide(plugin, &primary, deleting, log, &mut watched);
    let mut document = json!({
        "primary": {
            "apiVersion": object["apiVersion"], "kind": object["kind"],
            "namespace": metadata["namespace"], "name": metadata["name"],
        },
        "references": watched.found.iter().map(|(query, answer)| reference(query, answer)).collect::<Vec<_>>(),
    });
    let failed = !matches!(&decision, Decision::Outcome { .. });
    match decision {
        Decision::Outcome { outcome, done } => {
            document["writes"] = outcome.writes.iter().map(write).collect();
            rest(&mut document, &outcome);
            if let Some(done) = done {
                document["finalized"] = done.into();
            }
        }
        Decision::Failure(failure) => {
            document["error"] = json!({
                "reason": failure.reason, "message": failure.message, "triedAgain": !failure.permanent,
            });
            if let Some(status) = failure.status {
                document["status"] = parsed(&status);
            }
        }
        Decision::Blocked(blocked) => document["error"] = json!({"message": blocked.to_string()}),
        Decision::GivenUp => document["error"] = json!({"message": "the run was given up"}),
    }
    Rendered {
        document: without_nulls(document),
        failed,
    }
}

fn rest(document: &mut Value, outcome: &Outcome) {
    if let Some(status) = &outcome.status {
        document["status"] = parsed(status);
    }
    if !outcome.events.is_empty() {
        let events = outcome.events.iter();
        document["events"] = events
            .map(|event| json!({"reason": event.reason, "message": event.message}))
            .collect();
    }
}

fn reference(query: &Query, answer: &Answer) -> Value {
    let found = match &answer.finding {
        Finding::Found(_) => json!("found"),
        Finding::Missing => json!("missing"),
        Finding::Matches(matches) => json!(format!("{} objects", matches.len())),
        Finding::Files(files) => json!(format!("{} files", files.files.len())),
        Finding::Failed(failure) => json!(failure.message),
    };
    let mut shown = match &query.target {
        QueryTarget::Named(named) => json!({
            "kind": kind(&named.object.kind), "namespace": named.object.namespace, "name": named.object.name,
            "cluster": cluster(&named.object.cluster), "fields": fields(&named.fields),
        }),
        QueryTarget::Selected(selected) => json!({
            "kind": kind(&selected.kind), "namespaces": namespaces(&selected.namespaces),
            "selector": selector(&selected.selector),
            "cluster": cluster(&selected.cluster), "fields": fields(&selected.fields),
        }),
        QueryTarget::Owned(owned) => json!({
            "kind": kind(&owned.kind), "namespaces": namespaces(&owned.namespaces), "owned": true,
            "cluster": cluster(&owned.cluster), "fields": fields(&owned.fields),
        }),
        QueryTarget::Repository(repository) => json!({
            "repository": repository.url, "revision": repository.revision, "path": repository.path,
        }),
    };
    shown["id"] = query.id.as_str().into();
    shown["finds"] = found;
    shown
}

fn write(write: &Write) -> Value {
    match write {
        Write::Apply(apply) => {
            let mode = match &apply.mode {
                ApplyMode::Create => "create",
                ApplyMode::Update(_) => "update",
                ApplyMode::Upsert => "upsert",
            };
            json!({"apply": {
                "cluster": cluster(&apply.cluster), "mode": mode, "force": apply.force, "object": parsed(&apply.object),
            }})
        }
        Write::Delete(delete) => json!({"delete": object(&delete.object)}),
        Write::Patch(patch) => {
            json!({"patch": {"object": object(&patch.object), "operations": parsed(&patch.operations)}})
        }
    }
}

fn object(object: &contract::ObjectReference) -> Value {
    json!({
        "cluster": cluster(&object.cluster), "kind": kind(&object.kind),
        "namespace": object.namespace, "name": object.name,
    })
}

fn kind(kind: &ObjectKind) -> String {
    format!("{} ({})", kind.kind, kind.api_version)
}

fn cluster(cluster: &Cluster) -> String {
    match cluster {
        Cluster::PrimaryCluster => "the primary's".to_owned(),
        Cluster::HostCluster => "the host's".to_owned(),
        Cluster::ById(id) => id.clone(),
        Cluster::ByKubeconfig(secret) => {
            format!(
                "of kubeconfig Secret {}/{} key {}",
                secret.namespace, secret.name, secret.key
            )
        }
    }
}

fn fields(fields: &Fields) -> Value {
    match fields {
        Fields::Whole => json!("whole"),
        Fields::MetadataOnly => json!("metadata"),
        Fields::Paths(paths) => json!(paths),
    }
}

fn namespaces(namespaces: &Namespaces) -> Value {
    match namespaces {
        Namespaces::Everywhere => json!("everywhere"),
        Namespaces::Listed(names) => json!(names),
        Namespaces::Selected(labels) => selector(labels),
    }
}

fn selector(selector: &contract::LabelSelector) -> Value {
    json!({
        "matchLabels": selector.match_labels.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
        "matchExpressions": selector.match_expressions.iter().map(|requirement| json!({
            "key": requirement.key,
            "operator": match requirement.operator {
                contract::LabelOperator::IsIn => "In",
                contract::LabelOperator::NotIn => "NotIn",
                contract::LabelOperator::Exists => "Exists",
                contract::LabelOperator::DoesNotExist => "DoesNotExist",
            },
            "values": requirement.values,
        })).collect::<Vec<_>>(),
    })
}

/// JSON as the plugin gave it; what is none is shown as it is.
fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key, without_nulls(value)))
                .collect(),
        ),
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}
