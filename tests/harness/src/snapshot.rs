//! The resourceVersions of all that is in a cluster, to see whether anything moves.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use kube::api::{Api, ListParams};
use kube::core::{ApiResource, DynamicObject};
use kube::discovery::{Discovery, verbs};

use crate::Cluster;

/// Objects per request.
const PAGE: u32 = 500;

/// The resourceVersion of each object, by `Kind.group namespace/name`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// All objects but Leases and Events.
    pub objects: BTreeMap<String, String>,
    /// Leases, which are renewed even at rest.
    pub leases: BTreeMap<String, String>,
    /// Events.
    pub events: BTreeMap<String, String>,
}

impl Cluster {
    /// Lists everything that the cluster serves.
    pub async fn snapshot(&self) -> Result<Snapshot> {
        let mut snapshot = Snapshot::default();
        let discovery = Discovery::new(self.client())
            .run_aggregated()
            .await
            .context("cannot discover the kinds")?;
        for (resource, capabilities) in discovery.groups().flat_map(|group| group.recommended_resources()) {
            if !capabilities.supports_operation(verbs::LIST) {
                continue;
            }
            let place = match resource.kind.as_str() {
                "Lease" => &mut snapshot.leases,
                "Event" => &mut snapshot.events,
                _ => &mut snapshot.objects,
            };
            self.add_kind(&resource, place)
                .await
                .with_context(|| format!("cannot list {}", resource.plural))?;
        }
        Ok(snapshot)
    }

    async fn add_kind(&self, resource: &ApiResource, place: &mut BTreeMap<String, String>) -> Result<()> {
        let api: Api<DynamicObject> = Api::all_with(self.client(), resource);
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = api.list_metadata(&params).await?;
            for object in page.items {
                let (namespace, name) = (object.metadata.namespace, object.metadata.name);
                let key = format!(
                    "{}.{} {}/{}",
                    resource.kind,
                    resource.group,
                    namespace.unwrap_or_default(),
                    name.unwrap_or_default()
                );
                place.insert(key, object.metadata.resource_version.unwrap_or_default());
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(()),
            }
        }
    }
}

impl Snapshot {
    /// A line for each object that was made, changed or deleted between this snapshot and a later one, Leases and
    /// Events aside.
    pub fn differences(&self, later: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        for (key, version) in &later.objects {
            match self.objects.get(key) {
                None => lines.push(format!("{key} was made")),
                Some(earlier) if earlier != version => lines.push(format!("{key} changed from {earlier} to {version}")),
                Some(_) => {}
            }
        }
        let gone = self.objects.keys().filter(|key| !later.objects.contains_key(*key));
        lines.extend(gone.map(|key| format!("{key} was deleted")));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(objects: &[(&str, &str)]) -> Snapshot {
        let objects = objects
            .iter()
            .map(|(key, version)| (key.to_string(), version.to_string()))
            .collect();
        Snapshot {
            objects,
            ..Snapshot::default()
        }
    }

    #[test]
    fn differences_name_what_was_made_changed_and_deleted() {
        let before = snapshot(&[("A. n/a", "1"), ("B. n/b", "2"), ("C. n/c", "3")]);
        let after = snapshot(&[("A. n/a", "1"), ("B. n/b", "5"), ("D. n/d", "4")]);
        let expected = ["B. n/b changed from 2 to 5", "D. n/d was made", "C. n/c was deleted"];
        assert_eq!(before.differences(&after), expected);
        assert!(before.differences(&before).is_empty());
    }
}
