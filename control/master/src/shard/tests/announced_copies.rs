//! Facts about disks that return, or whose master does, and about what they announce.

use perigee_schemas::record::{Record, RecordOp};
use perigee_schemas::{Identity, SegmentKind};

use super::demotion::*;
use super::*;
use crate::segment::Announces;

#[test]
fn a_disk_that_returns_brings_back_what_has_not_changed() {
    let mut stage = Stage::with_disk(offload(), 8);
    // A disk that the master has heard of in this life.
    let (shard, now_ms) = (&mut stage.shard, stage.now_ms);
    shard.announce_copies(now_ms, OWNER, DISK, &[], true, &mut stage.status);
    for key in ["kept", "removed", "replaced", "forgotten"] {
        stage.put(key);
    }
    stage.put("x");
    let keys = ["kept", "removed", "replaced", "forgotten"];
    let generations = keys.map(|key| stage.generation(key));
    stage.apply(&SegmentEvent::Unmounted { index: DISK });
    stage.remove("removed", true);
    stage.start_with("replaced", PAYLOAD_BYTES, &PutConfig::default(), true);
    stage.end_as(WRITER, "replaced", 2);
    stage.apply(&SegmentEvent::Unmounted { index: 0 });
    stage.tick();
    assert_eq!(stage.shard.gauges().keys, 0);
    stage.mount_disk(DISK + 1);
    let announced: Vec<i32> = keys
        .iter()
        .zip(generations)
        .map(|(key, generation)| stage.announce(key, generation, *key == "forgotten"))
        .collect();
    let void = code(Status::ObjectNotFound);
    assert_eq!(announced, [0, void, void, 0]);
    assert_eq!(stage.lies_in("kept"), [DISK + 1]);
    assert_eq!(stage.shard.size(b"forgotten"), Ok(PAYLOAD_BYTES));
    assert_eq!(stage.announce("removed", generations[1], false), 0, "all disks are back");
}

#[test]
fn a_disk_that_is_gone_for_good_does_not_discredit_one_that_restarts() {
    let mut stage = Stage::with_disk(offload(), 8);
    let other = DISK + 1;
    let spec = SegmentSpec::bare(DISK_ID + 1, OWNER, 1 << 40);
    stage.mount(SegmentSpec { kind: SegmentKind::Disk, ..spec }, other);
    for disk in [DISK, other] {
        let (shard, now_ms) = (&mut stage.shard, stage.now_ms);
        shard.announce_copies(now_ms, OWNER, disk, &[], true, &mut stage.status);
    }
    stage.apply(&SegmentEvent::Unmounted { index: other });
    stage.put("kept");
    let generation = stage.generation("kept");
    for index in [DISK, 0] {
        stage.apply(&SegmentEvent::Unmounted { index });
    }
    stage.tick();
    assert_eq!(stage.shard.gauges().keys, 0);
    stage.mount_disk(DISK + 2);
    assert_eq!(stage.announce("kept", generation, true), 0);
}

#[test]
fn a_disk_that_the_master_hears_of_for_the_first_time_brings_back_nothing_that_has_changed() {
    let mut stage = Stage::with_disk(offload(), 8);
    stage.put("removed");
    let generation = stage.generation("removed");
    stage.remove("removed", true);
    assert_eq!(stage.announce("removed", generation, false), code(Status::ObjectNotFound));
    assert_eq!(stage.announce("of an earlier life", generation, true), 0);
}

#[test]
fn what_the_record_still_names_is_believed_of_a_disk_that_returns() {
    for (age, expected) in [(0, 0), (1, code(Status::ObjectNotFound))] {
        let mut stage = Stage::with_disk(offload(), 1);
        // Written in this life, so a disk that was not heard of is not believed about it.
        stage.put_on_disk(&["kept"]);
        let generation = stage.generation("kept");
        for index in [0, DISK] {
            stage.apply(&SegmentEvent::Unmounted { index });
        }
        assert!(!stage.holds("kept"));
        stage.mount_disk(DISK + 1);
        assert_eq!(stage.announce("kept", generation - age, false), expected);
        assert_eq!(stage.holds("kept"), age == 0);
    }
}

