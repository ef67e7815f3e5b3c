//! What a plugin costs in each language: `cargo xtask plugins`, then `cargo bench --workspace --bench languages -- FOLDER` with
//! the folder that it prints. Each call is a `reconcile` of the example with a Secret of 2 KB;
//! an empty one is a `dependents` that does nothing.
#![allow(missing_docs, reason = "it is no library")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use patchbay_plugin::contract::{Answer, Change, Finding, Object, Primary, Purpose};
use patchbay_plugin::{Engine, Limits, Line, LogSink, Plugin, Settings};
use serde_json::json;

const LANGUAGES: [&str; 5] = ["rust", "c", "go", "javascript", "python"];
const INSTANCES: usize = 100;
const CALLS: usize = 20;

struct Nowhere;

impl LogSink for Nowhere {
    fn line(&self, _: Line<'_>) {}
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let folder = arguments.next().expect("the folder of the examples as an argument");
    let engine = Engine::new(&Settings::default()).expect("an engine");
    println!(
        "{:12} {:>9} {:>9} {:>12} {:>12} {:>12} {:>12}",
        "", "size", "load", "instantiate", "first call", "again", "empty call"
    );
    for language in LANGUAGES {
        measure(
            &engine,
            language,
            &Path::new(&folder).join(format!("mirror-{language}.wasm")),
        );
    }
}

fn measure(engine: &Engine, language: &str, path: &Path) {
    let bytes = std::fs::read(path).expect("a component: build it by `cargo xtask plugins`");
    let began = Instant::now();
    let plugin = Plugin::load(engine, language, &bytes, Limits::default()).expect("a plugin");
    let load = began.elapsed();
    let (primary, answers) = (primary(), answers());
    let nothing = Change {
        before: None,
        after: None,
    };
    let (mut starts, mut firsts) = (Vec::new(), Vec::new());
    let (mut agains, mut empties) = (Vec::new(), Vec::new());
    for _ in 0..INSTANCES {
        let began = Instant::now();
        let mut instance = plugin.instantiate(Arc::new(Nowhere)).expect("an instance");
        starts.push(began.elapsed());
        for call in 0..CALLS {
            let began = Instant::now();
            let outcome = instance
                .reconcile(&primary, &answers)
                .expect("an answer")
                .expect("an outcome");
            let taken = began.elapsed();
            assert_eq!(outcome.writes.len(), 1);
            if call == 0 {
                firsts.push(taken)
            } else {
                agains.push(taken)
            }
        }
        for _ in 0..CALLS {
            let began = Instant::now();
            let dependents = instance.dependents("none", &nothing).expect("an answer");
            empties.push(began.elapsed());
            assert!(dependents.is_err() || dependents.is_ok_and(|found| found.is_empty()));
        }
    }
    println!(
        "{language:12} {:>6.2} MB {:>7.2} s {:>9.1} µs {:>9.1} µs {:>9.1} µs {:>9.1} µs",
        bytes.len() as f64 / 1e6,
        load.as_secs_f64(),
        median(starts),
        median(firsts),
        median(agains),
        median(empties),
    );
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6
}

fn primary() -> Primary {
    let json = json!({
        "apiVersion": "examples.patchbay.dev/v1alpha1", "kind": "Mirror",
        "metadata": {"name": "m", "namespace": "n", "uid": "00000000-0000-0000-0000-000000000000", "generation": 1},
        "spec": {"from": {"kind": "Secret", "name": "s"}},
    });
    Primary {
        object: object(json.to_string()),
        parent: None,
        purpose: Purpose::Reconcile,
        last_writes: vec![],
        config: "{}".into(),
        time: 1_700_000_000,
    }
}

fn answers() -> Vec<Answer> {
    let data: serde_json::Map<_, _> = (0..8)
        .map(|key| (format!("key-{key}"), "QUJD".repeat(60).into()))
        .collect();
    let json = json!({"metadata": {"uid": "u"}, "type": "Opaque", "data": data});
    vec![Answer {
        id: "source".into(),
        finding: Finding::Found(object(json.to_string())),
    }]
}

fn object(json: String) -> Object {
    Object {
        cluster_id: "c1".into(),
        resource_version: "1".into(),
        json,
    }
}
