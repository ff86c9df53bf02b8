//! Facts about replicas that went while there was no master.

use perigee_allocator::Extent;

use super::follower::Follower;
use super::repairs::TWICE;
use super::*;
use crate::limits::REPAIRS_AFTER_START_MS;
use crate::segment::Announces;

const SEGMENT_BYTES: u64 = 4 * EXTENT_BYTES;

/// A life of the master with three segments, and what their owners have of it.
fn first_life() -> (Stage, Follower) {
    let mut stage = Stage::new(&[4, 4, 4]);
    let mut follower = Follower::default();
    follower.catch_up(&mut stage.shard);
    assert_eq!(stage.put_with("a", &TWICE), 0);
    follower.catch_up(&mut stage.shard);
    (stage, follower)
}

impl Stage {
    fn announce_kept(&mut self, follower: &Follower, segment: u32) {
        let records = follower.records(segment);
        let taken = records.iter().map(|record| record.offset / EXTENT_BYTES);
        let taken: Vec<u64> = taken.collect();
        let free: Vec<Extent> = (0..4)
            .filter(|slot| !taken.contains(slot))
            .map(|slot| Extent::new(slot * EXTENT_BYTES, EXTENT_BYTES))
            .collect();
        let all = Announcement { records: &records, free: &free, removed: &[], is_last: true };
        let adopted = self.shard.announce(self.now_ms, segment, &all);
        assert_eq!(adopted, Ok(records.len()));
        self.shard.check();
    }

    /// So long after its start a master knows which owners have gone.
    fn wait_for_owners(&mut self) {
        self.pass(REPAIRS_AFTER_START_MS);
        self.tick();
    }
}

/// The next life, after some of the owners have announced what they have.
fn next_life(follower: &Follower, segments: &[u32]) -> Stage {
    let mut stage = Stage::new(&[]);
    stage.tick();
    for index in 0..3 {
        let spec = SegmentSpec { announces: Announces::Objects, ..spec(index, SEGMENT_BYTES) };
        stage.mount(spec, index);
    }
    segments.iter().for_each(|segment| stage.announce_kept(follower, *segment));
    stage
}

#[test]
fn a_replica_that_went_with_its_owner_and_the_master_is_made_again() {
    let (stage, follower) = first_life();
    let places = stage.replicas_of("a");
    let left: Vec<u32> = (0..3).filter(|segment| *segment != places[0]).collect();
    let mut next = next_life(&follower, &left);
    assert_eq!(next.replicas_of("a"), [places[1]]);
    next.pass(REPAIRS_AFTER_START_MS - 1);
    next.tick();
    assert!(!next.shard.wants_repairs(next.now_ms), "its owner may still come");
    next.pass(1);
    next.tick();
    next.repair_all();
    assert_eq!(next.replicas_of("a"), left, "the segment that had none has one");
}

#[test]
fn what_all_owners_announce_and_what_was_to_go_is_not_made_again() {
    let (mut stage, mut follower) = first_life();
    let mut next = next_life(&follower, &[0, 1, 2]);
    next.wait_for_owners();
    assert!(!next.shard.wants_repairs(next.now_ms), "both are there");
    let place = stage.replicas_of("a")[0];
    let name = format!("host-{place}:1");
    stage.shard.replica_clear(stage.now_ms, WRITER, &[b"a"], &name, &mut stage.status);
    assert_eq!(stage.status, [0]);
    follower.catch_up(&mut stage.shard);
    let mut next = next_life(&follower, &[0, 1, 2]);
    next.wait_for_owners();
    assert!(!next.shard.wants_repairs(next.now_ms), "one was cleared");
}

#[test]
fn a_loss_that_was_not_repaired_is_known_to_the_next_life() {
    let (mut stage, mut follower) = first_life();
    let places = stage.replicas_of("a");
    stage.lose(places[0]);
    follower.catch_up(&mut stage.shard);
    let mut second = next_life(&follower, &[places[1]]);
    let mut kept = Follower::default();
    kept.catch_up(&mut second.shard);
    let mut third = next_life(&kept, &[places[1]]);
    third.wait_for_owners();
    assert!(third.shard.wants_repairs(third.now_ms), "two lives later");
    third.shard.remove(third.now_ms, &[b"a"], true, &mut third.status);
    third.repair_all();
    assert_eq!(third.shard.gauges().repairs, 0);
}

#[test]
fn an_upsert_forgets_what_the_version_before_it_lacked() {
    let (stage, follower) = first_life();
    let place = stage.replicas_of("a")[0];
    let mut next = next_life(&follower, &[place]);
    next.mount(spec(5, SEGMENT_BYTES), 5);
    assert_eq!(next.start_with("a", PAYLOAD_BYTES, &PutConfig::default(), true), 0);
    assert_eq!(next.end("a"), 0);
    next.wait_for_owners();
    assert!(!next.shard.wants_repairs(next.now_ms));
}

#[test]
fn an_owner_of_an_older_build_hears_of_pins_alone() {
    let mut stage = Stage::new(&[]);
    for index in 0..2 {
        let spec = SegmentSpec { keeps_replica_counts: index > 0, ..spec(index, SEGMENT_BYTES) };
        stage.mount(spec, index);
    }
    (0..2).for_each(|segment| assert!(stage.shard.follow(segment)));
    assert_eq!(stage.put_with("a", &TWICE), 0);
    while let Some((segment, records)) = stage.shard.take_records() {
        let records = records.expect("few records");
        let record = perigee_schemas::record::Record::decode(&records).expect("a record");
        assert_eq!(record.replicas(), 1 + segment as u8);
    }
}
