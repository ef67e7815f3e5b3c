//! The local socket of a running host: where it is, and what answers on it.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use patchbay_controller::explain::{Asked, Explainer, NotExplained};
use serde::{Deserialize, Serialize};

/// Where `explain` is asked.
pub(crate) const EXPLAIN: &str = "/v1/explain";

/// What is answered instead of an explanation.
#[derive(Serialize, Deserialize)]
pub(crate) struct Problem {
    pub(crate) message: String,
}

/// Where a host's socket is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    /// A folder that belongs to this user alone, or the socket may be another's.
    private: Option<PathBuf>,
    /// Nobody has named it.
    default: bool,
}

impl Place {
    /// The place that an argument names; none if it says so.
    pub(crate) fn of(argument: Option<&OsStr>) -> Option<Self> {
        match argument {
            Some(off) if off.is_empty() || off == "none" => None,
            Some(file) => Some(Place {
                path: file.into(),
                private: None,
                default: false,
            }),
            None => Some(Place::default(std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from))),
        }
    }

    fn default(runtime_folder: Option<PathBuf>) -> Self {
        match runtime_folder.filter(|folder| folder.is_absolute()) {
            Some(folder) => Place {
                path: folder.join("patchbay.sock"),
                private: None,
                default: true,
            },
            None => {
                let folder = std::env::temp_dir().join(format!("patchbay-{}", user()));
                Place {
                    path: folder.join("host.sock"),
                    private: Some(folder),
                    default: true,
                }
            }
        }
    }

    /// Checks that nobody else can have put a socket there.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        match &self.private {
            Some(folder) => belongs_to(folder, user()),
            None => Ok(()),
        }
    }

    /// Takes the place, from a host that has ended too. A place that nobody has named may be one that cannot be had, as
    /// in a container without a folder to write to: then there is none.
    pub(crate) fn listen(&self) -> anyhow::Result<Option<Listening>> {
        match self.make_folder().and_then(|()| bind(&self.path)) {
            Ok(listener) => Ok(Some(Listening {
                listener,
                file: SocketFile(self.path.clone()),
            })),
            Err(error) if self.default && is_unavailable(&error) => {
                tracing::warn!(
                    "{error:#}; `patchbay explain` cannot ask this host, unless --socket names another file"
                );
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn make_folder(&self) -> anyhow::Result<()> {
        let Some(folder) = &self.private else { return Ok(()) };
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                Err(error).with_context(|| format!("cannot make the folder {}", folder.display()))
            }
            _ => belongs_to(folder, user()),
        }
    }
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// That a folder belongs to a user, who alone can enter it.
fn belongs_to(folder: &Path, user: u32) -> anyhow::Result<()> {
    let Ok(found) = fs::symlink_metadata(folder) else {
        // Then there is no socket in it either.
        return Ok(());
    };
    if !found.is_dir() || found.uid() != user || found.mode() & 0o077 != 0 {
        bail!(
            "{} must be a folder of this user with mode 0700, or another user could answer for the host: remove it, or name \
             a socket with --socket",
            folder.display()
        );
    }
    Ok(())
}

fn is_unavailable(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    matches!(
        kind,
        Some(ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
    )
}

fn bind(path: &Path) -> anyhow::Result<UnixListener> {
    let problem = || match path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty() && !folder.exists())
    {
        Some(folder) => format!(
            "cannot serve the socket {}: make the folder {}, or name another file with --socket",
            path.display(),
            folder.display()
        ),
        None => format!("cannot serve the socket {}", path.display()),
    };
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            remove_stale(path)?;
            UnixListener::bind(path)
        }
        bound => bound,
    };
    let listener = listener.with_context(problem)?;
    fs::set_permissions(path, Permissions::from_mode(0o600)).with_context(problem)?;
    listener.set_nonblocking(true).with_context(problem)?;
    Ok(listener)
}

/// Removes a socket that no host serves any longer.
fn remove_stale(path: &Path) -> anyhow::Result<()> {
    let problem = || format!("cannot replace {}", path.display());
    if !fs::symlink_metadata(path)
        .with_context(problem)?
        .file_type()
        .is_socket()
    {
        bail!(
            "{} is there and is no socket: name another file with --socket",
            path.display()
        );
    }
    match UnixStream::connect(path) {
        Ok(_) => bail!(
            "a host serves the socket {} already: name another file with --socket, or none",
            path.display()
        ),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path).with_context(problem),
        Err(error) => Err(error).with_context(problem),
    }
}

