//! What an object was, version by version.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use futures::StreamExt;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::DynamicObject;
use tokio::task::JoinHandle;

use crate::Cluster;

/// The states of one object since a moment, told by a watch of its own. A test asks it for what must never have been.
pub struct History {
    states: Arc<Mutex<Vec<Option<DynamicObject>>>>,
    task: JoinHandle<()>,
}

impl Cluster {
    /// Follows an object from now on, whether it is there or not.
    pub async fn history(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<History> {
        let api = self.api(api_version, kind, namespace).await?;
        let selector = format!("metadata.name={name}");
        let list = api.list(&ListParams::default().fields(&selector)).await?;
        let version = list.metadata.resource_version.context("a list without a version")?;
        let states = Arc::new(Mutex::new(
            list.items.into_iter().map(Some).collect::<Vec<Option<DynamicObject>>>(),
        ));
        let mut events = api
            .watch(&WatchParams::default().fields(&selector), &version)
            .await?
            .boxed();
        let seen = Arc::clone(&states);
        let task = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                let state = match event {
                    Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => Some(object),
                    Ok(WatchEvent::Deleted(_)) => None,
                    _ => continue,
                };
                lock(&seen).push(state);
            }
        });
        Ok(History { states, task })
    }
}

impl History {
    /// The states so far; none where it was deleted.
    pub fn states(&self) -> Vec<Option<DynamicObject>> {
        lock(&self.states).clone()
    }

    /// The values that a field had, without repetitions in a row. The pointer is such as `/data/k`.
    pub fn values(&self, pointer: &str) -> Vec<String> {
        let states = self.states();
        let values = states.iter().flatten().map(|object| {
            let value = object.data.pointer(pointer).and_then(|value| value.as_str());
            value.unwrap_or_default().to_owned()
        });
        let mut values: Vec<_> = values.collect();
        values.dedup();
        values
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
