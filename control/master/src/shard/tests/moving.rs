//! Facts about segments that are emptied by moving their objects.

use super::*;
use crate::limits::{MOVE_DEADLINE_MS, RETRY_PAUSE_MS, TARGET_PAUSE_MS};

const JOB: u128 = 77;

impl Stage {
    /// Makes segment 0 a source that takes nothing new.
    fn drain(&mut self) {
        self.shard.apply(self.now_ms, &SegmentEvent::Draining { index: 0 });
    }

    fn turn(&mut self, allowance: u32) -> DrainReport {
        self.turn_to(&[], allowance)
    }

    fn turn_to(&mut self, targets: &[u32], allowance: u32) -> DrainReport {
        let order =
            DrainOrder { job: JOB, sources: [0].into(), targets: targets.into(), allowance };
        let report = self.shard.drain_turn(self.now_ms, &order);
        self.shard.check();
        report
    }

    /// What the owner of segment 0 is to copy.
    fn take(&mut self) -> Vec<MoveTask> {
        let tasks = self.shard.take_moves(self.now_ms, 100, 100);
        self.shard.check();
        tasks
    }

    fn finish(&mut self, task: &MoveTask, status: Status, in_flight: bool) -> i32 {
        let ended = EndedMoves {
            client: 100,
            keys: &[&task.key],
            generations: &[task.target.generation],
            status: &[status.code()],
            in_flight: &[in_flight],
        };
        self.shard.end_moves(self.now_ms, &ended, &mut self.status);
        self.shard.check();
        self.status[0]
    }

    /// Turns, copies and time until the job is done; what it came to.
    fn drain_to_the_end(&mut self) -> DrainReport {
        for _ in 0..1_000 {
            let report = self.turn(2);
            if report.is_done {
                return report;
            }
            for task in self.take() {
                self.finish(&task, Status::Ok, false);
            }
            self.pass(50);
            self.tick();
        }
        unreachable!("the job ends");
    }

    /// Segments 0 and 1, everything in segment 0, which is then drained.
    fn filled(objects: u64, room: u64) -> Self {
        let mut stage = Self::new(&[objects]);
        for key in 0..objects {
            assert_eq!(stage.put(&key.to_string()), 0);
        }
        stage.mount(spec(1, room * EXTENT_BYTES), 1);
        stage.drain();
        stage
    }

    fn segments_of(&self, key: &str) -> Vec<u32> {
        self.peek(key).iter().map(|at| at.segment).collect()
    }
}

#[test]
fn all_objects_of_a_drained_segment_end_up_elsewhere() {
    let mut stage = Stage::filled(20, 20);
    let report = stage.drain_to_the_end();
    assert_eq!((report.succeeded, report.failed, report.blocked), (20, 0, 0));
    assert_eq!(report.migrated_bytes, 20 * PAYLOAD_BYTES);
    for key in 0..20 {
        assert_eq!(stage.segments_of(&key.to_string()), [1]);
    }
    assert_eq!(stage.shard.counters().moved_replicas, 20);
}

#[test]
fn no_more_moves_are_under_way_than_allowed() {
    let mut stage = Stage::filled(10, 10);
    assert_eq!(stage.turn(3).active, 3);
    assert_eq!(stage.turn(3).active, 3);
    assert_eq!(stage.turn(0).active, 3);
    let tasks = stage.take();
    assert_eq!(tasks.len(), 3);
    assert!(stage.take().is_empty(), "a move is given once");
    stage.finish(&tasks[0], Status::Ok, false);
    assert_eq!(stage.turn(3).active, 3);
}

#[test]
fn a_moved_object_that_is_read_keeps_its_old_place_until_the_lease_ends() {
    let mut stage = Stage::filled(1, 4);
    stage.get("0");
    let old = stage.replicas.locations[0];
    stage.turn(4);
    let task = stage.take().remove(0);
    assert_eq!(task.source, old);
    assert_eq!(stage.finish(&task, Status::Ok, false), 0);
    assert_eq!(stage.segments_of("0"), [1], "later readers go to the copy");
    let report = stage.turn(4);
    assert_eq!((report.blocked, report.is_done), (1, false));
    // A reader of the copy does not keep the old place.
    stage.pass(LEASE_MS / 2);
    stage.get("0");
    stage.pass(LEASE_MS / 2);
    stage.tick();
    assert!(stage.turn(4).is_done);
}

