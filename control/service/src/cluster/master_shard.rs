//! One shard of the master that serves: its state machines, its RPC port and its ticks, in any
//! environment.
//! Invariant: a shard that could not listen leaves nothing behind.

use super::control_shard::{ControlShard, MasterWide, Member};
use super::settings::{key_settings, registry_settings};
use crate::config::MasterConfig;
use crate::rpc::{RpcPort, RpcService, frame_budget, port_options};
use perigee_master::{
    DrainJob, DrainJobRequest, Extent, GroupLedger, JobRefusal, KeyEventQueue, KeyShard, Registry,
    SegmentGauges, SegmentSpec, ShardCounters, ShardGauges, TenantLedger,
};
use perigee_metrics::MasterCells;
use perigee_port::{FrameBudget, Port};
use perigee_shard::{Environment, Local, ShardEnvironment, SocketError};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// How long a taken RPC port is tried again.
const PORT_PATIENCE: Duration = Duration::from_secs(2);
/// Pause between those tries.
const PORT_PAUSE: Duration = Duration::from_millis(50);

/// What one shard is started with.
pub struct ShardStart {
    keys: KeyShard,
    /// On the first shard.
    registry: Option<Registry>,
    cells: Arc<MasterCells>,
    expiry_listener: Option<Sender<Vec<String>>>,
    budget: FrameBudget,
    shared: MasterWide,
    idle: Option<Duration>,
    epoch: u64,
    pace: Duration,
}

/// A shard of the master. Each process has one or several, which are introduced to each other by
/// [`MasterShard::meet`].
pub struct MasterShard<E: Environment = ShardEnvironment> {
    port: Rc<RpcPort<E>>,
    state: Rc<ControlShard<E>>,
    name: Local<ControlShard<E>>,
}

impl ShardStart {
    /// The shards of a master. `epoch` is the random number of its life, `first` the least epoch of
    /// its generations; where nothing is left to do, a shard looks for work every `pace`.
    /// `expiry_listener` gets names of segments of expired clients that no mounted segment has.
    pub fn all(
        config: &MasterConfig,
        epoch: u64,
        first: u32,
        pace: Duration,
        expiry_listener: Option<&Sender<Vec<String>>>,
    ) -> Vec<Self> {
        let count = config.rpc.shards.max(1);
        let groups = GroupLedger::new(count);
        let directory = config.shared.clone().map(Arc::new);
        let (budget, shared) = (frame_budget(), MasterWide::new(directory));
        let start = |index| Self {
            keys: KeyShard::sharing(key_settings(config, index, count, (epoch, first)), &groups),
            registry: (index == 0)
                .then(|| Registry::new(registry_settings(config, (epoch, first)))),
            cells: Arc::default(),
            expiry_listener: expiry_listener.cloned(),
            budget: budget.clone(),
            shared: shared.clone(),
            idle: config.rpc.idle_timeout_ms.map(Duration::from_millis),
            epoch,
            pace,
        };
        (0..count).map(start).collect()
    }

    /// Tenants need a quota of this ledger.
    pub fn charge_to(&mut self, ledger: &TenantLedger) {
        self.keys.charge_to(ledger);
    }

    /// Changes of its keys go into this queue.
    pub fn report_to(&mut self, queue: KeyEventQueue) {
        self.keys.report_to(queue);
    }
}

