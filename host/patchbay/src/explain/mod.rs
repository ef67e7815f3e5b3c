//! `patchbay explain`: why an object is as it is.

mod ask;
mod table;
mod words;

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::Context;
use patchbay_controller::explain::Asked;

use crate::cli::{ExplainArguments, ExplainOutput};
use crate::output::{self, Usage};
use crate::socket::Place;

pub(crate) fn explain(arguments: &ExplainArguments) -> anyhow::Result<ExitCode> {
    let (kind, name) = kind_and_name(&arguments.object)?;
    let asked = Asked {
        kind,
        name,
        namespace: arguments.namespace.clone(),
        cluster: arguments.cluster.clone(),
    };
    let place = Place::of(arguments.socket.as_deref()).context("no socket is named: name the host's with --socket")?;
    place.check()?;
    let explanation = ask::ask(&place, &asked)?;
    output::print(&match arguments.output {
        ExplainOutput::Json => serde_json::to_string_pretty(&explanation)? + "\n",
        ExplainOutput::Table => {
            let colour =
                std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
            table::render(&explanation, jiff::Timestamp::now(), colour)
        }
    })
}

/// `KIND/NAME` or `KIND NAME`. No kind and no name has a slash in it, but a group behind a kind may be followed by one.
fn kind_and_name(words: &[String]) -> anyhow::Result<(String, String)> {
    let (kind, name) = match words {
        [kind, name] => (kind.as_str(), name.as_str()),
        [one] => one.split_once('/').unwrap_or((one, "")),
        _ => ("", ""),
    };
    if kind.is_empty() || name.is_empty() || name.contains('/') {
        return Err(Usage::of(format!(
            "{:?} names no object: say KIND/NAME, such as secret/db, and its namespace with --namespace",
            words.join(" ")
        )));
    }
    Ok((kind.to_owned(), name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_named_in_one_word_or_in_two() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        for (given, kind, name) in [
            (&["secret/db"][..], "secret", "db"),
            (&["secret", "db"], "secret", "db"),
            (&["deployments.apps/web"], "deployments.apps", "web"),
        ] {
            let meant = kind_and_name(&words(given)).expect("an object");
            assert_eq!(meant, (kind.to_owned(), name.to_owned()));
        }
        for nonsense in [&["secret"][..], &["secret/"], &["/db"], &["a/b/c"], &["secret", ""]] {
            let error = kind_and_name(&words(nonsense)).expect_err("no object").to_string();
            assert!(error.contains("KIND/NAME"), "{error}");
        }
    }
}