#[test]
fn a_move_of_an_object_that_was_removed_comes_to_nothing() {
    let mut stage = Stage::filled(1, 4);
    stage.turn(4);
    let task = stage.take().remove(0);
    assert_eq!(stage.remove("0", false), 0);
    assert_eq!(stage.shard.gauges().moves, 0);
    assert_eq!(stage.shard.gauges().parked_bytes, EXTENT_BYTES);
    let late = stage.finish(&task, Status::Ok, false);
    assert_eq!(late, code(Status::TaskNotFound));
    assert!(!stage.holds("0"));
    assert_eq!(stage.shard.gauges().allocated_bytes, 0);
    let report = stage.turn(4);
    assert_eq!((report.failed, report.is_done), (0, true));
}

#[test]
fn a_move_of_an_object_that_was_rewritten_comes_to_nothing() {
    let mut stage = Stage::filled(1, 4);
    stage.turn(4);
    let task = stage.take().remove(0);
    let config = PutConfig::default();
    assert_eq!(stage.start_with("0", PAYLOAD_BYTES, &config, true), 0);
    assert_eq!(stage.end_as(WRITER, "0", 2), 0);
    let late = stage.finish(&task, Status::Ok, false);
    assert_eq!(late, code(Status::TaskNotFound));
    stage.get("0");
    assert_eq!(stage.replicas.checksum, [2]);
    assert_ne!(stage.replicas.locations[0].generation, task.target.generation);
    assert_eq!(stage.shard.gauges().allocated_bytes, EXTENT_BYTES);
}

#[test]
fn a_failed_move_is_tried_three_times_more_and_then_left() {
    let mut stage = Stage::filled(1, 4);
    for pause_ms in [1, 2, 4, 0].map(|pauses| pauses * RETRY_PAUSE_MS) {
        assert_eq!(stage.turn(4).active, 1);
        let task = stage.take().remove(0);
        stage.finish(&task, Status::TransferFail, false);
        assert_eq!(stage.turn(4).active, 0);
        stage.pass(pause_ms);
    }
    stage.pass(1_000_000);
    let report = stage.turn(4);
    assert_eq!((report.failed, report.is_done), (1, true));
    assert_eq!(report.last_failure, Some(Status::TransferFail));
    assert_eq!(stage.segments_of("0"), [0], "it can still be read");
    assert_eq!(stage.shard.gauges().allocated_bytes, EXTENT_BYTES);
}

#[test]
fn space_of_a_move_whose_carrier_fell_silent_is_not_reused_before_its_time() {
    let mut stage = Stage::filled(1, 1);
    stage.turn(4);
    assert_eq!(stage.take().len(), 1);
    stage.pass(MOVE_DEADLINE_MS + 1);
    stage.tick();
    let gauges = stage.shard.gauges();
    // The release time of this stage has passed by then, and nothing is left over.
    assert_eq!((gauges.moves, gauges.parked_bytes), (0, 0));
    assert_eq!(stage.shard.counters().failed_moves, 1);
    assert_eq!(stage.shard.counters().moves.revoked, 1);
    assert_eq!(stage.turn(4).active, 0);
    stage.pass(TARGET_PAUSE_MS);
    assert_eq!(stage.turn(4).active, 1);
    let task = stage.take().remove(0);
    stage.finish(&task, Status::TransferFail, true);
    assert_eq!(stage.shard.gauges().parked_bytes, EXTENT_BYTES);
    stage.pass(RELEASE_MS);
    stage.tick();
    assert_eq!(stage.shard.gauges().parked_bytes, 0);
}

