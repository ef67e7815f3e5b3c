//! Objects from files.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use patchbay_cluster::yaml_problem;
use serde_json::Value;

/// Reads all objects of a file, or of the YAML and JSON files in a folder, each with its file.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<(PathBuf, Vec<Value>)>> {
    let files = if path.is_dir() {
        files(path)?
    } else {
        vec![path.to_owned()]
    };
    files
        .into_iter()
        .map(|file| objects(&file).map(|objects| (file, objects)))
        .collect()
}

/// The files with objects in a folder, by name. Folders in it are left out, as kubectl does.
fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let named = || folder.display().to_string();
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(named)? {
        let path = entry.with_context(named)?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if path.is_file() && matches!(extension, Some("yaml" | "yml" | "json")) {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        bail!(
            "folder {} holds no file that ends in .yaml, .yml or .json",
            folder.display()
        );
    }
    Ok(files)
}

/// Reads all objects of a file, YAML or JSON, lists unpacked. `-` is standard input.
fn objects(path: &Path) -> anyhow::Result<Vec<Value>> {
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
