//! An explanation for people.

use jiff::Timestamp;
use patchbay_controller::explain::{
    DependentExplained, Explanation, FindingExplained, ObjectExplained, PrimaryExplained, PrimaryState, QueryExplained,
    RunExplained, RunResult, WatchExplained, WatchState, WriteExplained, WriteState,
};

use super::words::{Paint, ago, ahead, columns, plain};

pub(super) fn render(explanation: &Explanation, now: Timestamp, colour: bool) -> String {
    let paint = Paint(colour);
    let object = &explanation.object;
    let version = match &explanation.resource_version {
        Some(version) => format!("version {version}"),
        None => "not there, as far as is known".to_owned(),
    };
    let mut text = format!(
        "{} ({}) in cluster {}, {version}\n",
        paint.bold(&name(object)),
        object.api_version,
        object.cluster
    );
    for primary in &explanation.primaries {
        text += &self::primary(primary, object, now, paint);
    }
    text += &dependents(explanation, paint);
    text
}

/// `Secret team/db`.
fn name(object: &ObjectExplained) -> String {
    let ObjectExplained {
        kind, namespace, name, ..
    } = object;
    match namespace {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

/// An object's name, with its cluster if that is another one.
fn placed(object: &ObjectExplained, cluster: &str) -> String {
    if object.cluster == cluster {
        name(object)
    } else {
        format!("{} in cluster {}", name(object), object.cluster)
    }
}

fn primary(primary: &PrimaryExplained, object: &ObjectExplained, now: Timestamp, paint: Paint) -> String {
    let title = format!("Reconciled by {} {}", primary.plugin, primary.plugin_version);
    let state = match primary.state {
        PrimaryState::Idle if primary.failures > 0 => "fails, and waits to be tried again".to_owned(),
        PrimaryState::Idle => "idle".to_owned(),
        PrimaryState::Queued => format!("queued, since {}", plain(&primary.wakes.join("; "))),
        PrimaryState::Running => "running".to_owned(),
        PrimaryState::Waiting => "waits until all that it depends on is known".to_owned(),
        PrimaryState::Slowed => {
            let until = primary.slowed_until.as_deref().unwrap_or_default();
            format!("runs in circles, so it is slowed down: goes on {}", ahead(now, until))
        }
    };
    let mut text = format!("\n{}: {state}\n", paint.bold(&title));
    match primary.failures {
        0 => {}
        1 => text += &format!("{}\n", paint.red("The last run failed")),
        failures => text += &format!("{}\n", paint.red(&format!("The last {failures} runs failed"))),
    }
    if let Some(next) = &primary.next {
        text += &format!("Next run {}: {}\n", ahead(now, &next.time), next.reason);
    }
    if !primary.join_keys.is_empty() {
        text += &format!("Join keys: {}\n", plain(&primary.join_keys.join(", ")));
    }
    if !primary.protected.is_empty() {
        let protected: Vec<_> = primary
            .protected
            .iter()
            .map(|held| placed(held, &object.cluster))
            .collect();
        text += &format!("Protects: {}\n", protected.join(", "));
    }
    text += &queries(&primary.queries, paint);
    for run in &primary.runs {
        text += &self::run(run, object, now, paint);
    }
    text
}

fn queries(queries: &[QueryExplained], paint: Paint) -> String {
    if queries.is_empty() {
        return String::new();
    }
    let mut rows = vec![["QUERY", "OF", "WATCHED", "FINDS"].map(str::to_owned)];
    rows.extend(queries.iter().map(|query| {
        let of = match &query.cluster {
            Some(cluster) => format!("{} in cluster {cluster}", query.text),
            None => query.text.clone(),
        };
        let watched: Vec<_> = query.watches.iter().map(watch).collect();
        let id = query.id.as_deref().unwrap_or("-");
        [
            if query.earlier {
                format!("{id} (earlier run)")
            } else {
                id.to_owned()
            },
            of,
            watched.join(", "),
            finding(&query.finding),
        ]
    }));
    format!("\n{}", columns(&rows, "  ", paint))
}

fn watch(watch: &WatchExplained) -> String {
    let metadata = if watch.metadata { ", metadata" } else { "" };
    let state = match watch.state {
        WatchState::Stands => "",
        WatchState::Starting => " (starting)",
        WatchState::Unconnected => " (not connected)",
        WatchState::Failed => " (failed)",
    };
    format!("{}{metadata}{state}", watch.scope)
}

fn finding(finding: &FindingExplained) -> String {
    match finding {
        FindingExplained::Found { resource_version } => format!("version {resource_version}"),
        FindingExplained::Missing => "nothing: it is not there".to_owned(),
        FindingExplained::Pending => "not known yet".to_owned(),
        FindingExplained::Failed { reason, message } => format!("failed ({reason}): {message}"),
        FindingExplained::Matches { count: 0, .. } => "none".to_owned(),
        FindingExplained::Matches { count, names } => {
            let more = if *count > names.len() { ", …" } else { "" };
            format!("{count}: {}{more}", names.join(", "))
        }
    }
}

fn run(run: &RunExplained, primary: &ObjectExplained, now: Timestamp, paint: Paint) -> String {
    let (result, bad) = match run.result {
        RunResult::Done => ("done", false),
        RunResult::PutOff => ("put off until all that it depends on is known", false),
        RunResult::WriteFailed => ("a write failed", true),
        RunResult::Failed => ("failed, to be tried again", true),
        RunResult::FailedForGood => ("failed, and only a change can help", true),
    };
    let result = if bad { paint.red(result) } else { result.to_owned() };
    let title = format!("Run {}", ago(now, &run.time));
    let mut text = format!("\n{}, took {} ms: {result}\n", paint.bold(&title), run.milliseconds);
    let mut rows = Vec::new();
    rows.extend(run.wakes.iter().map(|wake| ["woken by", wake].map(str::to_owned)));
    if run.more_wakes > 0 {
        rows.push(["woken by".to_owned(), format!("and {} more", run.more_wakes)]);
    }
    if let Some(message) = &run.message {
        let reason = run.reason.as_deref().unwrap_or("failed");
        rows.push([reason.to_owned(), message.clone()]);
    }
    rows.extend(run.writes.iter().map(|write| self::write(write, &primary.cluster)));
    if run.more_writes > 0 {
        rows.push(["wrote".to_owned(), format!("and {} more", run.more_writes)]);
    }
    if run.changed_primary {
        rows.push(["updated", "its own status or finalizers"].map(str::to_owned));
    }
    let mut last = String::new();
    for [what, words] in rows {
        let shown = if what == last { "" } else { &what };
        // A reason may be longer than the column.
        text += &format!("  {shown:<10} {}\n", plain(&words));
        last = what;
    }
    text
}

fn write(write: &WriteExplained, cluster: &str) -> [String; 2] {
    let object = placed(&write.object, cluster);
    let what = match (write.state, write.action.as_str()) {
        (WriteState::Unchanged, _) => "unchanged",
        (WriteState::Skipped, _) => "skipped",
        (WriteState::Failed, _) => "failed",
        (WriteState::Applied, "delete") => "deleted",
        (WriteState::Applied, "patch") => "patched",
        (WriteState::Applied, _) => "applied",
    };
    let words = match &write.message {
        Some(message) => format!("{} {object}: {message}", write.action),
        None => object,
    };
    [what.to_owned(), words]
}

fn dependents(explanation: &Explanation, paint: Paint) -> String {
    let Explanation { object, dependents, .. } = explanation;
    if dependents.is_empty() {
        return format!("\n{}\n", paint.bold("Nobody depends on it"));
    }
    let mut rows = vec![["WHO", "BY QUERY", "OF"].map(str::to_owned)];
    rows.extend(dependents.iter().map(|dependent| match dependent {
        DependentExplained::Query {
            plugin,
            primary,
            id,
            text,
        } => [
            format!("{} (plugin {plugin})", placed(primary, &object.cluster)),
            id.clone().unwrap_or_else(|| "-".to_owned()),
            text.clone(),
        ],
        DependentExplained::Writer { plugin, primary } => [
            format!("{} (plugin {plugin})", placed(primary, &object.cluster)),
            "-".to_owned(),
            "writes it".to_owned(),
        ],
        DependentExplained::Primary { plugin } => [
            format!("plugin {plugin}"),
            "-".to_owned(),
            "finds it as a primary".to_owned(),
        ],
        DependentExplained::Declared { plugin, text } => [
            format!("plugin {plugin}"),
            "-".to_owned(),
            format!("declared watch of {text}"),
        ],
        DependentExplained::Kubeconfig { cluster } => [
            format!("cluster {cluster}"),
            "-".to_owned(),
            "its kubeconfig".to_owned(),
        ],
        DependentExplained::Definition {
            cluster,
            api_version,
            kind,
        } => [
            format!("watch of {kind} ({api_version}) in cluster {cluster}"),
            "-".to_owned(),
            "definition of the kind".to_owned(),
        ],
    }));
    let mut text = format!("\n{}\n{}", paint.bold("Depended on by"), columns(&rows, "  ", paint));
    if explanation.more_dependents > 0 {
        text += &format!("  and {} more\n", explanation.more_dependents);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(kind: &str, name: &str) -> serde_json::Value {
        json!({"cluster": "host", "apiVersion": "v1", "kind": kind, "namespace": "team", "name": name})
    }

    fn explanation() -> Explanation {
        let remote = json!({
            "cluster": "of kubeconfig Secret team/remote key k", "apiVersion": "v1", "kind": "Secret",
            "namespace": "team", "name": "copy",
        });
        let explanation = json!({
            "object": {"cluster": "host", "apiVersion": "example.dev/v1", "kind": "Copy", "name": "db"},
            "resourceVersion": "40",
            "primaries": [{
                "plugin": "copy", "pluginVersion": "1.0.0", "state": "idle", "failures": 1, "wakes": [],
                "next": {"time": "2026-01-01T00:01:30Z", "reason": "the last run failed"},
                "joinKeys": [], "protected": [object("Secret", "db")],
                "queries": [
                    {
                        "id": "source", "text": "Secret team/db, fields data.password",
                        "finding": {"state": "found", "resourceVersion": "41"},
                        "watches": [{"scope": "namespace team", "metadata": false, "state": "stands"}],
                    },
                    {
                        "id": "all", "text": "Pods in team", "cluster": "of kubeconfig Secret team/remote key k",
                        "finding": {"state": "failed", "reason": "Forbidden", "message": "may not list pods"},
                        "watches": [
                            {"scope": "everywhere", "metadata": true, "state": "failed", "message": "may not list pods"},
                        ],
                    },
                    {
                        "id": "old", "earlier": true, "text": "ConfigMaps in team", "watches": [],
                        "finding": {"state": "matches", "count": 7, "names": ["team/a", "team/b"]},
                    },
                ],
                "runs": [
                    {
                        "time": "2025-12-31T23:59:48Z", "milliseconds": 4.125, "result": "writeFailed",
                        "wakes": ["Secret (v1) team/db changed at version 41", "full pass"], "moreWakes": 3,
                        "writes": [
                            {"action": "apply", "object": object("Secret", "copy"), "state": "applied"},
                            {"action": "apply", "object": remote, "state": "failed", "message": "no such namespace"},
                            {"action": "delete", "object": object("Secret", "old"), "state": "skipped"},
                        ],
                        "moreWrites": 0, "changedPrimary": true,
                    },
                    {
                        "time": "2025-12-31T22:00:00Z", "milliseconds": 1.5, "result": "failed",
                        "reason": "ReconcileError", "message": "Secret team/db is not there", "wakes": [], "moreWakes": 0,
                        "writes": [], "moreWrites": 0, "changedPrimary": false,
                    },
                ],
            }],
            "dependents": [
                {"as": "primary", "plugin": "copy"},
                {"as": "query", "plugin": "copy", "primary": object("Copy", "other"), "id": "first", "text": "Copy db"},
                {"as": "writer", "plugin": "copy", "primary": object("Copy", "other")},
                {"as": "kubeconfig", "cluster": "of kubeconfig Secret team/remote key k"},
            ],
            "moreDependents": 5,
        });
        serde_json::from_value(explanation).expect("an explanation")
    }

    #[test]
    fn an_explanation_reads_like_this() {
        let now = "2026-01-01T00:00:00Z".parse().expect("a time");
        let told = render(&explanation(), now, false);
        let expected = "\
Copy db (example.dev/v1) in cluster host, version 40

Reconciled by copy 1.0.0: fails, and waits to be tried again
The last run failed
Next run in 90 s: the last run failed
Protects: Secret team/db

  QUERY              OF                                                              WATCHED                        FINDS
  source             Secret team/db, fields data.password                            namespace team                 version 41
  all                Pods in team in cluster of kubeconfig Secret team/remote key k  everywhere, metadata (failed)  failed (Forbidden): may not list pods
  old (earlier run)  ConfigMaps in team                                                                             7: team/a, team/b, …

Run 12 s ago, took 4.125 ms: a write failed
  woken by   Secret (v1) team/db changed at version 41
             full pass
             and 3 more
  applied    Secret team/copy
  failed     apply Secret team/copy in cluster of kubeconfig Secret team/remote key k: no such namespace
  skipped    Secret team/old
  updated    its own status or finalizers

Run 2 h 0 min ago, took 1.5 ms: failed, to be tried again
  ReconcileError Secret team/db is not there

Depended on by
  WHO                                             BY QUERY  OF
  plugin copy                                     -         finds it as a primary
  Copy team/other (plugin copy)                   first     Copy db
  Copy team/other (plugin copy)                   -         writes it
  cluster of kubeconfig Secret team/remote key k  -         its kubeconfig
  and 5 more
";
        assert_eq!(told, expected, "{told}");
        let painted = render(&explanation(), now, true);
        assert!(painted.contains("\x1b[31ma write failed\x1b[0m"), "{painted}");
        let bare = painted
            .replace("\x1b[31m", "")
            .replace("\x1b[1m", "")
            .replace("\x1b[0m", "");
        assert_eq!(bare, expected, "colours change nothing else");
    }

    #[test]
    fn what_nobody_asks_for_is_told_so() {
        let explanation = Explanation {
            resource_version: None,
            primaries: Vec::new(),
            dependents: Vec::new(),
            more_dependents: 0,
            ..explanation()
        };
        assert_eq!(
            render(&explanation, Timestamp::UNIX_EPOCH, false),
            "Copy db (example.dev/v1) in cluster host, not there, as far as is known\n\nNobody depends on it\n"
        );
    }
}
