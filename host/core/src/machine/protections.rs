//! Objects that must not be deleted while a primary exists.
//!
//! Each carries one finalizer, however many primaries protect it. Who does is counted here; after a start the count is
//! complete only once every primary has said what it depends on. An object is released by the last one to let it go, and
//! never before that is known.

use std::collections::BTreeSet;
use std::sync::Arc;

use indexmap::IndexMap;

use super::{Core, Effect, Protection, Releases, Timer};
use crate::change::Metadata;
use crate::name::{ClusterId, ControllerId, Kind, ObjectKey, PrimaryKey};
use crate::primaries::{Job, Primary, Run, RunId};
use crate::query::{QueryId, Target};
use crate::time::Time;
use crate::users::User;
use crate::wake::Wake;

/// An object that some primaries protect by a finalizer, or did.
struct Protected {
    uid: Arc<str>,
    by: BTreeSet<Arc<PrimaryKey>>,
    releasing: bool,
    failures: u32,
}

/// What a primary that goes was the last one to protect.
#[derive(Default)]
struct LastUses {
    released: Vec<(ObjectKey, Arc<str>)>,
    /// Somebody else may protect these.
    kept: Vec<(ObjectKey, Arc<str>)>,
}

#[derive(Default)]
pub(super) struct Protections {
    by_object: IndexMap<ObjectKey, IndexMap<Arc<str>, Protected>>,
    /// Primaries that go as soon as it is known who else protects what they protect.
    leaving: BTreeSet<Arc<PrimaryKey>>,
    /// Kinds that were gone through for finalizers of primaries that nobody knows any longer.
    swept: BTreeSet<(Arc<str>, ClusterId, Kind)>,
}

impl Protections {
    /// A controller goes. What its primaries protect stays so.
    pub(super) fn forget_controller(&mut self, id: ControllerId) {
        self.leaving.retain(|key| key.controller != id);
        self.by_object.retain(|_, finalizers| {
            finalizers.retain(|_, protected| {
                let before = protected.by.len();
                protected.by.retain(|key| key.controller != id);
                // Those that nobody has protected before are being released.
                protected.by.len() == before || !protected.by.is_empty()
            });
            !finalizers.is_empty()
        });
    }

    /// A cluster is let go. What is protected there stays so.
    pub(super) fn forget_cluster(&mut self, id: ClusterId) {
        self.by_object.retain(|object, _| object.cluster != id);
        self.look_again(id);
    }

    /// A cluster is another one than before. What was left there is not known.
    pub(super) fn look_again(&mut self, id: ClusterId) {
        self.swept.retain(|(_, cluster, _)| *cluster != id);
    }

    /// Whether anything is to be released in a cluster.
    pub(super) fn any_to_release_in(&self, id: ClusterId) -> bool {
        let unused = |protected: &Protected| protected.by.is_empty();
        self.by_object
            .iter()
            .any(|(object, finalizers)| object.cluster == id && finalizers.values().any(unused))
    }

    /// Remembers that an object carries a finalizer, whoever protects it.
    fn keep(&mut self, object: ObjectKey, uid: Arc<str>, finalizer: &Arc<str>) -> &mut Protected {
        let finalizers = self.by_object.entry(object).or_default();
        finalizers.entry(finalizer.clone()).or_insert_with(|| Protected {
            uid,
            by: BTreeSet::new(),
            releasing: false,
            failures: 0,
        })
    }

    fn get_mut(&mut self, object: &ObjectKey, finalizer: &str) -> Option<&mut Protected> {
        self.by_object.get_mut(object)?.get_mut(finalizer)
    }

    fn forget(&mut self, object: &ObjectKey, finalizer: &str) {
        if let Some(finalizers) = self.by_object.get_mut(object) {
            finalizers.shift_remove(finalizer);
            if finalizers.is_empty() {
                self.by_object.swap_remove(object);
            }
        }
    }
}

impl Core {
    /// Tells which objects a run wants protected, before it writes anything. Gives how each of them stands.
    pub fn protect(&mut self, run: RunId, objects: &[ObjectKey]) -> Vec<Protection> {
        let Some((key, named)) = self
            .primaries
            .run_mut(run)
            .map(|(key, run)| (key.clone(), run.named.clone()))
        else {
            return objects.iter().map(|_| Protection::Gone).collect();
        };
        let Some(finalizer) = self.finalizer_of(&key) else {
            return objects.iter().map(|_| Protection::Gone).collect();
        };
        let stand = objects
            .iter()
            .map(|object| self.protect_one(&key, &named, object, &finalizer));
        stand.collect()
    }

