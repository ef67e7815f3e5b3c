//! What must be so, found out from the servers alone.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::ledger::{LastRun, Record};
use super::object::{Object, Resource, value};
use super::plugin::{Asked, Decision, Spec, Told, desired};
use super::server::{Access, Place, Server};
use super::trace::shown;
use super::world::{Controller, World, is_capped};
use crate::{
    ControllerId, FailureReason, Fields, Namespaces, ObjectName, PrimaryKey, RunId, RunResult, Selection, Selector,
    Target, Wake, WriteRecord,
};

/// What a query may be answered. Where the machine may look in more than one way, it may fail or not.
#[derive(Debug, Default)]
pub(super) struct Expected {
    texts: Option<Vec<Arc<str>>>,
    reasons: Vec<FailureReason>,
}

/// A primary as it is on its server.
pub(super) struct There<'a> {
    pub(super) key: PrimaryKey,
    pub(super) object: &'a Object,
    pub(super) home: usize,
}

impl World {
    /// Compares all that was told last with the servers as they are. Nothing may be under way.
    pub(super) fn check(&mut self) {
        let checked = self
            .check_idle()
            .and_then(|()| self.check_primaries())
            .and_then(|()| self.check_guards())
            .and_then(|()| self.check_held());
        if let Err(what) = checked {
            self.violated(what);
        }
    }

    fn check_idle(&self) -> Result<(), String> {
        let counts = self.core.counts();
        if (counts.queued, counts.running) != (0, 0) {
            return Err(format!(
                "at rest {} are queued and {} run",
                counts.queued, counts.running
            ));
        }
        Ok(())
    }