#[test]
fn what_is_removed_while_only_a_disk_that_is_away_knows_it_does_not_come_back() {
    let mut stage = Stage::with_disk(offload(), 8);
    let (shard, now_ms) = (&mut stage.shard, stage.now_ms);
    shard.announce_copies(now_ms, OWNER, DISK, &[], true, &mut stage.status);
    stage.put("x");
    let generation = stage.generation("x");
    stage.apply(&SegmentEvent::Unmounted { index: DISK });
    stage.apply(&SegmentEvent::Unmounted { index: 0 });
    stage.tick();
    assert_eq!(stage.remove("by its name", true), code(Status::ObjectNotFound));
    stage.mount_disk(DISK + 1);
    let void = code(Status::ObjectNotFound);
    assert_eq!(stage.announce("by its name", generation, false), void);
    assert_eq!(stage.announce("kept", generation, false), 0);
    stage.apply(&SegmentEvent::Unmounted { index: DISK + 1 });
    assert_eq!(stage.remove_matching(&Pattern::any(), true), 0, "its only copy is away");
    stage.mount_disk(DISK + 2);
    assert_eq!(stage.announce("by a pattern", generation, true), void);
    assert_eq!(stage.announce("of later", generation, true), 0);
}

#[test]
fn the_owner_of_a_disk_hears_of_a_void_copy_with_the_records_of_its_removal() {
    let mut stage = Stage::with_disk(offload(), 1);
    stage.put_on_disk(&["a"]);
    stage.put("b");
    assert_eq!(stage.lies_in("a"), [DISK]);
    assert!(stage.shard.follow(0));
    while stage.shard.take_records().is_some() {}
    stage.remove("a", true);
    let (_, generation) = stage.tombstones()[0];
    let (segment, records) = stage.shard.take_records().expect("there is something to hear");
    let records = records.expect("few records");
    let record = Record::decode(&records).expect("a whole record");
    assert_eq!((segment, record.op, record.generation), (0, RecordOp::Void, generation));
}

#[test]
fn a_copy_whose_tombstone_waits_is_not_believed_when_its_disk_is_announced_again() {
    let mut stage = Stage::with_disk(offload(), 1);
    stage.put_on_disk(&["a"]);
    stage.put("b");
    stage.shard.announce_copies(stage.now_ms, OWNER, DISK, &[], true, &mut stage.status);
    stage.remove("a", true);
    let (_, generation) = stage.tombstones()[0];
    assert_eq!(stage.announce("a", generation, true), code(Status::ObjectNotFound));
    let numbers: Vec<u64> =
        stage.shard.tombstones(OWNER, DISK, 9).unwrap().iter().map(|it| it.number).collect();
    stage.shard.confirm_tombstones(stage.now_ms, OWNER, DISK, &numbers);
    assert_eq!(stage.announce("a", generation + 1, true), 0);
}

#[test]
fn an_announced_copy_joins_the_object_that_it_is_a_copy_of() {
    let mut stage = Stage::with_disk(offload(), 4);
    stage.put("same");
    stage.put("other");
    let generation = stage.generation("same");
    assert_eq!(stage.announce("same", generation, false), 0);
    assert_eq!(stage.announce("same", generation, false), 0, "also when it is reported again");
    assert_eq!(stage.lies_in("same"), [0, DISK]);
    assert_eq!(stage.announce("other", generation, true), code(Status::ObjectNotFound));
    assert_eq!(stage.lies_in("other"), [0]);
}

#[test]
fn after_a_restart_a_copy_joins_the_same_bytes_that_were_moved_since() {
    let mut stage = Stage::with(with_offload(offload()), &[]);
    let memory = SegmentSpec::bare(1, OWNER, 4 * EXTENT_BYTES);
    stage.mount(SegmentSpec { announces: Announces::Objects, ..memory }, 0);
    stage.mount_disk(DISK);
    let record = |key: &'static str, checksum, offset| Record {
        op: RecordOp::Commit,
        flags: 0,
        checksum,
        sequence: 1,
        generation: 9,
        offset,
        payload_bytes: PAYLOAD_BYTES,
        client: Identity(WRITER),
        key: key.as_bytes(),
        group: b"",
        part: None,
    };
    let records = [record("moved", 1, 0), record("replaced", 2, EXTENT_BYTES)];
    let part = Announcement { records: &records, free: &[], removed: &[], is_last: false };
    assert_eq!(stage.shard.announce(stage.now_ms, 0, &part), Ok(2));
    assert_eq!(stage.announce("moved", 5, false), 0);
    assert_eq!(stage.lies_in("moved"), [0, DISK]);
    assert_eq!(stage.announce("replaced", 5, false), code(Status::ObjectNotFound));
}

