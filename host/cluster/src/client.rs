//! The HTTP client.

use std::time::Duration;

use http::{Request, Response};
use http_body_util::Limited;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt};
use kube::{Client, Config};
use tower::retry::RetryLayer;
use tower::{BoxError, Service, ServiceBuilder, service_fn};

use crate::retry::WhenBusy;

/// How long a TCP connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);

/// How long an answer may take to begin, those of slow webhooks included. The API server itself gives up after a minute; a
/// run that waits so long for nothing is better tried again.
pub(crate) const ANSWER: Duration = Duration::from_secs(35);

/// A client like the one that kube makes by itself, but for TCP_NODELAY and for what it sends again. Without the first, the
/// body of a request waits until the server has acknowledged its head, which the server puts off for 40 ms. Behind a
/// proxy, kube's own is used, since the proxy's connection is the one that would wait. What is sent again, and when,
/// [`WhenBusy`] says: kube would also repeat a write that may have been carried out.
///
/// # Errors
/// The configuration's certificates or credentials cannot be used.
pub fn client(mut config: Config) -> Result<Client, kube::Error> {
    let namespace = config.default_namespace.clone();
    if config.proxy_url.is_some() {
        config.default_retry = false;
        let client = Client::try_from(config)?;
        let service = service_fn(move |request| {
            let client = client.clone();
            async move { client.send(request).await }
        });
        return Ok(Client::new(patient(service), namespace));
    }
    // kube picks a provider when it makes a client itself; when several are linked, rustls cannot.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT));
    let connector = config.rustls_https_connector_with_connector(connector)?;
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_response(bounded)
        .map_err(BoxError::from)
        .service(HttpClient::builder(TokioExecutor::new()).build(connector));
    Ok(Client::new(patient(service), namespace))
}

/// No answer has begun within so long.
#[derive(Debug, thiserror::Error)]
#[error("it has not answered for {ANSWER:?}")]
struct NoAnswer;

/// Waits while the API server is busy, and for no answer for ever.
fn patient<S, B>(
    service: S,
) -> impl Service<Request<Body>, Response = Response<B>, Error = BoxError, Future: Send> + Send + 'static
where
    S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>, Future: Send> + Clone + Send + 'static,
    B: Send + 'static,
{
    ServiceBuilder::new()
        .layer(RetryLayer::new(WhenBusy::default()))
        .map_future(async |answer| match tokio::time::timeout(ANSWER, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(NoAnswer.into()),
        })
        .map_err(S::Error::into)
        .service(service)
}

/// Bytes of an answer that says that something is wrong.
const LARGEST_ERROR: usize = 256 << 10;

/// The client reads such an answer whole, so a server that goes on for ever must be cut off.
fn bounded<B>(response: Response<B>) -> Response<Limited<B>> {
    let limit = if response.status().is_success() {
        usize::MAX
    } else {
        LARGEST_ERROR
    };
    response.map(|body| Limited::new(body, limit))
}
