//! Several shards as a master drives them: space follows demand, and an object may take the space
//! of all of them. Invariant checked: each byte of a segment is live, quarantined or free on one
//! shard, or on its way to one.

use std::collections::BTreeMap;

use perigee_allocator::{Extent, OffsetAllocator};
use proptest::prelude::{ProptestConfig, Strategy as _, any, prop, prop_oneof, proptest};

use super::*;
use crate::key::shard_of;
use crate::limits::GATHER_ROUNDS_MAX;
use crate::loan::Need;
use crate::segment::Announces;
use crate::share::share_range;
use perigee_schemas::Identity;
use perigee_schemas::record::{Record, RecordOp};

/// Shards of one master, the time, and loans that have not arrived yet.
struct Fleet {
    shards: Vec<KeyShard>,
    now_ms: u64,
    on_the_way: Vec<(usize, Vec<SpaceLoan>)>,
    /// Whether loans arrive when a test says so instead of at once.
    slow: bool,
    placements: PlacementColumns,
    status: Vec<i32>,
    generations: BTreeMap<u64, String>,
    /// Segment, range and generation of each place that was ever given.
    given: Vec<(u32, u64, u64, u64)>,
    bytes_of_segment: BTreeMap<u32, u64>,
}

impl Fleet {
    fn new(count: usize, segments: &[u64]) -> Self {
        Self::with(settings(), count, segments)
    }

