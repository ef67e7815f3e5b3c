//! Runs, their writes, and the watches that wake them.

use jiff::Timestamp;
use patchbay_core::{ClusterId, ClusterSource, Content, ObjectKey, Scope, WatchReport, WatchStanding};
use patchbay_plugin::contract;

use super::View;
use super::model::{ObjectExplained, RunExplained, RunResult, WatchExplained, WatchState, WriteExplained, WriteState};
use crate::history::{KeptRun, RunEnd};
use crate::translate::kubeconfig_key;

impl View<'_> {
    pub(super) fn run(&self, primary: &ObjectKey, kept: &KeptRun) -> RunExplained {
        let run = &kept.run;
        let texts = |texts: &[Box<str>]| texts.iter().map(ToString::to_string).collect();
        let (result, reason, message) = match &run.end {
            RunEnd::Done => (RunResult::Done, None, None),
            RunEnd::WriteFailed => (RunResult::WriteFailed, None, None),
            RunEnd::PutOff => (RunResult::PutOff, None, None),
            RunEnd::Failed {
                permanent,
                reason,
                message,
            } => {
                let result = if *permanent {
                    RunResult::FailedForGood
                } else {
                    RunResult::Failed
                };
                (result, Some(reason.to_string()), Some(message.to_string()))
            }
        };
        RunExplained {
            time: rfc3339(run.began),
            milliseconds: run.took.as_micros() as f64 / 1000.0,
            wakes: texts(&run.wakes),
            more_wakes: run.more_wakes,
            result,
            reason,
            message,
            writes: kept.writes.iter().map(|write| self.write(primary, write)).collect(),
            more_writes: kept.more_writes,
            changed_primary: run.changed_primary,
        }
    }

    fn write(&self, primary: &ObjectKey, write: &contract::WriteResult) -> WriteExplained {
        let object = &write.object;
        WriteExplained {
            action: match write.action {
                contract::WriteAction::Apply => "apply",
                contract::WriteAction::Delete => "delete",
                contract::WriteAction::Patch => "patch",
                contract::WriteAction::Status => "status",
            }
            .to_owned(),
            object: ObjectExplained {
                cluster: self.cluster(primary.cluster, &object.cluster),
                api_version: object.kind.api_version.clone(),
                kind: object.kind.kind.clone(),
                namespace: object.namespace.clone(),
                name: object.name.clone(),
            },
            state: match &write.state {
                contract::WriteState::Applied => WriteState::Applied,
                contract::WriteState::Unchanged => WriteState::Unchanged,
                contract::WriteState::Failed(_) => WriteState::Failed,
                contract::WriteState::Skipped => WriteState::Skipped,
            },
            message: match &write.state {
                contract::WriteState::Failed(failure) => Some(failure.message.clone()),
                _ => None,
            },
        }
    }

    /// The id of a cluster as a plugin has named it.
    fn cluster(&self, primary: ClusterId, cluster: &contract::Cluster) -> String {
        match cluster {
            contract::Cluster::PrimaryCluster => self.core.cluster_name(primary),
            contract::Cluster::HostCluster => self.core.cluster_name(ClusterId::HOST),
            contract::Cluster::ById(id) => id.clone(),
            contract::Cluster::ByKubeconfig(secret) => {
                ClusterSource::Kubeconfig(kubeconfig_key(secret, primary)).to_string()
            }
        }
    }
}

pub(super) fn watch(report: &WatchReport) -> WatchExplained {
    WatchExplained {
        scope: match &report.key.scope {
            Scope::All => "everywhere".to_owned(),
            Scope::Namespace(namespace) => format!("namespace {namespace}"),
            Scope::Name(name) => format!("name {name}"),
        },
        metadata: report.key.content == Content::Metadata,
        state: match &report.state {
            WatchStanding::Stands => WatchState::Stands,
            WatchStanding::Starting => WatchState::Starting,
            WatchStanding::Unconnected => WatchState::Unconnected,
            WatchStanding::Failed(_) => WatchState::Failed,
        },
        message: match &report.state {
            WatchStanding::Failed(failure) => Some(failure.message.to_string()),
            _ => None,
        },
    }
}

pub(super) fn rfc3339(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}
