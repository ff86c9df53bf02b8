//! One shard of the master on its thread: its keys, and on the first shard the registry of clients
//! and segments.

use super::copy_turns::CopyTurns;
use super::followers::Followers;
use super::gather_turn::GatherTurn;
use super::listings::Listings;
use super::log_budget::LogBudget;
use super::rebuild_window::{Awaited, RebuildWindow};
use super::repair_notify::RepairNotify;
use super::shortage::ShortageLog;
use super::unsaved::UnsavedLog;
use crate::config::SharedDirectory;
use perigee_master::{KeyShard, Registry, SegmentEvent};
use perigee_metrics::MasterCells;
use perigee_shard::{Environment, Local, ShardEnvironment};
use std::cell::{Cell, OnceCell, RefCell};
use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::task::{Poll, Waker};
use std::time::Duration;

/// Objects that one tick may look at before calls get their turn again.
const TICK_BUDGET: usize = 4096;
/// While objects are being moved, the first shard ticks so many times as often.
const MOVING_TICKS: u32 = 5;

/// Where a shard is and what it counts.
pub struct Member<E: Environment = ShardEnvironment> {
    pub(crate) mailbox: E::Mailbox,
    pub(crate) name: Local<ControlShard<E>>,
    pub(crate) cells: Arc<MasterCells>,
}

impl<E: Environment> Clone for Member<E> {
    fn clone(&self) -> Self {
        Self { mailbox: self.mailbox.clone(), name: self.name, cells: self.cells.clone() }
    }
}

impl<E: Environment> std::fmt::Debug for Member<E> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Member").field("mailbox", &self.mailbox).finish_non_exhaustive()
    }
}

/// State that all shards of a master share.
#[derive(Clone, Default)]
pub(super) struct MasterWide {
    listings: Listings,
    window: RebuildWindow,
    repairs: RepairNotify,
    /// Where clients have disks beside their own.
    directory: Option<Arc<SharedDirectory>>,
}

impl MasterWide {
    pub(super) fn new(directory: Option<Arc<SharedDirectory>>) -> Self {
        Self { directory, ..Self::default() }
    }
}

/// State of one shard. Only its own thread touches it.
pub(crate) struct ControlShard<E: Environment = ShardEnvironment> {
    pub(crate) environment: E,
    pub(crate) index: usize,
    pub(crate) keys: RefCell<KeyShard>,
    pub(crate) registry: Option<RefCell<Registry>>,
    pub(crate) cells: Arc<MasterCells>,
    pub(crate) epoch: u64,
    pub(crate) expired: Cell<u64>,
    /// Whose turn it is to gather the space of all shards; used on the first shard.
    pub(super) gathering: RefCell<GatherTurn>,
    /// Used on the first shard.
    pub(super) copies: CopyTurns,
    pub(super) shortage: ShortageLog,
    pub(super) unsaved: UnsavedLog,
    /// Gets names of segments of expired clients that no mounted segment has.
    pub(crate) expiry_listener: Option<Sender<Vec<String>>>,
    /// The right to walk over keys for a listing.
    pub(crate) listings: Listings,
    /// What may still be said of segments that come and go.
    pub(crate) log_budget: LogBudget,
    pub(crate) followers: Followers<E>,
    /// What all shards know of the restart of the master.
    pub(super) window: RebuildWindow,
    pub(super) repairs: RepairNotify,
    /// Where clients have disks beside their own.
    pub(crate) directory: Option<Arc<SharedDirectory>>,
    /// What calls wait for here.
    pub(super) awaited: Cell<Awaited>,
    /// When the shard began.
    pub(super) began: Duration,
    members: OnceCell<Arc<[Member<E>]>>,
    /// Who waits for them.
    waiting: RefCell<Option<Waker>>,
    stopping: Cell<bool>,
}

