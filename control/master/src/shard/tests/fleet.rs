//! Several shards as a master drives them. Invariant checked: each byte of a segment is live,
//! quarantined, withheld or free on one shard, or on its way to one.

use std::collections::BTreeMap;

use perigee_allocator::{Extent, OffsetAllocator};

use super::*;
use crate::key::shard_of;
use crate::limits::GATHER_ROUNDS_MAX;

/// Shards of one master, the time, and loans that have not arrived yet.
pub(super) struct Fleet {
    pub(super) shards: Vec<KeyShard>,
    pub(super) now_ms: u64,
    pub(super) on_the_way: Vec<(usize, Vec<SpaceLoan>)>,
    /// Whether loans arrive when a test says so instead of at once.
    pub(super) slow: bool,
    pub(super) placements: PlacementColumns,
    pub(super) status: Vec<i32>,
    pub(super) generations: BTreeMap<u64, String>,
    /// Segment, range and generation of each place that was ever given.
    pub(super) given: Vec<(u32, u64, u64, u64)>,
    pub(super) bytes_of_segment: BTreeMap<u32, u64>,
    /// What the owners of segments have no memory for.
    pub(super) unbacked: BTreeMap<u32, Arc<[Extent]>>,
}

impl Fleet {
    pub(super) fn new(count: usize, segments: &[u64]) -> Self {
        Self::with(settings(), count, segments)
    }

    pub(super) fn with(settings: ShardSettings, count: usize, segments: &[u64]) -> Self {
        let shard = |index| KeyShard::new(ShardSettings { index, count, ..settings.clone() });
        let mut fleet = Self {
            shards: (0..count).map(shard).collect(),
            now_ms: 10_000,
            on_the_way: Vec::new(),
            slow: false,
            placements: PlacementColumns::default(),
            status: Vec::new(),
            generations: BTreeMap::new(),
            given: Vec::new(),
            bytes_of_segment: BTreeMap::new(),
            unbacked: BTreeMap::new(),
        };
        for (index, bytes) in segments.iter().enumerate() {
            fleet.mount(index as u32, *bytes);
        }
        fleet
    }

    pub(super) fn mount(&mut self, index: u32, bytes: u64) {
        let spec = Arc::new(spec(index, bytes));
        let event = SegmentEvent::Mounted { index, spec };
        self.apply(&event);
        self.bytes_of_segment.insert(index, bytes);
    }

    pub(super) fn apply(&mut self, event: &SegmentEvent) {
        for shard in &mut self.shards {
            shard.apply(self.now_ms, event);
        }
        match event {
            SegmentEvent::Unmounted { index } => {
                self.bytes_of_segment.remove(index);
                self.unbacked.remove(index);
            }
            SegmentEvent::Unbacked { index, ranges } => {
                self.unbacked.insert(*index, Arc::clone(ranges));
            }
            _ => {}
        }
    }

    pub(super) fn send(&mut self, to: usize, loans: Vec<SpaceLoan>) {
        if self.slow {
            self.on_the_way.push((to, loans));
        } else {
            self.shards[to].receive(self.now_ms, &loans);
        }
    }

    pub(super) fn arrive(&mut self) {
        for (to, loans) in std::mem::take(&mut self.on_the_way) {
            self.shards[to].receive(self.now_ms, &loans);
        }
    }

    pub(super) fn try_start(&mut self, key: &str, payload_bytes: u64, effort: Effort) -> i32 {
        let owner = shard_of(key.as_bytes(), self.shards.len());
        let batch = PutStart {
            client: WRITER,
            keys: &[key.as_bytes()],
            payload_bytes: &[payload_bytes],
            positions: &[],
            batch_keys: 0,
            groups: &[],
            config: &PutConfig::default(),
            upsert: false,
            effort,
        };
        self.shards[owner].put_start(self.now_ms, &batch, &mut self.placements);
        self.note_given();
        self.placements.status[0]
    }

    /// Of two places that have a byte in common the later one has the larger generation. None is
    /// where there is no memory.
    pub(super) fn note_given(&mut self) {
        for place in &self.placements.locations {
            let end = place.offset + extent_bytes(place.payload_bytes);
            let unbacked = self.unbacked.get(&place.segment).into_iter().flat_map(|it| it.iter());
            let mut common =
                unbacked.filter(|it| it.offset < end && place.offset < it.offset + it.bytes);
            assert_eq!(common.next(), None, "{place:?}");
            let earlier = self.given.iter().filter(|(segment, from, to, _)| {
                *segment == place.segment && *from < end && place.offset < *to
            });
            let largest = earlier.map(|(.., generation)| *generation).max();
            assert!(largest.is_none_or(|largest| largest < place.generation), "{place:?}");
            self.given.push((place.segment, place.offset, end, place.generation));
        }
    }

    /// A put as the service drives it: free room, room of others, eviction, the room of all.
    pub(super) fn start(&mut self, key: &str, payload_bytes: u64) -> i32 {
        let owner = shard_of(key.as_bytes(), self.shards.len());
        let full = code(Status::NoAvailableHandle);
        if self.shards[owner].may_borrow(self.now_ms) {
            let status = self.try_start(key, payload_bytes, Effort::Free);
            if status != full {
                return status;
            }
            let bytes = extent_bytes(payload_bytes);
            let needs = self.shards[owner].needs_of_puts(bytes, bytes);
            self.borrow(owner, &needs, 1);
        }
        let status = self.try_start(key, payload_bytes, Effort::Evict);
        if status != full || self.gather(owner, key, payload_bytes) {
            return self.placements.status[0];
        }
        self.try_start(key, payload_bytes, Effort::Last)
    }

