//! Sets of applied objects: recorded before they are applied, pruned afterwards.
//!
//! A set's parent in each destination tells of which kinds and in which namespaces members may be. It is made to tell so before
//! anything is applied, so that no member is ever lost. Pruning follows only when everything was applied and everything could
//! be listed.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use patchbay_cluster::{ApplyMode, ApplySet, GroupKind, Members, Propagation, RawObject, WriteError};
use patchbay_core::{ClusterId, FailureReason, Kind, ObjectKey, ObjectName};
use patchbay_plugin::contract::{self, Verbs, Write, WriteAction};

use crate::memory::Pruned;
use crate::messages::Located;
use crate::plan::{Planned, contract_kind};
use crate::report::{Report, failed, invalid, refused, unlocated};
use crate::writer::{Writer, settled};

/// A set that is to be pruned once its members are applied.
pub(crate) struct Pruning {
    set: ApplySet,
    /// Nothing of it is wanted any longer.
    done: bool,
    destinations: Vec<Destination>,
    /// What the next run need not look at again.
    pruned: Pruned,
}

/// A cluster that has members, or had some.
struct Destination {
    cluster: contract::Cluster,
    /// The set's parent there.
    parent: Located,
    wanted: Wanted,
    /// What the parent records; none if it is not there.
    recorded: Option<Members>,
}

/// The members that are wanted in one cluster.
#[derive(Default)]
struct Wanted {
    members: Members,
    names: BTreeSet<(GroupKind, ObjectName)>,
    /// The version in which each kind is applied.
    kinds: BTreeMap<GroupKind, Kind>,
}

impl Wanted {
    fn add(&mut self, object: &ObjectKey) {
        let kind = GroupKind::of(&object.kind);
        self.members.add(&object.kind, &object.name);
        self.names.insert((kind.clone(), object.name.clone()));
        self.kinds.insert(kind, object.kind.clone());
    }
}

/// A member that is not wanted any longer, or would be if nothing stood against it.
struct Doomed {
    destination: usize,
    kind: Kind,
    member: RawObject,
}

