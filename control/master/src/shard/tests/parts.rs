//! Facts about objects that are larger than any segment and lie in parts.

use perigee_allocator::Extent;
use perigee_schemas::record::{Record, RecordOp, RecordPart};

use super::*;
use crate::limits::ANNOUNCING_MS;
use crate::segment::Announces;

const SEGMENT_BYTES: u64 = 1 << 20;
/// More than two segments hold.
const LARGE_BYTES: u64 = 5 * SEGMENT_BYTES / 2 + 17;

fn in_parts() -> PutConfig<'static> {
    PutConfig { parts: true, ..PutConfig::default() }
}

/// Segments of a mebibyte, of one owner each.
fn stage(segments: u32) -> Stage {
    let mut stage = Stage::new(&[]);
    (0..segments).for_each(|index| stage.mount(spec(index, SEGMENT_BYTES), index));
    stage
}

impl Stage {
    fn put_large(&mut self, key: &str, config: &PutConfig<'_>) -> i32 {
        match self.start_with(key, LARGE_BYTES, config, false) {
            0 => self.end_parts(key, 1_000),
            status => status,
        }
    }

    /// Ends a put with the checksums `first`, `first + 1` and so on of its parts.
    fn end_parts(&mut self, key: &str, first: u32) -> i32 {
        let generation = self.generation(key);
        let parts: Vec<u32> = (first..).take(self.parts[&generation]).collect();
        let puts = StartedPuts {
            client: WRITER,
            keys: &[key.as_bytes()],
            generations: &[generation],
            parts: &[&parts],
        };
        self.shard.put_end(self.now_ms, &puts, &[first - 1], &mut self.status);
        self.shard.check();
        self.status[0]
    }

    /// Reads the places of a key, which must be all of the object in order, and the checksum of
    /// each part; how many segments they lie in.
    fn read_large(&mut self, key: &str) -> usize {
        assert_eq!(self.read(key), 0);
        assert_eq!(self.replicas.payload_bytes, [LARGE_BYTES]);
        assert_eq!(self.replicas.checksum, [999]);
        let mut bytes = BTreeMap::new();
        for at in &self.replicas.locations {
            let part = at.part.expect("it lies in parts");
            assert_eq!(at.part_checksum, 1_000 + u32::from(part));
            bytes.insert(part, at.payload_bytes);
        }
        assert!(self.replicas.locations.is_sorted_by_key(|at| at.part));
        assert!(bytes.keys().copied().eq(0..bytes.len() as u8), "no part is missing");
        assert_eq!(bytes.values().sum::<u64>(), LARGE_BYTES);
        let segments: std::collections::BTreeSet<u32> =
            self.replicas.locations.iter().map(|at| at.segment).collect();
        segments.len()
    }

    fn used_bytes(&self) -> u64 {
        self.shard.gauges().allocated_bytes
    }
}

#[test]
fn parts_fill_no_segment_above_the_watermark_while_others_have_room() {
    let settings = ShardSettings { watermark_ratio: 0.8, ..settings() };
    let mut stage = Stage::with(settings, &[]);
    (0..4).for_each(|index| stage.mount(spec(index, SEGMENT_BYTES), index));
    assert_eq!(stage.put_large("a", &in_parts()), 0);
    stage.age();
    stage.tick();
    assert_eq!(stage.read_large("a"), 4, "it is not evicted");
}

#[test]
fn an_object_larger_than_any_segment_lies_in_several() {
    let mut stage = stage(4);
    assert_eq!(stage.start_with("a", LARGE_BYTES, &in_parts(), false), 0);
    assert_eq!(stage.get("a"), code(Status::ReplicaIsNotReady), "nothing of it before the end");
    assert_eq!(stage.end_parts("a", 1_000), 0);
    assert_eq!(stage.end_parts("a", 1_000), 0, "repeating is fine");
    assert!((3..=4).contains(&stage.read_large("a")));
    assert_eq!(stage.exist("a"), 1);
    assert_eq!(stage.shard.size(b"a"), Ok(LARGE_BYTES));
    let mut listed = Vec::new();
    stage.shard.list_step(&mut stage.shard.scan(), &Pattern::any(), |it| {
        listed.push((it.key.to_vec(), it.payload_bytes));
        true
    });
    assert_eq!(listed, [(b"a".to_vec(), LARGE_BYTES)]);
    assert_eq!(stage.remove("a", true), 0);
    stage.pass(LEASE_MS + 1);
    stage.tick();
    assert_eq!((stage.used_bytes(), stage.exist("a")), (0, 0));
}

