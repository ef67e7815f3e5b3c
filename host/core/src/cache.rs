//! The objects that queries ask for, at their newest version.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::change::{Metadata, Variant};
use crate::name::{ClusterId, Kind, ObjectKey, ObjectName, Version};
use crate::query::{Criterion, Fields};
use crate::selector::Operator;

/// Invariant, kept by whoever calls: an object is present only while some query finds it.
#[derive(Default)]
pub(crate) struct Cache {
    kinds: HashMap<(ClusterId, Kind), Objects>,
    present: usize,
}

/// The objects of one kind in one cluster.
#[derive(Default)]
struct Objects {
    entries: BTreeMap<ObjectName, Entry>,
    /// Objects by the traits that selections look for, so that an answer costs what it finds and not what is kept.
    by_trait: HashMap<Trait, Tracked>,
}

/// What selections look for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Trait {
    /// A label with this key.
    Label(Arc<str>),
    /// The same, whatever its value.
    Key(Arc<str>),
    /// An owner.
    Owner,
}

#[derive(Default)]
struct Tracked {
    /// How many selections look for it.
    selections: usize,
    by_value: HashMap<Arc<str>, BTreeSet<ObjectName>>,
}

#[derive(Clone, Debug)]
pub(crate) enum Entry {
    Present(Box<Object>),
    /// A tombstone, so that an older state that arrives later cannot revive the object.
    Absent {
        version: Version,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) metadata: Metadata,
    pub(crate) variants: Vec<Variant>,
}

impl Object {
    pub(crate) fn text(&self, fields: &Fields) -> Option<&Arc<str>> {
        self.variants
            .iter()
            .find(|variant| variant.fields == *fields)
            .map(|variant| &variant.text)
    }
}

impl Entry {
    pub(crate) fn version(&self) -> Version {
        match self {
            Entry::Present(object) => object.metadata.version,
            Entry::Absent { version } => *version,
        }
    }

    pub(crate) fn present(&self) -> Option<&Object> {
        match self {
            Entry::Present(object) => Some(object),
            Entry::Absent { .. } => None,
        }
    }
}

impl Cache {
    pub(crate) fn get(&self, object: &ObjectKey) -> Option<&Entry> {
        self.kinds
            .get(&(object.cluster, object.kind.clone()))?
            .entries
            .get(&object.name)
    }

    pub(crate) fn present(&self, object: &ObjectKey) -> Option<&Object> {
        self.get(object)?.present()
    }

    /// The variants of an object that is present. Its metadata change only by [`Cache::insert`].
    pub(crate) fn variants_mut(&mut self, object: &ObjectKey) -> Option<&mut Vec<Variant>> {
        let objects = self.kinds.get_mut(&(object.cluster, object.kind.clone()))?;
        match objects.entries.get_mut(&object.name)? {
            Entry::Present(present) => Some(&mut present.variants),
            Entry::Absent { .. } => None,
        }
    }

    pub(crate) fn insert(&mut self, object: &ObjectKey, entry: Entry) {
        self.remove(object);
        let objects = self.kinds.entry((object.cluster, object.kind.clone())).or_default();
        if let Entry::Present(present) = &entry {
            self.present += 1;
            objects.note(&object.name, &present.metadata);
        }
        objects.entries.insert(object.name.clone(), entry);
    }

    pub(crate) fn remove(&mut self, object: &ObjectKey) {
        let place = (object.cluster, object.kind.clone());
        let Some(objects) = self.kinds.get_mut(&place) else {
            return;
        };
        if let Some(Entry::Present(present)) = objects.entries.remove(&object.name) {
            self.present -= 1;
            objects.unnote(&object.name, &present.metadata);
        }
        self.forget_if_empty(&place);
    }

    fn forget_if_empty(&mut self, place: &(ClusterId, Kind)) {
        if self
            .kinds
            .get(place)
            .is_some_and(|objects| objects.entries.is_empty() && objects.by_trait.is_empty())
        {
            self.kinds.remove(place);
        }
    }

    /// A selection looks for objects. Those that are kept already are gone through once for each new label key.
    pub(crate) fn track(&mut self, cluster: ClusterId, kind: &Kind, criterion: &Criterion) {
        let objects = self.kinds.entry((cluster, kind.clone())).or_default();
        for tracked in traits(criterion) {
            let known = objects.by_trait.contains_key(&tracked);
            objects.by_trait.entry(tracked.clone()).or_default().selections += 1;
            if !known {
                let present: Vec<_> = objects
                    .entries
                    .iter()
                    .filter_map(|(name, entry)| Some((name.clone(), values(&tracked, &entry.present()?.metadata))))
                    .collect();
                for (name, values) in present {
                    for value in values {
                        objects.note_value(&tracked, value, &name);
                    }
                }
            }
        }
    }

