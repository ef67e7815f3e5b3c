//! What the queries of a primary found.

use std::collections::BTreeMap;

use crate::{Failure, FileTree, Object, QueryFailure};

/// What a query finds now.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// For a query by name: the object is there.
    Found(Object),
    /// For a query by name: the object is not there. It is still a dependency.
    Missing,
    /// For the other queries of objects, ordered by namespace and name; empty when none matches.
    Matches(Vec<Object>),
    /// For a query of a repository.
    Files(FileTree),
    /// Nothing is known, which is not the same as nothing being there. Plugins see it only of queries that tolerate it,
    /// and in [`Plugin::references`](crate::Plugin::references).
    Failed(QueryFailure),
}

/// What the queries of a primary found, by their ids.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answers {
    findings: BTreeMap<String, Finding>,
}

impl Answers {
    /// Whether there are none, as in the first round.
    pub fn is_empty(&self) -> bool {
        self.findings.is_empty()
    }

    /// What the query `id` found; absent if it was not asked.
    pub fn finding(&self, id: &str) -> Option<&Finding> {
        self.findings.get(id)
    }

    /// The object that the query `id` names.
    ///
    /// # Errors
    /// If the object is missing, if the query failed, or if it was not asked or not by name.
    pub fn found(&self, id: &str) -> Result<&Object, Failure> {
        self.find(id)?.ok_or_else(|| {
            Failure::retry(
                "NotFound",
                format!("query `{id}`: the object that it names does not exist"),
            )
        })
    }

    /// The object that the query `id` names, or none if it does not exist.
    ///
    /// # Errors
    /// If the query failed, or if it was not asked or not by name.
    pub fn find(&self, id: &str) -> Result<Option<&Object>, Failure> {
        match self.known(id)? {
            Finding::Found(object) => Ok(Some(object)),
            Finding::Missing => Ok(None),
            _ => Err(misused(id, "an object by name")),
        }
    }

    /// The objects that the query `id` matches.
    ///
    /// # Errors
    /// If the query failed, or if it was not asked or is not one of several objects.
    pub fn matches(&self, id: &str) -> Result<&[Object], Failure> {
        match self.known(id)? {
            Finding::Matches(objects) => Ok(objects),
            _ => Err(misused(id, "several objects")),
        }
    }

    /// The files that the query `id` found.
    ///
    /// # Errors
    /// If the query failed, or if it was not asked or is not one of a repository.
    pub fn files(&self, id: &str) -> Result<&FileTree, Failure> {
        match self.known(id)? {
            Finding::Files(files) => Ok(files),
            _ => Err(misused(id, "files")),
        }
    }

    /// Why the query `id` failed, if it did.
    pub fn failed(&self, id: &str) -> Option<&QueryFailure> {
        match self.finding(id) {
            Some(Finding::Failed(failure)) => Some(failure),
            _ => None,
        }
    }

    /// A finding that is no failure.
    fn known(&self, id: &str) -> Result<&Finding, Failure> {
        match self.finding(id) {
            Some(Finding::Failed(failure)) => Err(failure.into()),
            Some(finding) => Ok(finding),
            None => Err(Failure::permanent(
                "NoSuchQuery",
                format!("query `{id}` has no answer; the plugin must name it in `references`"),
            )),
        }
    }
}

fn misused(id: &str, expected: &str) -> Failure {
    Failure::permanent(
        "WrongQuery",
        format!("query `{id}` does not ask for {expected}; the plugin takes it for one"),
    )
}

impl FromIterator<(String, Finding)> for Answers {
    fn from_iter<I: IntoIterator<Item = (String, Finding)>>(findings: I) -> Self {
        Answers {
            findings: findings.into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{QueryFailureReason, testing};
    use serde_json::json;

    fn answers() -> Answers {
        testing::answers([
            ("found", testing::found(json!({"a": 1}))),
            ("missing", testing::missing()),
            ("matches", testing::matches([json!({}), json!({})])),
            (
                "failed",
                testing::failed(QueryFailureReason::Forbidden, "may not list secrets"),
            ),
        ])
    }

    #[test]
    fn findings_are_told_by_id() {
        let answers = answers();
        assert_eq!(answers.found("found").unwrap().value, json!({"a": 1}));
        assert_eq!(answers.find("missing"), Ok(None));
        assert_eq!(answers.matches("matches").unwrap().len(), 2);
        assert_eq!(answers.failed("failed").unwrap().message, "may not list secrets");
        assert!(answers.failed("found").is_none());
    }

    #[test]
    fn what_is_not_there_is_a_failure() {
        let answers = answers();
        for (id, reason) in [
            ("missing", "NotFound"),
            ("failed", "Forbidden"),
            ("unasked", "NoSuchQuery"),
            ("matches", "WrongQuery"),
        ] {
            assert_eq!(answers.found(id).unwrap_err().reason, reason, "{id}");
        }
        assert_eq!(answers.matches("found").unwrap_err().reason, "WrongQuery");
        assert_eq!(answers.files("found").unwrap_err().reason, "WrongQuery");
    }
}
