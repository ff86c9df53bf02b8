//! Facts about objects that lie on disks alone: they are packed when nothing is under way with
//! them, and every call sees them as if they were not.

use std::collections::{BTreeMap, BTreeSet};

use perigee_schemas::record::{Record, RecordOp};
use perigee_schemas::{Identity, SegmentKind};

use super::demotion::*;
use super::*;
use crate::event_queue::{KeyEventQueue, WaitingEvents};
use crate::index::Slot;
use crate::key_event::{KeyChange, Media, Medium};
use crate::limits::PACK_AGAIN_MS;
use crate::object::Flags;
use crate::settings::PromotionSettings;

/// A stage with these keys on its disk alone, packed.
fn with_packed(keys: &[&str]) -> Stage {
    let mut stage = Stage::with_disk(offload(), 8);
    for (at, key) in keys.iter().enumerate() {
        assert_eq!(stage.announce(key, at as u64 + 1, at + 1 == keys.len()), 0);
    }
    assert_eq!(stage.shard.packed_keys(), keys.len());
    stage
}

fn is_packed(stage: &Stage, key: &str) -> bool {
    stage.shard.stored.keys.find(key.as_bytes()).and_then(Slot::as_packed).is_some()
}

fn listed(stage: &Stage) -> BTreeMap<Vec<u8>, Media> {
    let (mut keys, mut scan) = (BTreeMap::new(), stage.shard.scan());
    while !scan.has_ended() {
        stage.shard.list_step(&mut scan, &Pattern::any(), |it| {
            assert_eq!((it.payload_bytes, it.group), (PAYLOAD_BYTES, None));
            keys.insert(it.key.to_vec(), it.media);
            true
        });
    }
    keys
}

#[test]
fn what_is_evicted_and_lies_on_a_disk_is_packed_with_all_that_is_known_of_it() {
    let mut stage = Stage::with_disk(offload(), 1);
    stage.put("kept");
    stage.read("kept");
    stage.tick();
    for task in stage.take_demotions() {
        assert_eq!(stage.end_demotion(&task, 0, address(1)), 0);
    }
    let before = stage.peek("kept").pop().unwrap();
    let object = stage.shard.stored.find(b"kept").unwrap();
    let kind = stage.shard.stored.keys[object].kind();
    assert_eq!(stage.put("other"), 0);
    stage.tick();
    assert!(is_packed(&stage, "kept"));
    assert_eq!(stage.peek("kept"), [before]);
    assert_eq!(stage.shard.size(b"kept"), Ok(PAYLOAD_BYTES));
    let object = stage.shard.stored.find(b"kept").unwrap();
    stage.shard.check();
    let record = &stage.shard.stored.keys[object];
    assert_eq!((record.owner, record.checksum, record.kind()), (WRITER, 1, kind));
    assert!(record.flags.has(Flags::HIT));
    assert_eq!(stage.end("kept"), 0, "its put may be ended again");
}

#[test]
fn a_read_unpacks_a_record_until_its_lease_has_ended() {
    let mut stage = with_packed(&["a"]);
    assert_eq!(stage.get("a"), 0);
    assert_eq!(stage.replicas.locations[0].segment, DISK);
    let lease = stage.given_back();
    stage.tick();
    assert!(!is_packed(&stage, "a"));
    assert_eq!(stage.remove("a", false), code(Status::ObjectHasLease));
    stage.pass(PACK_AGAIN_MS + LEASE_MS);
    stage.tick();
    assert!(is_packed(&stage, "a"));
    // An earlier lease ends no other reader's, wherever the object is now.
    assert_eq!(stage.get("a"), 0);
    stage.shard.give_back(stage.now_ms, &[lease]);
    assert_eq!(stage.remove("a", false), code(Status::ObjectHasLease));
    let lease = stage.given_back();
    stage.shard.give_back(stage.now_ms, &[lease]);
    assert_eq!(stage.remove("a", false), 0);
}

