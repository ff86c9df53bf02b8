//! Facts about objects that lose a replica with its segment.

use super::*;
use crate::limits::{REPAIR_MOVES_PER_CLIENT_MAX, RETRY_PAUSE_MS};

pub(super) const TWICE: PutConfig<'_> = PutConfig {
    replica_num: 2,
    hard_pin: false,
    soft_pin: SoftPin::Preserve,
    preferred_segments: &[],
    excluded: &[],
    prefer_alloc_in_same_node: false,
    host_id: "",
    host_name: "",
    parts: false,
};

impl Stage {
    /// A segment goes with what lies there.
    pub(super) fn lose(&mut self, index: u32) {
        self.shard.apply(self.now_ms, &SegmentEvent::Unmounted { index });
        self.tick();
    }

    pub(super) fn repair(&mut self, allowance: u32) -> RepairTurn {
        let turn = self.shard.repair_turn(self.now_ms, allowance);
        self.shard.check();
        turn
    }

    /// What the owners of segments are to copy.
    pub(super) fn take_all(&mut self) -> Vec<MoveTask> {
        let owners = 100..110;
        let tasks = owners.flat_map(|owner| self.shard.take_moves(self.now_ms, owner, 1_000));
        let tasks = tasks.collect();
        self.shard.check();
        tasks
    }

    pub(super) fn end_copy(&mut self, task: &MoveTask, status: Status) {
        let ended = EndedMoves {
            client: 100 + u128::from(task.source.segment),
            keys: &[&task.key],
            generations: &[task.target.generation],
            status: &[status.code()],
            in_flight: &[false],
        };
        self.shard.end_moves(self.now_ms, &ended, &mut self.status);
        self.shard.check();
    }

    /// Turns and copies until nothing is due.
    pub(super) fn repair_all(&mut self) {
        while self.shard.wants_repairs(self.now_ms) {
            self.repair(8);
            for task in self.take_all() {
                self.end_copy(&task, Status::Ok);
            }
        }
    }

    pub(super) fn replicas_of(&self, key: &str) -> Vec<u32> {
        let mut places: Vec<u32> = self.peek(key).iter().map(|at| at.segment).collect();
        places.sort_unstable();
        places
    }
}

#[test]
fn an_object_gets_as_many_replicas_as_it_had() {
    let mut stage = Stage::new(&[40, 40, 40, 40]);
    let thrice = PutConfig { replica_num: 3, ..TWICE };
    for key in 0..20 {
        let config = [&TWICE, &thrice][key % 2];
        assert_eq!(stage.put_with(&key.to_string(), config), 0);
    }
    assert_eq!(stage.put("single"), 0);
    stage.lose(3);
    stage.repair_all();
    for key in 0..20 {
        let places = stage.replicas_of(&key.to_string());
        assert_eq!(places.len(), 2 + key % 2, "{key}: {places:?}");
        assert!(!places.contains(&3));
    }
    let counters = stage.shard.counters();
    assert_eq!(counters.repairs.started, counters.repairs.ended);
    assert!(counters.repairs.ended > 0 && counters.moved_replicas == 0);
    assert_eq!((stage.shard.gauges().repairs, counters.repairs_dropped), (0, 0));
}

#[test]
fn what_has_lost_two_of_three_gets_both_back() {
    let mut stage = Stage::new(&[4, 4, 4]);
    assert_eq!(stage.put_with("a", &PutConfig { replica_num: 3, ..TWICE }), 0);
    stage.shard.apply(stage.now_ms, &SegmentEvent::Unmounted { index: 1 });
    stage.lose(2);
    stage.repair_all();
    assert_eq!((stage.replicas_of("a"), stage.shard.gauges().repairs), (vec![0], 1));
    stage.mount(spec(3, 4 * EXTENT_BYTES), 3);
    stage.repair_all();
    assert_eq!(stage.replicas_of("a"), [0, 3]);
    stage.mount(spec(4, 4 * EXTENT_BYTES), 4);
    stage.repair_all();
    assert_eq!((stage.replicas_of("a"), stage.shard.gauges().repairs), (vec![0, 3, 4], 0));
}

#[test]
fn the_copy_goes_to_another_host_even_if_that_is_fuller() {
    let mut stage = Stage::new(&[]);
    for (index, host) in (0..).zip(["a", "b", "a", "c"]) {
        let host_id = host.to_owned();
        stage.mount(SegmentSpec { host_id, ..spec(index, 8 * EXTENT_BYTES) }, index);
    }
    let preferred_segments = &["host-3:1"];
    for key in ["x", "y", "z"] {
        stage.put_with(key, &PutConfig { preferred_segments, ..PutConfig::default() });
    }
    let preferred_segments = &["host-0:1", "host-1:1"];
    stage.put_with("k", &PutConfig { preferred_segments, ..TWICE });
    stage.lose(1);
    stage.repair_all();
    assert_eq!(stage.replicas_of("k"), [0, 3], "segment 2 is empty, and on the host of segment 0");
}

