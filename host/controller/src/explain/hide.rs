//! Takes names that were made of values of Secrets out of what is told.

use patchbay_core::{PrimaryReport, Query};

use super::model::{FindingExplained, ObjectExplained, PrimaryExplained, QueryExplained, RunExplained};
use crate::hidden::{hide, parts};
use crate::scrub::Secrets;

/// The names to hide.
pub(super) struct Names<'n>(pub(super) Vec<&'n str>);

impl Names<'_> {
    pub(super) fn hide(&self, text: &mut String) {
        if !self.0.is_empty() {
            *text = hide(text, self.0.iter().copied());
        }
    }

    pub(super) fn hide_in(&self, primary: &mut PrimaryExplained) {
        if self.0.is_empty() {
            return;
        }
        primary.wakes.iter_mut().for_each(|wake| self.hide(wake));
        primary.next.iter_mut().for_each(|next| self.hide(&mut next.reason));
        primary.queries.iter_mut().for_each(|query| self.hide_in_query(query));
        primary.join_keys.iter_mut().for_each(|key| self.hide(key));
        primary
            .protected
            .iter_mut()
            .for_each(|object| self.hide_in_object(object));
        primary.runs.iter_mut().for_each(|run| self.hide_in_run(run));
    }

    pub(super) fn hide_in_query(&self, query: &mut QueryExplained) {
        self.hide(&mut query.text);
        query.cluster.iter_mut().for_each(|cluster| self.hide(cluster));
        match &mut query.finding {
            FindingExplained::Failed { message, .. } => self.hide(message),
            FindingExplained::Matches { names, .. } => names.iter_mut().for_each(|name| self.hide(name)),
            FindingExplained::Found { .. } | FindingExplained::Missing | FindingExplained::Pending => {}
        }
        for watch in &mut query.watches {
            self.hide(&mut watch.scope);
            watch.message.iter_mut().for_each(|message| self.hide(message));
        }
    }

    fn hide_in_run(&self, run: &mut RunExplained) {
        run.wakes.iter_mut().for_each(|wake| self.hide(wake));
        run.message.iter_mut().for_each(|message| self.hide(message));
        for write in &mut run.writes {
            self.hide_in_object(&mut write.object);
            write.message.iter_mut().for_each(|message| self.hide(message));
        }
    }

    fn hide_in_object(&self, object: &mut ObjectExplained) {
        for text in [
            &mut object.cluster,
            &mut object.api_version,
            &mut object.kind,
            &mut object.name,
        ] {
            self.hide(text);
        }
        object.namespace.iter_mut().for_each(|namespace| self.hide(namespace));
    }
}

/// The names in a query that hold a value of a Secret which the primary depends on now. Of a query whose run is forgotten, no
/// more is known.
pub(super) fn doubtful<'q>(query: &'q Query, primary: &PrimaryReport) -> Vec<&'q str> {
    let secrets = Secrets::default();
    let found = primary
        .queries
        .iter()
        .filter(|known| *known.query.kind.kind == *"Secret");
    secrets.add(
        found
            .filter_map(|known| known.finding.as_ref())
            .flat_map(|finding| finding.texts()),
    );
    parts(query, None)
        .into_iter()
        .filter(|part| secrets.are_in(part))
        .collect()
}