#[test]
fn a_probe_leaves_a_record_packed_and_keeps_its_key_for_a_lease() {
    let mut stage = with_packed(&["a", "b"]);
    assert_eq!((stage.exist("a"), stage.exist("none"), stage.locate_only("b")), (1, 0, 1));
    assert_eq!(stage.shard.packed_keys(), 2);
    for key in ["a", "b"] {
        assert_eq!(stage.remove(key, false), code(Status::ObjectHasLease));
    }
    // The marks of the clock tell how long a touch is past.
    stage.tick();
    stage.pass(LEASE_MS + crate::limits::AGE_MARK_MS);
    stage.tick();
    assert_eq!((stage.remove("a", false), stage.remove("b", false)), (0, 0));
    assert_eq!(stage.tombstones().len(), 2);
}

#[test]
fn a_key_that_comes_twice_in_a_batch_is_read_twice() {
    let mut stage = with_packed(&["a"]);
    let keys: [&[u8]; 3] = [b"a", b"none", b"a"];
    stage.shard.get_replicas(stage.now_ms, &keys, &mut stage.replicas);
    stage.shard.check();
    assert_eq!(stage.replicas.status, [0, code(Status::ObjectNotFound), 0]);
    let object = stage.shard.stored.find(b"a").unwrap();
    assert_eq!(stage.shard.stored.keys[object].readers(), 2);
}

#[test]
fn a_listing_has_packed_keys() {
    let mut stage = with_packed(&["a", "b"]);
    stage.put("memory");
    let media = |media: &[Medium]| media.iter().copied().collect::<Media>();
    let expected = [("a", Medium::Disk), ("b", Medium::Disk), ("memory", Medium::Memory)];
    let expected = expected.map(|(key, medium)| (key.as_bytes().to_vec(), media(&[medium])));
    assert_eq!(listed(&stage), BTreeMap::from(expected));
}

