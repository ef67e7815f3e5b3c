//! Connections shared by the content of their credentials.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use sha2::{Digest, Sha256};
use tokio::sync::Mutex;

use crate::connection::Connection;
use crate::error::Error;

/// Connections by the digest of the kubeconfig that they were made from. Twenty Secrets with the same kubeconfig are
/// one connection. A connection that nobody holds any longer is closed.
#[derive(Default)]
pub struct Pool {
    connections: Mutex<HashMap<[u8; 32], Weak<Connection>>>,
}

impl Pool {
    /// The connection of a kubeconfig that was found in a Secret; made if there is none.
    ///
    /// # Errors
    /// As [`Connection::to_inline`].
    pub async fn connect(&self, name: &str, kubeconfig: &str) -> Result<Arc<Connection>, Error> {
        let digest: [u8; 32] = Sha256::digest(kubeconfig).into();
        if let Some(connection) = self.connections.lock().await.get(&digest).and_then(Weak::upgrade) {
            return Ok(connection);
        }
        // The lock is not held while connecting: an API server that hangs must not keep others from connecting.
        let connection = Arc::new(Connection::to_inline(name, kubeconfig).await?);
        let mut connections = self.connections.lock().await;
        connections.retain(|_, connection| connection.strong_count() > 0);
        if let Some(first) = connections.get(&digest).and_then(Weak::upgrade) {
            return Ok(first);
        }
        connections.insert(digest, Arc::downgrade(&connection));
        Ok(connection)
    }
}
