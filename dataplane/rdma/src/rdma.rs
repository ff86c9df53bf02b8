//! RDMA under the store: the rails of a process, for its own segments and for its transfers alike.
//!
//! A client asks the owner of a segment on its data port what rails and keys it has, keeps that connection, and renews the
//! lease on it. The invariant: a write of a client lands only while its connection stands and its lease runs; then the owner
//! takes the queue pairs down, long before the master gives the space of an unfinished put to others.

mod buffers;
mod courier;
pub(crate) mod desk;
mod flight;
mod landing;
mod links;
mod passage;
mod peers;
mod served;
mod stage;
mod talk;
pub(crate) mod wire;

pub(crate) use flight::{Passed, RailFlight};

use crate::client::Names;
use crate::error::TransferError;
use crate::limits::RAIL_FENCE_DEADLINE;
use buffers::Buffers;
use courier::Courier;
use desk::Desk;
use links::Links;
use peers::{Found, Way};
use perigee_memory::Segment;
use perigee_mover::CONNECT_DEADLINE;
use perigee_mover::PeerError;
use perigee_rails::{Exchange, RailDevice, RailEngine, RailError, RailOptions, Registration};
use perigee_schemas::Identity;
use perigee_verbs::Fabric;
use served::Served;
use stage::Stages;
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use talk::Order;

/// A fabric that stands in for the host's devices, for tests and simulation.
#[derive(Clone)]
pub struct GivenFabric(pub Arc<dyn Fabric>);

impl std::fmt::Debug for GivenFabric {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("GivenFabric")
    }
}

impl PartialEq for GivenFabric {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for GivenFabric {}

/// How rails are started.
#[derive(Clone, Debug)]
pub struct RailsOptions {
    /// Random identity of this process.
    pub identity: Identity,
    /// Devices to use; empty for all with an active port.
    pub devices: Vec<RailDevice>,
    /// Threads that drive queue pairs.
    pub shards: usize,
    /// How long these threads poll after the last completion.
    pub poll: Duration,
    /// Most queue pairs of such a thread between the same two NICs, 1 to 32; `None` lets the rails choose.
    pub queue_pairs_per_rail: Option<usize>,
}

/// The rails of a process.
#[derive(Debug)]
pub struct Rails {
    engine: RailEngine,
    links: Arc<Links>,
    courier: Arc<Courier>,
    buffers: Buffers,
    served: Arc<Served>,
    desk: Arc<Desk>,
}

impl Rails {
    /// Opens the devices of a fabric.
    ///
    /// # Errors
    /// No device can be used, or no thread is to be had.
    pub fn start(fabric: &dyn Fabric, options: &RailsOptions) -> Result<Arc<Self>, RailError> {
        let links = Arc::new(Links {
            peers: peers::Peers::default(),
            names: Names::new(CONNECT_DEADLINE),
            stages: Arc::<Stages>::default(),
            engine: OnceLock::new(),
        });
        let failed = |error: &dyn std::fmt::Display| RailError::Shard {
            reason: error.to_string(),
        };
        let courier = Courier::start(options.identity, &links).map_err(|error| failed(&error))?;
        let courier = Arc::new(courier);
        let exchange: Arc<dyn Exchange> = courier.clone();
        let settings = RailOptions {
            devices: options.devices.clone(),
            shards: options.shards,
            poll: options.poll,
            queue_pairs_per_rail: options.queue_pairs_per_rail,
            ..RailOptions::named(&options.identity.to_string())
        };
        let engine =
            RailEngine::start(fabric, &settings, &exchange).inspect_err(|_| courier.stop())?;
        let engine = links.engine.get_or_init(|| engine).clone();
        let desk = Desk::start(&engine).map_err(|error| failed(&error))?;
        Ok(Arc::new(Self {
            engine,
            links,
            courier,
            buffers: Buffers::default(),
            served: Arc::default(),
            desk,
        }))
    }

    /// Registers memory of the caller, so that devices read and write it in place.
    ///
    /// # Safety
    /// The memory stays mapped until it is unregistered or the rails are closed.
    ///
    /// # Errors
    /// A device refuses; the message names the remedy. Transfers of the memory are copied, or go over TCP.
    pub unsafe fn register(&self, address: u64, bytes: u64) -> Result<(), RailError> {
        // SAFETY: the caller's promise is the same.
        unsafe { self.buffers.register(&self.engine, address, bytes) }
    }

    /// Ends what [`Rails::register`] began; no device touches the memory afterwards.
    pub fn unregister(&self, address: u64) {
        self.buffers.unregister(address);
    }

    /// Lets peers reach a segment, as soon as its memory is registered.
    pub fn serve(&self, id: Identity, segment: &Arc<Segment>) {
        self.served.serve(&self.engine, id, segment.clone());
    }

    /// Ends that: when this returns, no peer reaches the segment over rails.
    pub fn withdraw(&self, id: Identity) {
        self.served.withdraw(id);
    }

    /// Ends all talks, takes all queue pairs down, and lets go of all memory.
    pub fn close(&self) {
        self.courier.stop();
        self.engine.close();
        self.desk.close();
        self.served.withdraw_all();
        self.buffers.clear();
    }

    pub(crate) fn engine(&self) -> &RailEngine {
        &self.engine
    }

    pub(crate) fn served(&self) -> &Served {
        &self.served
    }

    pub(crate) fn desk(&self) -> &Arc<Desk> {
        &self.desk
    }

    fn stages(&self) -> &Arc<Stages> {
        &self.links.stages
    }

    /// The way to a segment, if it is proven. If nothing is known of its owner, the owner is asked meanwhile.
    fn way(&self, endpoint: &Arc<str>, segment: Identity) -> Option<Way> {
        match self.links.peers.find(endpoint, segment) {
            Found::Way(way) => Some(way),
            Found::No => None,
            Found::Ask => {
                self.courier.order(endpoint, Order::Ask);
                None
            }
        }
    }

    /// The registration that covers a range of this process's memory.
    fn registered(&self, address: u64, bytes: u64) -> Option<Arc<Registration>> {
        let found = self.buffers.find(address, bytes);
        found.or_else(|| self.served.find(address, bytes))
    }

    /// Nothing goes over the rails of a peer for a while.
    fn suspend(&self, endpoint: &Arc<str>) {
        self.links.peers.suspend(endpoint);
    }

    /// Makes sure that nothing that was sent to a peer over rails lands there any more.
    fn fence(&self, endpoint: &Arc<str>) -> Result<(), TransferError> {
        let (done, waiting) = channel();
        self.courier.order(endpoint, Order::Fence(done));
        let fenced = waiting.recv_timeout(RAIL_FENCE_DEADLINE);
        fenced.map_err(|_| {
            TransferError::Peer(PeerError::Broken {
                peer: endpoint.to_string(),
                reason: "its queue pairs could not be taken down after a fault".to_owned(),
            })
        })
    }
}

impl Drop for Rails {
    fn drop(&mut self) {
        self.close();
    }
}
