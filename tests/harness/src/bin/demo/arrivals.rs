//! When a value is seen where it should arrive.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt};
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::core::DynamicObject;
use patchbay_harness::Cluster;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::examples::Place;

/// Watches, and who waits for what they tell.
pub struct Arrivals {
    waiting: Waiting,
    watches: Vec<JoinHandle<()>>,
}

type Waiting = Arc<Mutex<Vec<Expected>>>;

struct Expected {
    place: Place,
    value: Value,
    seen: oneshot::Sender<Instant>,
}

impl Arrivals {
    /// Watches the kinds and namespaces of these places, each on a connection of its own.
    pub async fn watch(cluster: &Cluster, places: impl IntoIterator<Item = &Place>) -> Result<Self> {
        let kinds = places
            .into_iter()
            .map(|place| (&*place.api_version, &*place.kind, &*place.namespace));
        let mut arrivals = Self {
            waiting: Waiting::default(),
            watches: Vec::new(),
        };
        for (api_version, kind, namespace) in kinds.collect::<BTreeSet<_>>() {
            let api = cluster.api(api_version, kind, namespace).await?;
            let version = list(&api, kind, &arrivals.waiting).await?;
            let waiting = arrivals.waiting.clone();
            arrivals
                .watches
                .push(tokio::spawn(follow(api, kind.to_owned(), version, waiting)));
        }
        Ok(arrivals)
    }

    /// Tells when the value is seen in this place. To be called before it is brought about.
    pub fn expect(&self, place: &Place, value: Value) -> oneshot::Receiver<Instant> {
        let (seen, receiver) = oneshot::channel();
        let mut waiting = lock(&self.waiting);
        waiting.retain(|expected| !expected.seen.is_closed());
        waiting.push(Expected {
            place: place.clone(),
            value,
            seen,
        });
        receiver
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        for watch in &self.watches {
            watch.abort();
        }
    }
}

/// Watches for ever. After a watch has ended, all is listed again, so that nothing stays unseen.
async fn follow(api: Api<DynamicObject>, kind: String, mut version: String, waiting: Waiting) {
    loop {
        if let Err(error) = watch_once(&api, &kind, &version, &waiting).await {
            eprintln!("the watch on {kind} broke off and is taken up again: {error:#}");
        }
        loop {
            match list(&api, &kind, &waiting).await {
                Ok(current) => {
                    version = current;
                    break;
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    }
}

async fn watch_once(api: &Api<DynamicObject>, kind: &str, version: &str, waiting: &Waiting) -> Result<()> {
    let mut events = api.watch(&WatchParams::default(), version).await?.boxed();
    while let Some(event) = events.try_next().await? {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => tell(waiting, kind, &object),
            WatchEvent::Error(status) => anyhow::bail!("{}", status.message),
            WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => {}
        }
    }
    Ok(())
}

async fn list(api: &Api<DynamicObject>, kind: &str, waiting: &Waiting) -> Result<String> {
    let list = api
        .list(&ListParams::default())
        .await
        .with_context(|| format!("cannot list {kind}"))?;
    list.items.iter().for_each(|object| tell(waiting, kind, object));
    list.metadata
        .resource_version
        .with_context(|| format!("a list of {kind} without a version"))
}

/// Tells those who wait for what this object holds.
fn tell(waiting: &Waiting, kind: &str, object: &DynamicObject) {
    let now = Instant::now();
    let mut waiting = lock(waiting);
    let mut index = 0;
    while index < waiting.len() {
        let Expected { place, value, .. } = &waiting[index];
        let is_it = place.kind == kind
            && Some(&place.name) == object.metadata.name.as_ref()
            && Some(&place.namespace) == object.metadata.namespace.as_ref();
        if is_it && place.path.get(&object.data).is_ok_and(|found| found == value) {
            // Whoever waited may have given up.
            let _ = waiting.swap_remove(index).seen.send(now);
        } else {
            index += 1;
        }
    }
}

fn lock(waiting: &Waiting) -> MutexGuard<'_, Vec<Expected>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}
