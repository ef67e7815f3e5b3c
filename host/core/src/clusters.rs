//! The clusters that queries name, and whether they are connected.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::failure::Failure;
use crate::name::{ClusterId, Kind, ObjectName};
use crate::query::QueryId;
use crate::query::{Fields, Query, Target};

/// How a cluster was named.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClusterSource {
    /// The host's own.
    Host,
    /// By a kubeconfig in a Secret.
    Kubeconfig(KubeconfigKey),
}

/// A key of a Secret that holds a kubeconfig.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KubeconfigKey {
    /// The cluster that the Secret is in.
    pub home: ClusterId,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// The key in its `data`.
    pub key: Arc<str>,
}

impl KubeconfigKey {
    /// The query that follows the Secret.
    pub(crate) fn query(&self) -> Query {
        Query {
            cluster: self.home,
            kind: Kind::new("v1", "Secret"),
            target: Target::Named(ObjectName {
                namespace: Some(self.namespace.clone()),
                name: self.name.clone(),
            }),
            fields: Fields::paths([format!("data['{}']", self.key).into()]),
        }
    }
}

impl fmt::Display for ClusterSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClusterSource::Host => f.write_str("host"),
            ClusterSource::Kubeconfig(key) => {
                write!(f, "of kubeconfig Secret {}/{} key {}", key.namespace, key.name, key.key)
            }
        }
    }
}

pub(crate) struct Cluster {
    pub(crate) source: ClusterSource,
    pub(crate) state: ClusterState,
    /// The uid of its kube-system namespace, which tells one cluster from another behind the same address.
    pub(crate) uid: Option<Arc<str>>,
    /// Counts attempts to connect, so that a late answer of an earlier one is told apart.
    pub(crate) attempt: u64,
    pub(crate) failures: u32,
    /// How many queries name it.
    pub(crate) queries: usize,
    /// The query that finds its kubeconfig, while any other query names the cluster.
    pub(crate) kubeconfig: Option<QueryId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClusterState {
    Unconnected,
    Connected,
    Failed(Failure),
}

/// Invariant: the host's cluster is always there and connected.
pub(crate) struct Clusters {
    by_id: HashMap<ClusterId, Cluster>,
    ids: HashMap<KubeconfigKey, ClusterId>,
    next: u32,
}

impl Default for Clusters {
    fn default() -> Self {
        let host = Cluster {
            state: ClusterState::Connected,
            ..Cluster::new(ClusterSource::Host)
        };
        Clusters {
            by_id: HashMap::from([(ClusterId::HOST, host)]),
            ids: HashMap::new(),
            next: 1,
        }
    }
}

impl Cluster {
    fn new(source: ClusterSource) -> Self {
        Cluster {
            source,
            state: ClusterState::Unconnected,
            uid: None,
            attempt: 0,
            failures: 0,
            queries: 0,
            kubeconfig: None,
        }
    }
}

impl Clusters {
    /// A cluster that is not known yet. Its id stays the same as long as it is.
    pub(crate) fn add(&mut self, key: KubeconfigKey) -> ClusterId {
        *self.ids.entry(key).or_insert_with_key(|key| {
            let id = ClusterId(self.next);
            self.next += 1;
            self.by_id
                .insert(id, Cluster::new(ClusterSource::Kubeconfig(key.clone())));
            id
        })
    }

    pub(crate) fn known(&self, key: &KubeconfigKey) -> Option<ClusterId> {
        self.ids.get(key).copied()
    }

    pub(crate) fn get(&self, id: ClusterId) -> Option<&Cluster> {
        self.by_id.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: ClusterId) -> Option<&mut Cluster> {
        self.by_id.get_mut(&id)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = ClusterId> + '_ {
        self.by_id.keys().copied()
    }

    pub(crate) fn forget(&mut self, id: ClusterId) {
        if let Some(Cluster {
            source: ClusterSource::Kubeconfig(key),
            ..
        }) = self.by_id.remove(&id)
        {
            self.ids.remove(&key);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }
}
