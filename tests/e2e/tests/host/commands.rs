//! Commands that need no cluster, and those that should have one.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result};
use patchbay_harness::binaries;
use serde_json::Value;

fn patchbay(arguments: &[&str]) -> Result<Output> {
    let output = Command::new(binaries::host()?)
        .args(arguments)
        .env_remove("KUBECONFIG")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env_remove("PATCHBAY_PLUGINS")
        .env("PATCHBAY_SOCKET", "none")
        .output()?;
    Ok(output)
}

/// Runs a command that must fail, and gives the one line that says why.
fn refused(arguments: &[&str]) -> Result<String> {
    let output = patchbay(arguments)?;
    let said = String::from_utf8(output.stderr)?;
    assert!(!output.status.success(), "{arguments:?} succeeded");
    let line = said.lines().last().context("nothing was said")?.to_owned();
    Ok(line)
}

fn plugins() -> Result<String> {
    Ok(binaries::plugins()?.display().to_string())
}

fn object_plugin() -> Result<String> {
    Ok(Path::new(&plugins()?).join("object.wasm").display().to_string())
}

#[test]
fn a_missing_kubeconfig_is_named() -> Result<()> {
    let said = refused(&["run", "--kubeconfig", "/nowhere/config", "--plugins", &plugins()?])?;
    assert!(said.contains("/nowhere/config"), "{said}");
    Ok(())
}

#[test]
fn without_a_kubeconfig_and_outside_a_cluster_it_says_what_to_do() -> Result<()> {
    let said = refused(&["run", "--plugins", &plugins()?])?;
    assert!(said.contains("--kubeconfig"), "{said}");
    Ok(())
}

#[test]
fn an_api_server_that_is_not_there_is_named() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("config");
    std::fs::write(
        &file,
        "{apiVersion: v1, kind: Config, current-context: c, \
         contexts: [{name: c, context: {cluster: k, user: u}}], \
         clusters: [{name: k, cluster: {server: 'https://127.0.0.1:1'}}], users: [{name: u, user: {token: t}}]}",
    )?;
    let said = refused(&[
        "run",
        "--kubeconfig",
        &file.display().to_string(),
        "--plugins",
        &plugins()?,
    ])?;
    assert!(
        said.contains("https://127.0.0.1:1") && said.contains("cannot reach"),
        "{said}"
    );
    Ok(())
}

#[test]
fn what_cannot_be_parsed_is_told_by_line_and_never_repeated() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("broken.yaml").display().to_string();
    std::fs::write(&file, "a: 1\nusers: [{name: u, user: {token: hunter2}]\n")?;
    for arguments in [
        &["run", "--kubeconfig", &file, "--plugins", &plugins()?][..],
        &["render", "--plugin", &object_plugin()?, "-f", &file],
    ] {
        let output = patchbay(arguments)?;
        let said = String::from_utf8(output.stderr)?;
        assert!(!output.status.success() && !said.contains("hunter2"), "{said}");
        let line = said.lines().last().unwrap_or_default();
        assert!(line.contains(&format!("{file}: line 2 column ")), "{said}");
    }
    Ok(())
}

#[test]
fn a_kubeconfig_that_lacks_what_its_context_names_is_refused() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("config");
    std::fs::write(
        &file,
        "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: k, user: gone}}], \
         clusters: [{name: k, cluster: {server: 'https://127.0.0.1:1'}}]}",
    )?;
    let (file, plugins) = (file.display().to_string(), plugins()?);
    for (more, words) in [(&[][..], "names user gone"), (&["--context", "d"], "It has: c")] {
        let arguments = [&["run", "--kubeconfig", &file, "--plugins", &plugins], more].concat();
        let said = refused(&arguments)?;
        assert!(said.contains(words), "{said}");
    }
    // Without the argument, the file is found as kubectl finds it.
    let output = Command::new(binaries::host()?)
        .args(["run", "--plugins", &plugins, "--socket", "none"])
        .env("KUBECONFIG", &file)
        .env_remove("KUBERNETES_SERVICE_HOST")
        .output()?;
    let said = String::from_utf8(output.stderr)?;
    assert!(said.contains("names user gone"), "{said}");
    Ok(())
}

#[test]
fn a_command_line_that_makes_no_sense_ends_with_exit_code_2() -> Result<()> {
    let plugins = plugins()?;
    for (arguments, words) in [
        (&["explain", "secret"][..], "KIND/NAME"),
        (&["explain", "secret/a/b"], "--namespace"),
        (
            &["run", "--plugins", &plugins, "--log", "nonsense"],
            "--log \"nonsense\": use a level",
        ),
        (&["run", "--frobnicate"], "--frobnicate"),
    ] {
        let output = patchbay(arguments)?;
        let said = String::from_utf8(output.stderr)?;
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.starts_with("patchbay: ") && said.contains(words), "{said}");
    }
    Ok(())
}

#[test]
fn explain_says_what_is_wrong_with_its_socket() -> Result<()> {
    let said = refused(&["explain", "secret/db", "--socket", "/etc/passwd"])?;
    assert!(said.contains("/etc/passwd is no socket"), "{said}");
    Ok(())
}

