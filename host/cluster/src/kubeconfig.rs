//! Kubeconfigs from Secrets: inline data only.

use kube::config::{Config, KubeConfigOptions, Kubeconfig};

/// What is wrong with a kubeconfig from a Secret.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// Not a kubeconfig at all. What it holds is secret, so the message does not show it.
    #[error("the kubeconfig cannot be read: check that the Secret's key holds a whole kubeconfig as YAML")]
    Unreadable,
    /// It has no current context, or one that it does not define.
    #[error("the kubeconfig's current-context names no context, cluster and user that it defines")]
    NoContext,
    /// It would read a file or run a program of the host.
    #[error(
        "the kubeconfig uses {0}, which is refused: a kubeconfig from a Secret must hold its certificates and tokens inline"
    )]
    NotInline(&'static str),
    /// It is inline, but its data do not fit together.
    #[error("the kubeconfig's data cannot be used: check its certificates, keys and URLs")]
    Unusable,
}

/// Makes a client configuration of a kubeconfig's current context.
///
/// Whoever may write the Secret must not make the host read its own files, run programs or send its own token, so
/// whatever would do that is refused.
///
/// # Errors
/// See [`KubeconfigError`]. No error repeats a part of the kubeconfig.
pub(crate) async fn inline(text: &str) -> Result<Config, KubeconfigError> {
    let config = Kubeconfig::from_yaml(text).map_err(|_| KubeconfigError::Unreadable)?;
    let current = config.current_context.as_deref().unwrap_or_default();
    let context = config
        .contexts
        .iter()
        .find(|context| context.name == current)
        .and_then(|context| context.context.as_ref())
        .ok_or(KubeconfigError::NoContext)?;
    let cluster = config
        .clusters
        .iter()
        .find(|cluster| cluster.name == context.cluster)
        .and_then(|cluster| cluster.cluster.as_ref())
        .ok_or(KubeconfigError::NoContext)?;
    let user = context
        .user
        .as_ref()
        .and_then(|name| config.auth_infos.iter().find(|user| user.name == *name))
        .and_then(|user| user.auth_info.as_ref())
        .ok_or(KubeconfigError::NoContext)?;

    let refused = [
        ("exec", user.exec.is_some()),
        ("auth-provider", user.auth_provider.is_some()),
        ("tokenFile", user.token_file.is_some()),
        ("client-certificate (a path)", user.client_certificate.is_some()),
        ("client-key (a path)", user.client_key.is_some()),
        (
            "certificate-authority (a path)",
            cluster.certificate_authority.is_some(),
        ),
    ];
    if let Some((what, _)) = refused.iter().find(|(_, used)| *used) {
        return Err(KubeconfigError::NotInline(what));
    }
    Config::from_custom_kubeconfig(config, &KubeConfigOptions::default())
        .await
        .map_err(|_| KubeconfigError::Unusable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubeconfig(cluster: &str, user: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             contexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n\
             clusters: [{{name: k, cluster: {{server: 'https://127.0.0.1:1', {cluster}}}}}]\n\
             users: [{{name: u, user: {{{user}}}}}]\n"
        )
    }

    #[tokio::test]
    async fn whatever_is_not_inline_is_refused_by_name() {
        for (cluster, user, named) in [
            (
                "",
                "exec: {apiVersion: client.authentication.k8s.io/v1, command: steal}",
                "exec",
            ),
            ("", "auth-provider: {name: gcp, config: {}}", "auth-provider"),
            (
                "",
                "tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token",
                "tokenFile",
            ),
            ("", "client-certificate: /etc/tls.crt", "client-certificate"),
            ("", "client-key: /etc/tls.key", "client-key"),
            (
                "certificate-authority: /etc/ca.crt",
                "token: t",
                "certificate-authority",
            ),
        ] {
            let error = inline(&kubeconfig(cluster, user)).await.expect_err(named);
            assert!(error.to_string().contains(named), "{error}");
        }
        inline(&kubeconfig("", "token: t")).await.expect("inline data is taken");
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_not_repeated() {
        for text in [
            "token: hunter2: [",
            "hunter2",
            "current-context: hunter2\ncontexts: []\n",
        ] {
            let error = inline(text).await.expect_err("no kubeconfig");
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
    }
}
