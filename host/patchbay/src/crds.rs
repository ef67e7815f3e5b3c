//! The CustomResourceDefinitions of the bundled plugins.

use std::process::ExitCode;

const OBJECT: [&str; 2] = [
    include_str!("../../../plugins/object/crds/objects.yaml"),
    include_str!("../../../plugins/object/crds/providerconfigs.yaml"),
];

pub(crate) fn print() -> anyhow::Result<ExitCode> {
    let documents = OBJECT.map(|document| document.trim_start_matches("---\n").trim_end());
    crate::output::print(&format!("{}\n", documents.join("\n---\n")))
}