    /// The primaries of all controllers that can see theirs.
    pub(super) fn primaries(&self) -> Vec<There<'_>> {
        let mut found = Vec::new();
        for (id, controller) in &self.controllers {
            let Some(home) = self.home(controller) else { continue };
            for ((resource, name), object) in &self.servers[home].objects {
                if *resource == controller.resource && controller.selector.matches(&object.labels) {
                    found.push(There {
                        key: primary_key(*id, name),
                        object,
                        home,
                    });
                }
            }
        }
        found
    }

    /// The server of a controller's primaries, if it lets the host see them.
    pub(super) fn home(&self, controller: &Controller) -> Option<usize> {
        let home = self.server_at(0, controller.at).ok()?;
        let refusal = self.servers[home].refusal(controller.resource, Place::Everywhere);
        refusal.is_none().then_some(home)
    }

    fn check_primaries(&self) -> Result<(), String> {
        let (all, counts) = (self.primaries(), self.core.counts());
        let visible = self
            .controllers
            .values()
            .all(|controller| self.home(controller).is_some());
        if visible && all.len() != counts.primaries {
            return Err(format!(
                "{} primaries are known where {} are",
                counts.primaries,
                all.len()
            ));
        }
        for there in all {
            let of = |what: &str| format!("{} {what}", shown(&there.key));
            let record = self.ledger.records.get(&there.key);
            let record = record.filter(|record| record.uid == there.object.uid);
            let record = record.ok_or_else(|| of("never ran"))?;
            let last = record.last.as_ref().ok_or_else(|| of("never came to an end"))?;
            let spec = there.object.spec.map(|spec| &*self.specs[spec]);
            self.check_last(&there, spec.unwrap_or(&Spec::default()), record, last)
                .map_err(|what| of(&what))?;
            if let Some(owed) = record.owed.first() {
                return Err(of(&format!("has not run after {owed}")));
            }
        }
        Ok(())
    }

    /// Whether the last run was told what is so, and did what follows from it.
    fn check_last(&self, there: &There<'_>, spec: &Spec, record: &Record, last: &LastRun) -> Result<(), String> {
        let me = self.me(&there.key, &there.object.text(&Fields::Whole));
        let (asks, _) = spec.references(&me, &last.told);
        if asks != last.asks {
            return Err(format!("asked {:?} and not {asks:?}", last.asks));
        }
        for (asked, told) in asks.iter().zip(&last.told) {
            let own = self.known_by(record, &asked.fields);
            let expected = self.expected(there.home, asked);
            if !expected.admits(told, &own) {
                return Err(format!("was told {told:?} of {asked:?}, where {expected:?}"));
            }
        }
        match (spec.decide(&last.told), &last.result) {
            (Decision::Write, RunResult::Done { .. }) => self.check_output(there, spec, last),
            (Decision::Fail { permanent }, RunResult::Failed { permanent: ended }) if permanent == *ended => Ok(()),
            (Decision::Write, RunResult::WriteFailed) if spec.writes && !self.can_write(there) => Ok(()),
            (decided, ended) => Err(format!("ended with {ended:?} after {decided:?}")),
        }
    }

    /// The uids of objects of which these fields are as a primary's own runs left them. It was not told of that again.
    fn known_by(&self, record: &Record, fields: &Fields) -> BTreeSet<Arc<str>> {
        let objects = self.servers.iter().flat_map(|server| server.objects.values());
        let known = objects.filter(|object| {
            let left = record.left.get(&object.uid);
            left.is_some_and(|left| left.text(fields) == object.text(fields))
        });
        known.map(|object| object.uid.clone()).collect()
    }

    fn can_write(&self, there: &There<'_>) -> bool {
        !self.servers[there.home].down
    }

    /// A primary that sees its Output keeps it as it must be.
    fn check_output(&self, there: &There<'_>, spec: &Spec, last: &LastRun) -> Result<(), String> {
        let me = self.me(&there.key, &there.object.text(&Fields::Whole));
        let output = Target::Named(me.output.clone());
        let seen = last.asks.iter().zip(&last.told).any(|(asked, told)| {
            let own = asked.resource == Resource::Output && asked.at == super::plugin::Where::Home;
            own && asked.target == output && asked.fields == Fields::Whole && told.is_ok()
        });
        if !spec.writes || !seen || there.object.deleting {
            return Ok(());
        }
        let wanted = desired(&last.asks, &last.told);
        let output = self.servers[there.home].objects.get(&(Resource::Output, me.output));
        match output.map(|output| output.k) {
            Some(k) if k == wanted => Ok(()),
            there => Err(format!("wants {wanted} in its Output, where {there:?} is")),
        }
    }

    /// What a query of a primary finds now.
    pub(super) fn expected(&self, home: usize, asked: &Asked) -> Expected {
        let mut expected = self.expected_of_watched(home, asked);
        let server = self.server_at(home, asked.at).map(|server| &self.servers[server]);
        if is_capped(self.plan) && server.is_ok_and(|server| server.access(asked.resource) < Access::Everywhere) {
            expected.reasons.push(FailureReason::Forbidden);
        }
        expected
    }

    /// The same if as much is watched as may be.
    fn expected_of_watched(&self, home: usize, asked: &Asked) -> Expected {
        let server = match self.server_at(home, asked.at) {
            Ok(server) => &self.servers[server],
            Err(reason) => return Expected::failing(&asked.target, [reason]),
        };
        let refusals = |place| server.refusals(asked.resource, place);
        match &asked.target {
            Target::Named(name) => {
                let place = Place::Name {
                    namespaced: name.namespace.is_some(),
                };
                Expected::new(server, asked, refusals(place))
            }
            Target::Selected(selection) => match &selection.namespaces {
                Namespaces::Listed(_) => Expected::new(server, asked, refusals(Place::Namespace)),
                Namespaces::All => Expected::new(server, asked, refusals(Place::Everywhere)),
                Namespaces::Selected(_) => {
                    let mut reasons = server.refusals(Resource::Namespace, Place::Everywhere);
                    let namespaces_known = reasons.is_empty();
                    reasons.extend(refusals(Place::Everywhere));
                    let mut expected = Expected::new(server, asked, reasons);
                    if server.namespaced(asked.resource) == Some(false) {
                        // In a namespace it cannot be looked for.
                        expected.reasons.push(FailureReason::Invalid);
                    }
                    // It may be looked for in each namespace, or nowhere if none matches.
                    let one_by_one = server.access(asked.resource) == Access::Namespaces;
                    let texts = texts(server, asked);
                    if namespaces_known && (one_by_one || texts.is_empty()) {
                        expected.texts = Some(texts);
                    }
                    expected
                }
            },
        }
    }

    /// What must be so as a run begins.
    pub(super) fn check_begin(&mut self, key: &PrimaryKey, uid: &str, wakes: &[Wake], last: Option<&WriteRecord>) {
        let appears = |wake: &Wake| match wake {
            Wake::Object { object, before, .. } if object.name == key.name => {
                before.as_ref().is_none_or(|before| value(before, "uid") != Some(uid))
            }
            _ => false,
        };
        if let Some(record) = self.ledger.records.get_mut(key).filter(|_| wakes.iter().any(appears)) {
            record.reappeared = true;
        }
        // A run of a controller that was detached is of no account any more.
        let serial = self
            .controllers
            .get(&key.controller)
            .map(|controller| controller.serial);
        let overlaps = self
            .runs
            .iter()
            .any(|run| run.key == *key && *run.me.uid == *uid && Some(run.controller.serial) == serial);
        let record = self.ledger.records.get(key).filter(|record| *record.uid == *uid);
        let ended = record.and_then(|record| record.last.as_ref()).map(|last| last.id);
        let told = last.and_then(|last| last.downcast_ref::<RunId>()).copied();
        let own = record.is_some_and(|record| self.is_own_doing(record, wakes));
        // One that was out of sight, since another server stood in for its own, or its labels said so, begins anew.
        let appeared = record.is_some_and(|record| record.reappeared);
        let what = if overlaps {
            "runs twice at once"
        } else if self.runs.len() >= self.runs_at_once {
            "runs without a permit"
        } else if wakes.is_empty() {
            "runs for no reason"
        } else if told != ended && !(told.is_none() && appeared) {
            "is told of other writes than its last"
        } else if own {
            "was woken by its own writes"
        } else {
            return;
        };
        self.violated(format!("{} {what}", shown(key)));
    }

    /// Whether a run is woken by nothing but the events of what the last one surely wrote.
    fn is_own_doing(&self, record: &Record, wakes: &[Wake]) -> bool {
        let Some(last) = record.last.as_ref().filter(|last| record.begun == Some(last.id)) else {
            return false;
        };
        let is_own = |wake: &Wake| wake.is_of(&last.written);
        !self.ledger.is_disturbed(last.begun) && wakes.iter().all(is_own)
    }
}

