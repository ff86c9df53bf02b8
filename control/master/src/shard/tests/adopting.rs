//! Facts about segments that are rebuilt from what their owners announce.

use perigee_allocator::Extent;
use perigee_schemas::Identity;
use perigee_schemas::record::{Record, RecordOp};

use super::*;
use crate::object::Flags;
use crate::segment::Announces;

fn record(key: &'static str, offset: u64) -> Record<'static> {
    Record {
        op: RecordOp::Commit,
        flags: 0,
        checksum: 5,
        sequence: 1 << 40,
        generation: offset.wrapping_add(77),
        offset,
        payload_bytes: PAYLOAD_BYTES,
        client: Identity(WRITER),
        key: key.as_bytes(),
        group: b"",
        part: None,
    }
}

/// A shard that has just begun, with so many segments of four objects whose owners have not
/// announced anything yet.
fn rebuilding(segments: u32) -> Stage {
    let mut stage = Stage::new(&[]);
    for index in 0..segments {
        let spec = SegmentSpec { announces: Announces::Objects, ..spec(index, 4 * EXTENT_BYTES) };
        stage.mount(spec, index);
    }
    stage
}

fn announce(stage: &mut Stage, segment: u32, records: &[Record<'_>], free: &[Extent]) -> usize {
    let part = Announcement { records, free, removed: &[], is_last: false };
    let adopted = stage.shard.announce(stage.now_ms, segment, &part).expect("it is being rebuilt");
    stage.shard.check();
    adopted
}

/// The end of the announcement, with what is free behind what was announced.
fn end(stage: &mut Stage, segment: u32) {
    let from = stage.shard.announced_until(segment).expect("it is being rebuilt");
    let rest = 4 * EXTENT_BYTES - from;
    let free = [Extent::new(from, rest)];
    let free = if rest > 0 { &free[..] } else { &[] };
    let last = Announcement { records: &[], free, removed: &[], is_last: true };
    assert_eq!(stage.shard.announce(stage.now_ms, segment, &last), Ok(0));
    stage.shard.check();
}

/// How many segments calls about keys wait for, and whether puts wait for room.
fn waits(stage: &Stage) -> (usize, bool) {
    (stage.shard.awaited(stage.now_ms), stage.shard.awaits_room(stage.now_ms))
}

fn slot(number: u64) -> Extent {
    Extent::new(number * EXTENT_BYTES, EXTENT_BYTES)
}

#[test]
fn announced_objects_are_readable_and_puts_begin_after_the_last_of_them() {
    let mut stage = rebuilding(1);
    let records = [record("a", EXTENT_BYTES), record("b", 3 * EXTENT_BYTES)];
    assert_eq!(announce(&mut stage, 0, &records, &[slot(0), slot(2)]), 2);
    assert_eq!(stage.get("a"), 0);
    let location = stage.replicas.locations[0];
    assert_eq!((location.offset, location.generation), (EXTENT_BYTES, 77 + EXTENT_BYTES));
    assert_eq!(stage.replicas.checksum, [5]);
    assert_eq!(stage.start("early"), code(Status::NoAvailableHandle), "no room before the end");
    assert_eq!(waits(&stage), (1, true));
    end(&mut stage, 0);
    assert_eq!(waits(&stage), (0, false));
    for (key, offset) in [("c", 0), ("d", 2 * EXTENT_BYTES)] {
        assert_eq!(stage.start(key), 0);
        assert_eq!(stage.placements.locations[0].offset, offset);
    }
    let again = Announcement { records: &records, free: &[], removed: &[], is_last: true };
    let refused = stage.shard.announce(stage.now_ms, 0, &again);
    assert_eq!(refused, Err(Status::UnavailableInCurrentStatus));
}

#[test]
fn no_byte_is_taken_twice_whatever_is_announced() {
    let mut stage = rebuilding(1);
    let overlapping = [record("a", 0), record("b", EXTENT_BYTES - 16)];
    assert_eq!(announce(&mut stage, 0, &overlapping, &[slot(0)]), 1);
    assert_eq!(announce(&mut stage, 0, &[record("c", 0)], &[slot(0)]), 0, "behind only");
    assert_eq!(announce(&mut stage, 0, &[record("d", 4 * EXTENT_BYTES)], &[]), 0, "outside");
    assert_eq!(announce(&mut stage, 0, &[record("e", u64::MAX - 5)], &[]), 0, "outside");
    assert!(stage.holds("a") && !stage.holds("b") && !stage.holds("c"));
    end(&mut stage, 0);
}

#[test]
fn the_same_bytes_elsewhere_are_another_replica_and_other_bytes_lose() {
    let mut stage = rebuilding(4);
    assert_eq!(announce(&mut stage, 0, &[record("a", 0)], &[]), 1);
    assert_eq!(announce(&mut stage, 1, &[record("a", 0)], &[]), 1);
    let stale = Record { checksum: 6, sequence: 9, ..record("a", 0) };
    assert_eq!(announce(&mut stage, 2, &[stale], &[]), 0);
    assert_eq!(stage.peek("a").len(), 2);
    let newer = Record { checksum: 7, sequence: (1 << 40) + 1, ..record("a", 0) };
    assert_eq!(announce(&mut stage, 3, &[newer], &[]), 1);
    let found: Vec<u32> = stage.peek("a").iter().map(|location| location.segment).collect();
    assert_eq!(found, [3]);
    assert_eq!(stage.shard.gauges().parked_bytes, 3 * EXTENT_BYTES, "readers may be at work");
    stage.pass(LEASE_MS);
    stage.tick();
    assert_eq!(stage.shard.gauges().parked_bytes, 0);
}

#[test]
fn what_was_written_or_removed_in_this_life_beats_what_is_announced() {
    let mut stage = rebuilding(2);
    stage.mount(spec(9, 4 * EXTENT_BYTES), 9);
    assert_eq!(stage.put("written"), 0);
    assert_eq!(stage.put("evicted"), 0);
    let keys: [&[u8]; 2] = [b"removed", b"evicted"];
    stage.shard.remove(stage.now_ms, &keys, true, &mut stage.status);
    let late = ["written", "removed", "evicted"];
    for (at, key) in late.into_iter().enumerate() {
        let late =
            Record { checksum: 6, sequence: u64::MAX, ..record(key, at as u64 * EXTENT_BYTES) };
        assert_eq!(announce(&mut stage, 0, &[late], &[]), 0, "{key}");
    }
    assert_eq!(stage.peek("written")[0].segment, 9);
    assert!(!stage.holds("removed") && !stage.holds("evicted"));
    stage.pass(crate::limits::ANNOUNCING_MS + 1);
    assert_eq!(announce(&mut stage, 1, &[record("too late", 0)], &[]), 0);
}

#[test]
fn pins_groups_and_owners_survive() {
    let mut stage = rebuilding(1);
    let hard = Record { flags: Record::HARD_PIN, group: b"g", ..record("hard", 0) };
    let soft = Record { flags: Record::SOFT_PIN, group: b"g", ..record("soft", EXTENT_BYTES) };
    assert_eq!(announce(&mut stage, 0, &[hard, soft], &[]), 2);
    end(&mut stage, 0);
    let object = |stage: &mut Stage, key: &str| stage.shard.stored.find(key.as_bytes()).unwrap();
    let (hard, soft) = (object(&mut stage, "hard"), object(&mut stage, "soft"));
    let keys = &stage.shard.stored.keys;
    assert!(keys[hard].flags.has(Flags::HARD_PIN) && keys[soft].flags.has(Flags::SOFT_PIN));
    assert_eq!(stage.shard.stored.groups.name(keys[hard].group), Some("g"));
    assert_eq!(keys[hard].group, keys[soft].group);
    assert_eq!(keys[hard].owner, WRITER);
}

#[test]
fn keys_of_other_shards_are_left_to_them() {
    let index = 1 - crate::key::shard_of(b"a", 2);
    let mut stage = Stage::with(ShardSettings { index, count: 2, ..settings() }, &[]);
    stage.mount(SegmentSpec { announces: Announces::Objects, ..spec(0, 4 * EXTENT_BYTES) }, 0);
    assert_eq!(announce(&mut stage, 0, &[record("a", 0)], &[]), 0);
}

#[test]
fn a_drained_segment_that_is_rebuilt_takes_nothing_before_it_is_resumed() {
    let mut stage = rebuilding(1);
    stage.shard.apply(stage.now_ms, &SegmentEvent::Draining { index: 0 });
    announce(&mut stage, 0, &[], &[Extent::new(0, 4 * EXTENT_BYTES)]);
    stage.shard.apply(stage.now_ms, &SegmentEvent::Resumed { index: 0 });
    stage.shard.check();
    assert_eq!(stage.start("a"), code(Status::NoAvailableHandle), "not all was announced");
    end(&mut stage, 0);
    assert_eq!(stage.start("a"), 0);
}

#[test]
fn a_segment_is_empty_only_when_all_that_lies_there_was_announced() {
    let mut stage = rebuilding(1);
    stage.shard.apply(stage.now_ms, &SegmentEvent::Draining { index: 0 });
    let order = DrainOrder { job: 5, sources: [0].into(), targets: [].into(), allowance: 1 };
    let turn = |stage: &mut Stage| {
        let report = stage.shard.drain_turn(stage.now_ms, &order);
        (report.is_done, report.blocked)
    };
    assert_eq!(turn(&mut stage), (false, 1), "its owner is waited for");
    announce(&mut stage, 0, &[record("a", 0)], &[]);
    end(&mut stage, 0);
    assert_eq!(turn(&mut stage), (false, 0), "an object is to be moved");
    assert_eq!(stage.remove("a", true), 0);
    assert_eq!(turn(&mut stage), (true, 0));
}

#[test]
fn empty_segments_are_announced_too_and_nothing_waits_for_keys_there() {
    let mut stage = Stage::new(&[]);
    stage.mount(SegmentSpec { announces: Announces::Space, ..spec(0, 4 * EXTENT_BYTES) }, 0);
    assert_eq!(stage.start("early"), code(Status::NoAvailableHandle), "no owner follows yet");
    assert_eq!(waits(&stage), (0, true));
    end(&mut stage, 0);
    assert_eq!((stage.start("a"), waits(&stage)), (0, (0, false)));
}

#[test]
fn owners_that_take_too_long_are_not_waited_for() {
    let mut stage = rebuilding(2);
    assert_eq!(waits(&stage), (2, true));
    stage.mount(spec(9, 4 * EXTENT_BYTES), 9);
    assert_eq!(waits(&stage), (2, false), "there is room elsewhere");
    stage.pass(crate::limits::AWAITED_MS);
    assert_eq!(waits(&stage), (0, false));
    assert_eq!(announce(&mut stage, 0, &[record("a", 0)], &[]), 1, "late, and taken all the same");
}
