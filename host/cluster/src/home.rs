//! The cluster that the host is at home in.

use std::io::ErrorKind;
use std::path::PathBuf;

use kube::config::{Config, KubeConfigOptions, Kubeconfig, KubeconfigError, LoadDataError};

use crate::connection::Connection;
use crate::error::{Error, innermost};
use crate::yaml::yaml_problem;

/// Where the host finds its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Home {
    /// It runs in a Pod of it.
    Pod,
    /// Kubeconfig files, merged as kubectl merges them.
    Files {
        /// The files. If there are several, those that are not there are passed over.
        files: Vec<PathBuf>,
        /// The context; without it, the current one.
        context: Option<String>,
    },
}

/// Why there is no connection to the host's own cluster.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// No kubeconfig was named, and this process does not run in a cluster.
    #[error("no cluster: name a kubeconfig with --kubeconfig or KUBECONFIG, or run in a Pod with a service account")]
    NotInCluster,
    /// The kubeconfig file cannot be used.
    #[error("kubeconfig {path}: {problem}")]
    File {
        /// Where it is.
        path: String,
        /// What is wrong with it. Nothing of it is repeated but names.
        problem: String,
    },
    /// The API server cannot be reached.
    #[error("API server {server}: {}; check that it runs and that the kubeconfig names it and its credentials", source.unplaced())]
    Server {
        /// Its address.
        server: String,
        /// What went wrong.
        source: Box<Error>,
    },
}

impl Connection {
    /// Connects to the host's own cluster. `name` is for messages.
    ///
    /// # Errors
    /// A file is missing or unusable, there is no cluster to run in, or the API server cannot be reached.
    pub async fn to_home(name: &str, home: &Home) -> Result<Self, HomeError> {
        let config = match home {
            Home::Pod => Config::incluster().map_err(|_| HomeError::NotInCluster)?,
            Home::Files { files, context } => {
                let unusable = |problem| HomeError::File {
                    path: listed(files),
                    problem,
                };
                let config = read(files)?;
                let context = checked(&config, context.as_deref()).map_err(unusable)?;
                let options = KubeConfigOptions {
                    context: Some(context),
                    ..Default::default()
                };
                let config = Config::from_custom_kubeconfig(config, &options).await;
                config.map_err(|error| unusable(problem(&error)))?
            }
        };
        let server = config.cluster_url.to_string();
        let connection = Connection::new(name, config).await;
        connection.map_err(|source| HomeError::Server {
            server,
            source: Box::new(source),
        })
    }
}

fn listed(files: &[PathBuf]) -> String {
    let files: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
    files.join(", ")
}

fn read(files: &[PathBuf]) -> Result<Kubeconfig, HomeError> {
    let mut merged: Option<Kubeconfig> = None;
    for file in files {
        let unusable = |error: KubeconfigError| HomeError::File {
            path: file.display().to_string(),
            problem: problem(&error),
        };
        match Kubeconfig::read_from(file) {
            Ok(config) => {
                let before = merged.take().unwrap_or_default();
                merged = Some(before.merge(config).map_err(unusable)?);
            }
            Err(KubeconfigError::ReadConfig(error, _)) if error.kind() == ErrorKind::NotFound && files.len() > 1 => {}
            Err(error) => return Err(unusable(error)),
        }
    }
    merged.ok_or_else(|| HomeError::File {
        path: listed(files),
        problem: "none of these files is there".to_owned(),
    })
}

