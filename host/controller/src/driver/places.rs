//! Where a run writes: clusters as plugins name them, and the connections to them.

use patchbay_core::{ClusterId, ClusterSource, Failure, Kind, ObjectKey, ObjectName, Protection, Releases};
use patchbay_plugin::contract;

use super::Driver;
use crate::messages::{Held, LetGo, Located};
use crate::plan::object_reference;
use crate::translate;
use crate::worker::RunContext;

impl Driver {
    /// The id of a cluster that a query has named before.
    pub(super) fn known_cluster(&self, context: &RunContext, cluster: &contract::Cluster) -> Result<ClusterId, String> {
        match cluster {
            contract::Cluster::PrimaryCluster => Ok(context.object.cluster),
            contract::Cluster::HostCluster => Ok(ClusterId::HOST),
            contract::Cluster::ById(id) => self.by_id(context, id),
            contract::Cluster::ByKubeconfig(secret) => self
                .core
                .known_cluster(&translate::kubeconfig_key(secret, context.object.cluster))
                .ok_or_else(|| {
                    let place = format!("{}/{}", secret.namespace, secret.name);
                    format!("the cluster of kubeconfig Secret {place} is not connected: `references` must query the objects that are written there")
                }),
        }
    }

    /// The cluster that plugins know by an id. Ids are given by the host, so no cluster can claim to be another, and one
    /// that is reached by a kubeconfig takes the same grant as the kubeconfig itself.
    fn by_id(&self, context: &RunContext, id: &str) -> Result<ClusterId, String> {
        let known = self
            .connections
            .keys()
            .find(|cluster| self.core.cluster_name(**cluster) == id);
        let cluster = *known.ok_or_else(|| format!("no cluster with id {id:?} is connected"))?;
        if let Some(ClusterSource::Kubeconfig(source)) = self.core.cluster_source(cluster) {
            let primary = context.key.name.namespace.as_deref();
            context.attached.grants.check_secret(&source.namespace, primary)?;
        }
        Ok(cluster)
    }

    pub(super) fn locate(
        &self,
        context: &RunContext,
        cluster: &contract::Cluster,
        kind: Kind,
        name: ObjectName,
    ) -> Result<Located, String> {
        if let contract::Cluster::ByKubeconfig(secret) = cluster {
            context
                .attached
                .grants
                .check_secret(&secret.namespace, context.key.name.namespace.as_deref())?;
        }
        let cluster = self.known_cluster(context, cluster)?;
        self.located(ObjectKey { cluster, kind, name })
    }

    pub(super) fn located(&self, object: ObjectKey) -> Result<Located, String> {
        let connection = self.connections.get(&object.cluster).cloned();
        Ok(Located {
            connection: connection.ok_or_else(|| self.disconnected(object.cluster).message.to_string())?,
            observed: self.core.observed(&object),
            object,
        })
    }

    pub(super) fn protect(
        &mut self,
        context: &RunContext,
        objects: Vec<(contract::Cluster, Kind, ObjectName)>,
    ) -> Vec<Result<(Located, Protection), String>> {
        let located: Vec<Result<Located, String>> = objects
            .into_iter()
            .map(|(cluster, kind, name)| self.locate(context, &cluster, kind, name))
            .collect();
        let keys: Vec<ObjectKey> = located.iter().flatten().map(|located| located.object.clone()).collect();
        let mut protections = self.core.protect(context.run, &keys).into_iter();
        let mut protection = |located| (located, protections.next().unwrap_or(Protection::Unqueried));
        located
            .into_iter()
            .map(|located| located.map(&mut protection))
            .collect()
    }

    pub(super) fn let_go(&mut self, context: &RunContext) -> LetGo {
        let Releases::Now(objects) = self.core.let_go(context.run, self.now()) else {
            return LetGo::Later;
        };
        let held = objects.into_iter().map(|(object, uid)| Held {
            object: object_reference(&object, self.core.cluster_name(object.cluster)),
            uid,
            located: self.located(object),
        });
        LetGo::Now(held.collect())
    }

    pub(super) fn disconnected(&self, cluster: ClusterId) -> Failure {
        let name = self.core.cluster_name(cluster);
        Failure::new(
            patchbay_core::FailureReason::Unreachable,
            format!("cluster {name} is not connected"),
        )
    }
}
