//! Who depends on a query.

use std::sync::Arc;

use indexmap::IndexSet;

use crate::name::{ClusterId, ControllerId, PrimaryKey};
use crate::query::QueryId;
use crate::watches::WatchKey;

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum User {
    /// A primary, which runs when its answer changes.
    Primary(Arc<PrimaryKey>),
    /// A controller, whose primaries the query finds.
    Controller(ControllerId),
    /// A controller, whose plugin is told of every change of what the query finds.
    Declared(ControllerId, u32),
    /// A cluster, whose kubeconfig the query finds.
    Cluster(ClusterId),
    /// A watch of a kind that is not served, whose definition the query may find.
    Watch(Arc<WatchKey>),
    /// A query that looks in the namespaces which this one finds.
    Namespaces(QueryId),
}

/// The users of one query. Most queries have one.
pub(crate) enum Users {
    One(User),
    Many(Box<IndexSet<User>>),
}

impl Users {
    pub(crate) fn insert(&mut self, user: User) {
        match self {
            Users::One(one) if *one == user => {}
            Users::One(one) => *self = Users::Many(Box::new(IndexSet::from([one.clone(), user]))),
            Users::Many(many) => {
                many.insert(user);
            }
        }
    }

    /// Takes a user off. Returns whether none is left.
    pub(crate) fn remove(&mut self, user: &User) -> bool {
        match self {
            Users::One(one) => one == user,
            Users::Many(many) => {
                many.swap_remove(user);
                if many.len() == 1
                    && let Some(last) = many.pop()
                {
                    *self = Users::One(last);
                }
                false
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &User> {
        let (one, many) = match self {
            Users::One(one) => (Some(one), None),
            Users::Many(many) => (None, Some(many.iter())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}
