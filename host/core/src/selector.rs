//! Label selectors, with the semantics of Kubernetes.

use std::collections::BTreeMap;
use std::sync::Arc;

/// An object's labels.
pub type Labels = BTreeMap<Arc<str>, Arc<str>>;

/// A label selector: all of its requirements must hold. One without any matches every object.
///
/// Selectors that ask for the same are equal: requirements are sorted, and `matchLabels` are requirements of one value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Selector(Box<[Requirement]>);

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Requirement {
    /// The label's key.
    pub key: Arc<str>,
    /// What must hold for its value.
    pub operator: Operator,
}

/// What a requirement asks of a label's value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operator {
    /// The label is there and has one of these values.
    In(Vec<Arc<str>>),
    /// The label is not there or has none of these values.
    NotIn(Vec<Arc<str>>),
    /// The label is there.
    Exists,
    /// The label is not there.
    DoesNotExist,
}

impl Selector {
    /// A selector that matches every object.
    pub fn everything() -> Self {
        Selector::default()
    }

    /// A selector of these requirements, in its canonical form.
    pub fn new(requirements: impl IntoIterator<Item = Requirement>) -> Self {
        let mut all: Vec<Requirement> = requirements
            .into_iter()
            .map(|mut requirement| {
                if let Operator::In(values) | Operator::NotIn(values) = &mut requirement.operator {
                    values.sort();
                    values.dedup();
                }
                requirement
            })
            .collect();
        all.sort();
        all.dedup();
        Selector(all.into())
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.0.iter().all(|requirement| requirement.matches(labels))
    }

    /// Whether every object is selected.
    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// The requirements, sorted.
    pub fn requirements(&self) -> &[Requirement] {
        &self.0
    }
}

impl Requirement {
    /// The requirement that a `matchLabels` entry means.
    pub fn equals(key: impl Into<Arc<str>>, value: impl Into<Arc<str>>) -> Self {
        Requirement {
            key: key.into(),
            operator: Operator::In(vec![value.into()]),
        }
    }

    fn matches(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        match &self.operator {
            Operator::In(values) => value.is_some_and(|value| values.contains(value)),
            Operator::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

/// The form that the API server's `labelSelector` parameter takes.
impl std::fmt::Display for Selector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (position, Requirement { key, operator }) in self.0.iter().enumerate() {
            if position > 0 {
                f.write_str(",")?;
            }
            match operator {
                Operator::In(values) => write!(f, "{key} in ({})", values.join(","))?,
                Operator::NotIn(values) => write!(f, "{key} notin ({})", values.join(","))?,
                Operator::Exists => f.write_str(key)?,
                Operator::DoesNotExist => write!(f, "!{key}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs
            .iter()
            .map(|(key, value)| ((*key).into(), (*value).into()))
            .collect()
    }

    fn requirement(key: &str, operator: Operator) -> Requirement {
        Requirement {
            key: key.into(),
            operator,
        }
    }

    #[test]
    fn operators_follow_kubernetes_for_absent_labels() {
        let values = || vec!["a".into(), "b".into()];
        for (operator, absent, a, c) in [
            (Operator::In(values()), false, true, false),
            (Operator::NotIn(values()), true, false, true),
            (Operator::Exists, false, true, true),
            (Operator::DoesNotExist, true, false, false),
        ] {
            let selector = Selector::new([requirement("k", operator)]);
            assert_eq!(selector.matches(&labels(&[])), absent, "{selector} of no label");
            assert_eq!(selector.matches(&labels(&[("k", "a")])), a, "{selector} of a");
            assert_eq!(selector.matches(&labels(&[("k", "c")])), c, "{selector} of c");
        }
    }

    #[test]
    fn equal_questions_are_equal_selectors() {
        let one = Selector::new([Requirement::equals("b", "2"), Requirement::equals("a", "1")]);
        let other = Selector::new([
            Requirement::equals("a", "1"),
            requirement("b", Operator::In(vec!["2".into(), "2".into()])),
        ]);
        assert_eq!(one, other);
        assert_eq!(one.to_string(), "a in (1),b in (2)");
    }
}
