//! What a run asks, translated for core, and answered from it.

use std::sync::Arc;

use patchbay_core::{ReferenceSet, References};
use patchbay_plugin::contract;

use super::Driver;
use crate::hidden;
use crate::history::{NamedQuery, Refused};
use crate::messages::Reply;
use crate::translate;
use crate::worker::RunContext;

impl Driver {
    /// Answers a run's queries: those that make no sense or are not granted at once, the others by core.
    pub(super) fn answer(&mut self, context: &RunContext, set: &contract::ReferenceSet) -> Reply {
        let queries = &set.queries;
        let translated: Vec<Result<patchbay_core::Query, contract::QueryFailure>> =
            queries.iter().map(|query| self.translate(context, query)).collect();
        let sound = translated.iter().filter_map(|query| query.as_ref().ok().cloned());
        let set = ReferenceSet {
            queries: sound.collect(),
            join_keys: set.join_keys.iter().map(|key| key.as_str().into()).collect(),
            complete: set.complete,
        };
        let now = self.now();
        let told = self.core.references(context.run, set, now);
        let mut named = Vec::new();
        context.named.replace(|before| {
            named = self.named(context, queries, &translated, before);
            named.clone()
        });
        for named in named {
            if let Ok(query) = &named.asked {
                named.hidden.iter().for_each(|name| self.hidden.add(query, name));
            }
        }
        let mut findings = match told {
            References::Answered(findings) => findings.into_iter(),
            References::Parked | References::Gone => return Reply::GivenUp,
            References::Unsettled => return Reply::Unsettled,
        };
        let mut secrets = Vec::new();
        let mut answers = Vec::with_capacity(queries.len());
        for (query, translated) in queries.iter().zip(translated) {
            let finding = match translated {
                Err(failure) => contract::Finding::Failed(failure),
                Ok(translated) => {
                    let Some(finding) = findings.next() else { break };
                    if *translated.kind.kind == *"Secret" {
                        secrets.extend(finding.texts());
                    }
                    translate::finding(finding, |cluster| self.core.cluster_name(cluster))
                }
            };
            answers.push(contract::Answer {
                id: query.id.clone(),
                finding,
            });
        }
        Reply::Answers { answers, secrets }
    }

    /// A run's queries under their ids, for those who ask what it depends on.
    fn named(
        &self,
        context: &RunContext,
        queries: &[contract::Query],
        translated: &[Result<patchbay_core::Query, contract::QueryFailure>],
        before: &[NamedQuery],
    ) -> Vec<NamedQuery> {
        let named = queries
            .iter()
            .zip(translated)
            .map(|(query, translated)| match translated {
                Ok(asked) => NamedQuery {
                    id: query.id.as_str().into(),
                    asked: Ok(self.core.registered(asked).unwrap_or_else(|| Arc::new(asked.clone()))),
                    hidden: self.hidden_in(context, asked, before),
                },
                Err(failure) => NamedQuery {
                    id: query.id.as_str().into(),
                    asked: Err(Refused::new(failure, |message| context.secrets.masked(message, false))),
                    hidden: Box::default(),
                },
            });
        named.collect()
    }

    /// The names in a query that were made of Secrets. Those of the round before were looked at when less was known.
    fn hidden_in(&self, context: &RunContext, query: &patchbay_core::Query, before: &[NamedQuery]) -> Box<[Box<str>]> {
        let known = before.iter().find(|named| named.asked.as_deref() == Ok(query));
        if let Some(known) = known {
            return known.hidden.clone();
        }
        let source = self.core.cluster_source(query.cluster);
        let parts = hidden::parts(query, source);
        let hidden = parts.into_iter().filter(|part| context.is_hidden(part, before));
        hidden.map(Box::from).collect()
    }

    fn translate(
        &mut self,
        context: &RunContext,
        query: &contract::Query,
    ) -> Result<patchbay_core::Query, contract::QueryFailure> {
        let not_granted = |message| translate::refused(contract::QueryFailureReason::NotGranted, message);
        let checked = translate::checked(query, &context.uid)?;
        let (kind, grants) = (checked.kind(), &context.attached.grants);
        grants
            .check_objects(&kind.api_version, &kind.kind, contract::Verbs::READ)
            .map_err(not_granted)?;
        let cluster = match checked.cluster() {
            contract::Cluster::ByKubeconfig(secret) => {
                let primary = context.key.name.namespace.as_deref();
                grants.check_secret(&secret.namespace, primary).map_err(not_granted)?;
                let now = self.now();
                self.core
                    .cluster(translate::kubeconfig_key(secret, context.object.cluster), now)
            }
            other => self
                .known_cluster(context, other)
                .map_err(|message| translate::refused(contract::QueryFailureReason::Unreachable, message))?,
        };
        Ok(checked.on(cluster))
    }
}
