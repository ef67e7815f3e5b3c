//! Connections to API servers.

use std::time::Duration;

use futures::AsyncReadExt;
use kube::config::Config;
use kube::{Api, Client};

use crate::client::{ANSWER, client};
use crate::discovery::Discovery;
use crate::error::Error;
use crate::kubeconfig;
use crate::retry::PATIENCE;

/// A request as kube makes it.
pub(crate) type Request = http::Request<Vec<u8>>;

/// A connection to one API server, with one set of credentials.
pub struct Connection {
    name: String,
    uid: String,
    pub(crate) client: Client,
    pub(crate) discovery: Discovery,
}

impl Connection {
    /// Connects to the cluster of a kubeconfig that was found in a Secret.
    ///
    /// # Errors
    /// The kubeconfig is refused, or the API server cannot be reached. No error repeats a part of the kubeconfig.
    pub async fn to_inline(name: &str, kubeconfig: &str) -> Result<Self, Error> {
        let config = kubeconfig::inline(kubeconfig)
            .await
            .map_err(|source| Error::Kubeconfig {
                cluster: name.to_owned(),
                source,
            })?;
        Connection::new(name, config).await
    }

    pub(crate) async fn new(name: &str, config: Config) -> Result<Self, Error> {
        let failed = |source| Error::Request {
            cluster: name.to_owned(),
            source,
        };
        let server = config.cluster_url.to_string();
        let unchecked = config.accept_invalid_certs;
        let client = client(config).map_err(failed)?;
        let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
        let uid = match in_time(name, namespaces.get_metadata("kube-system")).await {
            Ok(namespace) => namespace.metadata.uid.unwrap_or(server),
            // Without the right to look at it, the address has to do.
            Err(Error::Request {
                source: kube::Error::Api(status),
                ..
            }) if matches!(status.code, 403 | 404) => {
                if status.code == 403 {
                    tracing::warn!(
                        cluster = name,
                        "the cluster is known by its address, and an address may change: grant get on the Namespace \
                         kube-system, whose uid tells clusters apart"
                    );
                }
                server
            }
            Err(error) => return Err(error),
        };
        if unchecked {
            tracing::warn!(
                cluster = name,
                "the API server's certificate is not checked, since the kubeconfig says insecure-skip-tls-verify"
            );
        }
        Ok(Connection {
            name: name.to_owned(),
            uid,
            client,
            discovery: Discovery::default(),
        })
    }

    /// One that cannot send anything.
    #[cfg(test)]
    pub(crate) fn of_test() -> Self {
        let nobody = tower::service_fn(async |_: http::Request<kube::client::Body>| {
            Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("there is no server"))
        });
        Connection {
            name: "test".to_owned(),
            uid: "uid".to_owned(),
            client: Client::new(nobody, "default"),
            discovery: Discovery::default(),
        }
    }

    /// What the cluster is called in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The uid of the cluster's kube-system namespace, or its address where that may not be read.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// A request, unless it could not be made.
    pub(crate) fn built(&self, request: Result<Request, kube::core::request::Error>) -> Result<Request, Error> {
        request.map_err(|error| self.failed(kube::Error::BuildRequest(error)))
    }

    /// Sends a request and gives the text of the answer.
    pub(crate) async fn text(&self, request: Request) -> Result<String, Error> {
        let answer = in_time(&self.name, async {
            let stream = self.client.request_stream(request).await?;
            let mut text = String::new();
            let read = stream.take(LARGEST).read_to_string(&mut text).await;
            read.map(|_| text).map_err(kube::Error::ReadEvents)
        });
        let text = answer.await?;
        if text.len() as u64 >= LARGEST {
            return Err(Error::TooLarge {
                cluster: self.name.clone(),
                limit: LARGEST,
            });
        }
        Ok(text)
    }

    pub(crate) fn failed(&self, source: kube::Error) -> Error {
        Error::Request {
            cluster: self.name.clone(),
            source,
        }
    }

    pub(crate) fn protocol(&self, problem: impl ToString) -> Error {
        Error::Protocol {
            cluster: self.name.clone(),
            problem: problem.to_string(),
        }
    }
}

/// Bytes of one answer. A page of 500 objects of the size that etcd allows does not fit, one of ordinary objects does by far.
const LARGEST: u64 = 64 << 20;

/// How long a request may take with all that it waits for: an API server that is busy, and an answer that comes slowly. One
/// that does not begin to come is given up sooner.
const LONGEST: Duration = PATIENCE.saturating_add(ANSWER);

/// Waits for the answer to a request, but not for ever.
pub(crate) async fn in_time<T>(
    cluster: &str,
    answer: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(LONGEST, answer).await {
        Ok(answer) => answer.map_err(|source| Error::Request {
            cluster: cluster.to_owned(),
            source,
        }),
        Err(_) => Err(Error::TimedOut {
            cluster: cluster.to_owned(),
            after: LONGEST,
        }),
    }
}