    fn protect_one(
        &mut self,
        key: &Arc<PrimaryKey>,
        named: &[QueryId],
        object: &ObjectKey,
        finalizer: &Arc<str>,
    ) -> Protection {
        let queried = |id: QueryId| named.contains(&id);
        let Some(present) = self.cache.present(object) else {
            let asked = self.registry.by_name(object).any(queried);
            return if asked { Protection::Gone } else { Protection::Unqueried };
        };
        let metadata = present.metadata.clone();
        if !self.registry.matching(object, &metadata).into_iter().any(queried) {
            return Protection::Unqueried;
        }
        // One that is being deleted is held on to as long as it carries the finalizer, which cannot be added any more.
        if metadata.deleting && !metadata.finalizers.contains(finalizer) {
            return Protection::Gone;
        }
        let protected = self.protections.keep(object.clone(), metadata.uid.clone(), finalizer);
        protected.uid = metadata.uid.clone();
        protected.by.insert(key.clone());
        let held = metadata.finalizers.contains(finalizer) && !protected.releasing;
        if let Some(run) = self.primaries.run_of(key) {
            run.protects.push(object.clone());
        }
        if self.is_counted(finalizer) {
            self.sweep(finalizer, object.cluster, &object.kind);
        }
        if held {
            Protection::Held
        } else {
            Protection::Bare { uid: metadata.uid }
        }
    }

    /// A run failed, and none before it has said what its primary protects. What it names may have been protected before the
    /// host was started, and stays so until a run says otherwise.
    pub(super) fn protects_as_before(&mut self, key: &Arc<PrimaryKey>, ended: &mut Run) {
        let decided = self.primaries.get(key).is_none_or(|primary| primary.decided);
        let Some(finalizer) = self.finalizer_of(key).filter(|_| !decided) else {
            return;
        };
        let own = self.primary_object_key(key);
        for object in self.named_objects(&ended.named) {
            if let Some(present) = self.cache.present(&object)
                && present.metadata.finalizers.contains(&finalizer)
                && own.as_ref() != Some(&object)
            {
                let uid = present.metadata.uid.clone();
                let protected = self.protections.keep(object.clone(), uid, &finalizer);
                protected.by.insert(key.clone());
                ended.protects.push(object);
            }
        }
    }

    /// The objects that queries name.
    fn named_objects(&self, queries: &[QueryId]) -> Vec<ObjectKey> {
        let queries = queries.iter().filter_map(|id| self.registry.query(*id));
        let named = queries.filter_map(|query| match &query.target {
            Target::Named(name) => Some(query.object(name)),
            Target::Selected(_) => None,
        });
        named.collect()
    }

    fn finalizer_of(&self, key: &PrimaryKey) -> Option<Arc<str>> {
        Some(self.controllers.get(&key.controller)?.protection.clone())
    }

    /// Primaries no longer protect objects that they did. Those that were the last release them.
    pub(super) fn unprotect(&mut self, key: &PrimaryKey, objects: &[ObjectKey]) {
        let Some(finalizer) = self.finalizer_of(key) else {
            return;
        };
        for object in objects {
            if let Some(protected) = self.protections.get_mut(object, &finalizer) {
                protected.by.remove(key);
            }
            self.release_unused(object, &finalizer);
        }
    }

    /// Whether such a primary asks for an object, under whatever name of its cluster.
    fn is_asked_for(
        &self,
        object: &ObjectKey,
        uid: &str,
        finalizer: &Arc<str>,
        by: impl Fn(&PrimaryKey, &Primary) -> bool,
    ) -> bool {
        self.clusters.ids().any(|cluster| {
            let named = ObjectKey {
                cluster,
                ..object.clone()
            };
            let present = self.cache.present(&named);
            // Under another name of its cluster it is the same, unless it is known to be another.
            if cluster != object.cluster && present.is_some_and(|present| *present.metadata.uid != *uid) {
                return false;
            }
            let ids = match present {
                Some(present) => self.registry.matching(&named, &present.metadata),
                None => self.registry.by_name(&named).collect(),
            };
            ids.into_iter().filter_map(|id| self.registry.get(id)).any(|entry| {
                entry.users.iter().any(|user| match user {
                    User::Primary(key) => {
                        self.finalizer_of(key).as_ref() == Some(finalizer)
                            && self.primaries.get(key).is_some_and(|primary| by(key, primary))
                    }
                    _ => false,
                })
            })
        })
    }

