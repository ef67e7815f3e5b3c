//! Objects from files.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, anyhow};
use patchbay_cluster::yaml_problem;
use serde_json::Value;

/// Reads all objects of a file, YAML or JSON, lists unpacked. `-` is standard input.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Value>> {
    let mut text = String::new();
    if path == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).context("standard input")?;
    } else {
        text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    }
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&text).map_err(|error| anyhow!("{}: {}", path.display(), yaml_problem(&error)))?;
    let mut objects = Vec::new();
    for document in documents {
        match document {
            Value::Null => {}
            Value::Object(mut fields) if fields.get("kind").is_some_and(|kind| kind == "List") => {
                if let Some(Value::Array(items)) = fields.remove("items") {
                    objects.extend(items);
                }
            }
            document => objects.push(document),
        }
    }
    Ok(objects)
}
