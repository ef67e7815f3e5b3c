//! How many bytes go into a call: those of its strings and files. They are what grows; the rest of a record is small.

use crate::contract::{Answer, Change, Cluster, Finding, Object, ObjectReference, Primary, WriteResult, WriteState};

/// Bytes of strings and files.
pub(crate) trait Size {
    fn size(&self) -> usize;
}

impl Size for str {
    fn size(&self) -> usize {
        self.len()
    }
}

impl<T: Size> Size for [T] {
    fn size(&self) -> usize {
        self.iter().map(Size::size).sum()
    }
}

impl<T: Size> Size for Option<T> {
    fn size(&self) -> usize {
        self.as_ref().map_or(0, Size::size)
    }
}

impl Size for Object {
    fn size(&self) -> usize {
        self.cluster_id.len() + self.resource_version.len() + self.json.len()
    }
}

impl Size for Primary {
    fn size(&self) -> usize {
        self.object.size() + self.parent.size() + self.last_writes.size() + self.config.len()
    }
}

impl Size for WriteResult {
    fn size(&self) -> usize {
        let state = match &self.state {
            WriteState::Failed(failure) => failure.reason.len() + failure.message.len(),
            WriteState::Applied | WriteState::Unchanged | WriteState::Skipped => 0,
        };
        self.object.size() + state
    }
}

impl Size for ObjectReference {
    fn size(&self) -> usize {
        let cluster = match &self.cluster {
            Cluster::PrimaryCluster | Cluster::HostCluster => 0,
            Cluster::ById(id) => id.len(),
            Cluster::ByKubeconfig(key) => key.namespace.len() + key.name.len() + key.key.len(),
        };
        cluster
            + self.kind.api_version.len()
            + self.kind.kind.len()
            + self.namespace.as_ref().map_or(0, String::len)
            + self.name.len()
    }
}

impl Size for Answer {
    fn size(&self) -> usize {
        let finding = match &self.finding {
            Finding::Found(object) => object.size(),
            Finding::Missing => 0,
            Finding::Matches(objects) => objects.size(),
            Finding::Files(tree) => {
                let files = tree.files.iter();
                tree.commit.len() + files.map(|file| file.path.len() + file.content.len()).sum::<usize>()
            }
            Finding::Failed(failure) => failure.message.len(),
        };
        self.id.len() + finding
    }
}

impl Size for Change {
    fn size(&self) -> usize {
        self.before.size() + self.after.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{File, FileTree, RevisionKind};

    fn object(json: usize) -> Object {
        Object {
            cluster_id: "c1".into(),
            resource_version: "12".into(),
            json: "x".repeat(json),
        }
    }

    #[test]
    fn all_that_can_grow_is_counted() {
        assert_eq!(object(100).size(), 104);
        let change = Change {
            before: None,
            after: Some(object(10)),
        };
        assert_eq!(change.size(), 14);
        let files = Answer {
            id: "id".into(),
            finding: Finding::Files(FileTree {
                commit: "abc".into(),
                revision: RevisionKind::Branch,
                files: vec![File {
                    path: "a.yaml".into(),
                    content: vec![0; 50],
                }],
            }),
        };
        assert_eq!(files.size(), 2 + 3 + 6 + 50);
        let matches = Answer {
            id: "id".into(),
            finding: Finding::Matches(vec![object(1), object(2)]),
        };
        assert_eq!([files, matches].size(), 61 + 13);
    }
}
