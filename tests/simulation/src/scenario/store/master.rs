//! The master's process: the production service on a simulated host, with a life after each death.

use super::contract::Contract;
use super::tenants::{self, Tenants};
use crate::environment::SimulatedEnvironment;
use crate::network::HostId;
use crate::random::Random;
use crate::world::World;
use perigee_flags::ProcessEnvironment as Variables;
use perigee_master::{SegmentSpec, ShardGauges};
use perigee_schemas::SegmentKind;
use perigee_service::config::{MasterConfig, MasterStart};
use perigee_service::{MasterShard, ShardStart};
use perigee_shard::Environment;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const PORT: u16 = 7100;
/// Length of an epoch of generations by the clock: owners raise it.
const EPOCH_SECONDS: u64 = 60;

type Shards = Vec<Rc<MasterShard<SimulatedEnvironment>>>;

pub(super) struct Master {
    world: Rc<World>,
    contract: Rc<Contract>,
    random: Random,
    host: HostId,
    config: Box<MasterConfig>,
    tenants: Option<Tenants>,
    pace: Duration,
    epoch: Cell<u64>,
    /// Keys that were evicted in lives that have ended.
    evicted: Cell<u64>,
    /// The present process, or the one that has died.
    process: RefCell<Option<SimulatedEnvironment>>,
    /// Whether the process is to die soon.
    is_due: Cell<bool>,
    /// Of the present life; none before all of them listen.
    shards: RefCell<Shards>,
}

impl Master {
    pub(super) fn new(
        world: &Rc<World>,
        contract: &Rc<Contract>,
        has_disks: bool,
        tenants: Option<Tenants>,
    ) -> Result<Self, String> {
        let random = world.fork_random();
        Ok(Self {
            world: world.clone(),
            contract: contract.clone(),
            host: world.add_host(),
            config: config(&random, has_disks)?,
            tenants,
            // Time for a run costs steps. More than half a second would look like a stall to the
            // registry.
            pace: Duration::from_millis(random.between(50, 400)),
            epoch: Cell::new(0),
            evicted: Cell::new(0),
            process: RefCell::default(),
            is_due: Cell::new(false),
            shards: RefCell::default(),
            random,
        })
    }

    pub(super) fn host(&self) -> HostId {
        self.host
    }

    pub(super) fn address(&self) -> SocketAddr {
        SocketAddr::new(self.world.environment(self.host).address(), PORT)
    }

    /// A process begins, which knows nothing of an earlier one.
    pub(super) fn begin(self: &Rc<Self>) {
        let epoch = self.random.next();
        self.contract.note_upheaval();
        self.epoch.set(epoch);
        self.shards.take();
        let master = self.clone();
        let environment = self.world.environment(self.host);
        *self.process.borrow_mut() = Some(environment.clone());
        environment.spawn(async move { master.start(epoch).await });
    }

    async fn start(&self, epoch: u64) {
        let mut shards = Shards::new();
        let first = 1 + (self.world.now().as_secs() / EPOCH_SECONDS) as u32;
        let ledger = self.tenants.as_ref().map(Tenants::open_ledger);
        for mut start in ShardStart::all(&self.config, epoch, first, self.pace, None) {
            if let Some(ledger) = &ledger {
                start.charge_to(ledger);
            }
            let environment = self.world.environment(self.host);
            match MasterShard::start(&environment, start, self.address()).await {
                Ok(shard) => shards.push(shard),
                Err(error) => return self.world.violate(error.to_string()),
            }
        }
        let members: Arc<[_]> = shards.iter().map(|shard| shard.member()).collect();
        for shard in &shards {
            shard.meet(members.clone());
            let shard = shard.clone();
            self.spawn(async move { shard.serve().await });
        }
        *self.shards.borrow_mut() = shards;
    }

    /// This is a bad moment for the process to die.
    pub(super) fn must_end(&self) {
        self.is_due.set(true);
    }

