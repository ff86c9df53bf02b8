//! One shard of the master on its thread: its keys, and on the first shard the registry of clients and segments.

use super::Member;
use super::drains::Drains;
use super::gather::Turn;
use super::listings::Listings;
use super::log_budget::LogBudget;
use super::shortage::Shortage;
use perigee_master::{Registry, SegmentEvent, Shard as KeyShard};
use perigee_metrics::MasterCells;
use perigee_shard::{Environment, ShardEnvironment, monotonic_ms};
use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// Pause between ticks of the state machines.
const TICK: Duration = Duration::from_millis(10);
/// Objects that one tick may look at before calls get their turn again.
const TICK_BUDGET: usize = 4096;
/// Pause between ticks of the first shard while objects are being moved.
const MOVING_TICK: Duration = Duration::from_millis(2);

/// State of one shard. Only its own thread touches it.
pub(crate) struct ControlShard {
    pub(crate) environment: ShardEnvironment,
    pub(crate) index: usize,
    pub(crate) keys: RefCell<KeyShard>,
    pub(crate) registry: Option<RefCell<Registry>>,
    pub(crate) cells: Arc<MasterCells>,
    pub(crate) epoch: u64,
    pub(crate) expired: Cell<u64>,
    /// Whose turn it is to gather the space of all shards; used on the first shard.
    pub(super) gathering: Cell<Turn>,
    pub(super) drains: Drains,
    pub(super) shortage: Shortage,
    /// Copies for tasks on each shard when it was asked last; used on the first shard.
    pub(super) task_copies: RefCell<Vec<u32>>,
    /// Told names of segments of expired clients that no mounted segment has.
    pub(crate) expiry_listener: Option<Sender<Vec<String>>>,
    /// The right to walk over keys for a listing.
    pub(crate) listings: Listings,
    /// What may still be said of segments that come and go.
    pub(crate) log_budget: LogBudget,
    members: OnceCell<Arc<[Member]>>,
    stopping: Cell<bool>,
}

impl ControlShard {
    pub(crate) fn new(
        environment: ShardEnvironment,
        keys: KeyShard,
        registry: Option<Registry>,
        cells: Arc<MasterCells>,
        epoch: u64,
        expiry_listener: Option<Sender<Vec<String>>>,
        listings: Listings,
    ) -> Self {
        Self {
            environment,
            index: keys.settings().index,
            keys: RefCell::new(keys),
            registry: registry.map(RefCell::new),
            cells,
            epoch,
            expired: Cell::new(0),
            gathering: Cell::default(),
            drains: Drains::default(),
            shortage: Shortage::default(),
            task_copies: RefCell::default(),
            expiry_listener,
            listings,
            log_budget: LogBudget::default(),
            members: OnceCell::new(),
            stopping: Cell::new(false),
        }
    }

    /// Learns of the other shards.
    pub(crate) fn meet(&self, members: Arc<[Member]>) {
        let _ = self.members.set(members);
    }

    /// All shards, this one included.
    pub(crate) fn members(&self) -> &[Member] {
        self.members.get().map_or(&[], |members| members)
    }

    /// Ends the ticks.
    pub(crate) fn stop(&self) {
        self.stopping.set(true);
    }

    /// Advances the state machines until the shard stops.
    pub(crate) async fn tick(&self) {
        while !self.stopping.get() {
            let more = self.keys.borrow_mut().tick(monotonic_ms(), TICK_BUDGET);
            self.borrow_for_watermark().await;
            self.report_shortage();
            let mut pause = TICK;
            if self.registry.is_some() {
                self.expire_clients().await;
                let draining = self.turn_drains().await;
                if self.turn_tasks().await || draining {
                    pause = MOVING_TICK;
                }
            }
            if more {
                pause = Duration::from_micros(1);
            }
            self.environment.sleep(pause).await;
        }
    }

    /// Applies segment events in order.
    pub(crate) fn apply(&self, events: &[SegmentEvent]) {
        let now = monotonic_ms();
        let mut keys = self.keys.borrow_mut();
        events.iter().for_each(|event| keys.apply(now, event));
    }
}

impl std::fmt::Debug for ControlShard {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ControlShard")
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}