#[test]
fn a_target_whose_owner_does_not_answer_is_left_alone_for_a_while() {
    let mut stage = Stage::filled(3, 4);
    stage.turn(1);
    let task = stage.take().remove(0);
    stage.finish(&task, Status::RpcFail, true);
    let report = stage.turn(4);
    assert_eq!((report.active, report.failed), (0, 0), "nowhere else to go");
    stage.mount(spec(2, 4 * EXTENT_BYTES), 2);
    stage.pass(2 * RETRY_PAUSE_MS);
    assert_eq!(stage.turn(1).active, 1);
    assert_eq!(stage.take()[0].target.segment, 2);
    stage.pass(TARGET_PAUSE_MS);
    assert_eq!(stage.turn(4).active, 3);
    let targets: Vec<u32> = stage.take().iter().map(|it| it.target.segment).collect();
    assert!(targets.contains(&1), "it is tried again: {targets:?}");
}

#[test]
fn a_move_without_a_taker_is_given_up_and_its_space_is_free_at_once() {
    let mut stage = Stage::filled(1, 4);
    stage.turn(4);
    stage.pass(MOVE_DEADLINE_MS + 1);
    stage.tick();
    let gauges = stage.shard.gauges();
    assert_eq!((gauges.moves, gauges.allocated_bytes), (0, EXTENT_BYTES));
}

#[test]
fn a_copy_goes_to_no_segment_that_holds_the_object() {
    let twice = PutConfig { replica_num: 2, ..PutConfig::default() };
    let mut stage = Stage::new(&[4, 4]);
    stage.put_with("a", &twice);
    stage.mount(spec(2, 4 * EXTENT_BYTES), 2);
    stage.drain();
    stage.turn(4);
    let task = stage.take().remove(0);
    assert_eq!(task.target.segment, 2);
    stage.finish(&task, Status::Ok, false);
    assert_eq!(stage.segments_of("a"), [2, 1]);
}

#[test]
fn a_replica_that_all_targets_hold_too_is_dropped() {
    let twice = PutConfig { replica_num: 2, ..PutConfig::default() };
    let mut stage = Stage::new(&[4, 4]);
    stage.put_with("a", &twice);
    stage.drain();
    let report = stage.turn(4);
    assert_eq!((report.succeeded, report.migrated_bytes), (1, 0));
    assert!(report.is_done);
    assert_eq!(stage.segments_of("a"), [1]);
}

#[test]
fn objects_go_to_the_named_targets_only_and_to_the_least_used_first() {
    let mut stage = Stage::filled(2, 100);
    stage.mount(spec(2, 8 * EXTENT_BYTES), 2);
    stage.mount(spec(3, 2 * EXTENT_BYTES), 3);
    stage.turn_to(&[2, 3], 1);
    stage.turn_to(&[2, 3], 2);
    let targets: Vec<u32> = stage.take().iter().map(|task| task.target.segment).collect();
    assert_eq!(targets, [2, 3]);
}

#[test]
fn an_object_without_room_waits_and_is_moved_when_there_is_some() {
    let mut stage = Stage::filled(2, 1);
    stage.mount(spec(2, 1), 2);
    let report = stage.turn(4);
    assert_eq!((report.active, report.failed), (1, 0));
    assert_eq!(stage.turn(4).blocked, 1);
    let task = stage.take().remove(0);
    stage.finish(&task, Status::Ok, false);
    stage.pass(RETRY_PAUSE_MS);
    assert!(!stage.turn(4).is_done);
    stage.mount(spec(3, 4 * EXTENT_BYTES), 3);
    let report = stage.drain_to_the_end();
    assert_eq!((report.succeeded, report.failed), (2, 0));
}

#[test]
fn an_object_that_is_being_written_waits_for_its_writer() {
    let mut stage = Stage::new(&[4]);
    stage.start("a");
    stage.mount(spec(1, 4 * EXTENT_BYTES), 1);
    stage.drain();
    let report = stage.turn(4);
    assert_eq!((report.active, report.is_done), (0, false));
    assert_eq!(stage.turn(4).blocked, 1);
    stage.end("a");
    let report = stage.drain_to_the_end();
    assert_eq!(report.succeeded, 1);
    assert_eq!(stage.segments_of("a"), [1]);
}