    /// The host, if its process is to die soon.
    pub(super) fn due(&self) -> Option<HostId> {
        self.is_due.get().then_some(self.host)
    }

    /// The process is about to be killed.
    pub(super) fn note_end(&self) {
        self.is_due.set(false);
        self.evicted.set(self.evicted_keys());
        self.shards.take();
    }

    /// Tells the process to end.
    pub(super) fn stop(&self) {
        self.shards.borrow().iter().for_each(|shard| shard.stop());
    }

    /// Keys that were evicted in all lives.
    pub(super) fn evicted_keys(&self) -> u64 {
        let shards = self.shards.borrow();
        let present: u64 = shards.iter().map(|shard| shard.counters().evicted_keys).sum();
        self.evicted.get() + present
    }

    /// Bytes that were evicted in this life.
    pub(super) fn evicted_bytes(&self) -> u64 {
        self.shards.borrow().iter().map(|shard| shard.counters().evicted_bytes).sum()
    }

    /// Replicas in a segment, on all shards.
    pub(super) fn replicas_in(&self, index: u32) -> u64 {
        let shards = self.shards.borrow();
        let all = shards.iter().flat_map(|shard| shard.segment_gauges());
        all.filter(|gauges| gauges.segment == index).map(|gauges| gauges.replicas).sum()
    }

    /// A key of one of the tenants, if there are several.
    pub(super) fn tenant_key(&self, number: u64, key: &str) -> String {
        match &self.tenants {
            Some(_) => tenants::stored(number, key),
            None => key.to_owned(),
        }
    }

    /// Which life this is.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    /// Drops what refers to the world.
    pub(super) fn forget(&self) {
        self.process.take();
        self.shards.take();
    }

    /// Runs a task in the present process; nothing if it has died.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        if let Some(process) = &*self.process.borrow() {
            process.spawn(task);
        }
    }

    /// The first shard, once all listen.
    pub(super) fn first(&self) -> Option<Rc<MasterShard<SimulatedEnvironment>>> {
        self.shards.borrow().first().cloned()
    }

    /// Mounted segments of memory and their numbers.
    pub(super) fn segments(&self) -> Vec<(u32, Arc<SegmentSpec>)> {
        let mut mounted = self.mounted();
        mounted.retain(|(_, spec)| spec.kind == SegmentKind::Memory);
        mounted
    }

    /// Mounted segments and disks, and their numbers.
    fn mounted(&self) -> Vec<(u32, Arc<SegmentSpec>)> {
        self.first().map_or_else(Vec::new, |first| first.segments())
    }

    /// Whether an answer of a life of the master still holds for a segment.
    pub(super) fn is_mounted(&self, epoch: u64, segment: u128) -> bool {
        let is_it = |(_, spec): &(u32, Arc<SegmentSpec>)| spec.id == segment;
        epoch == self.epoch.get() && self.mounted().iter().any(is_it)
    }

    /// Panics if records of a shard disagree. Ends the run if two shards hold a byte of a segment;
    /// some may be on their way from one to another.
    pub(super) fn check(&self) {
        self.shards.borrow().iter().for_each(|shard| shard.check());
        if let Some(tenants) = &self.tenants {
            tenants.check(&self.shards.borrow());
        }
        for (index, spec) in self.segments() {
            let shards = self.shards.borrow();
            let held = shards.iter().flat_map(|shard| shard.held_extents(index));
            let mut held: Vec<(u64, u64)> =
                held.map(|extent| (extent.offset, extent.offset + extent.bytes)).collect();
            held.sort_unstable();
            let are_apart = held.windows(2).all(|pair| pair[0].1 <= pair[1].0);
            let are_inside = held.last().is_none_or(|(_, end)| *end <= spec.bytes);
            self.world.check(are_apart && are_inside, || {
                format!("Shards hold {held:?} of a segment of {} bytes", spec.bytes)
            });
        }
    }

    /// Ends the run unless all bytes of mounted segments are held, and of no others. Nothing may be
    /// under way.
    pub(super) fn check_all_is_held(&self) {
        let segments = self.segments().into_iter();
        let mounted: BTreeMap<u32, u64> =
            segments.map(|(index, spec)| (index, spec.bytes)).collect();
        let held = self.held();
        self.world.check(held == mounted, || {
            format!("Shards hold {held:?} of the mounted bytes {mounted:?}, by segment")
        });
    }

    /// Bytes that all shards hold, by segment.
    fn held(&self) -> BTreeMap<u32, u64> {
        let mut held = BTreeMap::new();
        let shards = self.shards.borrow();
        for gauges in shards.iter().flat_map(|shard| shard.segment_gauges()) {
            *held.entry(gauges.segment).or_default() += gauges.capacity_bytes;
        }
        // Disks hold no bytes of the master's.
        held.retain(|_, bytes| *bytes > 0);
        held
    }

    /// Ends the run if an object that lost a replica still waits for something else than room.
    pub(super) fn check_repairs_have_ended(&self) {
        for shard in self.shards.borrow().iter() {
            let ShardGauges { repairs, repairs_put_off, .. } = shard.gauges();
            self.world.note("repaired", shard.counters().repairs.ended, repairs);
            self.world.check(repairs == repairs_put_off, || {
                format!("Of {repairs} objects that lost a replica {repairs_put_off} wait for room")
            });
        }
    }

    /// Ends the run unless an empty store uses nothing.
    pub(super) fn check_nothing_is_used(&self) {
        let used = |gauges: ShardGauges| {
            let ShardGauges { keys, pending_puts, moves, allocated_bytes, parked_bytes, .. } =
                gauges;
            [keys, pending_puts, moves, allocated_bytes, parked_bytes]
        };
        if let Some(tenants) = &self.tenants {
            tenants.check_nothing_is_charged();
        }
        for shard in self.shards.borrow().iter() {
            let used = used(shard.gauges());
            self.world.check(used == [0; 5], || {
                format!("Keys, puts, moves, bytes and parked bytes of an empty store: {used:?}")
            });
        }
    }
}

