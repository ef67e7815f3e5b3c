//! What a kubeconfig is made of, and kubeconfigs for one or several servers.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

/// How one server is reached.
#[derive(Debug, Clone)]
pub struct Access {
    /// The name of its cluster, user and context in kubeconfigs.
    pub context: String,
    /// Where it listens.
    pub url: String,
    /// The certificate that it is known by, in PEM.
    pub certificate_authority: Vec<u8>,
    /// A bearer token, an administrator's at first.
    pub token: String,
}

/// A kubeconfig as JSON, which is YAML too. The context of the first server is the current one.
pub fn kubeconfig<'a>(servers: impl IntoIterator<Item = &'a Access>) -> String {
    let (mut clusters, mut users, mut contexts) = (Vec::new(), Vec::new(), Vec::new());
    for Access {
        context,
        url,
        certificate_authority,
        token,
    } in servers
    {
        let authority = BASE64_STANDARD.encode(certificate_authority);
        clusters.push(json!({"name": context, "cluster": {"server": url, "certificate-authority-data": authority}}));
        users.push(json!({"name": context, "user": {"token": token}}));
        contexts.push(json!({"name": context, "context": {"cluster": context, "user": context}}));
    }
    let current = contexts.first().map_or(Value::Null, |context| context["name"].clone());
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": current,
        "clusters": clusters, "users": users, "contexts": contexts,
    });
    format!("{config:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_server_is_the_current_one() {
        let server = |context: &str| Access {
            context: context.to_owned(),
            url: format!("https://{context}"),
            certificate_authority: b"ca".to_vec(),
            token: format!("token of {context}"),
        };
        let config: Value = serde_json::from_str(&kubeconfig([&server("c1"), &server("c2")])).unwrap();
        assert_eq!(config["current-context"], "c1");
        assert_eq!(config["contexts"][1]["context"], json!({"cluster": "c2", "user": "c2"}));
        assert_eq!(config["clusters"][1]["cluster"]["server"], "https://c2");
        assert_eq!(config["clusters"][1]["cluster"]["certificate-authority-data"], "Y2E=");
        assert_eq!(config["users"][1]["user"]["token"], "token of c2");
    }
}
