//! Reads: what they find is so at one moment, and told page by page later.

use std::collections::VecDeque;

use super::object::{Object, Resource};
use super::server::Place;
use super::streams::offered;
use super::trace::note;
use super::world::World;
use crate::{Failure, FailureReason, Metadata, ObjectName, ReadId, ReadRequest, ReadScope, Variant, Version};

pub(super) struct Reading {
    request: ReadRequest,
    resource: Resource,
    /// None if the cluster is not connected.
    server: Option<usize>,
    phase: Phase,
}

enum Phase {
    Asked,
    Answered {
        version: Version,
        pages: VecDeque<Vec<(ObjectName, Object)>>,
        /// A page whose texts are made.
        made: Option<Page>,
    },
}

type Page = Vec<(ObjectName, Metadata, Vec<Variant>)>;

impl World {
    pub(super) fn start_read(&mut self, id: ReadId, request: ReadRequest) {
        note!(self, "read {} {} {:?}", id.0, request.kind.kind, request.scope);
        self.counted.reads += 1;
        let reading = Reading {
            resource: Resource::of(&request.kind),
            server: self.connections.get(&request.cluster).copied(),
            request,
            phase: Phase::Asked,
        };
        self.reads.insert(id, reading);
    }

    /// Lets a read go on.
    pub(super) fn read_step(&mut self, id: ReadId) {
        let Some(mut reading) = self.reads.remove(&id) else {
            return;
        };
        let refusal = match (&reading.phase, reading.server) {
            (_, None) => Some(FailureReason::Unreachable),
            _ if self.goes_wrong(40) => Some(FailureReason::Unreachable),
            (Phase::Asked, Some(server)) => self.servers[server].refusal(reading.resource, place(&reading.request)),
            (Phase::Answered { .. }, _) => None,
        };
        if let Some(reason) = refusal {
            note!(self, "read {} failed: {reason:?}", id.0);
            let failure = Failure::new(reason, format!("{} cannot be read: {reason:?}", reading.request.kind));
            return self.core.read_failed(id, &failure, self.now);
        }
        match &mut reading.phase {
            Phase::Asked => {
                reading.phase = self.answer(&reading);
                self.reads.insert(id, reading);
            }
            Phase::Answered { version, pages, made } => {
                let version = *version;
                if let Some(page) = made.take() {
                    self.tell_page(id, &reading.request, version, page);
                } else if let Some(page) = pages.pop_front() {
                    let page = self.make(&reading.request, page);
                    // Between the making of its texts and the telling, a query may come that wants more.
                    if self.chaos && self.once_in(4) {
                        *made = Some(page);
                    } else {
                        self.tell_page(id, &reading.request, version, page);
                    }
                } else {
                    note!(self, "read {} done at {version}", id.0);
                    self.ledger.read_told(&reading.request, version);
                    return self.core.read_done(id, version, self.now);
                }
                self.reads.insert(id, reading);
            }
        }
    }

    fn answer(&mut self, reading: &Reading) -> Phase {
        let server = reading.server.map(|server| &self.servers[server]);
        let mut found: Vec<(ObjectName, Object)> = server
            .into_iter()
            .flat_map(|server| &server.objects)
            .filter(|((resource, name), object)| {
                *resource == reading.resource && is_within(&reading.request.scope, name, object)
            })
            .map(|((_, name), object)| (name.clone(), object.clone()))
            .collect();
        let mut pages = VecDeque::new();
        while !found.is_empty() {
            let page = found.drain(..found.len().min(self.random.usize(1..=3)));
            pages.push_back(page.collect());
        }
        Phase::Answered {
            version: Version(server.map_or(0, |server| server.version)),
            pages,
            made: None,
        }
    }

    fn make(&mut self, request: &ReadRequest, page: Vec<(ObjectName, Object)>) -> Page {
        let mut made = Vec::new();
        for (name, object) in page {
            let metadata = object.metadata();
            let wanted = offered(self.core.wanted(&request.object(&name), &metadata), request.content);
            // Objects that nobody wants may be left out of lists.
            let named = matches!(request.scope, ReadScope::Named(_));
            if !wanted.is_empty() || named || self.random.bool() {
                made.push((name, metadata, object.variants(&wanted)));
            }
        }
        made
    }

    fn tell_page(&mut self, id: ReadId, request: &ReadRequest, version: Version, page: Page) {
        for (name, metadata, variants) in &page {
            let text = variants.first().map_or("", |variant| &variant.text);
            self.ledger.page_told(&request.object(name), metadata.version);
            note!(
                self,
                "page of read {} v{} {} {name} {text}",
                id.0,
                metadata.version,
                request.kind.kind
            );
        }
        self.core.read_page(id, version, page, self.now);
    }
}

fn place(request: &ReadRequest) -> Place {
    match &request.scope {
        ReadScope::Named(name) => Place::Name {
            namespaced: name.namespace.is_some(),
        },
        ReadScope::Selected { namespace: Some(_), .. } => Place::Namespace,
        ReadScope::Selected { namespace: None, .. } => Place::Everywhere,
    }
}

fn is_within(scope: &ReadScope, name: &ObjectName, object: &Object) -> bool {
    match scope {
        ReadScope::Named(wanted) => wanted == name,
        ReadScope::Selected { namespace, selector } => {
            let here = namespace.is_none() || *namespace == name.namespace;
            here && selector.matches(&object.labels)
        }
    }
}