/// Settings of a run, read as those of a program.
fn config(random: &Random, has_disks: bool) -> Result<Box<MasterConfig>, String> {
    let watermarks: &[&str] = if has_disks { &["0.3", "0.6"] } else { &["0.5", "0.9", "1.0"] };
    let flags = [
        ("rpc_shards", random.between(1, 4).to_string()),
        ("default_kv_lease_ttl", random.between(1_000, 10_000).to_string()),
        ("eviction_high_watermark_ratio", (*random.pick(watermarks)).to_owned()),
        ("verify_segments", random.one_in(2).to_string()),
        ("put_start_discard_timeout_sec", (*random.pick(&["2", "30"])).to_owned()),
    ];
    let heat = [
        ("dynamic_replication_mode", (*random.pick(&["off", "observe", "enforce"])).to_owned()),
        ("dynamic_replication_admission_qps_threshold", "0.2".to_owned()),
        ("dynamic_replication_max_memory_replicas", random.between(2, 3).to_string()),
    ];
    let disks = [
        ("enable_offload", "true".to_owned()),
        ("offload_on_evict", random.one_in(2).to_string()),
        ("offload_force_evict", random.one_in(2).to_string()),
        ("promotion_on_hit", random.one_in(2).to_string()),
        ("promotion_admission_threshold", random.between(1, 2).to_string()),
        ("promotion_on_exist", random.one_in(3).to_string()),
    ];
    let disks = disks.into_iter().filter(|_| has_disks);
    let arguments: Vec<String> = flags
        .into_iter()
        .chain(heat)
        .chain(disks)
        .map(|(name, value)| format!("--{name}={value}"))
        .collect();
    match MasterConfig::load(&arguments, &Variables::of(&[])) {
        Ok(MasterStart::Serve(config)) => Ok(config),
        other => Err(format!("The settings of a run: {other:?}")),
    }
}
