//! Facts about keys that are read often.

use super::repairs::TWICE;
use super::*;
use crate::limits::{HEAT_PAUSE_AFTER_EVICTION_MS, HEAT_PAUSE_MS};

const READS: u32 = 4;

fn hot_settings(enforce: bool) -> ShardSettings {
    let heat = HeatSettings { enforce, window_ms: 10_000, reads_needed: READS, replicas_max: 2 };
    ShardSettings { heat: Some(heat), ..settings() }
}

fn with(objects: &[u64]) -> Stage {
    Stage::with(hot_settings(true), objects)
}

impl Stage {
    /// Reads a key so often that it is hot, and lets its leases end.
    fn heat(&mut self, key: &str) {
        for _ in 0..READS {
            assert_eq!(self.get(key), 0);
        }
        self.pass(LEASE_MS);
        self.shard.check();
    }

    /// A key in segment 0, with a replica in segment 1 because it was hot.
    fn with_extra(objects: u64) -> Self {
        let mut stage = with(&[objects, objects]);
        stage.put_into("hot", 0);
        stage.heat("hot");
        stage.repair_all();
        assert_eq!(stage.replicas_of("hot"), [0, 1]);
        assert_eq!(stage.shard.gauges().extra_replicas, 1);
        stage
    }

    /// Puts so many other objects into a segment.
    fn fill(&mut self, segment: u32, objects: u32) {
        for n in 0..objects {
            self.put_into(&format!("{segment}-{n}"), segment);
        }
    }

    fn put_into(&mut self, key: &str, segment: u32) {
        let preferred_segments = &[&*format!("host-{segment}:1")];
        let config = PutConfig { preferred_segments, ..PutConfig::default() };
        assert_eq!(self.put_with(key, &config), 0);
    }
}

#[test]
fn a_key_that_is_read_often_gets_one_more_replica_on_another_host() {
    let mut stage = with(&[]);
    for (index, host) in (0..).zip(["a", "a", "b"]) {
        let host_id = host.to_owned();
        stage.mount(SegmentSpec { host_id, ..spec(index, 8 * EXTENT_BYTES) }, index);
    }
    stage.put_into("hot", 0);
    stage.put_into("cold", 0);
    assert_eq!(stage.get("cold"), 0);
    stage.heat("hot");
    stage.repair_all();
    assert_eq!((stage.replicas_of("hot"), stage.replicas_of("cold")), (vec![0, 2], vec![0]));
    let counters = stage.shard.counters();
    assert_eq!((counters.heat.wanted, counters.heated.ended, counters.repairs.ended), (1, 1, 0));
    stage.pass(HEAT_PAUSE_MS);
    stage.heat("hot");
    stage.repair_all();
    assert_eq!(stage.shard.counters().heat.enough, 1);
    assert_eq!(stage.replicas_of("hot").len(), 2, "two are the most");
}

#[test]
fn to_observe_changes_nothing_and_says_what_would_be() {
    let mut stage = Stage::with(hot_settings(false), &[8, 8]);
    stage.put_into("hot", 0);
    stage.heat("hot");
    stage.pass(10_000);
    stage.heat("hot");
    stage.repair_all();
    assert_eq!(stage.replicas_of("hot"), [0]);
    let counted = stage.shard.counters().heat;
    assert_eq!((counted.wanted, counted.paused), (1, 1));
    stage.pass(HEAT_PAUSE_MS);
    stage.heat("hot");
    assert_eq!(stage.shard.counters().heat.wanted, 2);
}

#[test]
fn a_segment_takes_no_replica_of_a_hot_key_beyond_its_part() {
    let mut stage = with(&[8, 8]);
    stage.put_into("hot", 0);
    stage.fill(1, 6);
    stage.heat("hot");
    stage.repair_all();
    assert_eq!((stage.replicas_of("hot"), stage.shard.counters().heat.no_room), (vec![0], 1));
}

#[test]
fn a_replica_of_a_hot_key_goes_before_anything_that_is_the_only_one() {
    let mut stage = Stage::with_extra(8);
    stage.fill(0, 7);
    stage.fill(1, 7);
    stage.heat("hot");
    // All is full: of what was read last of all one replica goes.
    stage.put_into("new", 0);
    assert_eq!((stage.replicas_of("hot"), stage.replicas_of("new")), (vec![0], vec![1]));
    let counters = stage.shard.counters();
    assert_eq!((counters.heat.evicted, counters.evicted_keys), (1, 0));
    assert_eq!(stage.shard.gauges().extra_replicas, 0);
}

