//! Clusters: connected while a query names them, and connected anew when their kubeconfig changes.

use super::{Core, Effect, Timer};
use crate::clusters::{ClusterSource, ClusterState};
use crate::failure::{Failure, FailureReason};
use crate::name::{ClusterId, Version};
use crate::query::Finding;
use crate::time::Time;
use crate::users::User;
use crate::watches::WatchState;

impl Core {
    pub(super) fn is_connected(&self, id: ClusterId) -> bool {
        self.clusters
            .get(id)
            .is_some_and(|cluster| cluster.state == ClusterState::Connected)
    }

    /// One more query names the cluster. The first one begins to follow its kubeconfig.
    pub(super) fn use_cluster(&mut self, id: ClusterId, now: Time) {
        let Some(cluster) = self.clusters.get_mut(id) else {
            return;
        };
        cluster.queries += 1;
        if let ClusterSource::Kubeconfig(source) = &cluster.source
            && cluster.kubeconfig.is_none()
        {
            let query = source.query();
            let kubeconfig = self.register(query, User::Cluster(id), now);
            if let Some(cluster) = self.clusters.get_mut(id) {
                cluster.kubeconfig = Some(kubeconfig);
            }
            self.kubeconfig_changed(id, now);
        }
    }

    /// One query less names the cluster. Without any it is let go after a while.
    pub(super) fn release_cluster(&mut self, id: ClusterId, now: Time) {
        let Some(cluster) = self.clusters.get_mut(id) else {
            return;
        };
        cluster.queries = cluster.queries.saturating_sub(1);
        self.let_linger_unused(id, now);
    }

    /// A timer of the cluster fired: it is let go if nobody names it, or connected again if that failed.
    pub(super) fn cluster_due(&mut self, id: ClusterId, now: Time) {
        let Some(cluster) = self.clusters.get(id) else { return };
        if cluster.queries > 0 || self.is_to_release_in(id) {
            if matches!(cluster.state, ClusterState::Failed(_)) {
                self.connect(id, now);
            } else if cluster.queries == 0 {
                self.set_timer(now + self.settings.retry_most, Timer::Cluster(id));
            }
            return;
        }
        let kubeconfig = cluster.kubeconfig;
        for key in self.watches.of_cluster(id) {
            self.forget_watch(&key, now);
        }
        self.clusters.forget(id);
        self.protections.forget_cluster(id);
        self.effects.push_back(Effect::Disconnect(id));
        if let Some(query) = kubeconfig {
            self.unregister(query, &User::Cluster(id), now);
        }
    }

    /// Whether objects of a cluster are still to be released. Without a kubeconfig they will not be.
    pub(crate) fn is_to_release_in(&self, id: ClusterId) -> bool {
        let kubeconfig = self.clusters.get(id).and_then(|cluster| cluster.kubeconfig);
        let missing = kubeconfig.is_some_and(|query| matches!(self.finding(query), Some(Finding::Missing)));
        !missing && self.protections.any_to_release_in(id)
    }

    /// The Secret with a cluster's kubeconfig was read, or changed.
    pub(super) fn kubeconfig_changed(&mut self, id: ClusterId, now: Time) {
        self.let_linger_unused(id, now);
        self.connect(id, now);
    }

    /// A cluster that nobody names any longer is let go after a while.
    fn let_linger_unused(&mut self, id: ClusterId, now: Time) {
        let unused = self.clusters.get(id).is_some_and(|cluster| cluster.queries == 0);
        if unused && id != ClusterId::HOST {
            self.set_timer(now + self.settings.linger, Timer::Cluster(id));
        }
    }

    /// Connects a cluster by its kubeconfig, as that is now.
    fn connect(&mut self, id: ClusterId, now: Time) {
        let Some(cluster) = self.clusters.get(id) else { return };
        let ClusterSource::Kubeconfig(source) = &cluster.source else {
            return;
        };
        let source = source.clone();
        let failure = match cluster.kubeconfig.and_then(|query| self.finding(query)) {
            Some(Finding::Found(secret)) => {
                if let Some(cluster) = self.clusters.get_mut(id) {
                    cluster.attempt += 1;
                    let attempt = cluster.attempt;
                    self.effects.push_back(Effect::Connect {
                        cluster: id,
                        attempt,
                        source,
                        secret,
                    });
                }
                return;
            }
            Some(Finding::Missing) => {
                let home = self.cluster_name(source.home);
                let message = format!(
                    "kubeconfig Secret {}/{} is not in cluster {home}: create it, or name another",
                    source.namespace, source.name
                );
                Failure::new(FailureReason::Unreachable, message)
            }
            // What is not known may still be so: a connection that stands is kept.
            Some(Finding::Failed(_)) if self.is_connected(id) => return,
            Some(Finding::Failed(failure)) => failure,
            Some(Finding::Matches(_)) | None => return,
        };
        // A connection that is being made is of a kubeconfig that is there no longer.
        if let Some(cluster) = self.clusters.get_mut(id) {
            cluster.attempt += 1;
        }
        self.fail_cluster(id, &failure, now);
    }

    /// Tells that a connection stands. All watches of the cluster move to it. Returns false if nobody waits for this
    /// connection any longer: the cluster was let go, or its kubeconfig has changed again.
    pub fn connected(&mut self, id: ClusterId, attempt: u64, uid: &str, now: Time) -> bool {
        let Some(cluster) = self.clusters.get_mut(id).filter(|cluster| cluster.attempt == attempt) else {
            return false;
        };
        cluster.state = ClusterState::Connected;
        cluster.failures = 0;
        let another = cluster.uid.as_deref().is_some_and(|before| before != uid);
        cluster.uid = Some(uid.into());
        if another {
            self.protections.look_again(id);
        }
        for key in self.watches.of_cluster(id) {
            if another {
                // No version of it can be compared with those that are known.
                self.watches.saw(id, &key.kind, Version::NEWEST);
            }
            self.restart_watch(&key);
        }
        self.let_linger_unused(id, now);
        true
    }

    /// Tells that a connection could not be made. It is tried again after a while, and when the kubeconfig changes.
    pub fn connect_failed(&mut self, id: ClusterId, attempt: u64, failure: &Failure, now: Time) {
        let Some(cluster) = self.clusters.get_mut(id).filter(|cluster| cluster.attempt == attempt) else {
            return;
        };
        cluster.failures += 1;
        let failures = cluster.failures;
        self.fail_cluster(id, failure, now);
        let delay = self.retry_delay(failures);
        self.set_timer(now + delay, Timer::Cluster(id));
    }

    fn fail_cluster(&mut self, id: ClusterId, failure: &Failure, now: Time) {
        let Some(cluster) = self.clusters.get_mut(id) else {
            return;
        };
        let before = std::mem::replace(&mut cluster.state, ClusterState::Failed(failure.clone()));
        if before == ClusterState::Connected {
            // Nothing must be written by a kubeconfig that was withdrawn.
            self.effects.push_back(Effect::Disconnect(id));
        }
        for key in self.watches.of_cluster(id) {
            let ended = self.watches.end(&key, WatchState::Failed(failure.clone())).flatten();
            self.effects.extend(ended.map(Effect::StopWatch));
            self.fail_queries_of(&key, failure, now);
        }
    }
}