impl Expected {
    fn new(server: &Server, asked: &Asked, reasons: Vec<FailureReason>) -> Self {
        if reasons.is_empty() {
            return Expected {
                texts: Some(texts(server, asked)),
                reasons,
            };
        }
        Expected::failing(&asked.target, reasons)
    }

    fn failing(target: &Target, reasons: impl Into<Vec<FailureReason>>) -> Self {
        // What looks nowhere finds nothing, whatever else is wrong.
        let nowhere = matches!(target, Target::Selected(selection)
            if matches!(&selection.namespaces, Namespaces::Listed(names) if names.is_empty()));
        let reasons = reasons.into();
        // Where the kind has another scope, nothing is found, whether or not the server is asked in a way that it refuses.
        let elsewhere = reasons == [FailureReason::Invalid];
        Expected {
            texts: (nowhere || elsewhere).then(Vec::new),
            reasons,
        }
    }

    /// Whether a query may be answered so by somebody who left these objects as they are.
    fn admits(&self, told: &Told, own: &BTreeSet<Arc<str>>) -> bool {
        let others = |text: &&Arc<str>| value(text, "uid").is_none_or(|uid| !own.contains(uid));
        match told {
            Ok(told) => {
                let expected = self.texts.as_ref();
                expected.is_some_and(|texts| told.iter().filter(others).eq(texts.iter().filter(others)))
            }
            Err(reason) => self.reasons.contains(reason),
        }
    }
}

fn texts(server: &Server, asked: &Asked) -> Vec<Arc<str>> {
    let found = server.objects.iter().filter(|((resource, name), object)| {
        *resource == asked.resource
            && match &asked.target {
                Target::Named(wanted) => wanted == name,
                Target::Selected(selection) => is_selected(server, selection, name, object),
            }
    });
    found.map(|(_, object)| object.text(&asked.fields)).collect()
}

fn is_selected(server: &Server, selection: &Selection, name: &ObjectName, object: &Object) -> bool {
    let here = match (&selection.namespaces, &name.namespace) {
        (Namespaces::All, _) => true,
        (Namespaces::Listed(names), Some(namespace)) => names.contains(namespace),
        (Namespaces::Selected(selector), Some(namespace)) => in_namespace(server, selector, namespace),
        (_, None) => false,
    };
    here && selection.criterion.is_met(&object.metadata())
}

fn in_namespace(server: &Server, selector: &Selector, namespace: &str) -> bool {
    let key = (Resource::Namespace, super::object::cluster_wide(namespace));
    let namespace = server.objects.get(&key);
    namespace.is_some_and(|namespace| selector.matches(&namespace.labels))
}

fn primary_key(controller: ControllerId, name: &ObjectName) -> PrimaryKey {
    PrimaryKey {
        controller,
        name: name.clone(),
    }
}