#[test]
fn a_key_whose_replica_was_evicted_gets_no_other_one_soon() {
    let mut stage = Stage::with_extra(8);
    stage.fill(0, 7);
    stage.fill(1, 8);
    assert_eq!(stage.replicas_of("hot"), [0]);
    (0..8).for_each(|n| assert_eq!(stage.remove(&format!("1-{n}"), true), 0));
    stage.pass(HEAT_PAUSE_AFTER_EVICTION_MS - 1_000);
    stage.heat("hot");
    stage.repair_all();
    assert_eq!(stage.replicas_of("hot"), [0]);
    stage.pass(10_000);
    stage.heat("hot");
    stage.repair_all();
    assert_eq!(stage.replicas_of("hot"), [0, 1]);
}

#[test]
fn a_put_does_not_take_what_a_reader_holds_but_the_watermark_does_without_disturbing_it() {
    let settings = ShardSettings { watermark_ratio: 0.9, ..hot_settings(true) };
    let mut stage = Stage::with(settings, &[10, 10]);
    stage.put_into("hot", 0);
    stage.heat("hot");
    stage.repair_all();
    stage.fill(0, 9);
    stage.fill(1, 9);
    assert_eq!(stage.get("hot"), 0);
    stage.put_into("new", 1);
    assert_eq!(stage.replicas_of("hot"), [0, 1], "its space would come later");
    assert_eq!(stage.shard.counters().evicted_keys, 1);
    stage.tick();
    assert_eq!(stage.replicas_of("hot"), [0]);
    assert_eq!(stage.shard.gauges().parked_bytes, EXTENT_BYTES, "the reader may go on");
    stage.pass(LEASE_MS);
    stage.tick();
    assert_eq!(stage.shard.gauges().parked_bytes, 0);
}

#[test]
fn an_object_that_loses_a_replica_keeps_what_it_was_given_for_heat() {
    let mut stage = Stage::with_extra(8);
    stage.lose(0);
    stage.repair_all();
    assert_eq!(stage.replicas_of("hot"), [1]);
    let gauges = stage.shard.gauges();
    assert_eq!((gauges.extra_replicas, gauges.repairs), (0, 0));
}

#[test]
fn a_replica_for_heat_counts_as_none_that_was_asked_for() {
    let heat =
        HeatSettings { replicas_max: 3, enforce: true, window_ms: 10_000, reads_needed: READS };
    let mut stage = Stage::with(ShardSettings { heat: Some(heat), ..settings() }, &[8, 8, 8]);
    stage.put_with("hot", &TWICE);
    stage.heat("hot");
    stage.repair_all();
    assert_eq!(stage.replicas_of("hot"), [0, 1, 2]);
    stage.lose(0);
    stage.mount(spec(3, 8 * EXTENT_BYTES), 3);
    stage.repair_all();
    assert_eq!(stage.replicas_of("hot"), [1, 2], "two are left, and two were asked for");
    stage.lose(1);
    stage.repair_all();
    assert_eq!(stage.replicas_of("hot"), [2, 3], "the loss of one of two is repaired");
}

#[test]
fn a_replica_for_heat_of_a_member_goes_without_its_group() {
    let mut stage = with(&[8, 8]);
    assert_eq!(stage.put_in_group("hot", "g"), 0);
    assert_eq!(stage.put_in_group("other", "g"), 0);
    stage.heat("hot");
    stage.repair_all();
    assert_eq!(stage.replicas_of("hot").len(), 2);
    for key in 0..20 {
        stage.put(&key.to_string());
    }
    assert_eq!(stage.shard.counters().heat.evicted, 1);
    stage.shard.check();
}

#[test]
fn a_drained_segment_loses_what_was_made_for_heat() {
    let mut stage = Stage::with_extra(8);
    stage.shard.apply(stage.now_ms, &SegmentEvent::Draining { index: 1 });
    let order = DrainOrder { job: 7, sources: [1].into(), targets: [].into(), allowance: 4 };
    let report = stage.shard.drain_turn(stage.now_ms, &order);
    assert_eq!((report.active, report.succeeded), (0, 1));
    assert_eq!(stage.replicas_of("hot"), [0]);
}