/// The context that is meant, if the file has all that it names. kube would go on without a user.
fn checked(config: &Kubeconfig, context: Option<&str>) -> Result<String, String> {
    let names = || {
        let names: Vec<_> = config.contexts.iter().map(|context| context.name.as_str()).collect();
        if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        }
    };
    let name = context
        .or(config.current_context.as_deref())
        .filter(|name| !name.is_empty())
        .ok_or_else(|| {
            format!(
                "it has no current context: name one with --context. It has: {}",
                names()
            )
        })?;
    let named = config.contexts.iter().find(|context| context.name == name);
    let context = named
        .and_then(|context| context.context.as_ref())
        .ok_or_else(|| format!("it has no context {name}. It has: {}", names()))?;
    let cluster = &context.cluster;
    let found = config.clusters.iter().find(|known| known.name == *cluster);
    if found.and_then(|known| known.cluster.as_ref()).is_none() {
        return Err(format!(
            "context {name} names cluster {cluster}, which is not in the file"
        ));
    }
    if let Some(user) = context.user.as_deref().filter(|user| !user.is_empty()) {
        let found = config.auth_infos.iter().find(|known| known.name == user);
        if found.and_then(|known| known.auth_info.as_ref()).is_none() {
            return Err(format!("context {name} names user {user}, which is not in the file"));
        }
    }
    Ok(name.to_owned())
}

/// What is wrong with a kubeconfig.
fn problem(error: &KubeconfigError) -> String {
    let data = |what: &str, error: &LoadDataError| match error {
        LoadDataError::ReadFile(error, path) => format!("its {what} {}: {error}", path.display()),
        LoadDataError::DecodeBase64(_) => format!("its {what} is not base64"),
        LoadDataError::NoBase64DataOrFile => format!("it has no {what}"),
    };
    match error {
        KubeconfigError::Parse(error) => yaml_problem(error),
        KubeconfigError::ReadConfig(error, _) => error.to_string(),
        KubeconfigError::LoadCertificateAuthority(error) => data("certificate authority", error),
        KubeconfigError::LoadClientCertificate(error) => data("client certificate", error),
        KubeconfigError::LoadClientKey(error) => data("client key", error),
        KubeconfigError::ParseCertificates(_) => "its certificates are not PEM".to_owned(),
        other => innermost(other).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(context: &str) -> Kubeconfig {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{context}]\n\
             clusters: [{{name: k, cluster: {{server: 'https://127.0.0.1:1'}}}}]\n\
             users: [{{name: u, user: {{token: t}}}}]\n"
        );
        Kubeconfig::from_yaml(&text).expect("a kubeconfig")
    }

    #[test]
    fn a_context_that_names_what_is_not_there_is_refused() {
        for (context, asked, problem) in [
            (
                "{name: c, context: {cluster: k, user: gone}}",
                None,
                "context c names user gone",
            ),
            (
                "{name: c, context: {cluster: gone, user: u}}",
                None,
                "context c names cluster gone",
            ),
            (
                "{name: d, context: {cluster: k, user: u}}",
                None,
                "no context c. It has: d",
            ),
            (
                "{name: c, context: {cluster: k, user: u}}",
                Some("e"),
                "no context e. It has: c",
            ),
        ] {
            let error = checked(&config(context), asked).expect_err(problem);
            assert!(error.contains(problem), "{error}");
        }
        let whole = config("{name: c, context: {cluster: k, user: u}}");
        assert_eq!(checked(&whole, None).as_deref(), Ok("c"));
        let anonymous = config("{name: c, context: {cluster: k}}");
        assert_eq!(checked(&anonymous, Some("c")).as_deref(), Ok("c"));
    }

    #[test]
    fn a_kubeconfig_that_cannot_be_read_is_not_repeated() {
        let folder = std::env::temp_dir();
        let file = folder.join(format!("patchbay-kubeconfig-{}", std::process::id()));
        std::fs::write(&file, "users: [{name: u, user: {token: hunter2\n").expect("a file");
        let error = read(std::slice::from_ref(&file))
            .expect_err("no kubeconfig")
            .to_string();
        std::fs::remove_file(&file).expect("it is there");
        assert!(error.contains("line ") && !error.contains("hunter2"), "{error}");
        let gone = read(&[file.clone(), file]).expect_err("no file").to_string();
        assert!(gone.contains("none of these files"), "{gone}");
    }
}
