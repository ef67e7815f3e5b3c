//! Why an object is as it is: what its runs were woken by, found and wrote, and who depends on it.
//!
//! An [`Explainer`] asks the driver, which answers from memory. An answer holds names, versions, field paths and masked
//! messages, never a value of an object.

mod find;
mod hide;
mod model;
mod nearest;
mod object;
mod primary;
mod run;
#[cfg(test)]
mod tests;

use patchbay_core::{ClusterId, ControllerId, Core, Kind, Time};
use tokio::sync::mpsc::Sender;
use tokio::sync::oneshot;

use self::find::Meant;
pub(crate) use self::find::Reconciled;
use crate::history::History;
use crate::messages::Message;

pub use find::NotExplained;
pub use model::{
    DependentExplained, Explanation, FindingExplained, NextExplained, ObjectExplained, PrimaryExplained, PrimaryState,
    QueryExplained, RunExplained, RunResult, WatchExplained, WatchState, WriteExplained, WriteState,
};

/// The object that somebody asks about.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Asked {
    /// Its kind in any spelling: `Secret`, `secrets`, `deployments.apps`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace. It may be left out where there is one possibility only.
    pub namespace: Option<String>,
    /// Its cluster, by its id, or by the namespace and name of its kubeconfig's Secret.
    pub cluster: Option<String>,
}

/// Answers questions about the objects of a running host.
#[derive(Clone)]
pub struct Explainer {
    driver: Sender<Message>,
}

impl Explainer {
    pub(crate) fn new(driver: Sender<Message>) -> Self {
        Explainer { driver }
    }

    /// What is known of an object.
    ///
    /// # Errors
    /// The object is not known, or several are meant. The message says what is known.
    pub async fn explain(&self, asked: Asked) -> Result<Explanation, NotExplained> {
        let (reply, answer) = oneshot::channel();
        let message = Message::Explain { asked, reply };
        self.driver.send(message).await.map_err(|_| NotExplained::Stopping)?;
        answer.await.map_err(|_| NotExplained::Stopping)?
    }
}

/// What an explanation is made from.
pub(crate) struct View<'a> {
    pub(crate) core: &'a Core,
    pub(crate) history: &'a History,
    pub(crate) controller: &'a dyn Fn(ControllerId) -> Option<ControllerView<'a>>,
    pub(crate) reconciled: Vec<Reconciled>,
    pub(crate) now: Time,
    /// The same moment on the wall.
    pub(crate) wall: jiff::Timestamp,
}

/// A plugin attached to a kind.
pub(crate) struct ControllerView<'a> {
    pub(crate) plugin: &'a str,
    pub(crate) version: &'a str,
    pub(crate) cluster: ClusterId,
    pub(crate) kind: &'a Kind,
}

impl View<'_> {
    pub(crate) fn explain(&self, asked: &Asked) -> Result<Explanation, NotExplained> {
        let Meant { object, versions } = find::find(self.core, &self.reconciled, asked)?;
        let primaries = versions.iter().flat_map(|object| self.core.primaries_of(object));
        let (dependents, more_dependents) = self.dependents(&versions);
        Ok(Explanation {
            object: self.object(&object),
            resource_version: self.core.observed(&object).map(|version| version.to_string()),
            primaries: primaries.filter_map(|key| self.primary(&key)).collect(),
            dependents,
            more_dependents,
        })
    }
}
