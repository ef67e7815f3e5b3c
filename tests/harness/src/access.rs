//! Identities with less than an administrator's rights, and kubeconfigs in Secrets.

use anyhow::{Context, Result};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{Api, PostParams};
use kube::config::{AuthInfo, Kubeconfig};
use serde_json::{Value, json};

use crate::Cluster;

/// Where a role holds.
#[derive(Debug, Clone, Copy)]
pub enum Scope<'a> {
    /// In the whole cluster.
    Cluster,
    /// In one namespace.
    Namespace(&'a str),
}

/// How long a token is valid; the API server allows no less than ten minutes.
const TOKEN_SECONDS: i64 = 3600;

impl Cluster {
    /// Makes a ServiceAccount with these rights and no others, and gives a kubeconfig with a token of it.
    pub async fn service_account(
        &self,
        namespace: &str,
        name: &str,
        rules: &[PolicyRule],
        scope: Scope<'_>,
    ) -> Result<Kubeconfig> {
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace},
        });
        self.apply(&account.to_string()).await?;
        self.grant(namespace, name, "rights", rules, scope).await?;
        Ok(with_token(self.kubeconfig(), &self.token(namespace, name).await?))
    }

    /// Gives a ServiceAccount further rights. `purpose` tells them from others that it has.
    pub async fn grant(
        &self,
        namespace: &str,
        name: &str,
        purpose: &str,
        rules: &[PolicyRule],
        scope: Scope<'_>,
    ) -> Result<()> {
        let role = format!("{namespace}-{name}-{purpose}");
        let binding = match scope {
            Scope::Cluster => json!({"kind": "ClusterRoleBinding", "metadata": {"name": role}}),
            Scope::Namespace(place) => json!({"kind": "RoleBinding", "metadata": {"name": role, "namespace": place}}),
        };
        let documents = [
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": role}, "rules": rules}),
            merged(
                binding,
                json!({
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                    "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
                }),
            ),
        ];
        for document in documents {
            self.apply(&document.to_string()).await?;
        }
        Ok(())
    }

    /// A new token of a ServiceAccount.
    pub async fn token(&self, namespace: &str, name: &str) -> Result<String> {
        let spec = TokenRequestSpec {
            expiration_seconds: Some(TOKEN_SECONDS),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest {
            spec: Some(spec),
            ..TokenRequest::default()
        };
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        let answer = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await;
        let answer = answer.with_context(|| format!("cannot get a token for ServiceAccount {namespace}/{name}"))?;
        answer
            .status
            .and_then(|status| status.token)
            .context("a token request without an answer")
    }

    /// Puts a kubeconfig into the Secret of this name, under the key `kubeconfig`.
    pub async fn kubeconfig_secret(&self, namespace: &str, name: &str, kubeconfig: &Kubeconfig) -> Result<()> {
        let text = serde_json::to_string(kubeconfig)?;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace},
            "stringData": {"kubeconfig": text},
        });
        self.apply(&secret.to_string()).await.map(drop)
    }
}

/// The same kubeconfig with another identity.
fn with_token(kubeconfig: &Kubeconfig, token: &str) -> Kubeconfig {
    let mut other = kubeconfig.clone();
    for user in &mut other.auth_infos {
        user.auth_info = Some(AuthInfo {
            token: Some(token.to_owned().into()),
            ..AuthInfo::default()
        });
    }
    other
}

fn merged(mut left: Value, right: Value) -> Value {
    if let (Value::Object(left), Value::Object(right)) = (&mut left, right) {
        left.extend(right);
    }
    left
}
