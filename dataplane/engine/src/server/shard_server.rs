//! One shard of an engine's server over any environment: greeting, epoch, bounds and requests as an engine serves them,
//! without its threads. Simulation drives this under a seed.
//! Invariant: nothing is decided here; connections are served by the same code as in production.

use super::{Host, ServerState, Speech};
use crate::error::EngineError;
use crate::registry::{Location, Region, Registry};
use perigee_schemas::Identity;
use perigee_shard::{Environment, Listener, SocketError};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A listener, the connections it has accepted and the memory they may reach.
pub struct ShardServer<E: Environment> {
    address: SocketAddr,
    registry: Arc<Registry>,
    state: Rc<ServerState<E>>,
}

/// A buffer that is being taken out.
#[derive(Debug)]
pub struct Leaving {
    registry: Arc<Registry>,
    region: Arc<Region>,
}

impl<E: Environment> ShardServer<E> {
    /// Listens as the life with this identity. Nothing is served before [`ShardServer::serve`].
    ///
    /// # Errors
    /// The port is taken or the address is not of this host.
    pub fn listen(
        environment: &E,
        address: SocketAddr,
        life: Identity,
    ) -> Result<Self, SocketError> {
        let listener = Rc::new(environment.listen(address, false)?);
        let address = listener.local_address().unwrap_or(address);
        let registry = Arc::<Registry>::default();
        let host = Host::new(life, &registry, &Arc::default(), None);
        let state = ServerState::new(environment.clone(), listener, Arc::new(host), Speech::Own);
        let state = Rc::new(state);
        Ok(Self {
            address,
            registry,
            state,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets peers read and write a range.
    ///
    /// # Errors
    /// The range overlaps another one, or is none.
    ///
    /// # Safety
    /// The range must stay valid until it was taken out or nothing is left of the server.
    pub unsafe fn register(&self, address: u64, bytes: u64) -> Result<(), EngineError> {
        let region = Region::new(address, bytes, Location::Anywhere);
        self.registry.insert(region).map(drop)
    }

    /// Begins to take a range out: no request that comes now gets it, and connections that use it are broken.
    ///
    /// # Errors
    /// No such range.
    pub fn unregister(&self, address: u64) -> Result<Leaving, EngineError> {
        let region = self.registry.close(address)?;
        self.state.revoke(&region);
        let registry = self.registry.clone();
        Ok(Leaving { registry, region })
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

impl Leaving {
    /// Whether it is out: from then on nobody touches its memory.
    pub fn is_out(&self) -> bool {
        self.registry.forget_unused(&self.region, Duration::ZERO)
    }
}