    fn with(settings: ShardSettings, count: usize, segments: &[u64]) -> Self {
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
        };
        for (index, bytes) in segments.iter().enumerate() {
            fleet.mount(index as u32, *bytes);
        }
        fleet
    }

    fn mount(&mut self, index: u32, bytes: u64) {
        let spec = Arc::new(spec(index, bytes));
        let event = SegmentEvent::Mounted { index, spec };
        self.apply(&event);
        self.bytes_of_segment.insert(index, bytes);
    }

    fn apply(&mut self, event: &SegmentEvent) {
        for shard in &mut self.shards {
            shard.apply(self.now_ms, event);
        }
        if let SegmentEvent::Unmounted { index } = event {
            self.bytes_of_segment.remove(index);
        }
    }

    fn send(&mut self, to: usize, loans: Vec<SpaceLoan>) {
        if self.slow {
            self.on_the_way.push((to, loans));
        } else {
            self.shards[to].receive(self.now_ms, &loans);
        }
    }

    fn arrive(&mut self) {
        for (to, loans) in std::mem::take(&mut self.on_the_way) {
            self.shards[to].receive(self.now_ms, &loans);
        }
    }

    fn try_start(&mut self, key: &str, payload_bytes: u64, effort: Effort) -> i32 {
        let owner = shard_of(key.as_bytes(), self.shards.len());
        let batch = PutStart {
            client: WRITER,
            keys: &[key.as_bytes()],
            payload_bytes: &[payload_bytes],
            positions: &[],
            groups: &[],
            config: &PutConfig::default(),
            upsert: false,
            effort,
        };
        self.shards[owner].put_start(self.now_ms, &batch, &mut self.placements);
        self.note_given();
        self.placements.status[0]
    }

    /// Of two places that have a byte in common the later one has the larger generation.
    fn note_given(&mut self) {
        for place in &self.placements.locations {
            let end = place.offset + extent_bytes(place.payload_bytes);
            let earlier = self.given.iter().filter(|(segment, from, to, _)| {
                *segment == place.segment && *from < end && place.offset < *to
            });
            let largest = earlier.map(|(.., generation)| *generation).max();
            assert!(largest.is_none_or(|largest| largest < place.generation), "{place:?}");
            self.given.push((place.segment, place.offset, end, place.generation));
        }
    }

    /// A put as the service drives it: free room, room of others, eviction, the room of all.
    fn start(&mut self, key: &str, payload_bytes: u64) -> i32 {
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

    fn borrow(&mut self, borrower: usize, needs: &[Need], segments: usize) {
        let mut dry: Vec<u32> = needs.iter().map(|need| need.segment).collect();
        for lender in (0..self.shards.len()).filter(|lender| *lender != borrower) {
            let loans = self.shards[lender].lend(self.now_ms, needs, segments);
            dry.retain(|segment| loans.iter().all(|loan| loan.segment != *segment));
            self.send(borrower, loans);
        }
        self.shards[borrower].note_dry(self.now_ms, dry);
    }

    fn gather(&mut self, owner: usize, key: &str, payload_bytes: u64) -> bool {
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

    fn gather_round(
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

    fn end(&mut self, key: &str) {
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

    fn put(&mut self, key: &str, payload_bytes: u64) -> i32 {
        let status = self.start(key, payload_bytes);
        if status == 0 {
            self.end(key);
        }
        self.check();
        status
    }

    fn tick(&mut self) {
        for index in 0..self.shards.len() {
            self.shards[index].tick(self.now_ms, 1_000);
            let needs = self.shards[index].needs_of_watermark();
            if !needs.is_empty() {
                self.borrow(index, &needs, needs.len());
            }
        }
        self.check();
    }

    fn evicted_keys(&self) -> u64 {
        let counters = self.shards.iter().map(KeyShard::counters);
        counters.map(|counters| counters.evicted_keys).sum()
    }

    fn held(&self, segment: u32) -> Vec<u64> {
        let held =
            |shard: &KeyShard| shard.space.get(segment).map_or(0, |it| it.allocator.capacity());
        self.shards.iter().map(held).collect()
    }

    fn check(&self) {
        self.shards.iter().for_each(KeyShard::check);
        for (&segment, &bytes) in &self.bytes_of_segment {
            let mut extents: Vec<Extent> = Vec::new();
            for shard in &self.shards {
                let replicas = (0..shard.replicas.bound()).filter_map(|id| shard.replicas.get(id));
                let replicas = replicas.filter(|replica| replica.segment == segment);
                extents.extend(replicas.map(crate::replica::Replica::extent));
                let quarantined =
                    shard.space.quarantine().iter().filter(|it| it.segment == segment);
                extents.extend(quarantined.map(|quarantined| quarantined.extent));
                let share = shard.space.get(segment).expect("mounted segments are known");
                extents.extend(share.allocator.free_extents());
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
fn keys_of(shard: usize, count: usize) -> impl Iterator<Item = String> {
    let names = (0..).map(|number| format!("key-{number}"));
    names.filter(move |key| shard_of(key.as_bytes(), count) == shard)
}

#[test]
fn a_loan_that_comes_before_its_segment_is_kept() {
    let mut fleet = Fleet::new(2, &[]);
    let (now_ms, bytes) = (fleet.now_ms, 1 << 20);
    let spec = Arc::new(spec(0, bytes));
    let mounted = SegmentEvent::Mounted { index: 0, spec };
    fleet.shards[0].apply(now_ms, &mounted);
    let loans = fleet.shards[0].surrender(0);
    assert!(!loans.is_empty());
    fleet.send(1, loans);
    fleet.shards[1].check();
    fleet.shards[1].apply(now_ms, &mounted);
    fleet.bytes_of_segment.insert(0, bytes);
    fleet.check();
    assert_eq!(fleet.held(0), [0, bytes]);
}

#[test]
fn an_object_of_nine_tenths_of_the_segment_fits_into_an_empty_one() {
    for count in [1, 2, 3, 4, 16] {
        let mut fleet = Fleet::new(count, &[1 << 20]);
        assert_eq!(fleet.put("large", (9 << 20) / 10), 0, "{count} shards");
        assert_eq!(fleet.put("too large", (9 << 20) / 10 + (1 << 19)), -200);
        assert_eq!(fleet.evicted_keys(), 0);
    }
}

#[test]
fn an_object_of_nine_tenths_of_the_segment_evicts_what_is_in_its_way() {
    for count in [1, 2, 4] {
        let mut fleet = Fleet::new(count, &[1 << 20]);
        for number in 0..200 {
            assert_eq!(fleet.put(&format!("small-{number}"), 4_000), 0);
        }
        assert_eq!(fleet.put("large", (9 << 20) / 10), 0, "{count} shards");
    }
}

#[test]
fn nothing_is_evicted_for_an_object_whose_space_cannot_be_had() {
    let mut fleet = Fleet::new(4, &[1 << 20]);
    for number in 0..100 {
        assert_eq!(fleet.put(&format!("small-{number}"), 4_000), 0);
    }
    for number in 0..100 {
        let key = format!("small-{number}");
        let shard = &mut fleet.shards[shard_of(key.as_bytes(), 4)];
        let mut replicas = ReplicaColumns::default();
        shard.get_replicas(fleet.now_ms, &[key.as_bytes()], &mut replicas);
    }
    assert_eq!(fleet.put("large", (9 << 20) / 10), -200, "all are being read");
    assert_eq!(fleet.evicted_keys(), 0);
    fleet.now_ms += LEASE_MS;
    assert_eq!(fleet.put("large", (9 << 20) / 10), 0, "the leases have ended");
}

#[test]
fn keys_of_one_shard_fill_the_whole_segment_before_any_is_evicted() {
    let mut fleet = Fleet::new(4, &[1 << 20]);
    let keys: Vec<String> = keys_of(2, 4).take(250).collect();
    for key in &keys {
        assert_eq!(fleet.put(key, 4_000), 0);
    }
    assert_eq!(fleet.evicted_keys(), 0);
    assert!(fleet.held(0)[2] > (9 << 20) / 10, "{:?}", fleet.held(0));
}

#[test]
fn room_is_lent_before_the_watermark_evicts() {
    let settings = ShardSettings { watermark_ratio: 0.9, ..settings() };
    let mut fleet = Fleet::with(settings, 4, &[1 << 20]);
    for key in keys_of(0, 4).take(220) {
        assert_eq!(fleet.put(&key, 4_000), 0);
        fleet.now_ms += 10;
        fleet.tick();
    }
    assert_eq!(fleet.evicted_keys(), 0, "220 objects are 84 % of the segment");
    for key in keys_of(0, 4).skip(220).take(60) {
        assert_eq!(fleet.put(&key, 4_000), 0);
        fleet.now_ms += 10;
        fleet.tick();
    }
    assert!(fleet.evicted_keys() > 0, "280 objects are more than all of it");
}

#[test]
fn a_loan_comes_from_a_segment_that_stays_below_the_watermark() {
    let settings = ShardSettings { watermark_ratio: 0.9, index: 0, count: 2, ..settings() };
    let mut lender = Stage::with(settings, &[]);
    (0..2).for_each(|index| lender.mount(spec(index, 1 << 20), index));
    let first = PutConfig { preferred_segments: &["host-0:1"], ..PutConfig::default() };
    for key in 0..115 {
        assert_eq!(lender.start_with(&format!("{key}"), 4_000, &first, false), 0);
    }
    let need = |segment| Need {
        segment,
        used_bytes: 1 << 19,
        held_bytes: 1 << 19,
        waiting_bytes: 20_000,
        longest_bytes: 20_000,
        victim_idle_ms: 0,
    };
    let loans = lender.shard.lend(lender.now_ms, &[need(0), need(1)], 1);
    assert_eq!(loans.iter().map(|loan| loan.segment).collect::<Vec<_>>(), [1]);
    let loans = lender.shard.lend(lender.now_ms, &[need(0)], 1);
    assert_eq!(loans.len(), 1, "room above the watermark is room, too");
}

#[test]
fn what_has_been_idle_for_long_goes_first_whichever_shard_has_it() {
    let settings = ShardSettings { watermark_ratio: 0.9, ..settings() };
    let mut fleet = Fleet::with(settings, 2, &[1 << 20]);
    let (busy, quiet) = (keys_of(0, 2), keys_of(1, 2));
    for key in quiet.take(115) {
        assert_eq!(fleet.put(&key, 4_000), 0);
    }
    fleet.tick();
    let busy: Vec<String> = busy.take(400).collect();
    for key in &busy {
        fleet.now_ms += 50;
        assert_eq!(fleet.put(key, 4_000), 0);
        fleet.tick();
    }
    let kept = busy.iter().rev().take_while(|key| {
        let mut replicas = ReplicaColumns::default();
        fleet.shards[0].peek(&[key.as_bytes()], &mut replicas);
        replicas.status == [0]
    });
    let kept = kept.count();
    // Half of the segment, where each shard began, has room for 117 below the watermark.
    assert!(kept > 170, "{kept} objects, {:?}", fleet.held(0));
}

#[test]
fn a_shard_that_was_lent_nothing_evicts_without_asking_again_for_a_while() {
    let mut fleet = Fleet::new(2, &[8 * EXTENT_BYTES]);
    fleet.shards[0].note_dry(fleet.now_ms, [0]);
    assert!(!fleet.shards[0].may_borrow(fleet.now_ms));
    assert!(fleet.shards[0].may_borrow(fleet.now_ms + crate::limits::DRY_MS));
    assert!(fleet.shards[1].may_borrow(fleet.now_ms));
}

#[test]
fn shards_rebuild_who_holds_what_from_what_the_owner_announces() {
    let (count, bytes) = (3, 1 << 18);
    let mut fleet = Fleet::new(count, &[]);
    let keys: Vec<String> = (0..20).map(|number| format!("key-{number}")).collect();
    let record = |number: usize| Record {
        op: RecordOp::Commit,
        flags: 0,
        checksum: 1,
        sequence: 7,
        generation: 1_000 + number as u64,
        offset: 5_000 * number as u64,
        payload_bytes: 4_000,
        client: Identity(WRITER),
        key: keys[number].as_bytes(),
        group: b"",
        part: None,
    };
    let records: Vec<Record<'_>> = (0..keys.len()).map(record).collect();
    let occupied = records.iter().map(|it| Extent::new(it.offset, extent_bytes(it.payload_bytes)));
    let whole = OffsetAllocator::rebuild(bytes, occupied).unwrap();
    let spec = Arc::new(SegmentSpec { announces: Announces::Objects, ..spec(0, bytes) });
    fleet.apply(&SegmentEvent::Mounted { index: 0, spec });
    let mut adopted = 0;
    for (index, shard) in fleet.shards.iter_mut().enumerate() {
        let is_own = |record: &&Record<'_>| shard_of(record.key, count) == index;
        let own: Vec<Record<'_>> = records.iter().filter(is_own).copied().collect();
        let (from, to) = share_range(bytes, index, count);
        let free: Vec<Extent> = whole
            .free_extents()
            .map(|it| (it.offset.max(from), (it.offset + it.bytes).min(to)))
            .filter(|(start, end)| start < end)
            .map(|(start, end)| Extent::new(start, end - start))
            .collect();
        let part = Announcement { records: &own, free: &free, removed: &[], is_last: true };
        adopted += shard.announce(fleet.now_ms, 0, &part).expect("it is being rebuilt");
    }
    assert_eq!(adopted, records.len());
    fleet.bytes_of_segment.insert(0, bytes);
    fleet.check();
}

#[derive(Debug, Clone)]
enum Step {
    Put(u32, u64),
    Abandon(u32, u64),
    Read(u32),
    Remove(u32),
    Pass(u64),
    Tick,
    Arrive,
    Slow(bool),
    Replace(u64),
}

fn step() -> impl proptest::strategy::Strategy<Value = Step> {
    let bytes = prop_oneof![8 => 100_u64..6_000, 2 => 6_000_u64..30_000, 1 => 30_000_u64..70_000];
    prop_oneof![
        10 => (0_u32..60, bytes.clone()).prop_map(|(key, bytes)| Step::Put(key, bytes)),
        1 => (0_u32..60, bytes).prop_map(|(key, bytes)| Step::Abandon(key, bytes)),
        2 => (0_u32..60).prop_map(Step::Read),
        3 => (0_u32..60).prop_map(Step::Remove),
        2 => prop_oneof![1_u64..60, 100_u64..1_500, 5_000_u64..6_000].prop_map(Step::Pass),
        2 => (0_u32..1).prop_map(|_| Step::Tick),
        2 => (0_u32..1).prop_map(|_| Step::Arrive),
        1 => any::<bool>().prop_map(Step::Slow),
        1 => (1_u64..70_000).prop_map(Step::Replace),
    ]
}

impl Fleet {
    fn take(&mut self, step: &Step) {
        match *step {
            Step::Put(key, bytes) => {
                self.put(&format!("key-{key}"), bytes);
            }
            Step::Abandon(key, bytes) => {
                self.start(&format!("key-{key}"), bytes);
            }
            Step::Read(key) => {
                let key = format!("key-{key}");
                let owner = shard_of(key.as_bytes(), self.shards.len());
                let mut replicas = ReplicaColumns::default();
                self.shards[owner].get_replicas(self.now_ms, &[key.as_bytes()], &mut replicas);
            }
            Step::Remove(key) => {
                let key = format!("key-{key}");
                let owner = shard_of(key.as_bytes(), self.shards.len());
                let keys = [key.as_bytes()];
                self.shards[owner].remove(self.now_ms, &keys, true, &mut self.status);
            }
            Step::Pass(ms) => self.now_ms += ms,
            Step::Tick => self.tick(),
            Step::Arrive => self.arrive(),
            Step::Slow(slow) => self.slow = slow,
            Step::Replace(bytes) => {
                let index = *self.bytes_of_segment.keys().next_back().expect("one is mounted");
                self.apply(&SegmentEvent::Unmounted { index });
                self.mount(index + 1, bytes);
            }
        }
        self.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_byte_is_lost_or_held_twice(
        count in 1_usize..6,
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let settings = ShardSettings { watermark_ratio: 0.8, ..settings() };
        let mut fleet = Fleet::with(settings, count, &[70_000, 40_001]);
        for step in &steps {
            fleet.take(step);
        }
    }

    #[test]
    fn what_fits_into_an_empty_segment_fits_after_eviction(
        count in 1_usize..6,
        sizes in prop::collection::vec(100_u64..60_000, 1..60),
    ) {
        let mut fleet = Fleet::new(count, &[70_000]);
        for (number, bytes) in sizes.iter().enumerate() {
            proptest::prop_assert_eq!(fleet.put(&format!("key-{number}"), *bytes), 0);
        }
    }
}
