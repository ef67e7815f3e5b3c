//! `patchbay explain` asks a running host.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use patchbay_harness::{Cluster, Host, HostOptions, binaries, wait_for};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::modules::PROVIDER;

const OBJECT: &str = "kubernetes.crossplane.io/v1alpha2";
const SOON: Duration = Duration::from_secs(20);

/// A namespace of a test's own in the shared cluster, and the shared host.
struct World {
    cluster: Cluster,
    host: &'static Host,
    namespace: String,
}

impl World {
    async fn new() -> Result<Self> {
        static HOST: OnceCell<Host> = OnceCell::const_new();
        let cluster = Cluster::shared().await?;
        let host = HOST
            .get_or_try_init(async || {
                cluster.apply_crds().await?;
                cluster.apply(PROVIDER).await?;
                let options = HostOptions {
                    arguments: vec!["--log".to_owned(), "debug".to_owned()],
                    ..HostOptions::default()
                };
                Host::start(&cluster, &options).await
            })
            .await?;
        let namespace = cluster.namespace("explain").await?;
        Ok(World {
            cluster,
            host,
            namespace,
        })
    }

    /// Applies the Secret `source`, and gives its version.
    async fn secret(&self, password: &str) -> Result<String> {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "source"}, "stringData": {"password": password},
        });
        let applied = self.cluster.apply_in(&self.namespace, &secret.to_string()).await?;
        let version = applied[0].metadata.resource_version.clone();
        version.context("a version")
    }

    /// Applies an Object, named for the namespace, that copies the password of `source` to the Secret `target`.
    async fn object(&self) -> Result<&str> {
        let object = json!({
            "apiVersion": OBJECT, "kind": "Object", "metadata": {"name": self.namespace},
            "spec": {
                "references": [{"patchesFrom": {
                    "apiVersion": "v1", "kind": "Secret", "namespace": self.namespace, "name": "source",
                    "fieldPath": "data.password",
                }, "toFieldPath": "data.password"}],
                "forProvider": {"manifest": {
                    "apiVersion": "v1", "kind": "Secret",
                    "metadata": {"name": "target", "namespace": self.namespace},
                }},
                "providerConfigRef": {"name": "kubernetes-provider"},
            },
        });
        self.cluster.apply(&object.to_string()).await?;
        Ok(&self.namespace)
    }

    /// Waits until the explanation of an object is as wanted.
    async fn explained(&self, what: &str, object: &[&str], wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        wait_for(what, SOON, async || {
            let output = self.host.explain(&[object, &["-o", "json"]].concat()).await?;
            if !output.status.success() {
                bail!("{}", said(&output));
            }
            let explained: Value = serde_json::from_slice(&output.stdout)?;
            if wanted(&explained) {
                return Ok(Some(explained));
            }
            bail!("it is {explained}")
        })
        .await
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a command says that must end with exit code 1.
fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    said(output)
}

/// All elements of a list.
fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn at_rest(explained: &Value) -> bool {
    explained["primaries"][0]["state"] == "idle" && !list(&explained["primaries"][0]["runs"]).is_empty()
}

#[tokio::test]
async fn a_primary_shows_what_it_depends_on_and_what_it_did() -> Result<()> {
    let world = World::new().await?;
    let version = world.secret("hunter2-one").await?;
    let object = world.object().await?;
    let address = format!("object/{object}");
    let found = |query: &Value| query["finding"]["resourceVersion"] == *version;
    let explained = world
        .explained("the Object to rest", &[&address], |explained| {
            let applied = |run: &Value| {
                list(&run["writes"])
                    .iter()
                    .any(|write| write["object"]["name"] == "target" && write["state"] == "applied")
            };
            let primary = &explained["primaries"][0];
            at_rest(explained)
                && list(&primary["queries"]).iter().any(found)
                && list(&primary["runs"]).iter().any(applied)
        })
        .await?;
    let primary = &explained["primaries"][0];
    assert_eq!(explained["object"]["apiVersion"], OBJECT);
    assert_eq!(
        (&primary["plugin"], &primary["failures"]),
        (&json!("object"), &json!(0))
    );
    assert!(primary["next"]["time"].is_string(), "{primary}");
    let source = list(&primary["queries"]).iter().find(|query| found(query));
    let source = source.context("the query of the Secret")?;
    let text = format!("Secret {}/source, fields data.password", world.namespace);
    assert_eq!(source["text"], *text);
    assert!(source["id"].is_string(), "{source}");
    assert_eq!(source["watches"][0]["state"], "stands");
    let first = list(&primary["runs"]).last().context("the first run")?;
    let woken = format!("Object ({OBJECT}) {object} appeared at version");
    let told = |wake: &Value| wake.as_str().is_some_and(|wake| wake.starts_with(&woken));
    assert!(list(&first["wakes"]).iter().any(told), "{first}");

    let version = world.secret("hunter2-two").await?;
    let woken = format!(
        "Secret (v1) {}/source changed at version {version}: data.password",
        world.namespace
    );
    let explained = world
        .explained("a run that names the Secret", &[&address], |explained| {
            let woken = |run: &Value| list(&run["wakes"]).iter().any(|wake| wake == &*woken);
            at_rest(explained) && list(&explained["primaries"][0]["runs"]).iter().any(woken)
        })
        .await?;
    assert!(!explained.to_string().contains("hunter2"), "no value is told");
    assert!(!explained.to_string().contains("aHVudGVyMi"), "nor an encoded one");

    let output = world.host.explain(&[&address]).await?;
    let table = String::from_utf8(output.stdout)?;
    for words in [
        format!("Object {object} ({OBJECT}) in cluster host, version "),
        "Reconciled by object ".to_owned(),
        text,
        woken,
        format!("applied    Secret {}/target", world.namespace),
    ] {
        assert!(table.contains(&words), "{words} is in {table}");
    }
    assert!(!table.contains('\x1b'), "no colours where there is no terminal");
    assert!(!table.contains("hunter2") && !table.contains("aHVudGVyMi"), "{table}");
    Ok(())
}

