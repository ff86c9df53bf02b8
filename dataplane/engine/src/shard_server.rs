//! One shard of an engine's server over any environment: greeting, epoch, bounds and requests as an
//! engine serves them, without its threads. Simulation drives this under a seed.
//! Invariant: nothing is decided here; connections are served by the same code as in production.

use crate::error::EngineError;
use crate::registered_memory::RegisteredMemory;
use crate::registry::{MemoryLocation, MemoryRegistry, RegisteredRegion};
use perigee_mover::{Dialects, MoveService, ServerContext};
use perigee_port::{Port, PortOptions};
use perigee_schemas::Identity;
use perigee_shard::{Environment, SocketError};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Connections at once.
const CONNECTIONS_MAX: usize = 1024;

/// A listener, the connections it has accepted and the memory they may reach.
pub struct ShardServer<E: Environment> {
    registry: Arc<MemoryRegistry>,
    port: Rc<Port<E, MoveService<RegisteredMemory>>>,
}

/// A buffer that is being taken out.
#[derive(Debug)]
pub struct Leaving {
    registry: Arc<MemoryRegistry>,
    region: Arc<RegisteredRegion>,
}

impl<E: Environment> ShardServer<E> {
    /// Listens as the run with this identity. Nothing is served before [`ShardServer::serve`].
    ///
    /// # Errors
    /// The port is taken or the address is not of this host.
    pub fn listen(
        environment: &E,
        address: SocketAddr,
        life: Identity,
    ) -> Result<Self, SocketError> {
        let registry = Arc::<MemoryRegistry>::default();
        let memory = RegisteredMemory { registry: registry.clone(), devices: None };
        let context = ServerContext { identity: life, counters: Arc::default(), shared: None };
        let service = MoveService::new(Arc::new(memory), context, Dialects::Own);
        let options = PortOptions::new(CONNECTIONS_MAX);
        let port = Port::listen(environment, (address, false), options, service)?;
        Ok(Self { registry, port })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Lets peers read and write a range.
    ///
    /// # Errors
    /// The range overlaps another one, or is none.
    ///
    /// # Safety
    /// The range must stay valid until it was taken out or nothing is left of the server.
    pub unsafe fn register(&self, address: u64, bytes: u64) -> Result<(), EngineError> {
        let region = RegisteredRegion::new(address, bytes, MemoryLocation::Anywhere);
        self.registry.insert(region).map(drop)
    }

    /// Begins to take a range out: no request that comes now gets it, and connections that use it
    /// are broken.
    ///
    /// # Errors
    /// No such range.
    pub fn unregister(&self, address: u64) -> Result<Leaving, EngineError> {
        let region = self.registry.close(address)?;
        let memory = Arc::as_ptr(&region) as usize;
        self.port.service().revoke(&self.port, memory);
        let registry = self.registry.clone();
        Ok(Leaving { registry, region })
    }

    /// Serves until [`ShardServer::stop`] and the end of the last connection.
    pub async fn serve(&self) {
        self.port.serve().await;
    }

    /// Breaks the listener and every connection.
    pub fn stop(&self) {
        self.port.stop();
    }
}

impl Leaving {
    /// Whether it is out: from then on its memory is not touched.
    pub fn is_out(&self) -> bool {
        self.registry.forget_unused(&self.region, Duration::ZERO)
    }
}
