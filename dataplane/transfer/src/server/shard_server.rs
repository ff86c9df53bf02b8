//! One shard of a segment server over any environment: greeting, checks and slices as a [`SegmentServer`] runs them,
//! without its threads. Simulation drives this under a seed.
//! Invariant: nothing is decided here; connections are served by the same code as in production.
//!
//! [`SegmentServer`]: super::SegmentServer

use super::state::{Ground, ServerState};
use crate::segments::SegmentTable;
use perigee_schemas::Identity;
use perigee_shard::{Environment, Listener, SocketError};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// A listener and the connections it has accepted.
pub struct ShardServer<E: Environment> {
    address: SocketAddr,
    state: Rc<ServerState<E>>,
}

impl<E: Environment> ShardServer<E> {
    /// Listens; port 0 chooses one. Nothing is served before [`ShardServer::serve`].
    ///
    /// # Errors
    /// The port is taken or the address is not of this host.
    pub fn listen(
        environment: &E,
        address: SocketAddr,
        table: Arc<SegmentTable>,
        identity: Identity,
    ) -> Result<Self, SocketError> {
        let listener = Rc::new(environment.listen(address, false)?);
        let address = listener.local_address().unwrap_or(address);
        let ground = Ground {
            table,
            identity,
            rails: None,
        };
        let state = ServerState::new(environment.clone(), listener, ground);
        let state = Rc::new(state);
        Ok(Self { address, state })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until [`ShardServer::stop`] and the end of the last connection.
    pub async fn serve(&self) {
        self.state.accept().await;
        self.state.drained().await;
    }

    /// Breaks the listener and every connection.
    pub fn stop(&self) {
        self.state.stop();
    }
}
