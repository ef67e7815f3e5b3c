//! Watches as a server tells them: late, cut, silent, and not always in order.

use std::time::Duration;

use super::object::{Object, Resource};
use super::server::{Event, Place, Position};
use super::trace::note;
use super::world::World;
use crate::{
    Change, Content, Failure, FailureReason, Fields, ObjectKey, ObjectName, Scope, State, Time, Version, WatchId,
    WatchKey,
};

#[derive(Clone)]
pub(super) struct Stream {
    pub(super) key: WatchKey,
    resource: Resource,
    server: usize,
    /// Which Gadgets it watches: it ends when they are served anew.
    incarnation: u32,
    phase: Phase,
    /// It tells nothing, and nobody has noticed yet.
    silent: bool,
    /// When it told which events.
    told: Vec<(Time, usize)>,
}

/// For how long what a stream told may come again: what is long past, none tells.
const AGAIN: Duration = Duration::from_secs(100);

#[derive(Clone, Copy)]
enum Phase {
    Asked,
    /// The version is known that it begins from.
    Begun(Position, Version),
    Stands(Position),
}

impl World {
    pub(super) fn start_stream(&mut self, id: WatchId, key: WatchKey) {
        note!(
            self,
            "watch {} {} {:?} {:?}",
            id.0,
            key.kind.kind,
            key.scope,
            key.content
        );
        let Some(&server) = self.connections.get(&key.cluster) else {
            return self.violated(format!("a watch in cluster {}, which is not connected", key.cluster.0));
        };
        let stream = Stream {
            resource: Resource::of(&key.kind),
            incarnation: self.servers[server].incarnation,
            key,
            server,
            phase: Phase::Asked,
            silent: false,
            told: Vec::new(),
        };
        self.streams.insert(id, stream);
    }

    /// Lets a stream go on.
    pub(super) fn stream_step(&mut self, id: WatchId) {
        let Some(stream) = self.streams.get(&id).cloned() else {
            return;
        };
        if self.goes_wrong(60) {
            return self.cut(id);
        }
        match stream.phase {
            Phase::Asked => self.begin(id, &stream),
            Phase::Begun(at, version) => {
                self.set_phase(id, Phase::Stands(at));
                note!(self, "watch {} stands at {version}", id.0);
                self.ledger.disturb();
                self.core.watch_stands(id, version, self.now);
            }
            Phase::Stands(_) if self.goes_wrong(80) => self.set_silent(id, true),
            Phase::Stands(_) if stream.silent => {
                let silent = self.chaos && !self.once_in(20);
                self.set_silent(id, silent);
            }
            Phase::Stands(at) if self.goes_wrong(25) => self.lie(id, &stream, at),
            Phase::Stands(at) => self.follow(id, &stream, at),
        }
    }