    /// Whether a primary that has not said so may protect what it asks for. One that waits to go does not any longer.
    fn may_yet_protect(&self, key: &PrimaryKey, primary: &Primary) -> bool {
        !primary.decided && !self.protections.leaving.contains(key)
    }

    fn release_unused(&mut self, object: &ObjectKey, finalizer: &Arc<str>) {
        let Some(protected) = self.protections.get_mut(object, finalizer) else {
            return;
        };
        if !protected.by.is_empty() || protected.releasing {
            return;
        }
        let uid = protected.uid.clone();
        let undecided = |by: &PrimaryKey, primary: &Primary| self.may_yet_protect(by, primary);
        if !self.is_known(finalizer) || self.is_asked_for(object, &uid, finalizer, undecided) {
            return;
        }
        if self.is_protected_elsewhere(object, &uid, finalizer, |_| true) {
            self.protections.forget(object, finalizer);
        } else if let Some(protected) = self.protections.get_mut(object, finalizer) {
            protected.releasing = true;
            self.effects.push_back(Effect::Release {
                object: object.clone(),
                uid,
                finalizer: finalizer.clone(),
            });
        }
    }

    /// Whether somebody protects the same object under another name of its cluster.
    fn is_protected_elsewhere(
        &self,
        object: &ObjectKey,
        uid: &str,
        finalizer: &Arc<str>,
        by: impl Fn(&PrimaryKey) -> bool,
    ) -> bool {
        self.clusters.ids().filter(|id| *id != object.cluster).any(|cluster| {
            let same = ObjectKey {
                cluster,
                ..object.clone()
            };
            let finalizers = self.protections.by_object.get(&same);
            let protected = finalizers.and_then(|finalizers| finalizers.get(finalizer));
            protected.is_some_and(|protected| *protected.uid == *uid && protected.by.iter().any(|key| by(key)))
        })
    }

    /// A primary has run for the first time, or has gone. Others may have waited for that.
    pub(super) fn has_decided(&mut self, key: &PrimaryKey, now: Time) {
        if let Some(finalizer) = self.finalizer_of(key) {
            self.release_all_unused(&finalizer, now);
        }
    }

    /// More is known of who protects what.
    pub(super) fn release_all_unused(&mut self, finalizer: &Arc<str>, now: Time) {
        // At a start each primary's first run comes here, so nothing is looked through before all is known.
        if self.is_known(finalizer) {
            let unused = |(object, finalizers): (&ObjectKey, &IndexMap<Arc<str>, Protected>)| {
                finalizers.get(finalizer)?.by.is_empty().then(|| object.clone())
            };
            let unused: Vec<ObjectKey> = self.protections.by_object.iter().filter_map(unused).collect();
            for object in unused {
                self.release_unused(&object, finalizer);
            }
        }
        self.let_leave(finalizer, now);
    }

    /// Runs those primaries that can go now.
    pub(super) fn let_leave(&mut self, finalizer: &Arc<str>, now: Time) {
        for key in self.protections.leaving.clone() {
            if self.finalizer_of(&key).as_ref() == Some(finalizer) && self.last_uses(&key).is_some() {
                self.protections.leaving.remove(&key);
                if let Some(primary) = self.primaries.get_mut(&key)
                    && matches!(primary.job, Job::Waiting)
                {
                    primary.job = Job::Idle;
                }
                self.wake(&key, Wake::Answered, None, now);
            }
        }
    }

