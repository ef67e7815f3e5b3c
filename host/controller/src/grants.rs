//! What an administrator allows a plugin.

use patchbay_plugin::contract::{Description, ObjectPermission, Request, Verbs};

/// What a plugin may do. Nothing, unless it is granted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    objects: Vec<ObjectPermission>,
    remote_clusters: bool,
    foreign_secrets: bool,
    /// All that the plugin requests is granted.
    all_requested: bool,
}

impl Grants {
    /// No grants at all: the plugin loads, and every run fails with what is missing.
    pub fn none() -> Self {
        Grants::default()
    }

    /// Whatever the plugin requests. For development, or for plugins that one has written.
    pub fn requested(description: &Description) -> Self {
        let mut grants = Grants {
            all_requested: true,
            ..Grants::none()
        };
        for request in &description.requests {
            match request {
                Request::Objects(permission) => grants.objects.push(permission.clone()),
                Request::RemoteClusters => grants.remote_clusters = true,
                Request::ForeignSecrets => grants.foreign_secrets = true,
                // Repositories are not served yet.
                Request::GitHost(_) => {}
            }
        }
        grants
    }

    /// Checks an access to objects.
    ///
    /// # Errors
    /// What is not granted, in words.
    pub fn check_objects(&self, api_version: &str, kind: &str, verb: Verbs) -> Result<(), String> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let granted = self.objects.iter().any(|permission| {
            (permission.group == "*" || permission.group == group)
                && (permission.kind == "*" || permission.kind == kind)
                && permission.verbs.contains(verb)
        });
        if granted {
            return Ok(());
        }
        Err(self.refusal(&format!("to {} {kind} ({api_version})", verb_name(verb))))
    }

    /// Checks the use of a kubeconfig or credentials in a Secret.
    ///
    /// # Errors
    /// What is not granted, in words.
    pub fn check_secret(&self, namespace: &str, primary_namespace: Option<&str>) -> Result<(), String> {
        if !self.remote_clusters {
            return Err(self.refusal("to reach other clusters"));
        }
        if primary_namespace != Some(namespace) && !self.foreign_secrets {
            let what = format!("to use Secrets outside the primary's namespace, such as those in {namespace}");
            return Err(self.refusal(&what));
        }
        Ok(())
    }
}

impl Grants {
    fn refusal(&self, what: &str) -> String {
        if self.all_requested {
            format!("{REFUSAL} {what}, since it does not request one: correct its description")
        } else {
            format!("{REFUSAL} {what}: start the host with --trust-requests to grant what plugins request")
        }
    }
}

/// How every refusal begins.
const REFUSAL: &str = "the plugin has no grant";

/// Whether a message is about a grant that is missing.
pub(crate) fn is_refusal(message: &str) -> bool {
    message.starts_with(REFUSAL)
}

fn verb_name(verb: Verbs) -> &'static str {
    if verb == Verbs::READ {
        "read"
    } else if verb == Verbs::APPLY {
        "apply"
    } else if verb == Verbs::DELETE {
        "delete"
    } else {
        "patch"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants() -> Grants {
        let permission = |group: &str, kind: &str, verbs| ObjectPermission {
            group: group.to_owned(),
            kind: kind.to_owned(),
            verbs,
            reason: String::new(),
        };
        Grants {
            objects: vec![
                permission("", "Secret", Verbs::READ),
                permission("apps", "*", Verbs::READ | Verbs::APPLY),
            ],
            remote_clusters: true,
            foreign_secrets: false,
            all_requested: false,
        }
    }

    #[test]
    fn what_is_not_granted_is_refused_by_kind_and_verb() {
        let grants = grants();
        assert_eq!(grants.check_objects("v1", "Secret", Verbs::READ), Ok(()));
        assert_eq!(grants.check_objects("apps/v1", "Deployment", Verbs::APPLY), Ok(()));
        let refused = grants
            .check_objects("v1", "Secret", Verbs::APPLY)
            .expect_err("not granted");
        assert!(refused.contains("apply Secret (v1)"), "{refused}");
        assert!(
            grants
                .check_objects("apps.example/v1", "Deployment", Verbs::READ)
                .is_err()
        );
        assert!(Grants::none().check_objects("v1", "ConfigMap", Verbs::READ).is_err());
    }

    #[test]
    fn secrets_come_from_the_namespace_of_the_primary() {
        assert_eq!(grants().check_secret("team", Some("team")), Ok(()));
        assert!(grants().check_secret("other", Some("team")).is_err());
        assert!(grants().check_secret("any", None).is_err());
    }
}
