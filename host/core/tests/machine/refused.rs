//! A cluster that refuses wide watches.

use std::collections::HashMap;

use patchbay_core::{
    Attachment, ClusterId, ControllerId, Core, Effect, Failure, FailureReason, Fields, Finding, Finished, Kind,
    Metadata, ObjectName, Query, ReadScope, ReferenceSet, References, RunResult, Scope, Settings, Target, Time,
    Variant, Version, WatchId,
};

use crate::words::{metadata, primary_kind, whole};

const NAMES: usize = 900;

fn primary() -> (ObjectName, Metadata, Vec<Variant>) {
    (ObjectName::new(None, "p"), metadata(1), whole("primary"))
}

/// One primary that names many ConfigMaps of one namespace, in a cluster that lets them be watched by name only.
struct World {
    core: Core,
    now: Time,
    /// Whether wide watches are let.
    wide: bool,
    streams: HashMap<WatchId, Scope>,
    started: usize,
    findings: Vec<Finding>,
}

impl World {
    fn turn(&mut self) {
        while let Some(effect) = self.core.poll() {
            match effect {
                Effect::StartWatch(id, key) => {
                    let refused = key.kind != primary_kind() && !matches!(key.scope, Scope::Name(_)) && !self.wide;
                    if refused {
                        let failure = Failure::new(FailureReason::Forbidden, "may not watch all");
                        self.core.watch_failed(id, &failure, self.now);
                    } else {
                        if key.kind != primary_kind() {
                            self.started += 1;
                            self.streams.insert(id, key.scope);
                        }
                        self.core.watch_stands(id, Version(2), self.now);
                    }
                }
                Effect::StopWatch(id) => {
                    self.streams.remove(&id);
                }
                Effect::Read(id, request) => {
                    if request.kind == primary_kind()
                        && let ReadScope::Selected { .. } = request.scope
                    {
                        self.core.read_page(id, Version(2), vec![primary()], self.now);
                    }
                    self.core.read_done(id, Version(2), self.now);
                }
                Effect::Run { run, .. } => {
                    let queries = (0..NAMES).map(|number| Query {
                        cluster: ClusterId::HOST,
                        kind: Kind::new("v1", "ConfigMap"),
                        target: Target::Named(ObjectName::new(Some("n"), &number.to_string())),
                        fields: Fields::Whole,
                    });
                    let set = ReferenceSet::complete(queries.collect());
                    if let References::Answered(findings) = self.core.references(run, set, self.now) {
                        self.findings = findings;
                        let result = RunResult::Done {
                            again_after: None,
                            again: false,
                        };
                        self.core.finish(run, Finished::new(result), self.now);
                    }
                }
                other => panic!("unexpected {other:?}"),
            }
        }
    }

    fn pass(&mut self, minutes: u64) {
        let end = Time(self.now.0 + std::time::Duration::from_secs(60 * minutes));
        while let Some(next) = self.core.next_tick().filter(|next| *next <= end) {
            self.now = next;
            self.core.tick(next);
            self.turn();
        }
        self.now = end;
    }

    fn failed(&self) -> usize {
        let failed = |finding: &&Finding| matches!(finding, Finding::Failed(failure) if failure.reason == FailureReason::Forbidden);
        self.findings.iter().filter(failed).count()
    }
}

#[test]
fn where_a_wide_watch_is_refused_some_narrow_ones_serve_until_it_is_not() {
    let settings = Settings::default();
    let most = settings.narrow_watches;
    let mut world = World {
        core: Core::new(settings),
        now: Time::default(),
        wide: false,
        streams: HashMap::new(),
        started: 0,
        findings: Vec::new(),
    };
    let attachment = Attachment::new(ClusterId::HOST, primary_kind());
    world.core.attach(ControllerId(0), attachment, world.now);
    world.turn();
    world.pass(30);
    assert!(world.streams.len() <= most, "{} narrow watches", world.streams.len());
    assert!(world.streams.len() > most / 2);
    assert_eq!(
        world.failed(),
        NAMES - world.streams.len(),
        "what is not watched is not served"
    );
    let started = world.started;
    world.pass(60);
    assert_eq!(world.started, started, "what is served stays as it is");
    // The cluster lets all be watched from now on.
    world.wide = true;
    world.pass(30);
    assert_eq!(world.failed(), 0);
    assert_eq!(world.streams.len(), 1, "one watch is enough: {:?}", world.streams);
    let counts = world.core.counts();
    assert_eq!((counts.watches, counts.queries), (2, NAMES + 1));
}
