//! What every event costs: whom does it concern? Asked of a machine that holds a million references by name and a hundred
//! thousand label selectors, each of its own.
//!
//! `cargo bench -p patchbay-core`. The first line that it prints is the memory of one reference.

use std::fs;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use patchbay_core::{
    Attachment, ClusterId, ControllerId, Core, Criterion as Meets, Effect, Fields, Finished, Kind, Labels, Metadata,
    Namespaces, ObjectKey, ObjectName, Query, ReadScope, ReferenceSet, References, Requirement, RunResult, Selector,
    Settings, Target, Time, Variant, Version,
};

const NOW: Time = Time(std::time::Duration::ZERO);
const PRIMARIES: usize = 1_000;
const NAMES_EACH: usize = 1_000;
const SELECTORS_EACH: usize = 100;
const NAMESPACES_EACH: usize = 5;

fn primaries() -> Kind {
    Kind::new("example.org/v1", "Copy")
}

fn named(number: usize) -> ObjectName {
    ObjectName::new(
        Some(&format!("team-{}", number % 100)),
        &format!("settings-of-{number}"),
    )
}

fn query(kind: &str, target: Target) -> Query {
    Query {
        cluster: ClusterId::HOST,
        kind: Kind::new("v1", kind),
        target,
        fields: Fields::paths(["data.key".into()]),
    }
}

fn by_name(number: usize) -> Query {
    query("ConfigMap", Target::Named(named(number)))
}

/// The rarest of its labels is its own; the others it shares with all or many.
fn by_labels(number: usize) -> Query {
    let selector = Selector::new([
        Requirement::equals("app.kubernetes.io/managed-by", "somebody"),
        Requirement::equals("app.kubernetes.io/part-of", format!("system-{}", number % 50)),
        Requirement::equals("app.kubernetes.io/instance", format!("instance-{number}")),
    ]);
    query("Secret", Target::selected(Namespaces::All, Meets::Labels(selector)))
}

/// Everything in one namespace.
fn by_namespace(number: usize) -> Query {
    let namespaces = Namespaces::listed([format!("team-{number}").into()]);
    let everything = Meets::Labels(Selector::everything());
    query("Role", Target::selected(namespaces, everything))
}

/// A machine whose primaries ask all this and have their answers: nothing is there.
fn machine(queries_of: impl Fn(usize) -> Vec<Query>) -> Core {
    let mut core = Core::new(Settings::default());
    core.attach(ControllerId(1), Attachment::new(ClusterId::HOST, primaries()), NOW);
    while let Some(effect) = core.poll() {
        match effect {
            Effect::StartWatch(id, _) => core.watch_stands(id, Version(1), NOW),
            Effect::Read(id, request) => {
                if let (true, ReadScope::Selected { .. }) = (request.kind == primaries(), &request.scope) {
                    core.read_page(id, Version(1), (0..PRIMARIES).map(primary).collect(), NOW);
                }
                core.read_done(id, Version(1), NOW);
            }
            Effect::Run { run, key, .. } => {
                let number = key.name.name.trim_start_matches("primary-").parse().expect("a number");
                let set = ReferenceSet::complete(queries_of(number));
                if let References::Answered(_) = core.references(run, set, NOW) {
                    let result = RunResult::Done {
                        again_after: None,
                        again: false,
                    };
                    core.finish(run, Finished::new(result), NOW);
                }
            }
            _ => {}
        }
    }
    core
}

fn primary(number: usize) -> (ObjectName, Metadata, Vec<Variant>) {
    let metadata = Metadata {
        uid: format!("uid-{number}").into(),
        version: Version(1),
        ..Metadata::default()
    };
    let variant = Variant {
        fields: Fields::Whole,
        text: "{}".into(),
    };
    (
        ObjectName::new(Some("default"), &format!("primary-{number}")),
        metadata,
        vec![variant],
    )
}

fn object(kind: &str, name: ObjectName) -> ObjectKey {
    ObjectKey {
        cluster: ClusterId::HOST,
        kind: Kind::new("v1", kind),
        name,
    }
}

fn labelled(pairs: &[(&str, &str)]) -> Metadata {
    let labels: Labels = pairs
        .iter()
        .map(|(key, value)| (Arc::from(*key), Arc::from(*value)))
        .collect();
    Metadata {
        labels,
        ..Metadata::default()
    }
}

/// Bytes that the process holds in memory.
fn resident() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or_default() * 4096
}

fn index(criterion: &mut Criterion) {
    let before = resident();
    let core = machine(|primary| {
        (0..NAMES_EACH)
            .map(|number| by_name(primary * NAMES_EACH + number))
            .collect()
    });
    let references = PRIMARIES * NAMES_EACH;
    println!(
        "{references} references by name, each answered: {} bytes a reference",
        (resident() - before) / references
    );
    let mut group = criterion.benchmark_group("a million references by name");
    let asked = object("ConfigMap", named(500_123));
    let metadata = labelled(&[("app", "a"), ("tier", "b")]);
    group.bench_function("an object that one of them names", |bencher| {
        bencher.iter(|| core.wanted(black_box(&asked), black_box(&metadata)));
    });
    let unasked = object("ConfigMap", ObjectName::new(Some("team-1"), "nobody-asks-for-it"));
    group.bench_function("an object that none of them names", |bencher| {
        bencher.iter(|| core.wanted(black_box(&unasked), black_box(&metadata)));
    });
    let mut number = 0;
    group.bench_function("any object that one of them names", |bencher| {
        bencher.iter_batched(
            || {
                number = (number + 7_919) % references;
                object("ConfigMap", named(number))
            },
            |asked| core.wanted(black_box(&asked), black_box(&metadata)),
            criterion::BatchSize::SmallInput,
        );
    });
    group.finish();
    drop(core);

    let before = resident();
    let core = machine(|primary| {
        let numbers = (0..SELECTORS_EACH).map(|number| primary * SELECTORS_EACH + number);
        // Ten of them ask the same with other fields, to make ten matches.
        numbers.map(by_labels).collect()
    });
    let selectors = PRIMARIES * SELECTORS_EACH;
    println!(
        "{selectors} selectors, each answered: {} bytes a selector",
        resident().saturating_sub(before) / selectors
    );
    let mut group = criterion.benchmark_group("a hundred thousand selectors");
    let asked = object("Secret", ObjectName::new(Some("team-1"), "a"));
    for (what, instance) in [
        ("an object that one selects", "instance-51"),
        ("an object that none selects", "other"),
    ] {
        let metadata = labelled(&[
            ("app.kubernetes.io/instance", instance),
            ("app.kubernetes.io/managed-by", "somebody"),
            ("app.kubernetes.io/name", "shop"),
            ("app.kubernetes.io/part-of", "system-1"),
            ("pod-template-hash", "5d9f"),
        ]);
        group.bench_function(what, |bencher| {
            bencher.iter(|| core.wanted(black_box(&asked), black_box(&metadata)));
        });
    }
    group.finish();
    drop(core);

    let core = machine(|primary| {
        let numbers = (0..NAMESPACES_EACH).map(|number| primary * NAMESPACES_EACH + number);
        numbers.map(by_namespace).collect()
    });
    let mut group = criterion.benchmark_group("five thousand selections of all in a namespace");
    let asked = object("Role", ObjectName::new(Some("team-1234"), "a"));
    group.bench_function("an object in one of the namespaces", |bencher| {
        bencher.iter(|| core.wanted(black_box(&asked), black_box(&metadata)));
    });
    group.finish();
}

criterion_group!(benches, index);
criterion_main!(benches);
