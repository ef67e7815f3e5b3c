//! `patchbay plugin inspect`.

use std::process::ExitCode;

use patchbay_plugin::Plugin;
use patchbay_plugin::contract::{Request, Verbs};
use serde_json::{Value, json};

use crate::cli::{InspectArguments, InspectOutput};
use crate::{load, output};

pub(crate) fn inspect(arguments: &InspectArguments) -> anyhow::Result<ExitCode> {
    let plugin = load::file(&load::engine()?, &arguments.plugin)?;
    output::print(&match arguments.output {
        InspectOutput::Json => serde_json::to_string_pretty(&json(&plugin))? + "\n",
        InspectOutput::Table => table(&plugin),
    })
}

fn table(plugin: &Plugin) -> String {
    let description = plugin.description();
    let mut rows = vec![
        ("name", description.name.clone()),
        ("version", description.version.clone()),
        ("digest", plugin.digest().to_string()),
        (
            "finalizer",
            description.finalizer.clone().unwrap_or_else(|| "none".to_owned()),
        ),
    ];
    rows.extend(description.primaries.iter().map(|primary| {
        (
            "reconciles",
            format!("{} ({})", primary.kind.kind, primary.kind.api_version),
        )
    }));
    rows.extend(
        description
            .watches
            .iter()
            .map(|watch| ("watches", format!("{} ({})", watch.kind.kind, watch.kind.api_version))),
    );
    rows.extend(description.requests.iter().map(|request| ("requests", words(request))));
    let mut last = "";
    let lines = rows.iter().map(|(key, value)| {
        let shown = if *key == last { "" } else { key };
        last = key;
        format!("{shown:<12}{value}\n")
    });
    lines.collect()
}

fn words(request: &Request) -> String {
    match request {
        Request::Objects(permission) => {
            let kind = match (permission.kind.as_str(), permission.group.as_str()) {
                ("*", "*") => "any kind".to_owned(),
                ("*", "") => "any kind of the core group".to_owned(),
                ("*", group) => format!("any kind of {group}"),
                (kind, "") => kind.to_owned(),
                (kind, "*") => format!("{kind} of any group"),
                (kind, group) => format!("{kind} of {group}"),
            };
            format!("{} {kind}: {}", verbs(permission.verbs).join(", "), permission.reason)
        }
        Request::RemoteClusters => "clusters reached by kubeconfigs in Secrets".to_owned(),
        Request::ForeignSecrets => "Secrets with credentials outside the primary's namespace".to_owned(),
        Request::GitHost(host) if host == "*" => "git repositories on any host".to_owned(),
        Request::GitHost(host) => format!("git repositories on {host}"),
    }
}

fn verbs(verbs: Verbs) -> Vec<&'static str> {
    [
        (Verbs::READ, "read"),
        (Verbs::APPLY, "apply"),
        (Verbs::DELETE, "delete"),
        (Verbs::PATCH, "patch"),
    ]
    .into_iter()
    .filter(|(verb, _)| verbs.contains(*verb))
    .map(|(_, name)| name)
    .collect()
}

fn json(plugin: &Plugin) -> Value {
    let description = plugin.description();
    let requests = description.requests.iter().map(|request| match request {
        Request::Objects(permission) => json!({
            "objects": {
                "group": permission.group, "kind": permission.kind, "verbs": verbs(permission.verbs),
                "reason": permission.reason,
            },
        }),
        Request::RemoteClusters => json!("remoteClusters"),
        Request::ForeignSecrets => json!("foreignSecrets"),
        Request::GitHost(host) => json!({"gitHost": host}),
    });
    json!({
        "name": description.name,
        "version": description.version,
        "digest": plugin.digest().to_string(),
        "finalizer": description.finalizer,
        "primaries": description.primaries.iter()
            .map(|primary| json!({"apiVersion": primary.kind.api_version, "kind": primary.kind.kind}))
            .collect::<Vec<_>>(),
        "watches": description.watches.iter()
            .map(|watch| json!({"id": watch.id, "apiVersion": watch.kind.api_version, "kind": watch.kind.kind}))
            .collect::<Vec<_>>(),
        "requests": requests.collect::<Vec<_>>(),
    })
}