impl Writer<'_> {
    /// The set that an outcome asks for.
    pub(crate) fn set(&self, set: &contract::ApplySet) -> ApplySet {
        let context = self.context;
        ApplySet::new(&set.namespace, context.connection.uid(), &context.uid, &set.name)
    }

    /// Makes the parent in each destination tell of all that is about to be applied. Gives what is to be pruned then; nothing if the
    /// members are those of the last pruning, or if something failed.
    pub(crate) async fn record(
        &self,
        set: ApplySet,
        done: bool,
        planned: &[Planned<'_>],
        located: &[Result<Located, String>],
        report: &mut Report,
    ) -> Option<Pruning> {
        let applies = planned
            .iter()
            .zip(located)
            .filter(|(planned, _)| matches!(planned.write, Write::Apply(_)));
        let wanted: Vec<(&contract::Cluster, &Located)> = applies
            .filter_map(|(planned, located)| Some((&planned.reference.cluster, located.as_ref().ok()?)))
            .collect();
        let found = self.destinations(&set, done, &wanted, report).await?;
        let pruned = Pruned {
            members: hash(&set, done, wanted.iter().map(|(_, located)| &located.object)),
            looked_at: found.iter().map(|(_, parent)| parent.object.cluster).collect(),
            destinations: Vec::new(),
        };
        let last = self.last.and_then(|last| last.pruned.as_ref());
        if let Some(last) = last.filter(|last| (last.members, &last.looked_at) == (pruned.members, &pruned.looked_at)) {
            report.last.pruned = Some(last.clone());
            return None;
        }
        let mut pruning = Pruning {
            set,
            done,
            destinations: Vec::new(),
            pruned,
        };
        for (cluster, parent) in by_server(found) {
            let reference = self.parent_reference(&pruning.set, cluster.clone());
            let mut here = Wanted::default();
            let server = parent.connection.uid();
            let wanted = wanted.iter().filter(|(_, located)| located.connection.uid() == server);
            wanted.for_each(|(_, located)| here.add(&located.object));
            match self.record_in(&pruning.set, cluster, parent, here, report).await {
                Ok(destination) => pruning.destinations.extend(destination),
                Err(error) => {
                    self.told(WriteAction::Apply, reference, failed(error), report);
                    return None;
                }
            }
        }
        Some(pruning)
    }

    /// Where members may be: where some are to be applied, where the last run left some, and in every cluster that the
    /// run knows of, since a host that has just started knows of no last run.
    async fn destinations(
        &self,
        set: &ApplySet,
        done: bool,
        wanted: &[(&contract::Cluster, &Located)],
        report: &mut Report,
    ) -> Option<Vec<(contract::Cluster, Located)>> {
        let left = self.last.and_then(|last| last.pruned.as_ref());
        let left: &[contract::Cluster] = left.map(|pruned| &*pruned.destinations).unwrap_or_default();
        let mut clusters = vec![contract::Cluster::PrimaryCluster, contract::Cluster::HostCluster];
        let queried = self.context.queried();
        for cluster in wanted.iter().map(|(cluster, _)| *cluster).chain(left).chain(&queried) {
            if !clusters.contains(cluster) {
                clusters.push(cluster.clone());
            }
        }
        let parents = clusters
            .iter()
            .map(|cluster| self.parent_reference(set, cluster.clone()));
        let Some(located) = self.locate(parents.collect()).await else {
            // The host is stopping.
            report.failed = true;
            return None;
        };
        let mut found = Vec::new();
        for (cluster, located) in clusters.into_iter().zip(located) {
            match located {
                Ok(located) => found.push((cluster, located)),
                // While the primary lives, a cluster that cannot be reached and never had members is of no concern.
                Err(_) if !done && !left.contains(&cluster) => {}
                Err(message) => {
                    let reference = self.parent_reference(set, cluster);
                    self.told(WriteAction::Apply, reference, failed(unlocated(message)), report);
                    return None;
                }
            }
        }
        Some(found)
    }

    async fn record_in(
        &self,
        set: &ApplySet,
        cluster: contract::Cluster,
        parent: Located,
        wanted: Wanted,
        report: &mut Report,
    ) -> Result<Option<Destination>, WriteError> {
        let key = &parent.object;
        let none_wanted = wanted.names.is_empty();
        let present = match parent.connection.get(&key.kind, &key.name).await {
            Ok(present) => present,
            // Where nobody may even look for a parent, none was made.
            Err(error) if error.reason() == FailureReason::Forbidden && none_wanted && !self.had_members(&cluster) => {
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let recorded = present.as_ref().map(|parent| recorded(set, parent)).transpose();
        let recorded = recorded.map_err(|problem| {
            let place = parent.connection.name();
            invalid(format!(
                "{} {} in cluster {place} cannot be used: {problem}",
                key.kind, key.name
            ))
        })?;
        if none_wanted && recorded.is_none() {
            return Ok(None);
        }
        let mut destination = Destination {
            cluster,
            parent,
            wanted,
            recorded,
        };
        let mut united = destination.recorded.clone().unwrap_or_default();
        united.unite(&destination.wanted.members);
        self.record_members(set, &mut destination, united, report).await?;
        Ok(Some(destination))
    }

    fn had_members(&self, cluster: &contract::Cluster) -> bool {
        let pruned = self.last.and_then(|last| last.pruned.as_ref());
        pruned.is_some_and(|pruned| pruned.destinations.contains(cluster))
    }

    /// Makes a parent record these members, unless it does.
    async fn record_members(
        &self,
        set: &ApplySet,
        destination: &mut Destination,
        members: Members,
        report: &mut Report,
    ) -> Result<(), WriteError> {
        let manifest = set.manifest(&members);
        if destination
            .recorded
            .as_ref()
            .is_some_and(|recorded| set.manifest(recorded) == manifest)
        {
            return Ok(());
        }
        let Located { object, connection, .. } = &destination.parent;
        let grants = &self.context.attached.grants;
        let granted = grants.check_objects(&object.kind.api_version, &object.kind.kind, Verbs::APPLY);
        granted.map_err(refused)?;
        let manager = format!("{}-applyset", self.manager);
        let applied = connection
            .apply(&object.kind, &manifest, &manager, &ApplyMode::Upsert, true)
            .await?;
        report.note(object, applied.last().cloned(), false);
        destination.recorded = Some(members);
        Ok(())
    }

    /// Deletes the members that are not wanted any longer, then makes the parents tell of those that are.
    pub(crate) async fn prune(&self, mut pruning: Pruning, report: &mut Report) {
        let mut doomed = Vec::new();
        // Kinds that are not served now may be again, with their objects.
        let mut unserved = Vec::new();
        for (position, destination) in pruning.destinations.iter().enumerate() {
            match self.unwanted(&pruning.set, destination, report).await {
                Ok((members, missing)) => {
                    doomed.extend(members.into_iter().map(|(kind, member)| Doomed {
                        destination: position,
                        kind,
                        member,
                    }));
                    unserved.push(missing);
                }
                Err(error) => {
                    let reference = self.parent_reference(&pruning.set, destination.cluster.clone());
                    return self.told(WriteAction::Delete, reference, failed(error), report);
                }
            }
        }
        for doomed in doomed {
            self.delete(&pruning.destinations[doomed.destination], doomed, report)
                .await;
        }
        if report.failed {
            return;
        }
        for (destination, unserved) in pruning.destinations.iter_mut().zip(unserved) {
            let kept = if pruning.done { Members::default() } else { unserved };
            if let Err(error) = self.shrink(&pruning.set, destination, kept, report).await {
                let reference = self.parent_reference(&pruning.set, destination.cluster.clone());
                return self.told(WriteAction::Apply, reference, failed(error), report);
            }
        }
        let left = pruning
            .destinations
            .into_iter()
            .filter(|destination| destination.recorded.is_some());
        pruning.pruned.destinations = left.map(|destination| destination.cluster).collect();
        report.last.pruned = Some(pruning.pruned);
    }

    /// The members in one cluster that are not wanted any longer, and the recorded places of those that cannot be looked for,
    /// since their kind is not served.
    async fn unwanted(
        &self,
        set: &ApplySet,
        destination: &Destination,
        report: &Report,
    ) -> Result<(Vec<(Kind, RawObject)>, Members), WriteError> {
        let connection = &destination.parent.connection;
        let recorded = destination.recorded.clone().unwrap_or_default();
        let (mut unwanted, mut unserved) = (Vec::new(), Members::default());
        for group_kind in &recorded.kinds {
            let kind = match destination.wanted.kinds.get(group_kind) {
                Some(kind) => Some(kind.clone()),
                None => connection.preferred(group_kind).await?,
            };
            let Some(kind) = kind else {
                unserved.kinds.insert(group_kind.clone());
                unserved.namespaces.clone_from(&recorded.namespaces);
                continue;
            };
            let members = connection.members(set, &kind, &recorded.namespaces).await?;
            let members = members.into_iter().filter(|member| {
                !member.metadata.deleting
                    && !report.applied.contains(&member.metadata.uid)
                    && !destination
                        .wanted
                        .names
                        .contains(&(group_kind.clone(), member.name.clone()))
            });
            unwanted.extend(members.map(|member| (kind.clone(), member)));
        }
        Ok((unwanted, unserved))
    }

    async fn delete(&self, destination: &Destination, doomed: Doomed, report: &mut Report) {
        let Doomed { kind, member, .. } = doomed;
        let located = Located {
            object: ObjectKey {
                cluster: destination.parent.object.cluster,
                kind: kind.clone(),
                name: member.name.clone(),
            },
            connection: destination.parent.connection.clone(),
            observed: None,
        };
        let reference = contract::ObjectReference {
            cluster: destination.cluster.clone(),
            kind: contract_kind(&kind),
            namespace: member.name.namespace.as_deref().map(str::to_owned),
            name: member.name.name.to_string(),
        };
        let grants = &self.context.attached.grants;
        let state = match grants.check_objects(&kind.api_version, &kind.kind, Verbs::DELETE) {
            Err(message) => failed(refused(message)),
            Ok(()) => {
                let (uid, version) = (&member.metadata.uid, member.metadata.version.to_string());
                let (connection, name) = (&located.connection, &member.name);
                let deleted = connection
                    .delete(&kind, name, uid, Some(&version), Propagation::Background)
                    .await;
                settled(deleted, &located, report)
            }
        };
        self.told(WriteAction::Delete, reference, state, report);
    }

    /// Makes a parent tell of the members that are left. Without any, it goes.
    async fn shrink(
        &self,
        set: &ApplySet,
        destination: &mut Destination,
        kept: Members,
        report: &mut Report,
    ) -> Result<(), WriteError> {
        let mut left = destination.wanted.members.clone();
        left.unite(&kept);
        if !left.kinds.is_empty() {
            return self.record_members(set, destination, left, report).await;
        }
        let Located { object, connection, .. } = &destination.parent;
        let Some(parent) = connection.get(&object.kind, &object.name).await? else {
            destination.recorded = None;
            return Ok(());
        };
        recorded(set, &parent).map_err(invalid)?;
        let (uid, version) = (&parent.metadata.uid, parent.metadata.version.to_string());
        let deleted = connection.delete(&object.kind, &object.name, uid, Some(&version), Propagation::Background);
        report.note(object, deleted.await?, false);
        destination.recorded = None;
        Ok(())
    }

    fn parent_reference(&self, set: &ApplySet, cluster: contract::Cluster) -> contract::ObjectReference {
        contract::ObjectReference {
            cluster,
            kind: contract_kind(&ApplySet::parent_kind()),
            namespace: set.parent().namespace.as_deref().map(str::to_owned),
            name: set.parent().name.to_string(),
        }
    }
}

fn recorded(set: &ApplySet, parent: &RawObject) -> Result<Members, String> {
    set.recorded(&serde_json::from_str(parent.text()).unwrap_or_default())
}

/// One of the names of each API server. Two ways to name a cluster must not prune what was applied through the other.
fn by_server(found: Vec<(contract::Cluster, Located)>) -> Vec<(contract::Cluster, Located)> {
    let mut servers = BTreeSet::new();
    found
        .into_iter()
        .filter(|(_, located)| servers.insert(located.connection.uid().to_owned()))
        .collect()
}

fn hash<'a>(set: &ApplySet, done: bool, members: impl Iterator<Item = &'a ObjectKey>) -> u64 {
    let members: BTreeSet<(ClusterId, GroupKind, &ObjectName)> = members
        .map(|object| (object.cluster, GroupKind::of(&object.kind), &object.name))
        .collect();
    let mut hasher = DefaultHasher::new();
    (set.id(), done, members).hash(&mut hasher);
    hasher.finish()
}