#[test]
fn calls_wait_for_what_a_mounted_disk_has_until_its_owner_has_said_it_or_takes_too_long() {
    let mut stage = Stage::with_disk(offload(), 10);
    assert_eq!(stage.shard.awaited(stage.now_ms), 1);
    assert!(!stage.shard.awaits_room(stage.now_ms), "puts go to memory");
    assert_eq!(stage.announce("a", 5, false), 0);
    assert_eq!(stage.shard.awaited(stage.now_ms), 1, "there may be more");
    assert_eq!(stage.announce("b", 6, true), 0);
    assert_eq!(stage.shard.awaited(stage.now_ms), 0);
    stage.apply(&SegmentEvent::Unmounted { index: DISK });
    stage.mount_disk(DISK + 1);
    assert_eq!(stage.shard.awaited(stage.now_ms), 1, "its next owner may have it again");
    stage.apply(&SegmentEvent::Unmounted { index: DISK + 1 });
    assert_eq!(stage.shard.awaited(stage.now_ms), 0, "what is gone is not waited for");
    stage.mount_disk(DISK + 2);
    let late_ms = stage.now_ms + crate::limits::AWAITED_MS;
    assert_eq!(stage.shard.awaited(late_ms), 0, "an owner that says nothing costs no more");
}

#[test]
fn a_put_that_is_under_way_leaves_what_a_disk_has_until_it_ends() {
    for ends in [false, true] {
        let mut stage = Stage::with_disk(offload(), 8);
        stage.start_with("k", PAYLOAD_BYTES, &PutConfig::default(), true);
        assert_eq!(stage.announce("k", 7, true), 0, "the put may come to nothing");
        assert_eq!(stage.lies_in("k"), [DISK]);
        match ends {
            true => assert_eq!(stage.end_as(WRITER, "k", 2), 0),
            false => assert_eq!(stage.revoke(WRITER, "k"), 0),
        }
        stage.shard.check();
        assert_eq!(stage.lies_in("k"), [if ends { 0 } else { DISK }]);
        let void = if ends { vec![(hash("k"), 7)] } else { vec![] };
        assert_eq!(stage.tombstones(), void);
    }
}

#[test]
fn an_announced_copy_ends_the_demotion_that_was_to_make_one() {
    let mut stage = Stage::with_disk(offload(), 2);
    stage.put("k");
    stage.put("other");
    stage.tick();
    assert!(stage.shard.tier.demotions.len() > 0, "look-ahead begins before the disk is heard");
    let generation = stage.generation("k");
    assert_eq!(stage.announce("k", generation, true), 0);
    assert_eq!(stage.lies_in("k"), [0, DISK]);
    assert!(stage.take_demotions().iter().all(|task| &*task.key != b"k"));
    stage.put("more");
    assert_eq!(stage.lies_in("k"), [DISK], "its memory goes at once");
    assert_eq!(stage.tombstones(), []);
}

#[test]
fn a_copy_that_a_disk_has_twice_is_refused_in_neither_place() {
    let mut stage = Stage::with_disk(offload(), 4);
    stage.put("k");
    let generation = stage.generation("k");
    assert_eq!(stage.announce_at("k", generation, (DISK, 1), false), 0);
    assert_eq!(stage.announce_at("k", generation, (DISK, 2), true), 0, "a refusal makes both void");
    assert_eq!(stage.lies_in("k"), [0, DISK]);
}

#[test]
fn of_two_disks_with_the_same_copy_one_is_refused() {
    let mut stage = Stage::with_disk(offload(), 4);
    let spec = SegmentSpec::bare(DISK_ID + 1, OWNER, 1 << 40);
    stage.mount(SegmentSpec { kind: SegmentKind::Disk, ..spec }, DISK + 1);
    stage.put("k");
    let generation = stage.generation("k");
    assert_eq!(stage.announce_at("k", generation, (DISK, 1), true), 0);
    let other = stage.announce_at("k", generation, (DISK + 1, 1), true);
    assert_eq!(other, code(Status::ObjectNotFound), "a removal would not reach it");
}

#[test]
fn what_is_written_beside_an_announced_copy_is_void() {
    for (other, void) in [(0, false), (1, true)] {
        let mut stage = Stage::with_disk(offload(), 2);
        let (shard, now_ms) = (&mut stage.shard, stage.now_ms);
        shard.announce_copies(now_ms, OWNER, DISK, &[], true, &mut stage.status);
        stage.put("k");
        stage.put("other");
        stage.tick();
        let tasks = stage.take_demotions();
        let task = tasks.iter().find(|task| &*task.key == b"k").expect("it is to be copied");
        let generation = stage.generation("k");
        assert_eq!(stage.announce("k", generation + other, true), 0);
        let waiting = if void { vec![(hash("k"), generation)] } else { vec![] };
        assert_eq!(stage.tombstones(), waiting);
        let ended = stage.end_demotion(task, 0, address(1));
        assert_eq!(ended, if void { code(Status::TaskNotFound) } else { 0 });
    }
}