#[test]
fn a_walk_meets_a_key_once_that_is_packed_or_unpacked_during_it() {
    let names: Vec<String> = (0..3_000).map(|n| format!("key-{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut stage = Stage::with_disk(offload(), 8);
    let copies = names.iter().enumerate().map(|(at, key)| AnnouncedCopy {
        key: key.as_bytes(),
        group: "",
        generation: at as u64 + 1,
        payload_bytes: PAYLOAD_BYTES,
        checksum: 1,
        writer: WRITER,
        address: address(1),
    });
    let copies: Vec<_> = copies.collect();
    stage.shard.announce_copies(0, OWNER, DISK, &copies, true, &mut stage.status);
    let (mut met, mut scan, mut step) = (BTreeSet::new(), stage.shard.scan(), 0);
    while !scan.has_ended() {
        stage.shard.list_step(&mut scan, &Pattern::any(), |it| {
            assert!(met.insert(it.key.to_vec()), "it is met once");
            true
        });
        step += 1;
        for key in names.iter().skip(step % 2).step_by(2) {
            stage.shard.get_replicas(stage.now_ms, &[key.as_bytes()], &mut stage.replicas);
        }
        stage.pass(10_000);
        stage.shard.tick(stage.now_ms, 10_000);
    }
    assert!(step > 1);
    assert_eq!(met.len(), names.len());
    stage.shard.check();
}

#[test]
fn removals_by_pattern_and_of_all_meet_packed_keys() {
    let mut stage = with_packed(&["model-a/1", "model-a/2", "model-b/1", "x"]);
    stage.exist("model-a/2");
    let pattern = Pattern::compile("^model-a").unwrap();
    assert_eq!(stage.remove_matching(&pattern, false), 1, "one was probed");
    assert_eq!(stage.remove_matching(&pattern, true), 1);
    assert_eq!(stage.remove_matching(&Pattern::any(), false), 2);
    let gauges = stage.shard.gauges();
    assert_eq!((gauges.keys, gauges.disk_copies, gauges.disk_bytes), (0, 0, 0));
    assert_eq!(stage.tombstones().len(), 4);
}

#[test]
fn packed_keys_count_in_gauges_and_for_their_tenant() {
    let ledger = TenantLedger::new(1.0);
    let mut shard = KeyShard::new(with_offload(offload()));
    shard.charge_to(&ledger);
    let mut stage = Stage::of(shard, &[8]);
    stage.mount_disk(DISK);
    let key = perigee_schemas::TenantId::parse("red").unwrap().stored("a").into_owned();
    stage.announce(&key, 1, true);
    assert!(is_packed(&stage, &key));
    let usage =
        |ledger: &TenantLedger| ledger.usage("red").map(|it| (it.charged_bytes, it.objects));
    assert_eq!(usage(&ledger), Some((0, 1)));
    let gauges = stage.shard.gauges();
    assert_eq!((gauges.keys, gauges.disk_copies, gauges.disk_bytes), (1, 1, PAYLOAD_BYTES));
    assert_eq!(stage.shard.disk_gauge(DISK).map(|gauge| gauge.replicas), Some(1));
    assert_eq!(stage.shard.take_peak_keys(), 1);
    assert_eq!(stage.remove(&key, true), 0);
    assert_eq!(usage(&ledger).map_or(0, |(_, objects)| objects), 0);
}

#[test]
fn packed_records_go_with_their_disk_a_few_at_a_time() {
    let mut stage = with_packed(&["a", "b", "c"]);
    stage.apply(&SegmentEvent::Unmounted { index: DISK });
    assert!(!stage.holds("a") && listed(&stage).is_empty());
    assert_eq!((stage.exist("a"), stage.shard.size(b"a").is_err()), (0, true));
    let mut known = Vec::new();
    stage.shard.known(&[b"a"], &mut known);
    assert_eq!(known, [code(Status::ObjectNotFound)]);
    for left in [2, 1, 0] {
        stage.shard.tick(stage.now_ms, 1);
        stage.shard.check();
        assert_eq!(stage.shard.gauges().keys, left);
    }
    assert!(stage.shard.segment(DISK).is_none());
}

#[test]
fn packed_records_go_when_their_place_in_the_log_is_used_again() {
    let mut stage = Stage::with_disk(offload(), 8);
    for (at, sequence) in [3, 1, 2, 1].into_iter().enumerate() {
        stage.announce_at(&format!("{at}"), at as u64 + 1, (DISK, sequence), at == 3);
    }
    // One of them is an object at the moment.
    stage.get("1");
    stage.apply(&SegmentEvent::Recycled { index: DISK, oldest: 2 });
    assert_eq!([0, 1, 2, 3].map(|key| stage.holds(&format!("{key}"))), [true, false, true, false]);
    stage.tick();
    assert_eq!((stage.shard.gauges().keys, stage.shard.counters().recycled_copies), (2, 2));
    assert!(stage.tombstones().is_empty(), "their owner has used their place again");
    stage.apply(&SegmentEvent::Recycled { index: DISK, oldest: 9 });
    stage.shard.tick(stage.now_ms, 1);
    assert_eq!(stage.shard.gauges().keys, 1);
    stage.tick();
    assert_eq!((stage.shard.gauges().keys, stage.shard.counters().recycled_copies), (0, 4));
}

#[test]
fn a_copy_that_was_unpacked_late_goes_before_newer_ones_of_its_disk() {
    let mut stage = Stage::with_disk(offload(), 8);
    for (key, sequence) in [("old", 1), ("new", 5)] {
        stage.announce_at(key, sequence, (DISK, sequence as u32), key == "new");
    }
    stage.get("new");
    stage.get("old");
    stage.apply(&SegmentEvent::Recycled { index: DISK, oldest: 2 });
    stage.tick();
    assert_eq!((stage.holds("old"), stage.holds("new")), (false, true));
    assert_eq!(stage.shard.gauges().keys, 1);
}

#[test]
fn a_put_sees_a_packed_key() {
    let mut stage = with_packed(&["a", "b"]);
    assert_eq!(stage.put("a"), code(Status::ObjectAlreadyExists));
    assert!(is_packed(&stage, "a"), "its writer only learns that it exists");
    assert_eq!(stage.start_with("b", PAYLOAD_BYTES, &PutConfig::default(), true), 0);
    assert_eq!(stage.lies_in("b"), [DISK], "it can be read until the put ends");
    stage.tick();
    assert!(!is_packed(&stage, "b"), "a put is under way");
    assert_eq!(stage.end("b"), 0);
    assert_eq!(stage.lies_in("b"), [0]);
    assert_eq!(stage.tombstones(), [(hash("b"), 2)]);
}

#[test]
fn a_packed_key_is_promoted_and_packed_again_when_it_goes() {
    let promotion =
        Some(PromotionSettings { threshold: Some(2), on_exist: false, queue_limit: 10 });
    let mut stage = Stage::with(ShardSettings { promotion, ..with_offload(offload()) }, &[1]);
    stage.mount_disk(DISK);
    stage.announce("a", 1, true);
    stage.read("a");
    stage.read("a");
    stage.tick();
    assert!(!is_packed(&stage, "a"), "it is being copied");
    stage.end_next_move();
    assert_eq!(stage.lies_in("a"), [0, DISK]);
    stage.pass(PACK_AGAIN_MS);
    stage.tick();
    assert!(!is_packed(&stage, "a"));
    assert_eq!(stage.put("other"), 0);
    stage.tick();
    assert!(is_packed(&stage, "a"));
    assert_eq!(stage.lies_in("a"), [DISK]);
}

/// A master whose keys come to memory as soon as it is asked whether they exist.
fn asked_for(queue_limit: usize, keys: &[&str]) -> Stage {
    let promotion = Some(PromotionSettings { threshold: None, on_exist: true, queue_limit });
    let mut stage = Stage::with(ShardSettings { promotion, ..with_offload(offload()) }, &[2]);
    stage.mount_disk(DISK);
    for (at, key) in keys.iter().enumerate() {
        stage.announce(key, at as u64 + 1, at + 1 == keys.len());
    }
    stage.tick();
    stage
}

fn ask(stage: &mut Stage, keys: &[&str]) -> Vec<i32> {
    let (keys, mut exists): (Vec<&[u8]>, _) =
        (keys.iter().map(|key| key.as_bytes()).collect(), Vec::new());
    stage.shard.exist(stage.now_ms, &keys, &mut exists);
    stage.shard.check();
    exists
}

#[test]
fn a_key_that_is_asked_for_comes_to_memory_if_that_is_wanted() {
    let mut stage = asked_for(10, &["a", "b"]);
    stage.read("a");
    stage.tick();
    assert!(!stage.shard.has_moves(OWNER), "reads alone lead to no copy");
    assert_eq!(ask(&mut stage, &["unknown", "a", "a"]), [0, 1, 1]);
    assert_eq!(stage.shard.counters().promotions_on_exist, 1, "one copy of each");
    stage.end_next_move();
    assert_eq!((stage.lies_in("a"), stage.lies_in("b")), (vec![0, DISK], vec![DISK]));
    assert_eq!(ask(&mut stage, &["a"]), [1]);
    assert!(!stage.shard.has_moves(OWNER), "it is there");
    let mut plain = with_packed(&["a"]);
    assert_eq!(ask(&mut plain, &["a"]), [1]);
    assert!(!plain.shard.has_moves(OWNER) && is_packed(&plain, "a"));
}

#[test]
fn keys_that_are_asked_for_come_to_memory_only_as_far_as_there_is_room() {
    let mut stage = asked_for(1, &["a", "b"]);
    assert_eq!(ask(&mut stage, &["a", "b"]), [1, 1]);
    assert!(!is_packed(&stage, "a") && is_packed(&stage, "b"), "the first of a prefix first");
    let mut stage = asked_for(10, &["a"]);
    ["x", "y"].iter().for_each(|key| assert_eq!(stage.put(key), 0));
    assert_eq!(ask(&mut stage, &["a"]), [1]);
    assert!(!stage.shard.has_moves(OWNER), "memory is for puts");
    assert_eq!(stage.shard.counters().promotions_on_exist, 0);
}

#[test]
fn members_of_groups_and_pinned_objects_are_not_packed() {
    let mut stage = Stage::with_disk(offload(), 8);
    let copy = AnnouncedCopy {
        key: b"member",
        group: "group",
        generation: 1,
        payload_bytes: PAYLOAD_BYTES,
        checksum: 1,
        writer: WRITER,
        address: address(1),
    };
    stage.shard.announce_copies(stage.now_ms, OWNER, DISK, &[copy], true, &mut stage.status);
    stage.tick();
    assert_eq!((stage.shard.packed_keys(), stage.lies_in("member")), (0, vec![DISK]));
}

#[test]
fn a_packed_key_is_shown_and_the_look_changes_nothing_for_long() {
    let mut stage = with_packed(&["a"]);
    let shown = stage.shard.inspect(stage.now_ms, b"a").object.unwrap();
    assert_eq!((shown.writer, shown.checksum, shown.lease_ms), (WRITER, 1, 0));
    assert_eq!(shown.replicas[0].segment.kind, SegmentKind::Disk);
    stage.tick();
    assert!(is_packed(&stage, "a"));
    let own: [&[u8]; 1] = [b"a"];
    stage.shard.replica_clear(stage.now_ms, 8, &own, "", &mut stage.status);
    assert_eq!(stage.status, [code(Status::IllegalClient)]);
    stage.shard.replica_clear(stage.now_ms, WRITER, &own, "", &mut stage.status);
    assert_eq!((&stage.status[..], stage.holds("a")), (&[0][..], false));
}

#[test]
fn a_disk_may_announce_a_packed_copy_again() {
    let mut stage = with_packed(&["a"]);
    assert_eq!(stage.announce("a", 1, true), 0);
    assert_eq!(stage.announce("a", 7, true), code(Status::ObjectNotFound), "it has other bytes");
    stage.tick();
    assert!(is_packed(&stage, "a"));
}

#[test]
fn a_removal_of_an_earlier_life_takes_packed_keys() {
    for (op, key) in [(RecordOp::Removed, &b"gone"[..]), (RecordOp::RemovedPattern, &b"^gone$"[..])]
    {
        let mut stage = Stage::with(with_offload(offload()), &[]);
        let announces = crate::segment::Announces::Objects;
        stage.mount(SegmentSpec { announces, ..spec(0, 8 * EXTENT_BYTES) }, 0);
        stage.mount_disk(DISK);
        for (key, generation) in [("gone", 5), ("kept", 5)] {
            assert_eq!(stage.announce(key, generation, key == "kept"), 0);
        }
        let removal = Record {
            op,
            flags: 0,
            checksum: 0,
            sequence: 1,
            generation: 6,
            offset: 0,
            payload_bytes: 1,
            client: Identity(0),
            key,
            group: b"",
            part: None,
        };
        let announced = Announcement { removed: &[removal], ..Announcement::default() };
        stage.shard.announce(stage.now_ms, 0, &announced).unwrap();
        stage.shard.check();
        assert_eq!((stage.holds("gone"), stage.holds("kept")), (false, true), "{op:?}");
    }
}

#[test]
fn an_announced_copy_is_reported_and_its_loss_too() {
    let mut stage = Stage::with_disk(offload(), 8);
    let queue = KeyEventQueue::new(100, || {});
    stage.shard.report_to(queue.clone());
    stage.announce("a", 1, true);
    stage.remove("a", true);
    let mut waiting = WaitingEvents::default();
    queue.take(&mut waiting);
    let changes: Vec<_> = waiting.events.iter().map(|it| (it.change, it.medium)).collect();
    assert_eq!(changes, [(KeyChange::Stored, Medium::Disk), (KeyChange::Removed, Medium::Disk)]);
}