#[test]
fn what_fits_into_a_segment_is_not_cut_and_who_cannot_cut_is_refused() {
    let mut stage = stage(4);
    assert_eq!(stage.start_with("a", SEGMENT_BYTES / 2, &in_parts(), false), 0);
    assert_eq!(stage.placements.locations.len(), 1);
    assert_eq!(stage.placements.locations[0].part, None);
    let whole = PutConfig::default();
    let refused = code(Status::NoAvailableHandle);
    assert_eq!(stage.start_with("b", LARGE_BYTES, &whole, false), refused);
}

#[test]
fn owners_of_older_builds_hold_no_parts() {
    let mut stage = stage(3);
    stage.mount(SegmentSpec { keeps_parts: false, ..spec(3, SEGMENT_BYTES) }, 3);
    assert_eq!(stage.put_large("a", &in_parts()), 0);
    assert!(stage.peek("a").iter().all(|at| at.segment != 3));
    assert_eq!(stage.get("a"), 0);
    assert_eq!(stage.put_large("b", &in_parts()), code(Status::NoAvailableHandle));
}

#[test]
fn a_put_without_room_for_all_parts_leaves_nothing_and_evicts_nothing() {
    let mut stage = stage(2);
    for key in 0..4 {
        assert_eq!(stage.put(&key.to_string()), 0);
    }
    let used_bytes = stage.used_bytes();
    assert_eq!(stage.put_large("a", &in_parts()), code(Status::NoAvailableHandle));
    assert_eq!(stage.used_bytes(), used_bytes);
    assert!((0..4).all(|key| stage.holds(&key.to_string())));
    assert_eq!(stage.shard.largest_object_bytes(), 64 * SEGMENT_BYTES);
    let too_large = stage.shard.largest_object_bytes() + 1;
    let refused = code(Status::NoAvailableHandle);
    assert_eq!(stage.start_with("b", too_large, &in_parts(), false), refused);
    assert_eq!(stage.start_with("c", u64::MAX, &in_parts(), false), refused);
    // Some room is there, and what is pinned keeps the rest.
    let mut stage = self::stage(4);
    let pinned = PutConfig { hard_pin: true, ..PutConfig::default() };
    for key in ["x", "y"] {
        assert_eq!(stage.start_with(key, SEGMENT_BYTES * 9 / 10, &pinned, false), 0);
        assert_eq!(stage.end(key), 0);
    }
    let used_bytes = stage.used_bytes();
    assert_eq!(stage.put_large("a", &in_parts()), code(Status::NoAvailableHandle));
    assert_eq!(stage.used_bytes(), used_bytes);
}

#[test]
fn parts_take_the_place_of_older_objects_and_go_together() {
    let mut stage = stage(3);
    let mut small = 0;
    while stage.used_bytes() < 3 * SEGMENT_BYTES - 100_000 {
        assert_eq!(stage.put(&format!("old-{small}")), 0);
        small += 1;
    }
    assert_eq!(stage.put_large("a", &in_parts()), 0);
    assert_eq!(stage.read_large("a"), 3);
    assert!(stage.shard.counters().evicted_keys > 0);
    // What comes later takes its place, all of it at once.
    let evicted = stage.shard.counters().evicted_bytes;
    let mut new = 0;
    while stage.holds("a") {
        assert_eq!(stage.put(&format!("new-{new}")), 0);
        new += 1;
    }
    stage.tick();
    assert_eq!(stage.get("a"), code(Status::ObjectNotFound));
    assert!(stage.shard.counters().evicted_bytes - evicted >= LARGE_BYTES);
    assert!(stage.used_bytes() < SEGMENT_BYTES, "nothing of it stays");
}