    /// The objects that only a primary that goes has protected, as far as its queries and the count tell; none if that will
    /// be known in a moment. Where an answer is lacking to know it, the primary goes nevertheless, and what it has protected
    /// stays so until then.
    fn last_uses(&self, key: &PrimaryKey) -> Option<LastUses> {
        let finalizer = self.finalizer_of(key)?;
        let primary = self.primaries.get(key)?;
        let mut uses = LastUses::default();
        for object in self.candidates(primary, key) {
            let Some(present) = self.cache.present(&object) else {
                // It is not seen now. Whether it is there, its release will tell.
                let protected = self.protections.by_object.get(&object);
                if let Some(protected) = protected.and_then(|finalizers| finalizers.get(&finalizer))
                    && protected.by.iter().all(|by| **by == *key)
                {
                    uses.kept.push((object, protected.uid.clone()));
                }
                continue;
            };
            if !present.metadata.finalizers.contains(&finalizer) {
                continue;
            }
            let others = self
                .protections
                .by_object
                .get(&object)
                .and_then(|finalizers| finalizers.get(&finalizer))
                .is_some_and(|protected| protected.by.iter().any(|by| **by != *key));
            let uid = &present.metadata.uid;
            if others || self.is_protected_elsewhere(&object, uid, &finalizer, |by| by != key) {
                continue;
            }
            if self.is_being_counted(&finalizer) {
                return None;
            }
            let uid = present.metadata.uid.clone();
            let undecided = |by: &PrimaryKey, primary: &Primary| by != key && self.may_yet_protect(by, primary);
            let deciding = |by: &PrimaryKey, primary: &Primary| undecided(by, primary) && !primary.stuck;
            if self.is_asked_for(&object, &uid, &finalizer, deciding) {
                return None;
            } else if self.is_known(&finalizer) && !self.is_asked_for(&object, &uid, &finalizer, undecided) {
                uses.released.push((object, uid));
            } else {
                uses.kept.push((object, uid));
            }
        }
        Some(uses)
    }

    /// The objects that a primary names, or protects.
    fn candidates(&self, primary: &Primary, key: &PrimaryKey) -> BTreeSet<ObjectKey> {
        let running = match &primary.job {
            Job::Running(run) => run.named.as_slice(),
            _ => &[],
        };
        let own = self.primary_object_key(key);
        let named = self.named_objects(&primary.queries).into_iter();
        named
            .chain(self.named_objects(running))
            .chain(primary.protects.iter().cloned())
            .filter(|object| Some(object) != own.as_ref())
            .collect()
    }

    /// Tells that a run's primary is about to go: it protects nothing any longer. Gives what nobody else protects.
    pub fn let_go(&mut self, run: RunId, now: Time) -> Releases {
        let Some(key) = self.primaries.run_mut(run).map(|(key, _)| key.clone()) else {
            return Releases::Now(Vec::new());
        };
        let Some(uses) = self.last_uses(&key) else {
            self.park(run);
            let finalizer = self.finalizer_of(&key);
            self.protections.leaving.insert(key);
            // Others may have waited for what this one says.
            if let Some(finalizer) = finalizer {
                self.let_leave(&finalizer, now);
            }
            return Releases::Later;
        };
        let Some(finalizer) = self.finalizer_of(&key) else {
            return Releases::Now(Vec::new());
        };
        let Some(primary) = self.primaries.get_mut(&key) else {
            return Releases::Now(Vec::new());
        };
        let mut protects = std::mem::take(&mut primary.protects);
        if let Job::Running(run) = &mut primary.job {
            protects.append(&mut run.protects);
            run.releases = uses.released.iter().map(|(object, _)| object.clone()).collect();
        }
        for object in protects {
            if let Some(protected) = self.protections.get_mut(&object, &finalizer) {
                protected.by.remove(&key);
                if protected.by.is_empty() {
                    self.protections.forget(&object, &finalizer);
                }
            }
        }
        for (object, uid) in uses.kept {
            self.protections.keep(object.clone(), uid, &finalizer);
            self.release_unused(&object, &finalizer);
        }
        for (object, uid) in &uses.released {
            // Whoever protects it meanwhile must not count on the finalizer that is being taken off.
            let protected = self.protections.keep(object.clone(), uid.clone(), &finalizer);
            protected.releasing = true;
        }
        Releases::Now(uses.released)
    }

    /// A run that was to release objects has ended. What it may not have released is released without it.
    pub(super) fn run_released(&mut self, key: &PrimaryKey, objects: &[ObjectKey], done: bool, now: Time) {
        let Some(finalizer) = self.finalizer_of(key) else {
            return;
        };
        for object in objects {
            if done {
                self.released(object, &finalizer, true, now);
            } else {
                self.retry_release(object, &finalizer);
            }
        }
    }

