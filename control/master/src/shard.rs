//! One shard of the master: the objects of its keys and the space of each segment that it holds.
//! Invariant: no two live extents overlap, and an extent under a running read lease is never handed
//! out.

mod adopted_replica;
mod check;
mod drain;
mod evict;
mod gather_space;
mod give_back;
mod given_back;
mod key_report;
mod lend;
mod listed_key;
mod locate;
mod members;
mod mount;
mod move_task;
mod overtaken;
mod pattern;
mod place;
mod put;
mod put_end;
mod put_start;
mod read;
mod rebuild;
mod relocate;
mod remove;

mod scan;
mod scan_position;
mod space;
mod started_puts;
mod task_turn;
mod tasks;
mod tick;
mod touch;
mod victim;

#[cfg(test)]
mod tests;

pub use crate::loan::{Need, SpaceLoan};
pub use adopted_replica::RebuiltReplica;
pub use given_back::GivenBack;
pub use listed_key::ListedKey;
pub use move_task::{EndedMoves, MoveTask};
pub use pattern::Pattern;
pub use put_start::{Effort, PutStart};
pub use scan_position::Scan;
pub use started_puts::StartedPuts;
pub use task_turn::TaskTurn;

use std::collections::BTreeMap;

use crate::counters::{SegmentGauges, ShardCounters, ShardGauges};
use crate::draining::Drain;
use crate::generations::Generations;
use crate::ghosts::Ghosts;
use crate::group::{GroupLedger, Groups};
use crate::idle_ages::IdleAges;
use crate::index::KeyIndex;
use crate::key::hash_key;
use crate::key_events::KeyEventQueue;
use crate::moving::ReplicaMoves;
use crate::object::Object;
use crate::pending::PendingPuts;
use crate::quarantine::Quarantine;
use crate::random::Xorshift;
use crate::replica::Replica;
use crate::settings::ShardSettings;
use crate::shard_task::ShardTasks;
use crate::shares::Shares;
use crate::slab::Slab;
use crate::soft_pins::SoftPins;

/// The owner of the keys with `shard_of(key, count) == index`.
///
/// All calls take the time as monotonic milliseconds; a time before an earlier call's counts as
/// that call's.
#[derive(Debug)]
pub struct KeyShard {
    settings: ShardSettings,
    now_ms: u64,
    index: KeyIndex,
    objects: Slab<Object>,
    /// Most objects there were since [`KeyShard::take_peak_keys`].
    peak_keys: usize,
    replicas: Slab<Replica>,
    shares: Shares,
    pending: PendingPuts,
    groups: Groups,
    quarantine: Quarantine,
    moves: ReplicaMoves,
    /// Drain jobs under way.
    drains: BTreeMap<u128, Drain>,
    /// Tasks under way.
    tasks: ShardTasks,
    soft_pins: SoftPins,
    ghosts: Ghosts,
    random: Xorshift,
    /// Touches so far.
    clock: u64,
    ages: IdleAges,
    /// Batch calls so far.
    calls: u64,
    generations: Generations,
    /// Where changes of keys are reported.
    events: Option<KeyEventQueue>,
    counters: ShardCounters,
    /// Hashes of the current batch's keys, kept for its memory.
    hashes: Vec<u64>,
    /// Objects of the current batch, kept for its memory.
    found: Vec<u32>,
    /// Segments to try for the current key, kept for its memory.
    candidates: Vec<u32>,
}

impl KeyShard {
    /// An empty shard without segments.
    pub fn new(settings: ShardSettings) -> Self {
        let groups = GroupLedger::new(settings.count);
        Self::sharing(settings, &groups)
    }

    /// An empty shard without segments whose groups may have members on the other shards with this
    /// ledger.
    pub fn sharing(settings: ShardSettings, groups: &GroupLedger) -> Self {
        let index = settings.index;
        let seed = settings.seed.wrapping_add(index as u64);
        let pending = PendingPuts::new(settings.generation_base);
        let generations = Generations::new(&settings);
        Self {
            settings,
            now_ms: 0,
            index: KeyIndex::new(),
            objects: Slab::new(),
            peak_keys: 0,
            replicas: Slab::new(),
            shares: Shares::default(),
            pending,
            groups: Groups::new(groups, index),
            quarantine: Quarantine::default(),
            moves: ReplicaMoves::default(),
            drains: BTreeMap::new(),
            tasks: ShardTasks::default(),
            soft_pins: SoftPins::default(),
            ghosts: Ghosts::new(),
            random: Xorshift::new(seed),
            clock: 0,
            ages: IdleAges::default(),
            calls: 0,
            generations,
            events: None,
            counters: ShardCounters::default(),
            hashes: Vec::new(),
            found: Vec::new(),
            candidates: Vec::new(),
        }
    }

    /// What the shard was made with.
    pub fn settings(&self) -> &ShardSettings {
        &self.settings
    }

    /// Counters since the start.
    pub fn counters(&self) -> &ShardCounters {
        &self.counters
    }

    /// Most keys there were since this was asked last.
    pub fn take_peak_keys(&mut self) -> u64 {
        std::mem::replace(&mut self.peak_keys, self.objects.len()) as u64
    }

    /// The state in numbers.
    pub fn gauges(&self) -> ShardGauges {
        let mut gauges = ShardGauges {
            keys: self.objects.len() as u64,
            soft_pinned_keys: self.soft_pins.len() as u64,
            pending_puts: self.pending.len() as u64,
            moves: self.moves.len() as u64,
            parked_bytes: self.quarantine.bytes(),
            staging_bytes: self.quarantine.staging_bytes(),
            ..ShardGauges::default()
        };
        for segment in self.segment_gauges() {
            gauges.allocated_bytes += segment.allocated_bytes;
            gauges.capacity_bytes += segment.capacity_bytes;
        }
        gauges
    }

    /// The state of each readable segment in numbers, in order of segment numbers.
    pub fn segment_gauges(&self) -> impl Iterator<Item = SegmentGauges> + '_ {
        self.shares.gauges()
    }

    /// The state of one segment in numbers, if it is readable.
    pub fn segment_gauge(&self, segment: u32) -> Option<SegmentGauges> {
        self.shares.gauges_of(segment)
    }

    /// Starts a call: time never goes back.
    fn begin(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
        self.calls += 1;
        self.drop_retired();
    }

    fn find(&self, key: &[u8]) -> Option<u32> {
        self.index.find(&self.objects, hash_key(key), key)
    }

    /// Whether an object has a complete replica that can be read.
    fn is_complete(&self, object: u32) -> bool {
        let first = self.objects[object].first;
        self.replicas.chain(first).any(|id| self.shares.is_readable(self.replicas[id].segment))
    }
}
