//! Facts about removals that owners keep for the next life of the master.

use perigee_schemas::record::{Record, RecordOp};
use perigee_schemas::{Identity, TenantId};

use super::demotion::{DISK, offload, with_offload};
use super::*;
use crate::limits::REMOVAL_KEEPERS_MAX;
use crate::segment::Announces;

/// What owners hear from now on, decoded from their records.
struct Heard(Vec<(u32, Vec<u8>)>);

impl Heard {
    fn by(shard: &mut KeyShard) -> Self {
        let taken = std::iter::from_fn(|| shard.take_records());
        Self(taken.map(|(segment, records)| (segment, records.expect("few records"))).collect())
    }

    /// The removals that one owner has heard of.
    fn removals(&self, segment: u32) -> Vec<Record<'_>> {
        let mut removals = Vec::new();
        for (_, records) in self.0.iter().filter(|(of, _)| *of == segment) {
            let mut rest = &records[..];
            while !rest.is_empty() {
                let record = Record::decode(rest).expect("whole records");
                rest = &rest[record.encoded_bytes()..];
                let is_removal = [RecordOp::Removed, RecordOp::RemovedPattern].contains(&record.op);
                removals.extend(is_removal.then_some(record));
            }
        }
        removals
    }
}

/// A shard whose owners follow their segments.
fn followed(segments: u32) -> Stage {
    let mut stage = Stage::new(&vec![8; segments as usize]);
    for segment in 0..segments {
        assert!(stage.shard.follow(segment));
    }
    stage
}

/// The next life of the master: two owners that have not announced anything yet.
fn next_life(settings: ShardSettings) -> Stage {
    let mut stage = Stage::with(settings, &[]);
    for index in 0..2 {
        let spec = SegmentSpec { announces: Announces::Objects, ..spec(index, 8 * EXTENT_BYTES) };
        stage.mount(spec, index);
    }
    stage
}