#[tokio::test]
async fn a_name_that_is_made_of_a_secret_is_neither_told_nor_logged() -> Result<()> {
    let world = World::new().await?;
    // Encoded, one of them can be a name and the other cannot.
    for password in ["hunter2-abcd", "hunter2-abc"] {
        world.secret(password).await?;
        let name = format!("{}-{}", world.namespace, password.len());
        let object = json!({
            "apiVersion": OBJECT, "kind": "Object", "metadata": {"name": name},
            "spec": {
                "references": [{"patchesFrom": {
                    "apiVersion": "v1", "kind": "Secret", "namespace": world.namespace, "name": "source",
                    "fieldPath": "data.password",
                }, "toFieldPath": "metadata.name"}],
                "forProvider": {"manifest": {
                    "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": world.namespace},
                }},
                "providerConfigRef": {"name": "kubernetes-provider"},
            },
        });
        world.cluster.apply(&object.to_string()).await?;
        let address = format!("object/{name}");
        let hidden = format!("ConfigMap {}/[hidden]", world.namespace);
        let explained = world
            .explained("the run to fail", &[&address], |explained| {
                let primary = &explained["primaries"][0];
                let names = |query: &Value| query["text"] == *hidden;
                primary["failures"] != 0 && list(&primary["queries"]).iter().any(names)
            })
            .await?;
        let table = String::from_utf8(world.host.explain(&[&address]).await?.stdout)?;
        for told in [explained.to_string(), table, world.host.log()] {
            let line = told
                .lines()
                .find(|line| line.contains("hunter2") || line.contains("aHVudGVyMi"));
            assert!(line.is_none(), "{line:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn any_object_shows_who_depends_on_it_also_if_it_is_not_there() -> Result<()> {
    let world = World::new().await?;
    let object = world.object().await?;
    let by_object = |explained: &Value| {
        let by = |dependent: &&Value| dependent["as"] == "query" && dependent["primary"]["name"] == *object;
        list(&explained["dependents"]).iter().find(by).cloned()
    };
    let secret = ["Secrets", "source", "-n", &world.namespace];
    let missing = world
        .explained("the Object to depend on it", &secret, |explained| {
            by_object(explained).is_some_and(|by| by["id"].is_string())
        })
        .await?;
    assert!(missing["resourceVersion"].is_null() && list(&missing["primaries"]).is_empty());
    let dependent = by_object(&missing).context("the Object")?;
    let text = format!("Secret {}/source, fields data.password", world.namespace);
    assert_eq!(
        (&dependent["text"], &dependent["plugin"]),
        (&json!(text), &json!("object"))
    );

    let version = world.secret("there").await?;
    world
        .explained("the Secret to be seen", &secret, |explained| {
            explained["resourceVersion"] == *version && by_object(explained).is_some()
        })
        .await?;
    world.cluster.delete(OBJECT, "Object", "", object).await?;
    wait_for("nobody to depend on it", SOON, async || {
        Ok((!world.host.explain(&secret).await?.status.success()).then_some(()))
    })
    .await
}

#[tokio::test]
async fn what_is_not_known_or_not_one_object_is_told_with_what_there_is() -> Result<()> {
    let (one, other) = (World::new().await?, World::new().await?);
    for world in [&one, &other] {
        let secret = ["secret", "source", "-n", &world.namespace];
        world.object().await?;
        world.explained("the Secret to be known", &secret, |_| true).await?;
    }
    let ask = async |arguments: &[&str]| -> Result<String> { Ok(refused(&one.host.explain(arguments).await?)) };
    for (arguments, words) in [
        (
            vec!["secret/source"],
            vec!["--namespace", &one.namespace, &other.namespace],
        ),
        (
            vec!["secret/source", "-n", "elsewhere"],
            vec!["secret elsewhere/source", "/source"],
        ),
        (
            vec!["gadget/x"],
            vec!["gadget", "secret", "object.kubernetes.crossplane.io"],
        ),
        (
            vec!["object.example.org/x"],
            vec!["object.example.org", "object.kubernetes.crossplane.io"],
        ),
        (vec!["secret/nobody-asks"], vec!["secret nobody-asks", "no query"]),
        (vec!["secret/source", "--cluster", "mars"], vec!["mars", "host"]),
        (vec!["cm/nobody-asks"], vec!["cm nobody-asks", "no query"]),
        (
            vec!["object/nobody-made"],
            vec!["plugin object reconciles every Object, but there is none of this name"],
        ),
    ] {
        let told = ask(&arguments).await?;
        assert!(words.iter().all(|word| told.contains(word)), "{arguments:?}: {told}");
    }
    Ok(())
}

/// `patchbay` without a socket named, in a world with its own folder for temporary files.
fn patchbay(temporary: &Path, arguments: &[&str]) -> Result<Output> {
    let mut command = Command::new(binaries::host()?);
    command.args(arguments).env("TMPDIR", temporary);
    for variable in ["XDG_RUNTIME_DIR", "PATCHBAY_SOCKET", "KUBERNETES_SERVICE_HOST"] {
        command.env_remove(variable);
    }
    Ok(command.output()?)
}

#[test]
fn without_a_host_it_says_which_socket_was_tried() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let told = refused(&patchbay(folder.path(), &["explain", "secret/db"])?);
    let tried = format!("{}/patchbay-", folder.path().display());
    assert!(told.contains("no host runs here") && told.contains(&tried), "{told}");
    assert!(told.contains("--socket"), "{told}");
    let told = refused(&patchbay(folder.path(), &["explain", "secret/db", "--socket", "none"])?);
    assert!(told.contains("--socket"), "{told}");
    Ok(())
}

#[test]
fn a_folder_that_another_user_could_have_made_is_not_trusted() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let user = fs::metadata(folder.path())?.uid();
    let open = folder.path().join(format!("patchbay-{user}"));
    fs::DirBuilder::new().mode(0o777).create(&open)?;
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777))?;
    let plugins = binaries::plugins()?.display().to_string();
    for arguments in [
        &["explain", "secret/db"][..],
        &["run", "--kubeconfig", "/nowhere", "--plugins", &plugins],
    ] {
        let told = refused(&patchbay(folder.path(), arguments)?);
        assert!(
            told.contains("0700") && told.contains(&open.display().to_string()),
            "{told}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_socket_is_one_hosts_and_is_taken_over_when_that_has_ended() -> Result<()> {
    let cluster = Cluster::start().await?;
    let first = Host::start(&cluster, &HostOptions::default()).await?;
    let socket = first.socket().to_owned();
    let file = fs::symlink_metadata(&socket)?;
    assert!(
        file.file_type().is_socket() && file.mode() & 0o777 == 0o600,
        "{:o}",
        file.mode()
    );

    let path = socket.display().to_string();
    let plugins = binaries::plugins()?.display().to_string();
    let folder = tempfile::tempdir()?;
    let second = [
        "run",
        "--kubeconfig",
        "/nowhere",
        "--plugins",
        &plugins,
        "--socket",
        &path,
    ];
    let told = refused(&patchbay(folder.path(), &second)?);
    assert!(told.contains("already") && told.contains(&path), "{told}");

    first.kill();
    assert!(socket.exists(), "a killed host cannot clean up");
    let told = refused(&patchbay(folder.path(), &["explain", "object/x", "--socket", &path])?);
    assert!(told.contains("has ended"), "{told}");
    let options = HostOptions {
        arguments: vec!["--socket".to_owned(), path.clone()],
        ..HostOptions::default()
    };
    let _second = Host::start(&cluster, &options).await?;
    let told = refused(&patchbay(folder.path(), &["explain", "gadget/x", "--socket", &path])?);
    assert!(told.contains("Kinds that are watched"), "it answers: {told}");
    Ok(())
}