#[test]
fn a_repair_neither_evicts_nor_fills_a_segment_beyond_the_watermark() {
    let settings = ShardSettings { watermark_ratio: 0.5, ..settings() };
    let mut stage = Stage::with(settings, &[8, 8]);
    stage.put_with("k", &TWICE);
    stage.lose(1);
    stage.mount(spec(2, 8 * EXTENT_BYTES), 2);
    let preferred_segments = &["host-2:1"];
    for key in 0..4 {
        let config = PutConfig { preferred_segments, ..PutConfig::default() };
        stage.put_with(&key.to_string(), &config);
    }
    stage.repair(8);
    assert!(stage.take_all().is_empty());
    assert_eq!(stage.shard.counters().evicted_keys, 0);
    stage.remove("0", true);
    stage.pass(RETRY_PAUSE_MS);
    stage.repair_all();
    assert_eq!(stage.replicas_of("k"), [0, 2]);
}

#[test]
fn a_copy_that_fails_is_tried_again_and_one_for_a_removed_object_comes_to_nothing() {
    let mut stage = Stage::new(&[8, 8]);
    stage.put_with("a", &TWICE);
    stage.put_with("b", &TWICE);
    stage.lose(1);
    stage.mount(spec(2, 8 * EXTENT_BYTES), 2);
    stage.repair(8);
    let tasks = stage.take_all();
    stage.end_copy(&tasks[0], Status::TransferFail);
    assert_eq!(stage.shard.counters().repairs.revoked, 1);
    assert!(!stage.shard.wants_repairs(stage.now_ms), "it pauses");
    let other = std::str::from_utf8(&tasks[1].key).unwrap().to_owned();
    stage.remove(&other, true);
    stage.end_copy(&tasks[1], Status::Ok);
    assert!(!stage.holds(&other));
    stage.pass(RETRY_PAUSE_MS);
    stage.repair_all();
    let key = std::str::from_utf8(&tasks[0].key).unwrap();
    assert_eq!((stage.replicas_of(key), stage.shard.gauges().repairs), (vec![0, 2], 0));
}

#[test]
fn a_new_version_has_the_replicas_that_its_writer_asked_for() {
    let mut stage = Stage::new(&[8, 8]);
    stage.put_with("a", &TWICE);
    stage.lose(1);
    stage.mount(spec(2, 8 * EXTENT_BYTES), 2);
    let once = PutConfig::default();
    assert_eq!(stage.start_with("a", PAYLOAD_BYTES, &once, true), 0);
    stage.repair(8);
    assert!(stage.take_all().is_empty(), "what is being replaced is not copied");
    assert_eq!(stage.end("a"), 0);
    stage.pass(RETRY_PAUSE_MS);
    stage.repair_all();
    assert_eq!((stage.replicas_of("a").len(), stage.shard.gauges().repairs), (1, 0));
}

#[test]
fn copies_under_way_are_bounded_in_all_and_for_each_owner() {
    let mut stage = Stage::new(&[200, 200, 200]);
    for key in 0..100 {
        stage.put_with(&key.to_string(), &TWICE);
    }
    stage.lose(2);
    assert_eq!(stage.repair(5).active, 5);
    let turn = stage.repair(1_000);
    assert_eq!(turn.active, 2 * REPAIR_MOVES_PER_CLIENT_MAX);
    assert_eq!(turn.carriers, [100, 101]);
}

#[test]
fn a_drained_object_that_all_segments_hold_gets_its_replica_when_one_comes() {
    let mut stage = Stage::new(&[8, 8]);
    stage.put_with("a", &TWICE);
    stage.shard.apply(stage.now_ms, &SegmentEvent::Draining { index: 0 });
    let order = DrainOrder { job: 7, sources: [0].into(), targets: [].into(), allowance: 4 };
    stage.shard.drain_turn(stage.now_ms, &order);
    stage.repair_all();
    assert_eq!(stage.replicas_of("a"), [1]);
    stage.mount(spec(2, 8 * EXTENT_BYTES), 2);
    stage.repair_all();
    assert_eq!(stage.replicas_of("a"), [1, 2]);
}

#[test]
fn without_repairs_nothing_is_noted() {
    let mut stage = Stage::with(ShardSettings { repairs: false, ..settings() }, &[8, 8, 8]);
    stage.put_with("a", &TWICE);
    stage.lose(0);
    stage.lose(1);
    assert_eq!(stage.shard.gauges().repairs, 0);
}