#[test]
fn what_is_read_is_not_evicted_in_part() {
    let mut stage = stage(3);
    assert_eq!(stage.put_large("a", &in_parts()), 0);
    assert_eq!(stage.get("a"), 0);
    let lease = stage.given_back();
    assert_eq!(stage.put_large("b", &in_parts()), code(Status::NoAvailableHandle));
    assert_eq!(stage.remove("a", false), code(Status::ObjectHasLease));
    assert_eq!(stage.remove("a", true), 0);
    assert!(stage.used_bytes() > LARGE_BYTES, "its reader may be at work");
    stage.shard.give_back(stage.now_ms, &[lease]);
    assert_eq!(stage.used_bytes(), 0, "one lease for all parts");
    assert_eq!(stage.put_large("b", &in_parts()), 0);
}

#[test]
fn pins_and_groups_hold_all_parts() {
    let mut stage = stage(3);
    let pinned = PutConfig { hard_pin: true, ..in_parts() };
    assert_eq!(stage.put_large("a", &pinned), 0);
    assert_eq!(stage.put_large("b", &in_parts()), code(Status::NoAvailableHandle));
    assert_eq!(stage.read_large("a"), 3);
    assert_eq!(stage.remove("a", true), 0);
    let config = in_parts();
    let started = stage.start_in_group("c", LARGE_BYTES, &config, false, "group", WRITER);
    assert_eq!((started, stage.end_parts("c", 1_000)), (0, 0));
    assert_eq!(stage.put_in_group("d", "group"), 0);
    assert_eq!(stage.put_large("e", &in_parts()), 0);
    assert!(!stage.holds("c") && !stage.holds("d"), "the group goes with all its parts");
}

#[test]
fn an_object_that_loses_a_part_is_a_miss_and_leaves_nothing() {
    let mut stage = stage(4);
    assert_eq!(stage.put_large("a", &in_parts()), 0);
    let index = stage.peek("a")[5].segment;
    stage.shard.apply(stage.now_ms, &SegmentEvent::Unmounted { index });
    stage.shard.check();
    assert_eq!(stage.get("a"), code(Status::ObjectNotFound), "at once");
    assert_eq!((stage.exist("a"), stage.shard.size(b"a").is_err()), (0, true));
    stage.tick();
    assert_eq!((stage.used_bytes(), stage.shard.gauges().keys), (0, 0));
    // The same while it is being written.
    assert_eq!(stage.start_with("b", LARGE_BYTES, &in_parts(), false), 0);
    let index = stage.placements.locations[5].segment;
    stage.shard.apply(stage.now_ms, &SegmentEvent::Unmounted { index });
    for _ in 0..2 {
        assert_eq!(stage.end_parts("b", 1_000), code(Status::ObjectNotFound));
        stage.tick();
    }
    assert_eq!(stage.shard.gauges().keys, 0);
}

#[test]
fn each_part_has_as_many_replicas_as_were_wanted() {
    let mut stage = stage(8);
    let config = PutConfig { replica_num: 2, ..in_parts() };
    assert_eq!(stage.put_large("a", &config), 0);
    stage.read_large("a");
    let mut segments: BTreeMap<Option<u8>, Vec<u32>> = BTreeMap::new();
    for at in stage.peek("a") {
        segments.entry(at.part).or_default().push(at.segment);
    }
    assert!(segments.values().all(|of_part| of_part.len() == 2 && of_part[0] != of_part[1]));
    stage.shard.apply(stage.now_ms, &SegmentEvent::Unmounted { index: 3 });
    stage.read_large("a");
    stage.tick();
    stage.read_large("a");
    assert_eq!(stage.shard.gauges().repairs, 0, "it is left as it is");
}

