//! The plugin of the simulation: a pure function from a primary and its answers to what should be true.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::object::{Resource, named, number, value};
use crate::{Criterion, Dependent, FailureReason, Fields, Namespaces, ObjectName, Requirement, Selector, Target};

/// What a primary wants.
#[derive(Clone, Debug, Default)]
pub(super) struct Spec {
    /// What it depends on. The uid of an owner is the primary's own.
    pub(super) asks: Vec<Asked>,
    /// In a second round it depends on one more object, whose name follows from what the first query finds.
    pub(super) chain: bool,
    /// It goes on though a query failed.
    pub(super) tolerates: bool,
    /// It fails, until something changes, while its first query finds nothing.
    pub(super) needs_first: bool,
    /// A failure is final, so that only a change can help.
    pub(super) gives_up: bool,
    /// It writes an Output of its name.
    pub(super) writes: bool,
    /// It runs again once it sees what it wrote.
    pub(super) again: bool,
    /// It protects the objects that it names.
    pub(super) protects: bool,
    pub(super) join_keys: Vec<Arc<str>>,
}

/// What a primary is told of itself.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Me {
    pub(super) uid: Arc<str>,
    /// The name of its Output.
    pub(super) output: ObjectName,
}

/// Stands for the name of the primary's own Output.
pub(super) const OWN: &str = "own";

/// A query, with the cluster as a primary names it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Asked {
    pub(super) at: Where,
    pub(super) resource: Resource,
    pub(super) target: Target,
    pub(super) fields: Fields,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Where {
    /// In the primary's own cluster.
    Home,
    /// In the cluster of this kubeconfig Secret.
    Kubeconfig(&'static str),
}

/// What a query was answered: the texts of what it found, or why it failed.
pub(super) type Told = Result<Vec<Arc<str>>, FailureReason>;

/// What a run comes to before it writes anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Write,
    Fail { permanent: bool },
}

impl Spec {
    /// The queries of a primary, given the answers of the last round, and whether they are all.
    pub(super) fn references(&self, me: &Me, answers: &[Told]) -> (Vec<Asked>, bool) {
        let mut asks = self.asks.clone();
        for asked in &mut asks {
            match &mut asked.target {
                Target::Named(name) if *name.name == *OWN => name.clone_from(&me.output),
                Target::Named(_) => {}
                Target::Selected(selection) => {
                    if let Criterion::Owner(owner) = &mut selection.criterion {
                        owner.clone_from(&me.uid);
                    }
                }
            }
        }
        // What it writes must not decide what it asks for next, or it could go on for ever.
        if !self.chain || asks.first().is_none_or(|first| is_written(first.resource)) {
            return (asks, true);
        }
        let Some(first) = answers.first() else {
            return (asks, false);
        };
        if let Ok(texts) = first
            && let Some(k) = texts.first().and_then(|text| number(text, "k"))
        {
            let name = named("n", ["a", "b", "c"][k % 3]);
            asks.push(Asked {
                at: asks[0].at,
                resource: Resource::ConfigMap,
                target: Target::Named(name),
                fields: Fields::Whole,
            });
        }
        (asks, true)
    }

    /// The queries whose objects it protects.
    pub(super) fn protected<'a>(&self, asks: &'a [Asked], answers: &[Told]) -> Vec<&'a Asked> {
        let found = asks.iter().zip(answers).filter(|(asked, told)| {
            let protected = matches!(asked.resource, Resource::ConfigMap | Resource::Node | Resource::Gadget);
            let named = matches!(asked.target, Target::Named(_));
            protected && named && matches!(told, Ok(texts) if !texts.is_empty())
        });
        found.map(|(asked, _)| asked).filter(|_| self.protects).collect()
    }

    /// Whether nothing can keep it from being finalized where all servers answer.
    pub(super) fn can_go(&self) -> bool {
        let stays_there = |asked: &Asked| matches!(asked.resource, Resource::ConfigMap | Resource::Node);
        let named = |asked: &Asked| matches!(asked.target, Target::Named(_));
        !self.needs_first && self.asks.iter().all(|asked| stays_there(asked) && named(asked))
    }

    pub(super) fn decide(&self, answers: &[Told]) -> Decision {
        if !self.tolerates && answers.iter().any(Result::is_err) {
            return Decision::Fail {
                permanent: self.gives_up,
            };
        }
        if self.needs_first && matches!(answers.first(), Some(Ok(texts)) if texts.is_empty()) {
            return Decision::Fail { permanent: true };
        }
        Decision::Write
    }
}

/// What a primary's Output must hold. It follows from no object that runs write, or two primaries could go on for ever.
pub(super) fn desired(asks: &[Asked], answers: &[Told]) -> u32 {
    let mut hasher = DefaultHasher::new();
    for (asked, told) in asks.iter().zip(answers) {
        match told {
            _ if is_written(asked.resource) => {}
            Ok(texts) => texts.hash(&mut hasher),
            Err(reason) => reason.hash(&mut hasher),
        }
    }
    hasher.finish() as u32
}

/// Whether runs write objects of this kind.
fn is_written(resource: Resource) -> bool {
    matches!(resource, Resource::Output | Resource::Copy | Resource::Bundle)
}

/// The watches that controllers declare for `dependents`.
pub(super) fn declared_watches() -> [(Resource, Target, Fields); 3] {
    let everything = Criterion::Labels(Selector::everything());
    let labelled = Criterion::Labels(Selector::new([Requirement::equals("l", "x")]));
    [
        (
            Resource::Node,
            Target::selected(Namespaces::All, everything),
            Fields::paths(["k".into()]),
        ),
        (
            Resource::ConfigMap,
            Target::selected(Namespaces::listed(["m".into()]), labelled),
            Fields::Whole,
        ),
        // Runs write them.
        (
            Resource::Output,
            Target::selected(Namespaces::All, Criterion::Labels(Selector::everything())),
            Fields::Whole,
        ),
    ]
}

/// The primaries that an object's states concern. They say so by `k` and by their labels.
pub(super) fn dependents(states: [Option<&Arc<str>>; 2], namespaced: bool) -> Vec<Dependent> {
    let mut found = Vec::new();
    for text in states.into_iter().flatten() {
        found.extend(match number(text, "k") {
            Some(k) if k % 2 == 0 => Some(Dependent::Primary(primary_name(k / 2, namespaced))),
            Some(k) => Some(Dependent::JoinKey(join_key(k / 2))),
            None => None,
        });
        found.extend(value(text, "l").map(|label| {
            let requirement = Requirement::equals("l", label);
            Dependent::Labels(Selector::new([requirement]))
        }));
    }
    found
}

pub(super) fn join_key(number: usize) -> Arc<str> {
    ["even", "odd"][number % 2].into()
}

pub(super) const PRIMARIES: [&str; 4] = ["p", "q", "r", "s"];

pub(super) fn primary_name(number: usize, namespaced: bool) -> ObjectName {
    ObjectName::new(namespaced.then_some("n"), PRIMARIES[number % PRIMARIES.len()])
}