impl<E: Environment> ControlShard<E> {
    pub(super) fn new(
        environment: E,
        keys: KeyShard,
        registry: Option<Registry>,
        cells: Arc<MasterCells>,
        epoch: u64,
        expiry_listener: Option<Sender<Vec<String>>>,
        MasterWide { listings, window, repairs, directory }: MasterWide,
    ) -> Self {
        let is_first = keys.settings().index == 0;
        debug_assert_eq!(registry.is_some(), is_first, "the first shard has the registry");
        Self {
            began: environment.now(),
            followers: Followers::default(),
            window,
            repairs,
            directory,
            awaited: Cell::default(),
            environment,
            index: keys.settings().index,
            keys: RefCell::new(keys),
            registry: registry.map(RefCell::new),
            cells,
            epoch,
            expired: Cell::new(0),
            gathering: RefCell::default(),
            copies: CopyTurns::default(),
            shortage: ShortageLog::default(),
            unsaved: UnsavedLog::default(),
            expiry_listener,
            listings,
            log_budget: LogBudget::default(),
            members: OnceCell::new(),
            waiting: RefCell::default(),
            stopping: Cell::new(false),
        }
    }

    /// The shard's time, in which its state machines live.
    pub(crate) fn now_ms(&self) -> u64 {
        self.environment.now_ms()
    }

    /// Learns of the other shards.
    pub(crate) fn meet(&self, members: Arc<[Member<E>]>) {
        let is_own = |own: &Member<E>| Arc::ptr_eq(&own.cells, &self.cells);
        let is_placed = members.get(self.index).is_some_and(is_own);
        debug_assert!(is_placed, "members come in the order of their numbers");
        let is_first = self.members.set(members).is_ok();
        debug_assert!(is_first, "shards are introduced once");
        if let Some(waiting) = self.waiting.take() {
            waiting.wake();
        }
    }

    /// Resolves once it knows all shards. A call that came before would take it for the only one.
    pub(crate) async fn has_met(&self) {
        poll_fn(|context| {
            if self.members.get().is_some() {
                return Poll::Ready(());
            }
            self.waiting.replace(Some(context.waker().clone()));
            Poll::Pending
        })
        .await;
    }

    /// All shards, this one included.
    pub(crate) fn members(&self) -> &[Member<E>] {
        self.members.get().map_or(&[], |members| members)
    }

    /// Ends the ticks.
    pub(crate) fn stop(&self) {
        self.stopping.set(true);
    }

    /// Advances the state machines until the shard stops, with a pause of `pace` where nothing is
    /// left to do.
    pub(crate) async fn tick(&self, pace: Duration) {
        while !self.stopping.get() {
            let more = self.keys.borrow_mut().tick(self.now_ms(), TICK_BUDGET);
            self.flush_records().await;
            if self.awaits() {
                self.count_awaited();
            }
            self.borrow_for_watermark().await;
            let now_ms = self.now_ms();
            self.shortage.report(self.index, &self.keys.borrow(), now_ms);
            self.unsaved.report(self.index, &self.keys.borrow(), now_ms);
            self.notify_of_repairs();
            let mut pause = pace;
            if self.registry.is_some() {
                self.expire_clients();
                let draining = self.turn_drains().await;
                let repairing = self.turn_repairs().await;
                if self.turn_tasks().await || draining || repairing {
                    pause = pace / MOVING_TICKS;
                }
            }
            if more {
                pause = Duration::from_micros(1);
            }
            self.environment.sleep(pause).await;
        }
    }

    /// Whether a line about a peer may be written now; if so, how many were left out before it.
    pub(crate) fn log_line(&self, peer: Option<IpAddr>) -> Option<u64> {
        let line = self.log_budget.line(self.now_ms(), peer);
        self.cells.log_lines_left_out.add(u64::from(line.is_none()));
        line
    }

    /// Applies segment events in order.
    pub(crate) fn apply(&self, events: &[SegmentEvent]) {
        let now = self.now_ms();
        let mut keys = self.keys.borrow_mut();
        events.iter().for_each(|event| keys.apply(now, event));
        drop(keys);
        for event in events {
            if let SegmentEvent::Unmounted { index } = event {
                self.followers.cut(*index);
            }
        }
        self.count_awaited();
    }
}

impl<E: Environment> std::fmt::Debug for ControlShard<E> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ControlShard").field("index", &self.index).finish_non_exhaustive()
    }
}
