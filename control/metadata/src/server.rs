//! The running service. Invariant: records live as long as the store, not as long as the listener.

use crate::routes::router;
use crate::store::MetadataStore;
use perigee_http::{HttpHandle, HttpServer, HttpStartError};
use std::net::SocketAddr;

/// Starts the service.
#[derive(Debug)]
pub struct MetadataServer;

/// A running service; dropping it stops it.
#[derive(Debug)]
pub struct MetadataHandle {
    http: HttpHandle,
    store: MetadataStore,
}

impl MetadataServer {
    /// Serves an empty store at `address` on a thread of its own.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn start(address: SocketAddr) -> Result<MetadataHandle, HttpStartError> {
        let store = MetadataStore::default();
        let http = HttpServer::start("metadata", address, router(store.clone()))?;
        tracing::info!(address = %http.local_addr(), "HTTP metadata server started");
        Ok(MetadataHandle { http, store })
    }
}

impl MetadataHandle {
    /// The address in use; holds the real port when port 0 was asked for.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.http.local_addr()
    }

    /// The records, for clean-up after a client expired.
    #[must_use]
    pub fn store(&self) -> MetadataStore {
        self.store.clone()
    }

    /// Stops the listener and joins its thread; bounded time.
    pub fn stop(self) {
        self.http.stop();
    }
}

#[cfg(test)]
mod tests;