fn commit(key: &'static str, slot: u64, sequence: u64) -> Record<'static> {
    Record {
        op: RecordOp::Commit,
        flags: 0,
        checksum: 5,
        sequence,
        generation: slot + 1,
        offset: slot * EXTENT_BYTES,
        payload_bytes: PAYLOAD_BYTES,
        client: Identity(WRITER),
        key: key.as_bytes(),
        group: b"",
        part: None,
    }
}

fn announce(stage: &mut Stage, segment: u32, records: &[Record<'_>], removed: &[Record<'_>]) {
    let part = Announcement { records, removed, ..Announcement::default() };
    assert!(stage.shard.announce(stage.now_ms, segment, &part).is_ok());
    stage.shard.check();
}

#[test]
fn some_owners_keep_what_was_removed_whatever_owner_had_it() {
    let mut stage = followed(REMOVAL_KEEPERS_MAX as u32 + 1);
    assert_eq!(stage.put("known"), 0);
    assert_eq!(stage.put("leased"), 0);
    assert_eq!(stage.get("leased"), 0);
    Heard::by(&mut stage.shard);
    assert_eq!(stage.remove("known", false), 0);
    assert_eq!(stage.remove("of an owner who is away", false), code(Status::ObjectNotFound));
    assert_eq!(stage.remove("leased", false), code(Status::ObjectHasLease));
    let heard = Heard::by(&mut stage.shard);
    for segment in 0..REMOVAL_KEEPERS_MAX as u32 {
        let removals = heard.removals(segment);
        let keys: Vec<&[u8]> = removals.iter().map(|record| record.key).collect();
        assert_eq!(keys, [&b"known"[..], b"of an owner who is away"]);
        assert!(removals.iter().all(|record| record.generation > stage.generation("leased")));
    }
    assert!(heard.removals(REMOVAL_KEEPERS_MAX as u32).is_empty(), "that many are enough");
}

#[test]
fn segments_of_one_owner_are_one_keeper() {
    let mut stage = Stage::new(&[]);
    for index in 0..2 {
        let spec = SegmentSpec { client: 7, ..spec(index, 8 * EXTENT_BYTES) };
        stage.mount(spec, index);
        assert!(stage.shard.follow(index));
    }
    stage.remove("key", false);
    let heard = Heard::by(&mut stage.shard);
    assert_eq!((heard.removals(0).len(), heard.removals(1).len()), (1, 0));
}

#[test]
fn what_an_earlier_life_removed_does_not_come_back_in_whatever_order_owners_return() {
    let mut before = followed(1);
    before.remove("removed", false);
    let heard = Heard::by(&mut before.shard);
    let removals = heard.removals(0);
    let removed_at = removals[0].sequence;
    for is_removal_first in [true, false] {
        let mut stage = next_life(settings());
        let old = [commit("removed", 0, removed_at - 1), commit("kept", 1, removed_at - 1)];
        if is_removal_first {
            announce(&mut stage, 0, &[], &removals);
        }
        announce(&mut stage, 1, &old, &[]);
        announce(&mut stage, 0, &[], &removals);
        assert!(!stage.holds("removed") && stage.holds("kept"));
        announce(&mut stage, 1, &[commit("removed", 2, removed_at + 1)], &[]);
        assert!(stage.holds("removed"), "it was written again after its removal");
    }
}

#[test]
fn what_this_life_has_written_is_not_taken_for_removed() {
    let mut stage = next_life(settings());
    stage.mount(spec(9, 4 * EXTENT_BYTES), 9);
    assert_eq!(stage.put("key"), 0);
    let removed = Record { op: RecordOp::Removed, ..commit("key", 0, u64::MAX) };
    announce(&mut stage, 0, &[], &[removed]);
    assert!(stage.holds("key"));
}

#[test]
fn a_removal_by_pattern_outlives_the_master_too() {
    let mut before = followed(1);
    assert_eq!(before.put("leased"), 0);
    assert_eq!(before.get("leased"), 0);
    let tenant = TenantId::parse("blue").unwrap();
    before.remove_matching(&Pattern::compile("^prompt-").unwrap().of(TenantId::default()), true);
    before.remove_matching(&Pattern::any().of(tenant), true);
    let heard = Heard::by(&mut before.shard);
    let removals = heard.removals(0);
    assert_eq!(removals.len(), 2, "one for each walk");
    let removed_at = removals[0].sequence;
    let old = |key, slot| commit(key, slot, removed_at - 1);
    let mut stage = next_life(settings());
    announce(&mut stage, 1, &[old("prompt-1", 0)], &[]);
    announce(&mut stage, 0, &[], &removals);
    let blue: &'static str = "\u{1}blue\u{1}x";
    let rest = [old("prompt-2", 1), old("other", 2), old(blue, 3), commit("prompt-3", 4, u64::MAX)];
    announce(&mut stage, 1, &rest, &[]);
    let held = ["prompt-1", "prompt-2", blue, "other", "prompt-3"].map(|key| stage.holds(key));
    assert_eq!(held, [false, false, false, true, true]);
}

#[test]
fn what_a_removal_by_pattern_leaves_alone_outlives_the_master() {
    let mut before = followed(1);
    for key in ["leased", "idle"] {
        assert_eq!(before.put(key), 0);
    }
    assert_eq!(before.get("leased"), 0);
    assert_eq!(before.remove_matching(&Pattern::any().of(TenantId::default()), false), 1);
    let heard = Heard::by(&mut before.shard);
    let removals = heard.removals(0);
    let old = |key, slot| commit(key, slot, removals[0].sequence - 1);
    let mut stage = next_life(settings());
    announce(&mut stage, 0, &[], &removals);
    announce(&mut stage, 1, &[old("leased", 0), old("idle", 1)], &[]);
    assert!(stage.holds("leased") && !stage.holds("idle"));
}

#[test]
fn a_disk_that_missed_a_life_of_the_master_does_not_bring_back_what_that_removed() {
    let mut before = followed(1);
    assert_eq!(before.put("removed"), 0);
    let generation = before.generation("removed");
    before.remove("removed", true);
    let heard = Heard::by(&mut before.shard);
    let settings = ShardSettings { offload: Some(offload()), ..settings() };
    for is_removal_first in [true, false] {
        let mut stage = next_life(settings.clone());
        stage.mount_disk(DISK);
        if is_removal_first {
            announce(&mut stage, 0, &[], &heard.removals(0));
        }
        stage.announce("removed", generation, false);
        assert_eq!(stage.announce("kept", generation, false), 0);
        announce(&mut stage, 0, &[], &heard.removals(0));
        assert!(!stage.holds("removed") && stage.holds("kept"));
        assert_eq!(stage.announce("removed", u64::MAX >> 1, true), 0, "written again since");
    }
}

/// A master that has started again: an owner has announced a key in memory, and not yet its disk,
/// which has the key as it was before.
fn with_unheard_disk() -> Stage {
    let force_evict = OffloadSettings { force_evict: true, ..offload() };
    let mut stage = Stage::with(with_offload(force_evict), &[]);
    let memory = SegmentSpec { announces: Announces::Objects, ..spec(0, EXTENT_BYTES) };
    stage.mount(memory, 0);
    stage.mount_disk(DISK);
    assert!(stage.shard.follow(0));
    let newer = Record { generation: 9, ..commit("key", 0, 7) };
    let all = Announcement { records: &[newer], is_last: true, ..Announcement::default() };
    assert!(stage.shard.announce(stage.now_ms, 0, &all).is_ok());
    assert!(stage.holds("key"));
    stage
}

#[test]
fn an_older_copy_of_what_was_announced_and_evicted_is_void_and_its_own_copy_is_not() {
    for (generation, expected) in [(4, code(Status::ObjectNotFound)), (9, 0)] {
        let mut stage = with_unheard_disk();
        assert_eq!(stage.put("evicts it"), 0);
        assert!(!stage.holds("key"));
        assert_eq!(stage.announce("key", generation, false), expected);
        assert_eq!(stage.announce("other", 4, true), 0);
    }
}

#[test]
fn owners_keep_what_was_evicted_before_the_disks_were_heard() {
    let mut stage = with_unheard_disk();
    Heard::by(&mut stage.shard);
    assert_eq!(stage.put("evicts it"), 0);
    assert!(!stage.holds("key"));
    let heard = Heard::by(&mut stage.shard);
    let removals = heard.removals(0);
    let evicted: Vec<_> = removals.iter().filter(|record| record.key == b"key").collect();
    assert_eq!((evicted.len(), evicted[0].generation), (1, 9));
    // The same once the disk has said what it has: it hears of the rest itself.
    stage.announce("other", 4, true);
    assert_eq!(stage.put("evicts that"), 0);
    assert!(Heard::by(&mut stage.shard).removals(0).is_empty());
}

/// The generation of a copy that was written before anything that a test puts.
const OLDER: u64 = 1;

/// A disk has a copy of `key`, as it was long ago.
fn with_copy() -> Stage {
    let mut stage = Stage::with(with_offload(offload()), &[]);
    stage.mount(spec(0, 8 * EXTENT_BYTES), 0);
    assert!(stage.shard.follow(0));
    stage.mount_disk(DISK);
    assert_eq!(stage.put("earlier"), 0);
    assert_eq!(stage.announce("key", OLDER, true), 0);
    stage
}

#[test]
fn owners_hear_that_a_copy_is_void_before_they_hear_of_the_bytes_that_replace_it() {
    for has_left in [false, true] {
        let mut before = with_copy();
        if has_left {
            before.apply(&SegmentEvent::Unmounted { index: DISK });
            before.tick();
            assert!(!before.holds("key"));
        }
        Heard::by(&mut before.shard);
        let started = before.start_with("key", PAYLOAD_BYTES, &PutConfig::default(), true);
        assert_eq!((started, before.end("key")), (0, 0));
        let generation = before.generation("key");
        let heard = Heard::by(&mut before.shard);
        let removals = heard.removals(0);
        let keys: Vec<&[u8]> = removals.iter().map(|record| record.key).collect();
        assert_eq!((keys, removals[0].generation), (vec![&b"key"[..]], generation));
        // Whether the new bytes are still there or not, the old ones are not believed.
        let mut stage = next_life(ShardSettings { offload: Some(offload()), ..settings() });
        stage.mount_disk(DISK);
        announce(&mut stage, 0, &[], &removals);
        assert_eq!(stage.announce("key", OLDER, false), code(Status::ObjectNotFound));
        let sequence = removals[0].sequence + 1;
        announce(&mut stage, 1, &[Record { generation, ..commit("key", 0, sequence) }], &[]);
        assert!(stage.holds("key"), "they were committed later");
    }
}

#[test]
fn keys_that_no_disk_has_cost_owners_nothing() {
    let mut stage = with_copy();
    Heard::by(&mut stage.shard);
    assert_eq!(stage.put("other"), 0);
    stage.apply(&SegmentEvent::Unmounted { index: DISK });
    stage.tick();
    assert_eq!(stage.put("third"), 0);
    assert!(Heard::by(&mut stage.shard).removals(0).is_empty());
}
