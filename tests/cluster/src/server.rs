//! One running API server.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::Access;

/// How long a server may take to be ready. Alone it takes four seconds on two cores.
const START_LIMIT: Duration = Duration::from_secs(180);

/// How long a server may take to end once its input is closed, before it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// What a server should be like.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Do not flush etcd's writes to disk: faster, and nothing that a test could notice.
    pub no_fsync: bool,
    /// Remove the server's folder when it ends, whoever ends it.
    pub temporary: bool,
    /// Write an audit log of all requests (metadata only) to this file.
    pub audit_log: Option<PathBuf>,
    /// The port on 127.0.0.1; a free one if absent.
    pub port: Option<u16>,
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The folder or a log in it cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    Folder {
        /// What could not be written.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The binary cannot be run.
    #[error("cannot run {}: {error}", binary.display())]
    Binary {
        /// What could not be run.
        binary: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// It ended, took too long or said something else than expected.
    #[error("API server {context} {problem}{log}")]
    NotReady {
        /// The context of the server.
        context: String,
        /// What happened.
        problem: String,
        /// The end of its log.
        log: String,
    },
}

/// A running API server, with etcd, garbage collection and namespace deletion. Dropping it ends it.
#[derive(Debug)]
pub struct ApiServer {
    child: Child,
    folder: PathBuf,
    access: Access,
}

impl ApiServer {
    /// Starts a server that keeps all its files in `folder`, and waits until it answers.
    pub fn start(binary: &Path, folder: &Path, context: &str, options: &Options) -> Result<Self, StartError> {
        fs::create_dir_all(folder).map_err(|error| StartError::Folder {
            path: folder.to_owned(),
            error,
        })?;
        let log_path = folder.join("apiserver.log");
        let log = File::create(&log_path).map_err(|error| StartError::Folder {
            path: log_path.clone(),
            error,
        })?;
        let mut command = Command::new(binary);
        command
            .arg("serve")
            .arg("--dir")
            .arg(folder)
            .args(["--context", context]);
        if options.no_fsync {
            command.arg("--no-fsync");
        }
        if options.temporary {
            command.arg("--temporary");
        }
        if let Some(file) = &options.audit_log {
            command.arg("--audit-log").arg(file);
        }
        if let Some(port) = options.port {
            command.arg("--port").arg(port.to_string());
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        // Ctrl-C in a terminal must not reach the server before those who use it have ended.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().map_err(|error| StartError::Binary {
            binary: binary.to_owned(),
            error,
        })?;
        match read_readiness(&mut child, context) {
            Ok(access) => Ok(Self {
                child,
                folder: folder.to_owned(),
                access,
            }),
            Err(problem) => {
                let log = tail(&log_path, 15);
                end(&mut child, Duration::ZERO);
                Err(StartError::NotReady {
                    context: context.to_owned(),
                    problem,
                    log,
                })
            }
        }
    }

    /// Starts several servers at once, one for each folder and context.
    pub fn start_all(binary: &Path, places: &[(PathBuf, String)], options: &Options) -> Result<Vec<Self>, StartError> {
        thread::scope(|scope| {
            let start = |(folder, context): &'_ (PathBuf, String)| {
                let (folder, context) = (folder.clone(), context.clone());
                scope.spawn(move || Self::start(binary, &folder, &context, options))
            };
            let starting: Vec<_> = places.iter().map(start).collect();
            let joined = starting.into_iter().map(|thread| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            joined.collect()
        })
    }

    /// How it is reached, as an administrator.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Where it keeps its files: `apiserver.log`, `controller-manager.log`, `kubeconfig` and etcd's data.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The kubeconfig of an administrator of this one server.
    pub fn kubeconfig_path(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// Whether it is no longer running.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// The process id of the server.
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        end(&mut self.child, STOP_LIMIT);
    }
}

/// Reads the line that the server prints when it is ready, or says what happened in its place.
fn read_readiness(child: &mut Child, context: &str) -> Result<Access, String> {
    let stdout = child.stdout.take().ok_or("has no standard output")?;
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line).map(|_| line);
        // Nobody listens any more once the limit is over.
        let _ = sender.send(read);
    });
    let line = receiver
        .recv_timeout(START_LIMIT)
        .map_err(|_| format!("is not ready after {} s", START_LIMIT.as_secs()))?
        .map_err(|error| format!("cannot be read from: {error}"))?;
    if line.is_empty() {
        return Err("ended before it was ready".to_owned());
    }
    parse_readiness(&line, context).ok_or_else(|| format!("said something unexpected: {}", line.trim_end()))
}

fn parse_readiness(line: &str, context: &str) -> Option<Access> {
    let value: Value = serde_json::from_str(line).ok()?;
    Some(Access {
        context: context.to_owned(),
        url: value["server"].as_str()?.to_owned(),
        certificate_authority: BASE64_STANDARD
            .decode(value["certificateAuthorityData"].as_str()?)
            .ok()?,
        token: value["token"].as_str()?.to_owned(),
    })
}

/// Closes the input, waits, and kills what has not ended then.
fn end(child: &mut Child, limit: Duration) {
    drop(child.stdin.take());
    let begin = Instant::now();
    while begin.elapsed() < limit {
        match child.try_wait() {
            Ok(None) => thread::sleep(Duration::from_millis(10)),
            _ => return,
        }
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// The last lines of a log, made to follow a message.
fn tail(log: &Path, lines: usize) -> String {
    let Ok(content) = fs::read_to_string(log) else {
        return String::new();
    };
    let all: Vec<_> = content.lines().collect();
    let last = all[all.len().saturating_sub(lines)..].join("\n  ");
    if last.is_empty() {
        String::new()
    } else {
        format!(". The end of its log:\n  {last}")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A script cannot be run while another thread's child, not yet having become another program, still holds the
    /// file open for writing.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    fn script(folder: &Path, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = folder.join("server.sh");
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn a_server_that_cannot_start_says_why() {
        let _alone = ONE_AT_A_TIME.lock().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let binary = script(folder.path(), "echo 'address already in use' >&2; exit 1");
        let error = ApiServer::start(&binary, &folder.path().join("c1"), "c1", &Options::default()).unwrap_err();
        let message = error.to_string();
        assert!(
            message.starts_with("API server c1 ended before it was ready."),
            "{message}"
        );
        assert!(message.ends_with("address already in use"), "{message}");
    }

    #[test]
    fn a_missing_binary_is_named() {
        let _alone = ONE_AT_A_TIME.lock().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let binary = folder.path().join("nowhere");
        let error = ApiServer::start(&binary, folder.path(), "c1", &Options::default()).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with(&format!("cannot run {}", binary.display())),
            "{error}"
        );
    }

    #[test]
    fn a_dropped_server_ends_by_its_closed_input() {
        let _alone = ONE_AT_A_TIME.lock().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let ready = r#"{"server":"https://127.0.0.1:1","certificateAuthorityData":"Y2E=","token":"t"}"#;
        // `cat` ends with its input; the file tells an orderly end from a kill.
        let binary = script(folder.path(), &format!("echo '{ready}'; cat; touch \"$3/ended\""));
        let place = folder.path().join("c1");
        let server = ApiServer::start(&binary, &place, "c1", &Options::default()).unwrap();
        let Access {
            context,
            url,
            certificate_authority,
            token,
        } = server.access().clone();
        assert_eq!(
            (context.as_str(), url.as_str(), token.as_str()),
            ("c1", "https://127.0.0.1:1", "t")
        );
        assert_eq!(certificate_authority, b"ca");
        drop(server);
        assert!(place.join("ended").exists());
    }
}
