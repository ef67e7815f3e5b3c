//! What the proxy has been told and has seen. Its threads share it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;

use super::{ApiRequest, Fault, Filter};

/// A request that came through.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// What it asked for.
    pub request: ApiRequest,
    /// When it came.
    pub at: Instant,
    /// The HTTP status of its answer, once there is one.
    pub status: Option<u16>,
}

/// An event of a watch that was passed on.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    /// What the watch asked for.
    pub request: ApiRequest,
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub kind: String,
    /// The object's namespace; empty if it has none.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The object's resourceVersion.
    pub version: String,
}

/// What an open watch is told by a test.
#[derive(Debug, Clone)]
pub(super) enum Control {
    /// Break off as a lost connection does.
    Cut,
    /// End as after the time that was asked for.
    End,
    /// Say this.
    Say(Vec<u8>),
}

struct Rule {
    filter: Filter,
    fault: Fault,
    left: Option<usize>,
    hits: usize,
    held: usize,
}

struct OpenWatch {
    request: ApiRequest,
    control: UnboundedSender<Control>,
}

#[derive(Default)]
struct State {
    next: u64,
    rules: BTreeMap<u64, Rule>,
    entries: Vec<Entry>,
    told: Vec<Told>,
    open: BTreeMap<u64, OpenWatch>,
    /// A resource, and the one namespace that is shown of it.
    confined: Option<(String, String)>,
    refusing: bool,
}

pub(super) struct Shared {
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

impl Shared {
    pub(super) fn new() -> Self {
        Shared {
            state: Mutex::default(),
            changed: watch::Sender::new(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Becomes ready whenever faults have changed.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    fn notify(&self) {
        let _ = self.changed.send(());
    }

    pub(super) fn add_rule(&self, filter: Filter, fault: Fault, times: Option<usize>) -> u64 {
        let mut state = self.state();
        state.next += 1;
        let id = state.next;
        let rule = Rule {
            filter,
            fault,
            left: times,
            hits: 0,
            held: 0,
        };
        state.rules.insert(id, rule);
        drop(state);
        self.notify();
        id
    }

    pub(super) fn lift(&self, id: u64) {
        self.state().rules.remove(&id);
        self.notify();
    }

    pub(super) fn hits(&self, id: u64) -> usize {
        self.state().rules.get(&id).map_or(0, |rule| rule.hits)
    }

    pub(super) fn held(&self, id: u64) -> usize {
        self.state().rules.get(&id).map_or(0, |rule| rule.held)
    }

    /// The fault that meets a request, but for stalls.
    pub(super) fn fault(&self, request: &ApiRequest) -> Option<(u64, Fault)> {
        let mut state = self.state();
        let (id, rule) = state
            .rules
            .iter_mut()
            .find(|(_, rule)| rule.fault != Fault::Stall && rule.left != Some(0) && rule.filter.matches(request))?;
        rule.hits += 1;
        rule.left = rule.left.map(|left| left - 1);
        Some((*id, rule.fault.clone()))
    }

    pub(super) fn is_stalled(&self, request: &ApiRequest) -> bool {
        let state = self.state();
        let mut stalls = state.rules.values().filter(|rule| rule.fault == Fault::Stall);
        stalls.any(|rule| rule.filter.matches(request))
    }

    /// Waits until a fault is lifted, counting an answer that is held back meanwhile.
    pub(super) async fn hold(&self, id: u64) {
        let mut changes = self.changes();
        if let Some(rule) = self.state().rules.get_mut(&id) {
            rule.held += 1;
        }
        while self.is_in_force(id) && changes.changed().await.is_ok() {}
    }

    fn is_in_force(&self, id: u64) -> bool {
        self.state().rules.contains_key(&id)
    }

    pub(super) async fn wait_out_stalls(&self, request: &ApiRequest) {
        let mut changes = self.changes();
        while self.is_stalled(request) && changes.changed().await.is_ok() {}
    }

    /// Notes a request. The number is for its answer.
    pub(super) fn begin(&self, request: &ApiRequest) -> usize {
        let mut state = self.state();
        state.entries.push(Entry {
            request: request.clone(),
            at: Instant::now(),
            status: None,
        });
        state.entries.len() - 1
    }

    pub(super) fn answered(&self, entry: usize, status: u16) {
        if let Some(entry) = self.state().entries.get_mut(entry) {
            entry.status = Some(status);
        }
    }

    pub(super) fn entries(&self, filter: &Filter) -> Vec<Entry> {
        let state = self.state();
        let entries = state.entries.iter().filter(|entry| filter.matches(&entry.request));
        entries.cloned().collect()
    }

    pub(super) fn tell(&self, told: Told) {
        self.state().told.push(told);
    }

    pub(super) fn told(&self, filter: &Filter) -> Vec<Told> {
        let state = self.state();
        let told = state.told.iter().filter(|told| filter.matches(&told.request));
        told.cloned().collect()
    }

    pub(super) fn open(&self, request: &ApiRequest, control: UnboundedSender<Control>) -> u64 {
        let mut state = self.state();
        state.next += 1;
        let id = state.next;
        let request = request.clone();
        state.open.insert(id, OpenWatch { request, control });
        id
    }

    pub(super) fn close(&self, id: u64) {
        self.state().open.remove(&id);
    }

    pub(super) fn open_watches(&self) -> Vec<ApiRequest> {
        self.state().open.values().map(|watch| watch.request.clone()).collect()
    }

    /// Tells the open watches that a filter matches, and gives their number.
    pub(super) fn control(&self, filter: &Filter, control: &Control) -> usize {
        let state = self.state();
        let meant = state.open.values().filter(|watch| filter.matches(&watch.request));
        meant
            .filter(|watch| watch.control.send(control.clone()).is_ok())
            .count()
    }

    pub(super) fn confine(&self, resource: &str, namespace: &str) {
        self.state().confined = Some((resource.to_owned(), namespace.to_owned()));
    }

    pub(super) fn confined(&self) -> Option<(String, String)> {
        self.state().confined.clone()
    }

    pub(super) fn refuse(&self, refusing: bool) {
        self.state().refusing = refusing;
        self.notify();
    }

    pub(super) fn is_refusing(&self) -> bool {
        self.state().refusing
    }
}