#[test]
fn a_folder_is_rendered_and_what_takes_no_part_is_noted() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let other = "{apiVersion: example.org/v1, kind: Other, metadata: {name: unused}}";
    std::fs::write(folder.path().join("world.yaml"), WORLD)?;
    std::fs::write(folder.path().join("other.yml"), other)?;
    std::fs::write(folder.path().join("notes.txt"), "{")?;
    let folder = folder.path().display().to_string();
    let output = patchbay(&["render", "--plugin", &object_plugin()?, "-f", &folder])?;
    let said = String::from_utf8(output.stderr)?;
    assert!(output.status.success(), "{said}");
    let notes: Vec<_> = said.lines().filter(|line| line.contains("note:")).collect();
    assert!(
        matches!(notes[..], [note] if note.contains("Other unused (example.org/v1)")),
        "{said}"
    );
    let said = refused(&["plugin", "inspect", "/tmp"])?;
    assert!(said.contains("/tmp is a folder"), "{said}");
    Ok(())
}

#[test]
fn a_folder_without_plugins_is_named() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().display().to_string();
    let said = refused(&["run", "--kubeconfig", "/nowhere", "--plugins", &path])?;
    assert!(said.contains(&path) && said.contains(".wasm"), "{said}");
    Ok(())
}

#[test]
fn a_module_that_is_none_is_named_with_its_stage() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("broken.wasm");
    std::fs::write(&file, "not WebAssembly")?;
    let said = refused(&["plugin", "inspect", &file.display().to_string()])?;
    assert!(said.contains("plugin broken") && said.contains("parse"), "{said}");
    Ok(())
}

#[test]
fn inspect_shows_what_a_plugin_is_and_requests() -> Result<()> {
    let output = patchbay(&["plugin", "inspect", &object_plugin()?, "--output", "json"])?;
    let shown: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(shown["name"], "object");
    assert_eq!(shown["primaries"][0]["kind"], "Object");
    assert!(
        shown["requests"]
            .as_array()
            .is_some_and(|requests| requests.contains(&"remoteClusters".into()))
    );
    Ok(())
}

#[test]
fn the_printed_definitions_are_two_documents() -> Result<()> {
    let output = patchbay(&["crds"])?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&String::from_utf8(output.stdout)?)?;
    let names: Vec<_> = documents
        .iter()
        .map(|document| document["metadata"]["name"].as_str())
        .collect();
    assert_eq!(
        names,
        [
            Some("objects.kubernetes.crossplane.io"),
            Some("providerconfigs.kubernetes.crossplane.io")
        ]
    );
    Ok(())
}

const WORLD: &str = "
apiVersion: kubernetes.crossplane.io/v1alpha1
kind: ProviderConfig
metadata: {name: kubernetes-provider}
spec: {credentials: {source: InjectedIdentity}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: source, namespace: default}
data: {k: one}
---
apiVersion: kubernetes.crossplane.io/v1alpha2
kind: Object
metadata: {name: o}
spec:
  references:
    - patchesFrom: {apiVersion: v1, kind: ConfigMap, namespace: default, name: source, fieldPath: data.k}
      toFieldPath: data.copied
  forProvider:
    manifest: {apiVersion: v1, kind: ConfigMap, metadata: {name: target, namespace: default}}
  providerConfigRef: {name: kubernetes-provider}
";

/// Renders objects given on standard input.
fn render(world: &str) -> Result<(bool, Value)> {
    let mut child = Command::new(binaries::host()?)
        .args(["render", "--plugin", &object_plugin()?, "-f", "-", "-o", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    child
        .stdin
        .take()
        .context("standard input")?
        .write_all(world.as_bytes())?;
    let output = child.wait_with_output()?;
    Ok((output.status.success(), serde_json::from_slice(&output.stdout)?))
}

#[test]
fn render_shows_references_and_what_would_be_applied() -> Result<()> {
    let (success, shown) = render(WORLD)?;
    assert!(success, "{shown}");
    let rendered = &shown[0];
    assert_eq!(rendered["primary"]["name"], "o");
    assert_eq!(rendered["writes"][0]["apply"]["object"]["data"]["copied"], "one");
    let references = rendered["references"].as_array().context("references")?;
    let source = references
        .iter()
        .find(|reference| reference["name"] == "source")
        .context("the source")?;
    assert_eq!(
        (source["finds"].as_str(), source["fields"][0].as_str()),
        (Some("found"), Some("data.k"))
    );
    Ok(())
}

#[test]
fn render_tells_the_error_that_a_cluster_would_report() -> Result<()> {
    for (good, bad, words) in [
        (
            "fieldPath: data.k}",
            "fieldPath: data..k}",
            ["references[0]", "data..k"],
        ),
        (
            "name: source, fieldPath",
            "name: nowhere, fieldPath",
            ["default/nowhere", "ConfigMap"],
        ),
        (
            "name: kubernetes-provider}\nspec",
            "name: other}\nspec",
            ["ProviderConfig", "kubernetes-provider"],
        ),
    ] {
        let world = WORLD.replace(good, bad);
        assert_ne!(world, WORLD, "{good} is in the world");
        let (success, shown) = render(&world)?;
        let message = shown[0]["error"]["message"].as_str().unwrap_or_default();
        assert!(
            !success && words.iter().all(|word| message.contains(word)),
            "{bad}: {shown}"
        );
    }
    Ok(())
}