    /// A primary that waited to be let go has gone otherwise.
    pub(super) fn forget_leaving(&mut self, key: &Arc<PrimaryKey>) {
        self.protections.leaving.remove(key);
    }

    /// Tells whether an object was released.
    pub fn released(&mut self, object: &ObjectKey, finalizer: &Arc<str>, done: bool, now: Time) {
        let Some(protected) = self.protections.get_mut(object, finalizer) else {
            return;
        };
        if done {
            protected.releasing = false;
            protected.failures = 0;
            match protected.by.first().cloned() {
                // It was asked for meanwhile.
                Some(key) => {
                    let object = object.clone();
                    self.wake(&key, Wake::Unprotected { object }, None, now);
                }
                None => self.protections.forget(object, finalizer),
            }
            return;
        }
        protected.failures += 1;
        let failures = protected.failures;
        let delay = self.retry_delay(failures);
        self.set_timer(now + delay, Timer::Release(object.clone(), finalizer.clone()));
    }

    pub(super) fn retry_release(&mut self, object: &ObjectKey, finalizer: &Arc<str>) {
        if let Some(protected) = self.protections.get_mut(object, finalizer) {
            protected.releasing = false;
            if protected.by.is_empty() {
                self.release_unused(object, finalizer);
            }
        }
    }

    /// An object changed. If it has lost the finalizer that protects it, one of those that protect it runs again; if it has
    /// gone, or is another one of the same name, nothing is protected any longer.
    pub(super) fn check_protected(&mut self, object: &ObjectKey, after: Option<&Metadata>, now: Time) {
        let Some(finalizers) = self.protections.by_object.get_mut(object) else {
            return;
        };
        let mut bare = Vec::new();
        finalizers.retain(|finalizer, protected| match after {
            Some(after) if after.uid == protected.uid => {
                if !after.deleting && !after.finalizers.contains(finalizer) && !protected.releasing {
                    bare.extend(protected.by.first().cloned());
                }
                true
            }
            _ => false,
        });
        if finalizers.is_empty() {
            self.protections.by_object.swap_remove(object);
        }
        for key in bare {
            // Somebody may strip it again and again.
            if let Some(primary) = self.primaries.get_mut(&key) {
                let reverted = primary.reverted.get_or_insert_default();
                reverted.again(vec![object.clone()], now);
            }
            let object = object.clone();
            self.wake(&key, Wake::Unprotected { object }, None, now);
        }
    }

    /// Goes once through a kind that is protected, for objects whose last user went while nobody counted.
    fn sweep(&mut self, finalizer: &Arc<str>, cluster: ClusterId, kind: &Kind) {
        let place = (finalizer.clone(), cluster, kind.clone());
        if self.protections.swept.insert(place) {
            self.effects.push_back(Effect::Sweep {
                cluster,
                kind: kind.clone(),
                finalizer: finalizer.clone(),
            });
        }
    }

    /// Goes through all kinds of which something is protected.
    pub(super) fn sweep_protected(&mut self, finalizer: &Arc<str>) {
        let protected = self.protections.by_object.iter();
        let places: BTreeSet<(ClusterId, Kind)> = protected
            .filter(|(_, finalizers)| finalizers.contains_key(finalizer))
            .map(|(object, _)| (object.cluster, object.kind.clone()))
            .collect();
        for (cluster, kind) in places {
            self.sweep(finalizer, cluster, &kind);
        }
    }

    /// Tells which objects of a kind carry a finalizer, with their uids; none if they could not be listed.
    pub fn swept(
        &mut self,
        cluster: ClusterId,
        kind: &Kind,
        finalizer: &Arc<str>,
        found: Option<Vec<(ObjectKey, Arc<str>)>>,
    ) {
        let Some(found) = found else {
            // It is tried again when the next object of the kind is protected.
            self.protections
                .swept
                .remove(&(finalizer.clone(), cluster, kind.clone()));
            return;
        };
        for (object, uid) in found {
            self.protections.keep(object.clone(), uid, finalizer);
            self.release_unused(&object, finalizer);
        }
    }
}
