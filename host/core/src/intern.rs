//! Equal texts kept once: a million queries of Secrets in a few namespaces should not hold a million times `Secret`.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use crate::name::{Kind, ObjectName};
use crate::query::{Fields, Query, Target};

/// Looks for what nobody else holds once it has grown to this, and then whenever it has doubled.
const SWEPT_FIRST: usize = 1024;

#[derive(Default)]
pub(crate) struct Interner {
    texts: Pool<str>,
    paths: Pool<[Arc<str>]>,
}

impl Interner {
    /// The same query, sharing what many queries have in common. Objects' names are not among it.
    pub(crate) fn query(&mut self, query: Query) -> Query {
        let texts = &mut self.texts;
        Query {
            cluster: query.cluster,
            kind: Kind {
                api_version: texts.get(query.kind.api_version),
                kind: texts.get(query.kind.kind),
            },
            target: match query.target {
                Target::Named(ObjectName { namespace, name }) => Target::Named(ObjectName {
                    namespace: namespace.map(|namespace| texts.get(namespace)),
                    name,
                }),
                other @ Target::Selected(_) => other,
            },
            fields: match query.fields {
                Fields::Paths(paths) => Fields::Paths(self.paths.get(paths)),
                other => other,
            },
        }
    }
}

struct Pool<T: ?Sized> {
    held: HashSet<Arc<T>>,
    sweep_at: usize,
}

impl<T: ?Sized + Eq + Hash> Default for Pool<T> {
    fn default() -> Self {
        Pool {
            held: HashSet::new(),
            sweep_at: SWEPT_FIRST,
        }
    }
}

impl<T: ?Sized + Eq + Hash> Pool<T> {
    fn get(&mut self, text: Arc<T>) -> Arc<T> {
        if let Some(held) = self.held.get(&text) {
            return held.clone();
        }
        if self.held.len() >= self.sweep_at {
            self.held.retain(|held| Arc::strong_count(held) > 1);
            self.sweep_at = SWEPT_FIRST.max(self.held.len() * 2);
        }
        self.held.insert(text.clone());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_holds_any_longer_is_let_go() {
        let mut pool = Pool::<str>::default();
        let kept = pool.get("kept".into());
        for number in 0..10 * SWEPT_FIRST {
            pool.get(number.to_string().into());
        }
        assert!(pool.held.len() <= SWEPT_FIRST);
        assert!(Arc::ptr_eq(&kept, &pool.get("kept".into())));
    }
}
