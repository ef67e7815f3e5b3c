//! Which requests are meant.

use super::{ApiRequest, Verb};

/// Requests that have all that is said of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter {
    verbs: Vec<Verb>,
    resource: Option<String>,
    not_resource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    subresource: Option<String>,
    continued: bool,
    probes: bool,
}

impl Filter {
    /// All requests.
    pub fn any() -> Self {
        Filter {
            probes: true,
            ..Filter::default()
        }
    }

    /// Requests with one of these verbs.
    pub fn verbs(verbs: impl IntoIterator<Item = Verb>) -> Self {
        Filter {
            verbs: verbs.into_iter().collect(),
            ..Filter::any()
        }
    }

    /// Gets and lists, but for those that only look for a collection's version.
    pub fn reads() -> Self {
        Filter {
            probes: false,
            ..Filter::verbs([Verb::Get, Verb::List])
        }
    }

    /// All that tells what there is: gets, lists and watches.
    pub fn sight() -> Self {
        Filter::verbs([Verb::Get, Verb::List, Verb::Watch])
    }

    /// Watches.
    pub fn watches() -> Self {
        Filter::verbs([Verb::Watch])
    }

    /// Whatever may change something.
    pub fn writes() -> Self {
        Filter::verbs([Verb::Create, Verb::Update, Verb::Apply, Verb::Patch, Verb::Delete])
    }

    /// Of this resource, such as `configmaps`.
    #[must_use]
    pub fn of(mut self, resource: &str) -> Self {
        self.resource = Some(resource.to_owned());
        self
    }

    /// Of any resource but this.
    #[must_use]
    pub fn not_of(mut self, resource: &str) -> Self {
        self.not_resource = Some(resource.to_owned());
        self
    }

    /// In this namespace. Requests for all namespaces are in none.
    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// About the one object of this name.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Of this subresource; an empty one stands for the objects themselves.
    #[must_use]
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.to_owned());
        self
    }

    /// For a page of a list that is not the first.
    #[must_use]
    pub fn continued(mut self) -> Self {
        self.continued = true;
        self
    }

    /// Whether a request is meant.
    pub fn matches(&self, request: &ApiRequest) -> bool {
        let is = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        (self.verbs.is_empty() || self.verbs.contains(&request.verb))
            && is(&self.resource, &request.resource)
            && self
                .not_resource
                .as_ref()
                .is_none_or(|other| *other != request.resource)
            && is(&self.namespace, &request.namespace)
            && is(&self.name, &request.name)
            && is(&self.subresource, &request.subresource)
            && (!self.continued || request.continued)
            && (self.probes || !request.is_probe())
    }
}