#[test]
fn a_target_that_is_unmounted_takes_its_moves_with_it_and_they_are_tried_elsewhere() {
    let mut stage = Stage::filled(3, 4);
    stage.turn(4);
    let tasks = stage.take();
    stage.shard.apply(stage.now_ms, &SegmentEvent::Unmounted { index: 1 });
    assert_eq!(stage.finish(&tasks[0], Status::Ok, false), 0);
    stage.tick();
    assert_eq!(stage.shard.gauges().moves, 0);
    stage.mount(spec(2, 4 * EXTENT_BYTES), 2);
    stage.pass(RETRY_PAUSE_MS);
    assert_eq!(stage.drain_to_the_end().succeeded, 3);
    assert_eq!(stage.segments_of("0"), [2]);
}

#[test]
fn a_source_that_is_unmounted_leaves_no_move_behind() {
    let mut stage = Stage::filled(3, 4);
    stage.turn(4);
    stage.take();
    stage.shard.apply(stage.now_ms, &SegmentEvent::Unmounted { index: 0 });
    stage.tick();
    let gauges = stage.shard.gauges();
    assert_eq!((gauges.keys, gauges.moves), (0, 0));
    stage.pass(RELEASE_MS + 1);
    stage.tick();
    assert_eq!(stage.shard.gauges().allocated_bytes, 0);
}

#[test]
fn only_the_carrier_ends_a_move() {
    let mut stage = Stage::filled(1, 4);
    stage.turn(4);
    let task = stage.take().remove(0);
    let foreign = EndedMoves {
        client: 101,
        keys: &[&task.key],
        generations: &[task.target.generation],
        status: &[0],
        in_flight: &[false],
    };
    let mut out = Vec::new();
    stage.shard.end_moves(stage.now_ms, &foreign, &mut out);
    assert_eq!(out, [code(Status::IllegalClient)]);
    let short = EndedMoves { in_flight: &[], ..foreign };
    stage.shard.end_moves(stage.now_ms, &short, &mut out);
    assert_eq!(out, [code(Status::InvalidParams)]);
    assert_eq!(stage.segments_of("0"), [0]);
    assert_eq!(stage.finish(&task, Status::Ok, false), 0);
}

#[test]
fn pins_and_leases_travel_with_the_object() {
    let pinned = PutConfig { hard_pin: true, ..PutConfig::default() };
    let mut stage = Stage::new(&[1]);
    stage.put_with("a", &pinned);
    stage.mount(spec(1, EXTENT_BYTES), 1);
    stage.drain();
    stage.drain_to_the_end();
    assert_eq!(stage.segments_of("a"), [1]);
    assert_eq!(stage.put("b"), code(Status::NoAvailableHandle));
    assert!(stage.holds("a"), "a pinned object is not evicted");
}

#[test]
fn a_segment_that_is_resumed_takes_objects_again() {
    let mut stage = Stage::new(&[4]);
    stage.drain();
    assert_eq!(stage.put("a"), code(Status::NoAvailableHandle));
    for _ in 0..2 {
        stage.shard.apply(stage.now_ms, &SegmentEvent::Resumed { index: 0 });
    }
    assert_eq!(stage.put("a"), 0);
}

#[test]
fn one_turn_looks_at_a_bounded_number_of_replicas() {
    let objects = u64::from(crate::limits::DRAIN_STEP_REPLICAS) + 10;
    let mut stage = Stage::new(&[objects]);
    for key in 0..objects {
        // Without the check of all records after each of so many puts.
        let name = key.to_string();
        let batch = PutStart {
            client: WRITER,
            keys: &[name.as_bytes()],
            payload_bytes: &[PAYLOAD_BYTES],
            positions: &[],
            batch_keys: 0,
            groups: &[],
            config: &PutConfig::default(),
            upsert: false,
            effort: Effort::Last,
        };
        stage.shard.put_start(stage.now_ms, &batch, &mut stage.placements);
        assert_eq!(stage.placements.status, [0]);
    }
    stage.mount(spec(1, objects * EXTENT_BYTES), 1);
    stage.drain();
    // All of them are being written: the walk passes them by, in two turns.
    assert_eq!(stage.turn(1).blocked, 0);
    stage.turn(1);
    assert_eq!(stage.turn(1).blocked, objects);
}
