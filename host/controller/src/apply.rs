//! The apply of one object, and whether it has to be sent.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use patchbay_cluster::{ApplyMode, ApplySet, RawObject, WriteError, contested, holds, is_creation, owns_more};
use patchbay_core::{FailureReason, ObjectKey, Version};
use patchbay_plugin::contract::{self, WriteState};
use serde_json::Value;

use crate::memory::Applied;
use crate::messages::Located;
use crate::report::{Report, failed, invalid};
use crate::writer::Writer;

/// What is known of an object before it is applied.
#[derive(Default)]
enum Seen {
    /// Nothing, since nobody has looked.
    #[default]
    Unknown,
    Absent,
    Present(RawObject, Value),
}

/// API servers tell times to the second. Two applies that are further apart were not at the same one.
const SAME_SECOND: Duration = Duration::from_secs(2);

impl Writer<'_> {
    /// Applies an object, unless it is as the last run left it and is wanted as the last run wanted it. If it is not known how
    /// the last run left it, since that was before a restart, the object itself has to tell.
    pub(crate) async fn apply(
        &self,
        apply: &contract::Apply,
        object: &Value,
        located: &Located,
        set: Option<&ApplySet>,
        report: &mut Report,
    ) -> WriteState {
        let key = &located.object;
        let desired = hash(apply, object);
        let last = self.last.and_then(|last| last.applied.get(key));
        if let (Some(last), Some(observed)) = (last, located.observed)
            && (last.desired, last.version) == (desired, observed)
        {
            remember(report, key, last.clone());
            return WriteState::Unchanged;
        }
        // An apply without force does not take a label of another set over.
        let member = set.filter(|_| apply.force || last.is_none());
        // What was created cannot be created once more.
        let create = apply.mode == contract::ApplyMode::Create;
        let tells = last.is_none() || create;
        let mut seen = Seen::Unknown;
        if tells || self.contended || member.is_some() {
            seen = match self.look(located, member).await {
                Ok(seen) => seen,
                Err(error) => return failed(error),
            };
        }
        if let Seen::Present(found, observed) = &seen {
            let is_so =
                || holds(object, observed, &self.manager) || (create && is_creation(object, observed, &self.manager));
            if tells && is_meant(&apply.mode, found) && is_so() {
                let found = Applied {
                    desired,
                    uid: found.metadata.uid.clone(),
                    version: found.metadata.version,
                    time: found.applied_at(&self.manager, None),
                    at: None,
                };
                remember(report, key, found);
                return WriteState::Unchanged;
            }
            if self.contended {
                report.contested.push((key.clone(), contested(object, observed)));
            }
        }
        self.send_apply(apply, object, located, desired, &seen, report).await
    }

    /// The object as it is now. One that is a member of another set is refused.
    async fn look(&self, located: &Located, member: Option<&ApplySet>) -> Result<Seen, WriteError> {
        let key = &located.object;
        let seen = match located.connection.get(&key.kind, &key.name).await {
            Ok(seen) => seen,
            // Who may apply may not always read.
            Err(error) if error.reason() == FailureReason::Forbidden && member.is_none() => return Ok(Seen::Unknown),
            Err(error) => return Err(error.into()),
        };
        let Some(seen) = seen else { return Ok(Seen::Absent) };
        let observed: Value = serde_json::from_str(seen.text()).unwrap_or_default();
        if let Some(other) = member.and_then(|set| set.other_set_of(&observed)) {
            let cluster = located.connection.name();
            return Err(invalid(format!(
                "{} {} in cluster {cluster} is a member of another ApplySet, {other}: name another object, or take it \
                 out of that set",
                key.kind, key.name
            )));
        }
        Ok(Seen::Present(seen, observed))
    }

    async fn send_apply(
        &self,
        apply: &contract::Apply,
        object: &Value,
        located: &Located,
        desired: u64,
        seen: &Seen,
        report: &mut Report,
    ) -> WriteState {
        let key = &located.object;
        let last = self.last.and_then(|last| last.applied.get(key));
        let mode = match &apply.mode {
            contract::ApplyMode::Create => ApplyMode::Create,
            contract::ApplyMode::Update(uid) => ApplyMode::Update(uid.clone()),
            contract::ApplyMode::Upsert => ApplyMode::Upsert,
        };
        let sent = located
            .connection
            .apply(&key.kind, object, &self.manager, &mode, apply.force);
        let applied = match sent.await {
            Err(error) => return failed(error),
            Ok(applied) => applied,
        };
        let Some(object) = applied.last().cloned() else {
            return WriteState::Applied;
        };
        let now = Applied {
            desired,
            uid: object.metadata.uid.clone(),
            version: object.metadata.version,
            time: object.applied_at(&self.manager, None),
            at: Some(Instant::now()),
        };
        let (versions, time) = (last.map(|last| last.version), last.and_then(|last| last.time.as_ref()));
        let versions = versions.into_iter().chain(located.observed).chain(seen.version());
        let unchanged = versions.into_iter().any(|before| before == now.version);
        let own = !unchanged && is_later(time, now.time.as_ref());
        if !unchanged && last.is_some_and(|last| is_reverted(last, &now)) {
            report.reverted.push(key.clone());
        }
        let first = applied.states.first();
        let first = !own && first.is_some_and(|first| seen.is_changed_by(&self.manager, &first.object));
        for (position, state) in applied.states.into_iter().enumerate() {
            report.note(key, Some(state.object), state.own || own || (first && position == 0));
        }
        remember(report, key, now);
        if unchanged {
            WriteState::Unchanged
        } else {
            WriteState::Applied
        }
    }
}

