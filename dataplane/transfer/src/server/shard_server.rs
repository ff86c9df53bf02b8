//! One shard of a segment server over any environment: greeting, checks and slices as a
//! [`SegmentServer`] runs them, without its threads. Simulation drives this under a seed.
//! Invariant: nothing is decided here; connections are served by the same code as in production.
//!
//! [`SegmentServer`]: super::SegmentServer

use crate::segments::SegmentTable;
use perigee_mover::{Dialects, MoveService, ServerContext};
use perigee_port::{Port, PortOptions};
use perigee_schemas::Identity;
use perigee_shard::{Environment, SocketError};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// Connections at once.
const CONNECTIONS_MAX: usize = 1024;

/// A listener and the connections it has accepted.
pub struct SegmentShardServer<E: Environment> {
    port: Rc<Port<E, MoveService<SegmentTable>>>,
}

impl<E: Environment> SegmentShardServer<E> {
    /// Listens; port 0 chooses one. Nothing is served before [`SegmentShardServer::serve`].
    ///
    /// # Errors
    /// The port is taken or the address is not of this host.
    pub fn listen(
        environment: &E,
        address: SocketAddr,
        table: Arc<SegmentTable>,
        identity: Identity,
    ) -> Result<Self, SocketError> {
        let context = ServerContext { identity, counters: Arc::default(), shared: None };
        let service = MoveService::new(table, context, Dialects::Own);
        let options = PortOptions::new(CONNECTIONS_MAX);
        let port = Port::listen(environment, (address, false), options, service)?;
        Ok(Self { port })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Serves until [`SegmentShardServer::stop`] and the end of the last connection.
    pub async fn serve(&self) {
        self.port.serve().await;
    }

    /// Breaks the listener and every connection.
    pub fn stop(&self) {
        self.port.stop();
    }
}
