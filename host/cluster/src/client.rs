//! The HTTP client.

use std::time::Duration;

use http::Response;
use http_body_util::Limited;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::ConfigExt;
use kube::client::retry::RetryPolicy;
use kube::{Client, Config};
use tower::retry::RetryLayer;
use tower::{BoxError, ServiceBuilder};

/// How long a TCP connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);

/// A client like the one that kube makes by itself, but for one option: TCP_NODELAY. Without it, the body of a request
/// waits until the server has acknowledged its head, which the server puts off for 40 ms. Behind a proxy, kube's own is
/// used, since the proxy's connection is the one that would wait.
///
/// # Errors
/// The configuration's certificates or credentials cannot be used.
pub fn client(config: Config) -> Result<Client, kube::Error> {
    if config.proxy_url.is_some() {
        return Client::try_from(config);
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
        .layer(RetryLayer::new(RetryPolicy::server_retry()))
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_response(bounded)
        .map_err(BoxError::from)
        .service(HttpClient::builder(TokioExecutor::new()).build(connector));
    Ok(Client::new(service, config.default_namespace))
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