    /// The selection has gone.
    pub(crate) fn untrack(&mut self, cluster: ClusterId, kind: &Kind, criterion: &Criterion) {
        let place = (cluster, kind.clone());
        let Some(objects) = self.kinds.get_mut(&place) else {
            return;
        };
        for tracked in traits(criterion) {
            if let Some(entry) = objects.by_trait.get_mut(&tracked) {
                entry.selections -= 1;
                if entry.selections == 0 {
                    objects.by_trait.remove(&tracked);
                }
            }
        }
        self.forget_if_empty(&place);
    }

    /// The present objects of a kind that meet a criterion, ordered by namespace and name.
    pub(crate) fn selected<'a>(
        &'a self,
        cluster: ClusterId,
        kind: &Kind,
        criterion: &'a Criterion,
    ) -> impl Iterator<Item = (&'a ObjectName, &'a Object)> {
        self.selected_in(cluster, kind, criterion, None)
    }

    /// Those of them in some namespaces, which are given in order; in all of the cluster if none are given.
    pub(crate) fn selected_in<'a>(
        &'a self,
        cluster: ClusterId,
        kind: &Kind,
        criterion: &'a Criterion,
        namespaces: Option<Vec<&Arc<str>>>,
    ) -> impl Iterator<Item = (&'a ObjectName, &'a Object)> {
        let objects = self.kinds.get(&(cluster, kind.clone()));
        objects
            .into_iter()
            .flat_map(move |objects| objects.candidates(criterion, namespaces.as_deref()))
            .filter_map(|(name, entry)| Some((name, entry.present()?)))
            .filter(|(_, object)| criterion.is_met(&object.metadata))
    }

    /// Takes every version of a kind back, so that whatever is read next counts as newer. Texts stay, to tell what differs.
    pub(crate) fn forget_versions(&mut self, cluster: ClusterId, kind: &Kind) {
        let objects = self.kinds.get_mut(&(cluster, kind.clone()));
        for entry in objects.into_iter().flat_map(|objects| objects.entries.values_mut()) {
            match entry {
                Entry::Present(object) => object.metadata.version = Version::default(),
                Entry::Absent { version } => *version = Version::default(),
            }
        }
    }

    /// Takes the version of an object back, so that whatever is told next counts as newer.
    pub(crate) fn forget_version(&mut self, object: &ObjectKey) {
        let objects = self.kinds.get_mut(&(object.cluster, object.kind.clone()));
        if let Some(Entry::Present(present)) = objects.and_then(|objects| objects.entries.get_mut(&object.name)) {
            present.metadata.version = Version::default();
        }
    }

    /// How many objects are present.
    pub(crate) fn len(&self) -> usize {
        self.present
    }
}

impl Objects {
    fn note(&mut self, name: &ObjectName, metadata: &Metadata) {
        let tracked: Vec<Trait> = self.by_trait.keys().cloned().collect();
        for tracked in tracked {
            for value in values(&tracked, metadata) {
                self.note_value(&tracked, value, name);
            }
        }
    }

    fn note_value(&mut self, tracked: &Trait, value: Arc<str>, name: &ObjectName) {
        if let Some(tracked) = self.by_trait.get_mut(tracked) {
            tracked.by_value.entry(value).or_default().insert(name.clone());
        }
    }

    fn unnote(&mut self, name: &ObjectName, metadata: &Metadata) {
        for (tracked, entry) in &mut self.by_trait {
            for value in values(tracked, metadata) {
                if let Some(names) = entry.by_value.get_mut(&value) {
                    names.remove(name);
                    if names.is_empty() {
                        entry.by_value.remove(&value);
                    }
                }
            }
        }
    }