/// A socket that is this host's.
pub(crate) struct Listening {
    listener: UnixListener,
    file: SocketFile,
}

/// A socket's file, which goes with the host.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

impl Listening {
    /// Answers until this is dropped.
    pub(crate) async fn serve(self, explainer: Explainer) -> anyhow::Result<()> {
        let Listening { listener, file: _file } = self;
        let listener = Own(tokio::net::UnixListener::from_std(listener)?);
        let router = Router::new().route(EXPLAIN, get(explain)).with_state(explainer);
        axum::serve(listener, router).await?;
        Ok(())
    }
}

/// Lets nobody but this user and root in: the file of a socket has its mode only a moment after it is there.
struct Own(tokio::net::UnixListener);

impl axum::serve::Listener for Own {
    type Io = tokio::net::UnixStream;
    type Addr = tokio::net::unix::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = axum::serve::Listener::accept(&mut self.0).await;
            let peer = stream.peer_cred().map(|peer| peer.uid());
            if peer.is_ok_and(|peer| peer == user() || peer == 0) {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.0.local_addr()
    }
}

async fn explain(State(explainer): State<Explainer>, Query(asked): Query<Asked>) -> Response {
    match explainer.explain(asked).await {
        Ok(explanation) => Json(explanation).into_response(),
        Err(error) => {
            let status = match &error {
                NotExplained::Cluster { .. } | NotExplained::Kind { .. } | NotExplained::Object { .. } => {
                    StatusCode::NOT_FOUND
                }
                NotExplained::Several { .. } => StatusCode::CONFLICT,
                NotExplained::Stopping => StatusCode::SERVICE_UNAVAILABLE,
            };
            let problem = Problem {
                message: error.to_string(),
            };
            (status, Json(problem)).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: &Path) -> Place {
        Place {
            path: path.to_owned(),
            private: None,
            default: false,
        }
    }

    #[test]
    fn a_place_is_named_or_a_default_or_none() {
        assert_eq!(Place::of(Some(OsStr::new("none"))), None);
        assert_eq!(Place::of(Some(OsStr::new(""))), None);
        assert_eq!(Place::of(Some(OsStr::new("/a/b"))), Some(at(Path::new("/a/b"))));
        let runtime = Place::default(Some("/run/user/1".into()));
        assert_eq!(
            (runtime.path.as_path(), runtime.private),
            (Path::new("/run/user/1/patchbay.sock"), None)
        );
        let temporary = Place::default(None);
        assert_eq!(temporary.private.as_deref(), temporary.path.parent());
    }

    #[test]
    fn a_folder_of_another_user_is_not_trusted() {
        let private = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new()
            .permissions(private)
            .tempdir()
            .expect("a folder");
        let check = |user| belongs_to(folder.path(), user).map_err(|error| error.to_string());
        assert_eq!(check(user()), Ok(()));
        let error = check(user() + 1).expect_err("it is another's");
        assert!(error.contains("mode 0700"), "{error}");
        let open = Permissions::from_mode(0o750);
        fs::set_permissions(folder.path(), open).expect("it is ours");
        check(user()).expect_err("others can look into it");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/", &link).expect("a link");
        belongs_to(&link, user()).expect_err("a link may lead anywhere");
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_or_a_file_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s");
        let live = at(&path).listen().expect("a socket").expect("it is named");
        let mode = fs::metadata(&path).expect("it is there").mode();
        assert_eq!(mode & 0o777, 0o600);
        let error = at(&path).listen().map(drop).expect_err("it is live").to_string();
        assert!(error.contains("already") && error.contains("--socket"), "{error}");
        // A host that is killed leaves its file.
        let Listening { listener, file } = live;
        std::mem::forget(file);
        drop(listener);
        let next = at(&path).listen().expect("it is stale");
        drop(next);
        assert!(!path.exists(), "a host that stops leaves nothing");
        fs::write(&path, "precious").expect("a file");
        let error = at(&path).listen().map(drop).expect_err("no socket").to_string();
        assert!(error.contains("is no socket"), "{error}");
    }

    #[test]
    fn only_a_default_place_may_be_one_that_cannot_be_had() {
        let folder = tempfile::tempdir().expect("a folder");
        let nowhere = at(&folder.path().join("none/s"));
        let error = nowhere
            .listen()
            .map(drop)
            .expect_err("there is no such folder")
            .to_string();
        assert!(error.contains("none/s"), "{error}");
        let default = Place {
            default: true,
            ..nowhere
        };
        assert!(default.listen().expect("it goes on without").is_none());
    }
}
