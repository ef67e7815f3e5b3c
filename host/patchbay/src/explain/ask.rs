//! Asks a running host over its socket.

use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use axum::body::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::handshake;
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use patchbay_controller::explain::{Asked, Explanation};
use tokio::net::UnixStream;

use crate::socket::{EXPLAIN, Place, Problem};

/// A host answers from memory. One that takes longer is busy with something that should not take so long.
const LIMIT: Duration = Duration::from_secs(10);

pub(super) fn ask(place: &Place, asked: &Asked) -> anyhow::Result<Explanation> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("tokio runtime")?;
    let path = &place.path;
    runtime.block_on(async {
        let answered = tokio::time::timeout(LIMIT, get(path, &address(asked))).await;
        let (status, body) = answered.map_err(|_| {
            anyhow!(
                "the host at {} has not answered within {} s: it may still be starting",
                path.display(),
                LIMIT.as_secs()
            )
        })??;
        if status == StatusCode::OK {
            return serde_json::from_slice(&body).with_context(|| {
                format!(
                    "the host at {} answers what \
                this patchbay does not understand: are both of the same version?",
                    path.display()
                )
            });
        }
        match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => Err(anyhow!(problem.message)),
            Err(_) => bail!(
                "the host at {} answers {status}: are both of the same version?",
                path.display()
            ),
        }
    })
}

/// What is asked, as the target of a request.
fn address(asked: &Asked) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("kind", &asked.kind).append_pair("name", &asked.name);
    for (name, value) in [("namespace", &asked.namespace), ("cluster", &asked.cluster)] {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    format!("{EXPLAIN}?{}", query.finish())
}

async fn get(path: &Path, address: &str) -> anyhow::Result<(StatusCode, Bytes)> {
    let stream = UnixStream::connect(path)
        .await
        .map_err(|error| not_reached(path, &error))?;
    let broken = || format!("the host at {} broke off", path.display());
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.with_context(broken)?;
    tokio::spawn(connection);
    let request = Request::get(address)
        .header(header::HOST, "patchbay")
        .body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await.with_context(broken)?;
    let status = response.status();
    let body = response.into_body().collect().await.with_context(broken)?;
    Ok((status, body.to_bytes()))
}

fn not_reached(path: &Path, error: &std::io::Error) -> anyhow::Error {
    let is_socket = std::fs::metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let path = path.display();
    match error.kind() {
        ErrorKind::ConnectionRefused if !is_socket => {
            anyhow!("{path} is no socket: name that of a running host with --socket")
        }
        ErrorKind::NotFound => anyhow!(
            "no host runs here: there is no socket {path}. Start one with `patchbay run`, or name its socket with --socket"
        ),
        ErrorKind::ConnectionRefused => anyhow!(
            "no host runs here: the one that served {path} has ended. Start one with `patchbay run`, or name its socket with \
             --socket"
        ),
        ErrorKind::PermissionDenied => {
            anyhow!("{path}: permission denied: ask as the user that the host runs as")
        }
        _ => anyhow!("{path}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_is_told_whatever_it_holds() {
        let asked = Asked {
            kind: "deployments.apps".to_owned(),
            name: "a&b".to_owned(),
            namespace: None,
            cluster: Some("of kubeconfig Secret n/s key k".to_owned()),
        };
        assert_eq!(
            address(&asked),
            "/v1/explain?kind=deployments.apps&name=a%26b&cluster=of+kubeconfig+Secret+n%2Fs+key+k"
        );
    }
}