    /// Entries in some namespaces, or in all, among which all are that meet a criterion, in order: those with the rarest of
    /// the traits that it requires.
    fn candidates(&self, criterion: &Criterion, namespaces: Option<&[&Arc<str>]>) -> Vec<(&ObjectName, &Entry)> {
        let any = [Arc::from("")];
        let required: Vec<(Trait, &[Arc<str>])> = match criterion {
            Criterion::Owner(owner) => vec![(Trait::Owner, std::slice::from_ref(owner))],
            Criterion::Labels(selector) => selector
                .requirements()
                .iter()
                .filter_map(|requirement| match &requirement.operator {
                    Operator::In(values) => Some((Trait::Label(requirement.key.clone()), values.as_slice())),
                    Operator::Exists => Some((Trait::Key(requirement.key.clone()), &any[..])),
                    Operator::NotIn(_) | Operator::DoesNotExist => None,
                })
                .collect(),
        };
        let named = |(tracked, values): (Trait, &[Arc<str>])| {
            let tracked = self.by_trait.get(&tracked)?;
            let sets: Vec<_> = values.iter().filter_map(|value| tracked.by_value.get(value)).collect();
            Some(sets)
        };
        let rarest = required
            .into_iter()
            .filter_map(named)
            .min_by_key(|sets| sets.iter().map(|names| names.len()).sum::<usize>());
        match (rarest, namespaces) {
            (None, None) => self.entries.iter().collect(),
            (None, Some(namespaces)) => namespaces
                .iter()
                .flat_map(|namespace| {
                    let from = self.entries.range(first_in(namespace)..);
                    from.take_while(|(name, _)| name.namespace.as_ref() == Some(*namespace))
                })
                .collect(),
            (Some(sets), _) => {
                let mut names: Vec<&ObjectName> = match namespaces {
                    None => sets.into_iter().flatten().collect(),
                    Some(namespaces) => namespaces
                        .iter()
                        .flat_map(|namespace| {
                            sets.iter().flat_map(|names| {
                                let from = names.range(first_in(namespace)..);
                                from.take_while(|name| name.namespace.as_ref() == Some(*namespace))
                            })
                        })
                        .collect(),
                };
                names.sort_unstable();
                names
                    .into_iter()
                    .filter_map(|name| self.entries.get_key_value(name))
                    .collect()
            }
        }
    }
}

/// What comes before all names in a namespace.
fn first_in(namespace: &Arc<str>) -> ObjectName {
    ObjectName {
        namespace: Some(namespace.clone()),
        name: "".into(),
    }
}

/// The traits by which objects that meet a criterion can be found.
fn traits(criterion: &Criterion) -> BTreeSet<Trait> {
    match criterion {
        Criterion::Owner(_) => BTreeSet::from([Trait::Owner]),
        Criterion::Labels(selector) => selector
            .requirements()
            .iter()
            .filter_map(|requirement| match requirement.operator {
                Operator::In(_) => Some(Trait::Label(requirement.key.clone())),
                Operator::Exists => Some(Trait::Key(requirement.key.clone())),
                Operator::NotIn(_) | Operator::DoesNotExist => None,
            })
            .collect(),
    }
}

/// An object's values of a trait.
fn values(tracked: &Trait, metadata: &Metadata) -> Vec<Arc<str>> {
    match tracked {
        Trait::Label(key) => metadata.labels.get(key).cloned().into_iter().collect(),
        Trait::Key(key) => metadata.labels.get(key).map(|_| Arc::from("")).into_iter().collect(),
        Trait::Owner => metadata.owners.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selector::{Requirement, Selector};

    #[test]
    fn an_answer_costs_what_is_in_its_namespaces_or_has_its_labels() {
        let (cluster, kind) = (ClusterId::HOST, Kind::new("v1", "ConfigMap"));
        let mut cache = Cache::default();
        let exists = Requirement {
            key: "rare".into(),
            operator: Operator::Exists,
        };
        let everything = Criterion::Labels(Selector::everything());
        let web = Criterion::Labels(Selector::new([Requirement::equals("app", "web")]));
        let rare = Criterion::Labels(Selector::new([exists]));
        for criterion in [&everything, &web, &rare] {
            cache.track(cluster, &kind, criterion);
        }
        for number in 0..1000 {
            let mut labels: Vec<(Arc<str>, Arc<str>)> = vec![("app".into(), "web".into())];
            if number % 100 == 0 {
                labels.push(("rare".into(), number.to_string().into()));
            }
            let object = ObjectKey {
                cluster,
                kind: kind.clone(),
                name: ObjectName::new(Some(&format!("team-{}", number % 100)), &number.to_string()),
            };
            let metadata = Metadata {
                labels: labels.into_iter().collect(),
                ..Metadata::default()
            };
            let variants = Vec::new();
            cache.insert(&object, Entry::Present(Box::new(Object { metadata, variants })));
        }
        let team: Arc<str> = "team-7".into();
        let objects = &cache.kinds[&(cluster, kind.clone())];
        for criterion in [&everything, &web] {
            assert_eq!(objects.candidates(criterion, Some(&[&team])).len(), 10);
            assert_eq!(
                cache.selected_in(cluster, &kind, criterion, Some(vec![&team])).count(),
                10
            );
            assert_eq!(cache.selected(cluster, &kind, criterion).count(), 1000);
        }
        assert_eq!(objects.candidates(&rare, None).len(), 10);
        assert_eq!(cache.selected_in(cluster, &kind, &rare, Some(vec![&team])).count(), 0);
    }
}