#[test]
fn a_put_ends_with_one_checksum_for_each_part() {
    let mut stage = stage(4);
    assert_eq!(stage.start_with("a", LARGE_BYTES, &in_parts(), false), 0);
    let generation = stage.generation("a");
    let too_few = [1, 2, 3];
    for parts in [&[][..], &[&too_few[..]][..]] {
        let keys: &[&[u8]] = &[b"a"];
        let puts = StartedPuts { client: WRITER, keys, generations: &[generation], parts };
        stage.shard.put_end(stage.now_ms, &puts, &[1], &mut stage.status);
        assert_eq!(stage.status, [code(Status::InvalidParams)]);
    }
    assert_eq!(stage.end_parts("a", 1_000), 0);
    assert_eq!(stage.start("b"), 0);
    let (generation, keys): (_, &[&[u8]]) = (stage.generation("b"), &[b"b"]);
    let puts = StartedPuts { client: WRITER, keys, generations: &[generation], parts: &[&too_few] };
    stage.shard.put_end(stage.now_ms, &puts, &[1], &mut stage.status);
    assert_eq!(stage.status, [code(Status::InvalidParams)]);
}

#[test]
fn a_revoked_put_frees_all_parts() {
    let mut stage = stage(4);
    assert_eq!(stage.start_with("a", LARGE_BYTES, &in_parts(), false), 0);
    assert_eq!(stage.revoke(WRITER, "a"), 0);
    assert_eq!((stage.used_bytes(), stage.shard.gauges().keys), (0, 0));
}

#[test]
fn parts_and_whole_objects_replace_each_other() {
    let mut stage = stage(8);
    assert_eq!(stage.put("a"), 0);
    assert_eq!(stage.start_with("a", LARGE_BYTES, &in_parts(), true), 0);
    assert_eq!((stage.get("a"), stage.replicas.payload_bytes[0]), (0, PAYLOAD_BYTES));
    assert_eq!(stage.end_parts("a", 1_000), 0);
    stage.read_large("a");
    assert_eq!(stage.start_with("a", LARGE_BYTES, &in_parts(), true), 0);
    assert_eq!(stage.end_parts("a", 1_000), 0);
    stage.read_large("a");
    assert_eq!(stage.start_with("a", PAYLOAD_BYTES, &in_parts(), true), 0);
    assert_eq!(stage.end("a"), 0);
    assert_eq!((stage.read("a"), stage.replicas.locations.len()), (0, 1));
    assert_eq!(stage.replicas.locations[0].part, None);
    stage.pass(LEASE_MS + 1);
    stage.tick();
    assert_eq!(stage.used_bytes(), EXTENT_BYTES);
}

#[test]
fn who_cannot_read_parts_finds_nothing() {
    let mut stage = stage(4);
    assert_eq!(stage.put_large("a", &in_parts()), 0);
    assert_eq!(stage.put("b"), 0);
    let keys: [&[u8]; 3] = [b"b", b"a", b"b"];
    stage.shard.get_replicas(stage.now_ms, &keys, &mut stage.replicas);
    stage.replicas.hide_parts();
    assert!(stage.replicas.are_whole(3));
    assert_eq!(stage.replicas.status, [0, code(Status::ObjectNotFound), 0]);
    assert_eq!(stage.replicas.location_count, [1, 0, 1]);
    assert_eq!(stage.replicas.lease[1], 0);
}

#[test]
fn a_drained_segment_gives_its_parts_away() {
    let mut stage = stage(3);
    assert_eq!(stage.put_large("a", &in_parts()), 0);
    stage.mount(spec(3, SEGMENT_BYTES), 3);
    stage.shard.apply(stage.now_ms, &SegmentEvent::Draining { index: 0 });
    let order = DrainOrder { job: 5, sources: [0].into(), targets: [].into(), allowance: 4 };
    let mut moved = 0;
    for _ in 0..1_000 {
        if stage.shard.drain_turn(stage.now_ms, &order).is_done {
            break;
        }
        for task in stage.shard.take_moves(stage.now_ms, 100, 4) {
            let part = task.source.part.expect("a part");
            assert_eq!(task.checksum, 1_000 + u32::from(part));
            assert_eq!(task.target.part, Some(part));
            let ended = EndedMoves {
                client: 100,
                keys: &[&task.key],
                generations: &[task.target.generation],
                status: &[0],
                in_flight: &[false],
            };
            stage.shard.end_moves(stage.now_ms, &ended, &mut stage.status);
            moved += 1;
        }
        stage.pass(50);
        stage.tick();
    }
    assert!(moved > 10, "{moved}");
    stage.read_large("a");
    assert!(stage.peek("a").iter().all(|at| at.segment != 0));
    let request = TaskRequest {
        key: b"a".as_slice().into(),
        action: TaskAction::Copy { targets: vec!["host-2:1".to_owned()] },
    };
    let refused: JobRefusal = stage.shard.check_task(&request).unwrap_err();
    assert!(refused.reason.contains("parts"), "{refused:?}");
}