    fn set_phase(&mut self, id: WatchId, phase: Phase) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.phase = phase;
        }
    }

    fn set_silent(&mut self, id: WatchId, silent: bool) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.silent = silent;
        }
    }

    fn begin(&mut self, id: WatchId, stream: &Stream) {
        if let Some(reason) = self.refusal_of(stream) {
            return self.fail_stream(id, reason);
        }
        let server = &self.servers[stream.server];
        let (at, version, incarnation) = (server.position(), Version(server.version), server.incarnation);
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.incarnation = incarnation;
            stream.phase = Phase::Begun(at, version);
        }
    }

    fn refusal_of(&self, stream: &Stream) -> Option<FailureReason> {
        let place = match &stream.key.scope {
            Scope::All => Place::Everywhere,
            Scope::Namespace(_) => Place::Namespace,
            Scope::Name(name) => Place::Name {
                namespaced: name.namespace.is_some(),
            },
        };
        self.servers[stream.server].refusal(stream.resource, place)
    }

    /// It ends, with a gap or with a failure.
    fn cut(&mut self, id: WatchId) {
        if self.random.bool() {
            self.expire(id);
        } else {
            self.fail_stream(id, FailureReason::Unreachable);
        }
    }

    fn expire(&mut self, id: WatchId) {
        note!(self, "watch {} expired", id.0);
        if self.streams.remove(&id).is_some() {
            self.ledger.disturb();
            self.core.watch_expired(id);
        }
    }

    fn fail_stream(&mut self, id: WatchId, reason: FailureReason) {
        note!(self, "watch {} failed: {reason:?}", id.0);
        if let Some(stream) = self.streams.remove(&id) {
            self.ledger.disturb();
            let failure = Failure::new(reason, format!("{} cannot be watched: {reason:?}", stream.key.kind));
            self.core.watch_failed(id, &failure, self.now);
        }
    }

    /// Tells once more what it has told lately. What is long past, no stream tells again.
    fn lie(&mut self, id: WatchId, stream: &Stream, at: Position) {
        let lately = stream.told.iter().filter(|(time, _)| *time + AGAIN > self.now);
        let Some((_, next)) = self.random.choice(lately.collect::<Vec<_>>()).copied() else {
            return;
        };
        let event = self.servers[stream.server].event(Position { next, ..at }).cloned();
        if let Some(event) = event.filter(|event| stream.covers(event)) {
            note!(self, "watch {} tells again:", id.0);
            self.tell(id, stream, event);
        }
    }

    /// Tells the next event, or ends as it must.
    fn follow(&mut self, id: WatchId, stream: &Stream, mut at: Position) {
        let server = &self.servers[stream.server];
        // What was on its way when data were restored may still come.
        let over = server.is_past(at) && (!self.chaos || self.random.bool());
        if over {
            return self.expire(id);
        }
        if server.down {
            return self.lose_server(id);
        }
        while let Some(event) = self.servers[stream.server].event(at).cloned() {
            at.next += 1;
            if stream.covers(&event) {
                self.set_phase(id, Phase::Stands(at));
                if let Some(stream) = self.streams.get_mut(&id) {
                    stream.told.push((self.now, at.next - 1));
                }
                return self.tell(id, stream, event);
            }
        }
        self.set_phase(id, Phase::Stands(at));
        if self.ended(stream) {
            return match self.refusal_of(stream) {
                Some(reason) => self.fail_stream(id, reason),
                None => self.expire(id),
            };
        }
        // A stream that stands is not cut when rights are taken away, but not renewed either.
        if let Some(reason) = self.refusal_of(stream)
            && !(self.chaos && self.random.bool())
        {
            self.fail_stream(id, reason);
        }
    }

    /// A server that is away for a moment is waited for.
    fn lose_server(&mut self, id: WatchId) {
        if !self.chaos || self.once_in(4) {
            self.fail_stream(id, FailureReason::Unreachable);
        }
    }

    fn ended(&self, stream: &Stream) -> bool {
        stream.resource == Resource::Gadget && self.servers[stream.server].incarnation != stream.incarnation
    }

    fn tell(&mut self, id: WatchId, stream: &Stream, event: Event) {
        let key = ObjectKey {
            cluster: stream.key.cluster,
            kind: stream.key.kind.clone(),
            name: event.name,
        };
        let shown = event.object.as_ref().map(|object| object.text(&Fields::Whole));
        let shown = shown.as_deref().unwrap_or("gone");
        note!(
            self,
            "event v{} {:?} {} {shown}",
            event.version,
            event.resource,
            key.name
        );
        let version = Version(event.version);
        self.ledger.event_told(&key, version, event.object.as_ref());
        let state = match &event.object {
            None => State::Absent { version },
            Some(object) => self.state(&key, object, stream.key.content),
        };
        self.core.changed(id, Change { object: key, state }, self.now);
    }

    fn state(&self, key: &ObjectKey, object: &Object, content: Content) -> State {
        let metadata = object.metadata();
        let wanted = offered(self.core.wanted(key, &metadata), content);
        State::Present {
            variants: object.variants(&wanted),
            metadata,
        }
    }

    /// Whether a stream has nothing to tell and no reason to end.
    pub(super) fn is_idle(&self, stream: &Stream) -> bool {
        let Phase::Stands(mut at) = stream.phase else {
            return false;
        };
        let server = &self.servers[stream.server];
        while let Some(event) = server.event(at) {
            if stream.covers(event) {
                return false;
            }
            at.next += 1;
        }
        !stream.silent
            && !server.is_past(at)
            && !server.down
            && !self.ended(stream)
            && self.refusal_of(stream).is_none()
    }
}

impl Stream {
    fn covers(&self, event: &Event) -> bool {
        self.resource == event.resource && covers(&self.key.scope, &event.name)
    }
}

pub(super) fn covers(scope: &Scope, name: &ObjectName) -> bool {
    match scope {
        Scope::All => true,
        Scope::Namespace(namespace) => name.namespace.as_ref() == Some(namespace),
        Scope::Name(watched) => watched == name,
    }
}

/// What can be made of objects of which so much is told.
pub(super) fn offered(mut wanted: Vec<Fields>, content: Content) -> Vec<Fields> {
    if content == Content::Metadata {
        wanted.retain(|fields| *fields == Fields::Metadata);
    }
    wanted
}
