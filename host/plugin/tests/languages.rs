//! The example plugins, one in each language, are given the same and answer the same.
//!
//! `cargo xtask test` builds them, and says in `PATCHBAY_EXAMPLE_PLUGINS` where they are.
#![allow(missing_docs, reason = "a test's name says what it shows")]

use std::env;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;

use patchbay_plugin::contract::{
    Answer, Description, Failure, Finding, Object, ObjectReference, Outcome, Primary, Purpose, QueryFailure,
    QueryFailureReason, ReferenceSet, Write, WriteAction, WriteFailure, WriteResult, WriteState,
};
use patchbay_plugin::{Engine, Instance, Limits, Line, LogSink, Plugin, Settings};
use serde_json::{Value, json};

const LANGUAGES: [&str; 5] = ["rust", "go", "python", "javascript", "c"];

/// All of them, loaded at once: those with an interpreter in them take long to compile.
static PLUGINS: LazyLock<Vec<Plugin>> = LazyLock::new(|| {
    let engine = Engine::new(&Settings::default()).expect("an engine");
    thread::scope(|scope| {
        let engine = &engine;
        let threads = LANGUAGES.map(|language| scope.spawn(move || load(engine, language)));
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
});

fn load(engine: &Engine, language: &str) -> Plugin {
    let advice = format!("`cargo xtask plugins --language {language}` builds it, or says what is missing");
    let folder = env::var_os("PATCHBAY_EXAMPLE_PLUGINS").map(PathBuf::from);
    let folder = folder.expect("PATCHBAY_EXAMPLE_PLUGINS is not set: run the tests by `cargo xtask test`");
    let path = folder.join(format!("mirror-{language}.wasm"));
    let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; {advice}", path.display()));
    Plugin::load(engine, language, &bytes, Limits::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// Keeps what a plugin logs.
#[derive(Default)]
struct Lines(Mutex<Vec<String>>);

impl LogSink for Lines {
    fn line(&self, line: Line<'_>) {
        let line = format!("{:?} {:?} {}", line.source, line.level, line.text);
        self.0.lock().expect("no panic under the lock").push(line);
    }
}

fn instance(plugin: &Plugin) -> (Instance, Arc<Lines>) {
    let lines = Arc::new(Lines::default());
    (plugin.instantiate(lines.clone()).expect("an instance"), lines)
}

fn object(value: &Value) -> Object {
    Object {
        cluster_id: "c1".into(),
        resource_version: "7".into(),
        json: value.to_string(),
    }
}

/// A Mirror in the namespace `here`.
fn mirror(spec: Value) -> Primary {
    Primary {
        object: object(&json!({
            "apiVersion": "examples.patchbay.dev/v1alpha1",
            "kind": "Mirror",
            "metadata": {
                "name": "m", "namespace": "here", "uid": "u-1", "generation": 3,
                "annotations": {"note": "a \"quoted\" } ] , text\\"}, "labels": {},
            },
            "spec": spec,
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Copied"}]},
        })),
        parent: None,
        purpose: Purpose::Reconcile,
        last_writes: vec![],
        config: "{}".into(),
        time: 1_700_000_000,
    }
}

fn config_map() -> Primary {
    mirror(json!({"from": {"kind": "ConfigMap", "name": "s"}}))
}

fn elsewhere() -> Primary {
    mirror(json!({"from": {"kind": "ConfigMap", "name": "s", "namespace": "there"}}))
}

fn two_keys() -> Primary {
    mirror(json!({"from": {"kind": "Secret", "name": "s"}, "keys": ["tls.crt", "7"]}))
}

fn found(value: Value) -> Finding {
    Finding::Found(object(&value))
}

/// The answers to a Mirror's queries. Nobody looks at the copy's.
fn answers(source: Finding) -> Vec<Answer> {
    let answer = |id: &str, finding| Answer { id: id.into(), finding };
    vec![answer("copy", Finding::Missing), answer("source", source)]
}

/// What a call answers, in a form that does not depend on the order of fields.
#[derive(Debug, PartialEq)]
struct Told {
    applied: Vec<Value>,
    status: Value,
    failure: Option<(String, String, bool)>,
}

fn told(result: Result<Outcome, Failure>) -> Told {
    let parse = |text: &str| serde_json::from_str(text).expect("JSON");
    let (outcome, failure) = match result {
        Ok(outcome) => (outcome, None),
        Err(Failure {
            reason,
            message,
            permanent,
            status,
        }) => {
            let status = parse(&status.expect("a status"));
            let (applied, failure) = (vec![], Some((reason, message, permanent)));
            return Told {
                applied,
                status,
                failure,
            };
        }
    };
    let applied = outcome.writes.iter().map(|write| match write {
        Write::Apply(apply) => {
            assert!(!apply.force && apply.mode == patchbay_plugin::contract::ApplyMode::Upsert);
            parse(&apply.object)
        }
        other => panic!("{other:?}"),
    });
    let told = Told {
        applied: applied.collect(),
        status: parse(outcome.status.as_deref().expect("a status")),
        failure,
    };
    let nothing = outcome.events.is_empty() && outcome.protect.is_empty() && outcome.controllers.is_empty();
    assert!(nothing && outcome.prune.is_none() && outcome.again_after.is_none() && !outcome.again_if_written);
    told
}

/// What all of them answer to `reconcile`, which must be the same. Each is asked twice in one instance.
fn reconcile(primary: &Primary, source: &Finding) -> Told {
    let mut first: Option<Told> = None;
    for plugin in PLUGINS.iter() {
        let (mut instance, _) = instance(plugin);
        for _ in 0..2 {
            let result = instance.reconcile(primary, &answers(source.clone()));
            let told = told(result.unwrap_or_else(|error| panic!("{}: {error}", plugin.name())));
            match &first {
                Some(first) => assert_eq!(&told, first, "{}", plugin.name()),
                None => first = Some(told),
            }
        }
    }
    first.expect("a plugin")
}

/// As [`reconcile`], of a Mirror that is told to wait.
fn waits(primary: &Primary, source: &Finding) -> (String, String) {
    let told = reconcile(primary, source);
    assert_eq!((&told.applied, &told.failure), (&vec![], &None));
    condition(&told, "False")
}

fn condition(told: &Told, status: &str) -> (String, String) {
    let condition = &told.status["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"]),
        (&json!("Ready"), &json!(status))
    );
    assert_eq!(condition["observedGeneration"], 3);
    let text = |field: &str| condition[field].as_str().expect("a text").to_owned();
    (text("reason"), text("message"))
}

fn copy(kind: &str, content: Value) -> Value {
    let mut copy = json!({
        "apiVersion": "v1", "kind": kind,
        "metadata": {"name": "m", "namespace": "here", "ownerReferences": [{
            "apiVersion": "examples.patchbay.dev/v1alpha1", "kind": "Mirror", "name": "m", "uid": "u-1",
            "controller": true,
        }]},
    });
    for (field, value) in content.as_object().expect("an object") {
        copy[field] = value.clone();
    }
    copy
}

#[test]
fn all_describe_the_same_but_for_their_language() {
    let expected = Description {
        name: "mirror-rust".into(),
        ..PLUGINS[0].description().clone()
    };
    assert_eq!(expected.requests.len(), 2);
    for (plugin, language) in PLUGINS.iter().zip(LANGUAGES) {
        let mut description = plugin.description().clone();
        assert_eq!(description.name, format!("mirror-{language}"));
        let labels = &mut description.primaries[0].selector.match_labels;
        assert_eq!(
            *labels,
            [("examples.patchbay.dev/language".to_owned(), language.to_owned())]
        );
        labels[0].1 = "rust".into();
        description.name = "mirror-rust".into();
        assert_eq!(description, expected, "{language}");
    }
}

#[test]
fn all_ask_for_the_same() {
    for primary in [config_map(), elsewhere(), two_keys()] {
        let mut first: Option<ReferenceSet> = None;
        for plugin in PLUGINS.iter() {
            let set = instance(plugin)
                .0
                .references(&primary, &[])
                .expect("an answer")
                .expect("a set");
            assert!(set.complete && set.queries.len() == 2, "{set:?}");
            match &first {
                Some(first) => assert_eq!(&set, first, "{}", plugin.name()),
                None => first = Some(set),
            }
        }
    }
}

#[test]
fn all_copy_the_same() {
    let data = json!({"plain": "text", "odd": "\"{[\\ \u{7} ä 🎈 \n", "empty": ""});
    let source = json!({"metadata": {"uid": "x"}, "data": data, "binaryData": {"b": "AAE="}});
    let told = reconcile(&config_map(), &found(source));
    let content = json!({"data": data, "binaryData": {"b": "AAE="}});
    assert_eq!(told.applied, [copy("ConfigMap", content)]);
    assert_eq!(
        condition(&told, "True"),
        ("Copied".into(), "copied from ConfigMap here/s".into())
    );
    let secret = json!({"type": "Opaque", "data": {"tls.crt": "QQ==", "7": "Qg=="}});
    assert_eq!(
        reconcile(&two_keys(), &found(secret.clone())).applied,
        [copy("Secret", secret)]
    );
}

#[test]
fn all_wait_for_the_same() {
    let reason = |primary, source: &Finding| waits(&primary, source);
    let (kind, message) = reason(config_map(), &Finding::Missing);
    assert_eq!(
        (kind.as_str(), message.as_str()),
        ("SourceMissing", "ConfigMap here/s does not exist")
    );
    let failed = Finding::Failed(QueryFailure {
        reason: QueryFailureReason::Forbidden,
        message: "may not read \"s\"\n\tin \\ ü".into(),
    });
    let expected = ("SourceUnknown".to_owned(), "may not read \"s\"\n\tin \\ ü".to_owned());
    assert_eq!(reason(config_map(), &failed), expected);
    let own = mirror(json!({"from": {"kind": "Secret", "name": "m"}}));
    assert_eq!(reason(own, &found(json!({"data": {}}))).0, "SourceIsCopy");
    let missing = found(json!({"type": "Opaque", "data": {"7": "Qg=="}}));
    let expected = ("KeyMissing".to_owned(), "Secret here/s has no key tls.crt".to_owned());
    assert_eq!(reason(two_keys(), &missing), expected);
}

#[test]
fn all_copy_from_elsewhere_only_what_allows_it() {
    let source = |to: Value| found(json!({"metadata": {"uid": "x", "annotations": to}, "data": {"k": "v"}}));
    for to in ["here", "*"] {
        let told = reconcile(&elsewhere(), &source(json!({"examples.patchbay.dev/mirror-to": to})));
        assert_eq!(told.applied, [copy("ConfigMap", json!({"data": {"k": "v"}}))]);
    }
    let refused = [
        json!({}),
        json!({"examples.patchbay.dev/mirror-to": "her"}),
        json!({"other": "here"}),
    ];
    for to in refused
        .into_iter()
        .map(source)
        .chain([found(json!({"data": {"k": "v"}}))])
    {
        assert_eq!(waits(&elsewhere(), &to).0, "NotAllowed");
    }
}

#[test]
fn all_tell_of_a_write_that_failed() {
    let mut primary = config_map();
    let write = |action, state| WriteResult {
        action,
        object: ObjectReference {
            cluster: patchbay_plugin::contract::Cluster::PrimaryCluster,
            kind: patchbay_plugin::contract::ObjectKind {
                api_version: "v1".into(),
                kind: "ConfigMap".into(),
            },
            namespace: Some("here".into()),
            name: "m".into(),
        },
        state,
    };
    let failure = |message: &str| {
        WriteState::Failed(WriteFailure {
            code: 409,
            reason: "Conflict".into(),
            message: message.into(),
        })
    };
    let source = found(json!({"data": {"k": "v"}}));
    primary.last_writes = vec![
        write(WriteAction::Apply, WriteState::Applied),
        write(WriteAction::Status, failure("of the status")),
    ];
    assert_eq!(reconcile(&primary, &source).failure, None);
    primary.last_writes = vec![write(WriteAction::Apply, failure("\"k\" is another's"))];
    let told = reconcile(&primary, &source);
    assert_eq!(
        told.failure,
        Some(("WriteFailed".into(), "\"k\" is another's".into(), false))
    );
    assert_eq!(
        condition(&told, "False"),
        ("WriteFailed".into(), "\"k\" is another's".into())
    );
}

#[test]
fn all_log() {
    for plugin in PLUGINS.iter() {
        let (mut instance, lines) = instance(plugin);
        let result = instance.reconcile(&config_map(), &answers(found(json!({"data": {"k": "v"}}))));
        assert!(result.is_ok_and(|outcome| outcome.is_ok()), "{}", plugin.name());
        let lines = lines.0.lock().expect("no panic under the lock");
        assert_eq!(
            *lines,
            ["Log Level::Debug copied from ConfigMap here/s"],
            "{}",
            plugin.name()
        );
    }
}

#[test]
fn an_exception_in_python_ends_the_run_and_is_told_in_the_log() {
    let (mut instance, lines) = instance(&PLUGINS[2]);
    let error = instance.references(&mirror(Value::Null), &[]).expect_err("a trap");
    assert!(error.to_string().starts_with("references trapped"), "{error}");
    let lines = lines.0.lock().expect("no panic under the lock").join("\n");
    assert!(lines.contains("TypeError: 'NoneType'"), "{lines}");
}

#[test]
fn a_panic_in_go_ends_the_run_and_is_told_in_the_log() {
    let (mut instance, lines) = instance(&PLUGINS[1]);
    // What a query by name never finds.
    let error = instance.reconcile(&config_map(), &answers(Finding::Matches(vec![])));
    assert!(error.is_err(), "{error:?}");
    let lines = lines.0.lock().expect("no panic under the lock").join("\n");
    assert!(lines.contains("panic: tag mismatch"), "{lines}");
}

#[test]
fn an_exception_in_javascript_is_a_failure() {
    let (mut instance, _) = instance(&PLUGINS[3]);
    let result = instance.references(&mirror(Value::Null), &[]).expect("an answer");
    let failure = result.expect_err("a failure");
    assert!(failure.message.starts_with("TypeError: "), "{failure:?}");
}
