//! The host: a driver, its plugins, and the loop that turns.

use std::num::NonZeroUsize;
use std::sync::Arc;

use patchbay_cluster::Connection;
use patchbay_core::{ControllerId, Core, Settings};
use patchbay_plugin::Executor;
use tokio::sync::mpsc::{Receiver, channel};

use crate::attached::Attached;
use crate::driver::Driver;
use crate::explain::Explainer;
use crate::messages::Message;

/// Messages that may wait for the driver. Beyond it, watches wait, and with them the API server's streams.
const MESSAGES: usize = 1024;
/// Messages that are taken at a time before effects are pulled, so that changes of one object meet in the queue.
const BATCH: usize = 64;

/// What can be set.
#[derive(Clone, Debug)]
pub struct HostSettings {
    /// Core's own.
    pub core: Settings,
    /// Threads for plugin calls: one for each processor, since calls do nothing but compute.
    pub threads: NonZeroUsize,
}

impl Default for HostSettings {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        HostSettings {
            core: Settings {
                seed: fastrand::u64(..),
                ..Settings::default()
            },
            threads,
        }
    }
}

/// A host with its plugins attached.
pub struct Host {
    driver: Driver,
    messages: Receiver<Message>,
}

impl Host {
    /// Attaches each plugin to its kinds in the home cluster. Nothing happens until [`Host::run`].
    ///
    /// # Errors
    /// The system gives no threads.
    pub fn new(home: Arc<Connection>, plugins: Vec<Attached>, settings: &HostSettings) -> std::io::Result<Self> {
        let (sender, messages) = channel(MESSAGES);
        let queue = settings.threads.saturating_mul(NonZeroUsize::MIN.saturating_add(1));
        let executor = Arc::new(Executor::new(settings.threads, queue)?);
        let mut driver = Driver::new(Core::new(settings.core.clone()), home, executor, sender);
        let mut controller = 0;
        for attached in plugins.into_iter().map(Arc::new) {
            for primary in &attached.plugin.description().primaries {
                driver.attach(ControllerId(controller), attached.clone(), primary);
                controller += 1;
            }
        }
        Ok(Host { driver, messages })
    }

    /// What answers questions about the objects of this host, while it runs.
    pub fn explainer(&self) -> Explainer {
        self.driver.explainer()
    }

    /// Turns until `stop` resolves. `ready` is called once the primaries of every controller are listed, or cannot be.
    pub async fn run(mut self, stop: impl Future<Output = ()>, ready: impl FnOnce(patchbay_core::Counts)) {
        let mut ready = Some(ready);
        let mut stop = std::pin::pin!(stop);
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            self.driver.pull();
            if self.driver.is_ready()
                && let Some(ready) = ready.take()
            {
                ready(self.driver.counts());
            }
            let tick = self.driver.next_tick().map(tokio::time::Instant::from_std);
            tokio::select! {
                () = &mut stop => return,
                _ = self.messages.recv_many(&mut batch, BATCH) => {
                    batch.drain(..).for_each(|message| self.driver.handle(message));
                }
                () = sleep_until(tick) => self.driver.tick(),
            }
        }
    }
}

async fn sleep_until(tick: Option<tokio::time::Instant>) {
    match tick {
        Some(tick) => tokio::time::sleep_until(tick).await,
        None => std::future::pending().await,
    }
}