impl<E: Environment> MasterShard<E> {
    /// Listens on `address`, which all shards of a master share, and begins to tick. Nothing is
    /// served before [`MasterShard::serve`].
    ///
    /// # Errors
    /// The port is taken or the address is not of this host.
    pub async fn start(
        environment: &E,
        start: ShardStart,
        address: SocketAddr,
    ) -> Result<Rc<Self>, SocketError> {
        let ShardStart { epoch, idle, pace, budget, .. } = start;
        let is_shared = start.keys.settings().count > 1;
        let state = Rc::new(ControlShard::new(
            environment.clone(),
            start.keys,
            start.registry,
            start.cells,
            epoch,
            start.expiry_listener,
            start.shared,
        ));
        let name = environment.keep(state.clone());
        let service = || RpcService::new(&state, &budget);
        let port = match listen(environment, (address, is_shared), idle, service).await {
            Ok(port) => port,
            Err(error) => {
                environment.give_up(name);
                return Err(error);
            }
        };
        let ticking = state.clone();
        environment.spawn(async move { ticking.tick(pace).await });
        Ok(Rc::new(Self { port, state, name }))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// How other shards reach it.
    pub fn member(&self) -> Member<E> {
        Member {
            mailbox: self.state.environment.mailbox().clone(),
            name: self.name,
            cells: self.state.cells.clone(),
        }
    }

    /// Learns of all shards of the master, itself included, in the order of their numbers.
    pub fn meet(&self, members: Arc<[Member<E>]>) {
        self.state.meet(members);
    }

    /// Serves from [`MasterShard::meet`] until [`MasterShard::stop`] and the end of the last
    /// connection. Until then connections wait in the listener's backlog.
    pub async fn serve(&self) {
        self.state.has_met().await;
        self.port.serve().await;
        self.state.stop();
        self.state.environment.give_up(self.name);
    }

    /// Breaks the listener and every connection.
    pub fn stop(&self) {
        self.port.stop();
    }

    /// Panics if two of its records disagree: for tests and the simulation, because it looks at
    /// everything.
    pub fn check(&self) {
        self.state.keys.borrow().check();
        if let Some(registry) = &self.state.registry {
            registry.borrow().check();
        }
    }

    /// What it holds of a segment of memory: for the simulation, which compares shards.
    pub fn held_extents(&self, segment: u32) -> Vec<Extent> {
        self.state.keys.borrow().held_extents(segment)
    }

    /// How full it is.
    pub fn gauges(&self) -> ShardGauges {
        self.state.keys.borrow().gauges()
    }

    /// What it has done since its start.
    pub fn counters(&self) -> ShardCounters {
        self.state.keys.borrow().counters().clone()
    }

    /// How full its share of each mounted segment is.
    pub fn segment_gauges(&self) -> Vec<SegmentGauges> {
        self.state.keys.borrow().segment_gauges().collect()
    }

    /// What each tenant has on it, by its name: bytes in memory, and objects.
    pub fn tenant_holdings(&self) -> BTreeMap<String, (u64, u64)> {
        self.state.keys.borrow().tenant_holdings()
    }

    /// Mounted segments and their numbers; nothing on shards other than the first.
    pub fn segments(&self) -> Vec<(u32, Arc<SegmentSpec>)> {
        let registry = self.state.registry.as_ref().map(|registry| registry.borrow());
        let segments = registry.iter().flat_map(|registry| registry.segments());
        segments.map(|view| (view.index, view.spec.clone())).collect()
    }

    /// Creates a drain job under a random identity. For the first shard.
    ///
    /// # Errors
    /// As `Registry::create_drain`.
    pub async fn create_drain(&self, id: u128, request: DrainJobRequest) -> Result<(), JobRefusal> {
        self.state.create_drain(id, request).await
    }

    /// A drain job, also one that ended not too long ago. For the first shard.
    pub fn drain_job(&self, id: u128) -> Option<DrainJob> {
        let registry = self.state.registry.as_ref()?.borrow();
        registry.drain_job(id).cloned()
    }
}

/// The kernel frees the port of a killed master a moment after the process is gone: a supervisor
/// that restarts at once must not fail for that.
async fn listen<E: Environment>(
    environment: &E,
    place: (SocketAddr, bool),
    idle: Option<Duration>,
    service: impl Fn() -> RpcService<E>,
) -> Result<Rc<RpcPort<E>>, SocketError> {
    let deadline = environment.now() + PORT_PATIENCE;
    loop {
        match Port::listen(environment, place, port_options(idle), service()) {
            Err(error) if error.is_address_in_use() && environment.now() < deadline => {
                environment.sleep(PORT_PAUSE).await;
            }
            other => return other,
        }
    }
}
