//! A watch's stream, passed on line by line.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use kube::client::Body;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::ApiRequest;
use super::fault::Refusal;
use super::serve::{Answer, BoxError};
use super::state::{Control, Shared, Told};

type Frames = UnboundedSender<Result<Frame<Bytes>, BoxError>>;

/// The body of a watch's answer: what the API server's holds, and what tests do to it.
pub(super) fn relayed(shared: Arc<Shared>, request: ApiRequest, upstream: Body) -> Answer {
    let (frames, received) = unbounded_channel();
    let (control, controls) = unbounded_channel();
    let id = shared.open(&request, control);
    tokio::spawn(async move {
        let relay = Relay {
            shared: &shared,
            request,
            frames,
        };
        relay.run(upstream, controls).await;
        shared.close(id);
    });
    let received = stream::unfold(received, async |mut received| {
        let frame = received.recv().await?;
        Some((frame, received))
    });
    BodyExt::boxed_unsync(StreamBody::new(received.boxed()))
}

/// The body of a watch whose version is too old.
pub(super) fn expired() -> String {
    format!("{{\"type\":\"ERROR\",\"object\":{}}}\n", Refusal::expired().status())
}

struct Relay<'a> {
    shared: &'a Shared,
    request: ApiRequest,
    frames: Frames,
}

impl Relay<'_> {
    async fn run(self, mut upstream: Body, mut controls: UnboundedReceiver<Control>) {
        let mut changes = self.shared.changes();
        let mut pending = Vec::new();
        let mut ended = false;
        loop {
            let stalled = self.shared.is_stalled(&self.request);
            if !stalled {
                self.pass_on(&mut pending);
                if ended {
                    return;
                }
            }
            tokio::select! {
                () = self.frames.closed() => return,
                control = controls.recv() => match control {
                    None | Some(Control::End) => return,
                    Some(Control::Cut) => {
                        let _ = self.frames.send(Err("cut by a test".into()));
                        return;
                    }
                    Some(Control::Say(bytes)) => self.say(Bytes::from(bytes)),
                },
                frame = upstream.frame(), if !ended => match frame.map(|frame| frame.map(Frame::into_data)) {
                    Some(Ok(Ok(bytes))) => pending.extend_from_slice(&bytes),
                    Some(Ok(Err(_))) => {}
                    Some(Err(error)) => {
                        let _ = self.frames.send(Err(error.into()));
                        return;
                    }
                    None => ended = true,
                },
                changed = changes.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Sends whole lines.
    fn pass_on(&self, pending: &mut Vec<u8>) {
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            let told = self.told(&line);
            self.say(Bytes::from(line));
            if let Some(told) = told {
                self.shared.tell(told);
            }
        }
    }

    fn say(&self, bytes: Bytes) {
        let _ = self.frames.send(Ok(Frame::data(bytes)));
    }

    fn told(&self, line: &[u8]) -> Option<Told> {
        let event: Value = serde_json::from_slice(line).ok()?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &event["object"]["metadata"];
        Some(Told {
            request: self.request.clone(),
            kind: text(&event["type"]),
            namespace: text(&metadata["namespace"]),
            name: text(&metadata["name"]),
            version: text(&metadata["resourceVersion"]),
        })
    }
}