impl Seen {
    fn version(&self) -> Option<Version> {
        match self {
            Seen::Present(seen, _) => Some(seen.metadata.version),
            Seen::Unknown | Seen::Absent => None,
        }
    }

    /// Whether it surely was this manager's apply that made an object what it is now, since the manager owns more of it than it
    /// did.
    fn is_changed_by(&self, manager: &str, now: &RawObject) -> bool {
        let before = match self {
            Seen::Unknown => return false,
            Seen::Absent => &Value::Null,
            Seen::Present(_, before) => before,
        };
        let now: Value = serde_json::from_str(now.text()).unwrap_or_default();
        owns_more(before, &now, manager)
    }
}

fn remember(report: &mut Report, key: &ObjectKey, applied: Applied) {
    report.applied.insert(applied.uid.clone());
    report.last.applied.insert(key.clone(), applied);
}

/// Whether the object is the one that is to be applied. One that was created as it is desired need not be created again.
fn is_meant(mode: &contract::ApplyMode, seen: &RawObject) -> bool {
    match mode {
        contract::ApplyMode::Update(uid) => *seen.metadata.uid == **uid,
        contract::ApplyMode::Create | contract::ApplyMode::Upsert => true,
    }
}

/// Whether a time that the API server told is another than the one before. If it is not, an apply may have changed nothing.
pub(crate) fn is_later(before: Option<&Arc<str>>, now: Option<&Arc<str>>) -> bool {
    before.is_some() && now.is_some() && before != now
}

/// Whether an apply, whose answer had a new version, had to set back what somebody else had changed. If the API server tells the
/// same time for both applies, it did so only if there was not a second between them: otherwise the new version is of a change
/// to something else.
fn is_reverted(last: &Applied, now: &Applied) -> bool {
    let at_once = last
        .at
        .zip(now.at)
        .is_some_and(|(last, now)| now.duration_since(last) < SAME_SECOND);
    last.desired == now.desired && (last.time != now.time || at_once)
}

/// What is applied, and how.
fn hash(apply: &contract::Apply, object: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    object.to_string().hash(&mut hasher);
    apply.mode.hash(&mut hasher);
    apply.force.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(desired: u64, time: &str, at: Option<Instant>) -> Applied {
        Applied {
            desired,
            uid: "u".into(),
            version: Version(1),
            time: Some(time.into()),
            at,
        }
    }

    #[test]
    fn an_apply_of_the_same_that_changes_something_sets_it_back() {
        let begin = Instant::now();
        let (last, later) = (applied(1, "10", Some(begin)), Some(begin + Duration::from_secs(60)));
        assert!(is_reverted(&last, &applied(1, "70", later)));
        assert!(
            !is_reverted(&last, &applied(2, "70", later)),
            "something else is wanted"
        );
        assert!(
            !is_reverted(&last, &applied(1, "10", later)),
            "the new version is of something else"
        );
        assert!(is_reverted(
            &last,
            &applied(1, "10", Some(begin + Duration::from_millis(300)))
        ));
        assert!(!is_reverted(&applied(1, "10", None), &applied(1, "10", later)));
    }

    #[test]
    fn plain_and_encoded_secrets_hash_to_the_same() {
        let apply = contract::Apply {
            cluster: contract::Cluster::PrimaryCluster,
            object: String::new(),
            mode: contract::ApplyMode::Upsert,
            force: false,
        };
        let secret = |field: &str, value: &str| {
            let secret = serde_json::json!({"apiVersion": "v1", "kind": "Secret", field: {"k": value}});
            hash(&apply, &patchbay_cluster::normal(&secret))
        };
        assert_eq!(secret("stringData", "v"), secret("data", "dg=="));
        assert_ne!(secret("stringData", "v"), secret("stringData", "w"));
    }
}
