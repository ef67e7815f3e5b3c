//! What may stand in a request's path.
//!
//! Names come from plugins and, through them, from whoever may create a primary. One with a slash or a question mark would
//! make another request of it than the one that was granted.

use patchbay_core::{Kind, Operator, Selector};

/// A label or a DNS label has no more bytes than this.
const LABEL: usize = 63;
/// A DNS subdomain, and with it an object's name, has no more bytes than this.
const SUBDOMAIN: usize = 253;

fn is_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

/// Letters and digits, and between them other characters too. So nothing is `.` or `..`.
fn within(text: &str, most: usize, also: &[u8]) -> bool {
    let ends = [text.bytes().next(), text.bytes().last()];
    text.len() <= most
        && text.bytes().all(|byte| is_alphanumeric(byte) || also.contains(&byte))
        && ends.into_iter().all(|byte| byte.is_some_and(is_alphanumeric))
}

/// Whether it can be a namespace.
pub(crate) fn is_namespace(text: &str) -> bool {
    within(text, LABEL, b"-")
}

/// Whether it can be an object's name. Most are DNS subdomains; those of RBAC hold colons, too.
pub(crate) fn is_name(text: &str) -> bool {
    within(text, SUBDOMAIN, b"-._:")
}

/// Whether it can be a subresource.
pub(crate) fn is_subresource(text: &str) -> bool {
    within(text, LABEL, b"")
}

/// Whether it can be a kind.
pub(crate) fn is_kind(kind: &Kind) -> bool {
    let group = kind.group();
    let slashes = kind.api_version.matches('/').count();
    (group.is_empty() || within(group, SUBDOMAIN, b"-."))
        && slashes == usize::from(!group.is_empty())
        && kind.api_version.len() <= SUBDOMAIN + LABEL
        && within(kind.version(), LABEL, b"")
        && within(&kind.kind, LABEL, b"")
}

/// Whether a selector says on the wire what it says here.
pub(crate) fn is_selector(selector: &Selector) -> bool {
    selector.requirements().iter().all(|requirement| {
        let (prefix, name) = requirement.key.rsplit_once('/').unwrap_or(("", &requirement.key));
        let values: &[_] = match &requirement.operator {
            Operator::In(values) | Operator::NotIn(values) => values,
            Operator::Exists | Operator::DoesNotExist => &[],
        };
        (prefix.is_empty() || within(prefix, SUBDOMAIN, b"-."))
            && within(name, LABEL, b"-._")
            && values
                .iter()
                .all(|value| value.is_empty() || within(value, LABEL, b"-._"))
    })
}

#[cfg(test)]
mod tests {
    use patchbay_core::Requirement;

    use super::*;

    #[test]
    fn what_would_leave_its_place_in_the_path_is_refused() {
        for text in [
            "",
            "a/b",
            "a?b",
            "a#b",
            "a%2fb",
            "..",
            ".",
            "a b",
            "a\n",
            "kube-system/secrets?x=",
        ] {
            assert!(
                !is_namespace(text) && !is_name(text) && !is_subresource(text),
                "{text:?}"
            );
            assert!(!is_kind(&Kind::new("v1", text)), "{text:?}");
        }
        for api_version in ["", "/", "/v1", "a/", "a/b/v1", "a?/v1", "v1?x=", "../v1", "a/v1/../.."] {
            assert!(!is_kind(&Kind::new(api_version, "Secret")), "{api_version:?}");
        }
    }

    #[test]
    fn what_kubernetes_allows_is_allowed() {
        assert!(is_namespace("kube-system") && is_name("system:node-proxier") && is_name("a.b-c"));
        assert!(is_kind(&Kind::new("apps/v1", "Deployment")) && is_kind(&Kind::new("v1", "Secret")));
        assert!(is_kind(&Kind::new("kubernetes.crossplane.io/v1alpha2", "Object")) && is_subresource("status"));
    }

    #[test]
    fn a_selector_that_means_something_else_on_the_wire_is_refused() {
        let selector = |key: &str, value: &str| Selector::new([Requirement::equals(key, value)]);
        assert!(is_selector(&selector("app.kubernetes.io/name", "shop")) && is_selector(&selector("a", "")));
        for (key, value) in [("a", "x),b in (y"), ("a,b", "x"), ("a", "x,y"), ("", "x")] {
            assert!(!is_selector(&selector(key, value)), "{key:?} {value:?}");
        }
    }
}
