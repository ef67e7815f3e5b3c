//! The server side: connections, and what becomes of a request.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, RETRY_AFTER, TRANSFER_ENCODING};
use http::{HeaderMap, Request, Response, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use kube::Client;
use kube::client::Body;
use tokio::net::{TcpListener, TcpStream};

use super::fault::{Fault, Refusal};
use super::state::Shared;
use super::{ApiRequest, Verb, relay};

pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// The body of an answer.
pub(super) type Answer = UnsyncBoxBody<Bytes, BoxError>;

/// Serves until it is dropped.
pub(super) async fn accept(listener: TcpListener, client: Client, shared: Arc<Shared>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        if !shared.is_refusing() {
            tokio::spawn(connection(stream, client.clone(), shared.clone()));
        }
    }
}

async fn connection(stream: TcpStream, client: Client, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let mut changes = shared.changes();
    let service = {
        let shared = shared.clone();
        service_fn(move |request| answer(request, client.clone(), shared.clone()))
    };
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service);
    let mut serving = std::pin::pin!(serving);
    loop {
        tokio::select! {
            _ = &mut serving => return,
            changed = changes.changed() => if changed.is_err() || shared.is_refusing() { return },
        }
    }
}

/// An error ends the connection without an answer, as a server that is not there would.
async fn answer(request: Request<Incoming>, client: Client, shared: Arc<Shared>) -> Result<Response<Answer>, BoxError> {
    let (mut head, body) = request.into_parts();
    let asked = ApiRequest::parse(&head);
    let entry = shared.begin(&asked);
    // The whole of it, so that a write that waits has been sent.
    let body = body.collect().await?.to_bytes();
    shared.wait_out_stalls(&asked).await;
    let fault = shared.fault(&asked);
    if let Some((_, Fault::Answer(refusal))) = &fault {
        shared.answered(entry, refusal.code);
        return Ok(refused(refusal)?);
    }
    if let Some((_, Fault::ExpireStream)) = &fault {
        shared.answered(entry, 200);
        return Ok(json(200, relay::expired())?);
    }
    if let Some(uri) = confined(&asked, &head.uri, &shared) {
        head.uri = uri?;
    }
    for name in [HOST, AUTHORIZATION] {
        head.headers.remove(name);
    }
    hop_by_hop(&mut head.headers);
    let (mut head, body) = client
        .send(Request::from_parts(head, Body::from(body)))
        .await?
        .into_parts();
    hop_by_hop(&mut head.headers);
    let answer = match fault {
        Some((_, Fault::Lose(refusal))) => {
            body.collect().await?;
            refused(&refusal)?
        }
        Some((id, Fault::Hold)) => {
            let body = body.collect().await?.to_bytes();
            shared.hold(id).await;
            Response::from_parts(head, whole(body))
        }
        _ if asked.verb == Verb::Watch && head.status.is_success() => {
            Response::from_parts(head, relay::relayed(shared.clone(), asked, body))
        }
        _ => Response::from_parts(head, body.map_err(BoxError::from).boxed_unsync()),
    };
    shared.answered(entry, answer.status().as_u16());
    Ok(answer)
}

fn hop_by_hop(headers: &mut HeaderMap) {
    for name in [CONNECTION, TRANSFER_ENCODING] {
        headers.remove(name);
    }
}

fn refused(refusal: &Refusal) -> Result<Response<Answer>, http::Error> {
    let mut response = json(refusal.code, refusal.status())?;
    if let Some(delay) = refusal.retry_after {
        response.headers_mut().insert(RETRY_AFTER, delay.as_secs().into());
    }
    Ok(response)
}

fn json(code: u16, body: String) -> Result<Response<Answer>, http::Error> {
    Response::builder()
        .status(code)
        .header(CONTENT_TYPE, "application/json")
        .body(whole(body.into()))
}

fn whole(body: Bytes) -> Answer {
    Full::new(body)
        .map_err(|never: Infallible| match never {})
        .boxed_unsync()
}

/// Where a request for all namespaces goes when only one of them is shown.
fn confined(asked: &ApiRequest, uri: &Uri, shared: &Shared) -> Option<Result<Uri, http::uri::InvalidUri>> {
    let (resource, namespace) = shared.confined()?;
    let is_meant = asked.resource == resource
        && asked.namespace.is_empty()
        && asked.name.is_empty()
        && matches!(asked.verb, Verb::List | Verb::Watch);
    if !is_meant {
        return None;
    }
    let version = if asked.group.is_empty() {
        "/api/v1".to_owned()
    } else {
        format!("/apis/{}/{}", asked.group, asked.version)
    };
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    Some(format!("{version}/namespaces/{namespace}/{resource}{query}").parse())
}