/// The records of each segment, as its owner keeps them.
fn records(stage: &mut Stage) -> BTreeMap<u32, Vec<u8>> {
    let mut kept: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    while let Some((segment, records)) = stage.shard.take_records() {
        kept.entry(segment).or_default().extend(records.expect("few records"));
    }
    kept
}

fn decoded(mut bytes: &[u8]) -> Vec<Record<'_>> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let record = Record::decode(bytes).expect("whole records");
        bytes = &bytes[record.encoded_bytes()..];
        records.push(record);
    }
    records.sort_by_key(|record| record.offset);
    records
}

/// Another life of the master, whose segments are announced from records.
fn next_life(segments: u32) -> Stage {
    let mut stage = Stage::new(&[]);
    for index in 0..segments {
        let spec = SegmentSpec { announces: Announces::Objects, ..spec(index, SEGMENT_BYTES) };
        stage.mount(spec, index);
    }
    stage
}

impl Stage {
    fn announce_all(&mut self, segment: u32, records: &[Record<'_>]) {
        assert_eq!(self.announce_part_of(segment, records), records.len());
    }

    /// Announces all that a segment has; how much of it is taken over.
    fn announce_part_of(&mut self, segment: u32, records: &[Record<'_>]) -> usize {
        let end = |record: &Record<'_>| record.offset + extent_bytes(record.payload_bytes);
        let ends = std::iter::once(0).chain(records.iter().map(end));
        let starts = records.iter().map(|record| record.offset).chain([SEGMENT_BYTES]);
        let holes = ends.zip(starts).filter(|(from, to)| from < to);
        let free: Vec<Extent> = holes.map(|(from, to)| Extent::new(from, to - from)).collect();
        let part = Announcement { records, free: &free, removed: &[], is_last: true };
        let announced = self.shard.announce(self.now_ms, segment, &part);
        self.shard.check();
        announced.expect("it is being rebuilt")
    }
}

#[test]
fn the_next_master_has_the_object_when_each_owner_has_announced_its_parts() {
    let mut stage = stage(3);
    (0..3).for_each(|segment| assert!(stage.shard.follow(segment)));
    assert_eq!(stage.put_large("a", &PutConfig { hard_pin: true, ..in_parts() }), 0);
    let kept = records(&mut stage);
    assert_eq!(kept.len(), 3);
    let mut next = next_life(3);
    for (segment, records) in &kept {
        assert_eq!(next.get("a"), code(Status::ObjectNotFound), "before {segment}");
        let records = decoded(records);
        assert!(records.iter().all(|it| it.op == RecordOp::Commit && it.part.is_some()));
        next.announce_all(*segment, &records);
    }
    assert_eq!(next.read_large("a"), 3);
    next.pass(LEASE_MS);
    assert_eq!(next.put_large("b", &in_parts()), code(Status::NoAvailableHandle), "pinned");
    assert_eq!(next.remove("a", true), 0);
    assert_eq!(next.used_bytes(), 0);
}

#[test]
fn what_is_announced_in_part_is_a_miss_and_goes() {
    for is_removed in [false, true] {
        let mut stage = stage(3);
        (0..3).for_each(|segment| assert!(stage.shard.follow(segment)));
        assert_eq!(stage.put_large("a", &PutConfig { hard_pin: true, ..in_parts() }), 0);
        let kept = records(&mut stage);
        let mut next = next_life(3);
        next.announce_all(0, &decoded(&kept[&0]));
        next.announce_all(1, &decoded(&kept[&1]));
        assert_eq!((next.get("a"), next.exist("a")), (code(Status::ObjectNotFound), 0));
        if is_removed {
            assert_eq!(next.remove("a", false), code(Status::ObjectNotFound));
        } else {
            next.pass(ANNOUNCING_MS + 1);
            next.tick();
        }
        assert_eq!((next.used_bytes(), next.shard.gauges().keys), (0, 0));
    }
}

#[test]
fn parts_of_two_versions_are_never_one_object() {
    let mut stage = stage(3);
    (0..3).for_each(|segment| assert!(stage.shard.follow(segment)));
    assert_eq!(stage.put_large("a", &in_parts()), 0);
    let kept = records(&mut stage);
    // What one owner has is of an earlier version with the same cut, of which it missed the end.
    let earlier = |record: Record<'static>| {
        let part = record.part.map(|part| RecordPart { checksum: 1, ..part });
        Record { part, sequence: record.sequence - 1_000, ..record }
    };
    for order in [[0, 1, 2], [1, 0, 2], [2, 1, 0]] {
        let mut next = next_life(3);
        for segment in order {
            let bytes: &'static [u8] = Vec::leak(kept[&segment].clone());
            let mut all = decoded(bytes);
            all.iter_mut().for_each(|record| record.sequence += 10_000);
            if segment == 0 {
                all = all.into_iter().map(earlier).collect();
            }
            next.announce_part_of(segment, &all);
            assert_eq!(next.get("a"), code(Status::ObjectNotFound), "{order:?}");
        }
    }
}

#[test]
fn a_tenant_pays_for_all_parts() {
    let mut shard = KeyShard::new(settings());
    let ledger = TenantLedger::new(1.0);
    shard.charge_to(&ledger);
    ledger.set_quota("default", LARGE_BYTES / 2).expect("a quota of something");
    let mut stage = Stage::of(shard, &[]);
    (0..4).for_each(|index| stage.mount(spec(index, SEGMENT_BYTES), index));
    assert_eq!(stage.put_large("a", &in_parts()), code(Status::TenantQuotaExceeded));
    ledger.set_quota("default", 2 * LARGE_BYTES).expect("a quota of something");
    stage.shard.apply(stage.now_ms, &SegmentEvent::Usable { index: 0, bytes: SEGMENT_BYTES });
    assert_eq!(stage.put_large("a", &in_parts()), 0);
    let charged: u64 = ledger.usages().iter().map(|usage| usage.charged_bytes).sum();
    assert_eq!(charged, stage.used_bytes());
    assert_eq!(stage.remove("a", true), 0);
    assert!(ledger.usages().iter().all(|usage| usage.charged_bytes == 0));
}

#[test]
fn parts_go_to_no_disk_and_are_ready_to_go_together() {
    let offload = super::demotion::offload();
    let mut stage = Stage::with(
        ShardSettings { offload: Some(offload), watermark_ratio: 0.5, ..settings() },
        &[],
    );
    (0..3).for_each(|index| stage.mount(spec(index, SEGMENT_BYTES), index));
    stage.mount_disk(super::demotion::DISK);
    assert_eq!(stage.put_large("a", &in_parts()), 0);
    assert!(!stage.shard.tick(stage.now_ms, 1_000), "nothing is looked at again and again");
    stage.shard.check();
    assert!(stage.take_demotions().is_empty());
    assert_eq!(stage.put_large("b", &in_parts()), 0);
    assert!(!stage.holds("a") && stage.holds("b"));
    stage.read_large("b");
}

#[test]
fn an_object_in_parts_goes_to_no_disk_and_is_counted_when_it_is_evicted() {
    use super::demotion::{DISK, offload, with_offload};
    let mut stage = Stage::with(with_offload(offload()), &[]);
    (0..3).for_each(|index| stage.mount(spec(index, SEGMENT_BYTES), index));
    // Its owner is that of the first segment.
    stage.mount_disk(DISK);
    assert_eq!(stage.put_large("a", &in_parts()), 0);
    stage.age();
    assert!(stage.take_demotions().is_empty());
    assert_eq!(stage.put_large("b", &in_parts()), 0);
    assert!(!stage.holds("a"));
    assert_eq!(stage.shard.counters().unsaved_keys, 1);
}
