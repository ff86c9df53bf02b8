//! One shard of the master: the objects of its keys and the space of each segment that it holds.
//! Invariant: no two live extents overlap, and an extent under a running read lease is never handed out.

mod adopt;
mod check;
mod drain;
mod errands;
mod evict;
mod finish;
mod gather;
mod give_back;
mod lend;
mod locate;
mod members;
mod mount;
mod overtaken;
mod place;
mod put;
mod read;
mod relocate;
mod remove;
mod scan;
mod space;
mod tick;
mod touch;
mod victim;

#[cfg(test)]
mod tests;

pub use adopt::AdoptedReplica;
pub use errands::TaskTurn;
pub use finish::StartedPuts;
pub use give_back::GivenBack;
pub use lend::{Loan, Need};
pub use put::{Effort, PutStart};
pub use relocate::{EndedMoves, MoveTask};
pub use scan::{Pattern, Scan};

use std::collections::BTreeMap;

use crate::ages::Ages;
use crate::counters::{SegmentGauges, ShardCounters, ShardGauges};
use crate::draining::Drain;
use crate::errand::Errands;
use crate::ghosts::Ghosts;
use crate::group::{GroupLedger, Groups};
use crate::index::KeyIndex;
use crate::key::hash_key;
use crate::moving::Moves;
use crate::object::Object;
use crate::parking::Parking;
use crate::pending::PendingPuts;
use crate::random::Xorshift;
use crate::replica::Replica;
use crate::settings::ShardSettings;
use crate::share::Share;
use crate::slab::{NONE, Slab};
use crate::soft_pins::SoftPins;

/// The owner of the keys with `shard_of(key, count) == index`.
///
/// All calls take the time as monotonic milliseconds; a time before an earlier call's counts as that call's.
#[derive(Debug)]
pub struct Shard {
    settings: ShardSettings,
    now_ms: u64,
    index: KeyIndex,
    objects: Slab<Object>,
    /// Most objects there were since [`Shard::take_peak_keys`].
    peak_keys: usize,
    replicas: Slab<Replica>,
    /// By segment number; `None` for segments that are forgotten.
    shares: Vec<Option<Box<Share>>>,
    /// Numbers of the segments that take new objects, in order.
    live: Vec<u32>,
    /// Numbers of the unmounted segments whose replicas are not all forgotten.
    gone: Vec<u32>,
    pending: PendingPuts,
    groups: Groups,
    parking: Parking,
    moves: Moves,
    /// Drain jobs under way.
    drains: BTreeMap<u128, Drain>,
    /// Tasks under way.
    errands: Errands,
    soft_pins: SoftPins,
    ghosts: Ghosts,
    random: Xorshift,
    /// Touches so far.
    clock: u64,
    ages: Ages,
    /// Batch calls so far.
    calls: u64,
    allocations: u64,
    counters: ShardCounters,
    /// Hashes of the current batch's keys, kept for its memory.
    hashes: Vec<u64>,
    /// Objects of the current batch, kept for its memory.
    found: Vec<u32>,
    /// Segments to try for the current key, kept for its memory.
    candidates: Vec<u32>,
}

impl Shard {
    /// An empty shard without segments.
    pub fn new(settings: ShardSettings) -> Self {
        let groups = GroupLedger::new(settings.count);
        Self::sharing(settings, &groups)
    }

    /// An empty shard without segments whose groups may have members on the other shards with this ledger.
    pub fn sharing(settings: ShardSettings, groups: &GroupLedger) -> Self {
        let index = settings.index;
        let seed = settings.seed.wrapping_add(index as u64);
        let pending = PendingPuts::new(settings.generation_base);
        Self {
            settings,
            now_ms: 0,
            index: KeyIndex::new(),
            objects: Slab::new(),
            peak_keys: 0,
            replicas: Slab::new(),
            shares: Vec::new(),
            live: Vec::new(),
            gone: Vec::new(),
            pending,
            groups: Groups::new(groups, index),
            parking: Parking::default(),
            moves: Moves::default(),
            drains: BTreeMap::new(),
            errands: Errands::default(),
            soft_pins: SoftPins::default(),
            ghosts: Ghosts::new(),
            random: Xorshift::new(seed),
            clock: 0,
            ages: Ages::default(),
            calls: 0,
            allocations: 0,
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
            parked_bytes: self.parking.bytes(),
            staging_bytes: self.parking.staging_bytes(),
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
        self.shares
            .iter()
            .enumerate()
            .filter_map(|(segment, share)| {
                let share = share.as_ref().filter(|share| share.is_readable())?;
                Some(SegmentGauges {
                    segment: segment as u32,
                    capacity_bytes: share.usable_bytes(),
                    allocated_bytes: share.allocator.used(),
                    largest_free_bytes: share.allocator.largest_free(),
                    replicas: share.recency.len() as u64,
                })
            })
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

    fn share(&self, segment: u32) -> Option<&Share> {
        self.shares.get(segment as usize)?.as_deref()
    }

    fn share_mut(&mut self, segment: u32) -> Option<&mut Share> {
        self.shares.get_mut(segment as usize)?.as_deref_mut()
    }

    fn is_readable(&self, segment: u32) -> bool {
        self.share(segment).is_some_and(Share::is_readable)
    }

    /// The replicas of a chain.
    fn chain(&self, first: u32) -> impl Iterator<Item = u32> + '_ {
        let some = |id: u32| (id != NONE).then_some(id);
        std::iter::successors(some(first), move |id| some(self.replicas[*id].sibling))
    }

    /// Whether an object has a complete replica that can be read.
    fn is_complete(&self, object: u32) -> bool {
        let first = self.objects[object].first;
        self.chain(first)
            .any(|id| self.is_readable(self.replicas[id].segment))
    }
}