    pub(super) fn borrow(&mut self, borrower: usize, needs: &[Need], segments: usize) {
        let mut dry: Vec<u32> = needs.iter().map(|need| need.segment).collect();
        for lender in (0..self.shards.len()).filter(|lender| *lender != borrower) {
            let loans = self.shards[lender].lend(self.now_ms, needs, segments);
            dry.retain(|segment| loans.iter().all(|loan| loan.segment != *segment));
            self.send(borrower, loans);
        }
        self.shards[borrower].note_dry(self.now_ms, dry);
    }

    pub(super) fn gather(&mut self, owner: usize, key: &str, payload_bytes: u64) -> bool {
        for segment in self.shards[owner].large_enough(payload_bytes) {
            let now_ms = self.now_ms;
            let rooms = self.shards.iter_mut();
            let rooms = rooms.map(|shard| shard.room(now_ms, segment, payload_bytes));
            let room: Option<Vec<u64>> = rooms.collect();
            if room.is_none_or(|room| room.iter().sum::<u64>() < extent_bytes(payload_bytes)) {
                continue;
            }
            let placed = (0..=GATHER_ROUNDS_MAX)
                .any(|round| self.gather_round(owner, key, payload_bytes, (segment, round)));
            let parts = self.shards.len() - 1;
            let parts = self.shards[owner].share_out(segment, parts);
            let others = (0..self.shards.len()).filter(|index| *index != owner);
            for (index, loans) in others.zip(parts) {
                self.send(index, loans);
            }
            if placed {
                return true;
            }
        }
        false
    }

    pub(super) fn gather_round(
        &mut self,
        owner: usize,
        key: &str,
        payload_bytes: u64,
        (segment, round): (u32, u64),
    ) -> bool {
        let evict_bytes = match round {
            0 => 0,
            _ => extent_bytes(payload_bytes).div_ceil(self.shards.len() as u64),
        };
        for index in 0..self.shards.len() {
            self.shards[index].evict_from(self.now_ms, segment, evict_bytes);
            if index != owner {
                let loans = self.shards[index].surrender(segment);
                self.send(owner, loans);
            }
        }
        self.try_start(key, payload_bytes, Effort::Free) == 0
    }

    pub(super) fn end(&mut self, key: &str) {
        let owner = shard_of(key.as_bytes(), self.shards.len());
        let generation = self.placements.locations[0].generation;
        let puts = StartedPuts {
            client: WRITER,
            keys: &[key.as_bytes()],
            generations: &[generation],
            parts: &[],
        };
        self.shards[owner].put_end(self.now_ms, &puts, &[1], &mut self.status);
        assert_eq!(self.status, [0]);
        let before = self.generations.insert(generation, key.to_owned());
        assert_eq!(before, None, "a generation is given once");
    }

    pub(super) fn put(&mut self, key: &str, payload_bytes: u64) -> i32 {
        let status = self.start(key, payload_bytes);
        if status == 0 {
            self.end(key);
        }
        self.check();
        status
    }

    pub(super) fn tick(&mut self) {
        for index in 0..self.shards.len() {
            self.shards[index].tick(self.now_ms, 1_000);
            let needs = self.shards[index].needs_of_watermark();
            if !needs.is_empty() {
                self.borrow(index, &needs, needs.len());
            }
        }
        self.check();
    }

    pub(super) fn evicted_keys(&self) -> u64 {
        let counters = self.shards.iter().map(KeyShard::counters);
        counters.map(|counters| counters.evicted_keys).sum()
    }

    pub(super) fn held(&self, segment: u32) -> Vec<u64> {
        let held =
            |shard: &KeyShard| shard.space.get(segment).map_or(0, |it| it.allocator.capacity());
        self.shards.iter().map(held).collect()
    }

    pub(super) fn check(&self) {
        self.shards.iter().for_each(KeyShard::check);
        for (&segment, &bytes) in &self.bytes_of_segment {
            let mut extents: Vec<Extent> = Vec::new();
            for shard in &self.shards {
                let replicas = (0..shard.stored.replicas.bound())
                    .filter_map(|id| shard.stored.replicas.get(id));
                let replicas = replicas.filter(|replica| replica.segment == segment);
                extents.extend(replicas.map(crate::replica::Replica::extent));
                let quarantined =
                    shard.space.quarantine().iter().filter(|it| it.segment == segment);
                extents.extend(quarantined.map(|quarantined| quarantined.extent));
                let share = shard.space.get(segment).expect("mounted segments are known");
                extents.extend(share.allocator.free_extents());
                extents.extend_from_slice(share.withheld());
            }
            let on_the_way = self.on_the_way.iter().flat_map(|(_, loans)| loans);
            let on_the_way = on_the_way.filter(|loan| loan.segment == segment);
            extents.extend(on_the_way.map(|loan| loan.extent));
            let whole = OffsetAllocator::rebuild(bytes, extents).expect("no byte is held twice");
            assert_eq!(whole.free_bytes(), 0, "no byte of {segment} is lost");
        }
    }
}

/// Keys of one shard.
pub(super) fn keys_of(shard: usize, count: usize) -> impl Iterator<Item = String> {
    let names = (0..).map(|number| format!("key-{number}"));
    names.filter(move |key| shard_of(key.as_bytes(), count) == shard)
}
