//! Copies and moves of single objects that a client asks for.

use super::*;
use crate::limits::{MOVE_DEADLINE_MS, REPLICAS_MAX, RETRY_PAUSE_MS, TASK_MOVES_PER_CLIENT_MAX};

const ID: u128 = 900;

fn name(index: u32) -> String {
    format!("host-{index}:1")
}

fn copy(key: &str, targets: &[u32]) -> TaskRequest {
    TaskRequest {
        key: key.as_bytes().into(),
        action: TaskAction::Copy { targets: targets.iter().map(|index| name(*index)).collect() },
    }
}

fn relocation(key: &str, source: u32, target: u32) -> TaskRequest {
    TaskRequest {
        key: key.as_bytes().into(),
        action: TaskAction::Move { source: name(source), target: name(target) },
    }
}

impl Stage {
    /// Segment 0 with some objects, and empty segments with room for so many.
    fn stored(objects: u64, rooms: &[u64]) -> Self {
        let mut stage = Self::new(&[objects]);
        for key in 0..objects {
            assert_eq!(stage.put(&key.to_string()), 0);
        }
        for (at, room) in rooms.iter().enumerate() {
            let index = at as u32 + 1;
            stage.mount(spec(index, room * EXTENT_BYTES), index);
        }
        stage
    }

    fn check_task(&mut self, request: &TaskRequest) -> Result<u128, Status> {
        let judged = self.shard.check_task(request);
        judged.map_err(|JobRefusal { status, reason }| {
            assert!(!reason.is_empty());
            status
        })
    }

    fn ask_for(&mut self, id: u128, request: TaskRequest) {
        self.check_task(&request).unwrap();
        self.shard.begin_task(id, request);
    }

    fn turn_tasks(&mut self) -> TaskTurn {
        self.turn_tasks_within(u32::MAX)
    }

    fn turn_tasks_within(&mut self, allowance: u32) -> TaskTurn {
        let turn = self.shard.task_turn(self.now_ms, allowance);
        self.shard.check();
        turn
    }

    fn news(&mut self) -> Vec<TaskUpdate> {
        let news = self.turn_tasks().news.into_iter();
        news.map(|(id, news)| {
            assert_eq!(id, ID);
            news
        })
        .collect()
    }

    fn take_as(&mut self, client: u128) -> Vec<MoveTask> {
        let tasks = self.shard.take_moves(self.now_ms, client, 100);
        self.shard.check();
        tasks
    }

    fn finish_as(&mut self, client: u128, task: &MoveTask, status: Status) -> i32 {
        let ended = EndedMoves {
            client,
            keys: &[&task.key],
            generations: &[task.target.generation],
            status: &[status.code()],
            in_flight: &[false],
        };
        self.shard.end_moves(self.now_ms, &ended, &mut self.status);
        self.shard.check();
        self.status[0]
    }

    /// Turns, and copies that succeed, until the task has ended.
    fn carry_out(&mut self) -> Result<(), Status> {
        for _ in 0..1_000 {
            for news in self.news() {
                if let TaskUpdate::Ended(outcome) = news {
                    return outcome;
                }
            }
            for client in 100..110 {
                for task in self.take_as(client) {
                    assert_eq!(self.finish_as(client, &task, Status::Ok), 0);
                }
            }
            self.pass(RETRY_PAUSE_MS);
            self.tick();
        }
        unreachable!("the task ends");
    }

    fn places(&self, key: &str) -> Vec<u32> {
        self.peek(key).iter().map(|at| at.segment).collect()
    }
}

#[test]
fn a_copy_gives_the_object_one_more_replica_in_each_target() {
    let mut stage = Stage::stored(1, &[1, 1]);
    stage.ask_for(ID, copy("0", &[1, 2]));
    assert_eq!(stage.carry_out(), Ok(()));
    let mut places = stage.places("0");
    places.sort_unstable();
    assert_eq!(places, [0, 1, 2]);
    let generations: Vec<u64> = stage.peek("0").iter().map(|at| at.generation).collect();
    assert!(generations[0] != generations[1] && generations[1] != generations[2]);
    assert!(stage.turn_tasks().news.is_empty(), "the end is reported once");
    let counted = stage.shard.counters();
    assert_eq!((counted.copies.started, counted.copies.ended), (2, 2));
    assert_eq!(counted.moves.started, 0);
}

#[test]
fn a_move_leaves_the_object_in_the_target_alone() {
    let mut stage = Stage::stored(1, &[1]);
    stage.ask_for(ID, relocation("0", 0, 1));
    assert_eq!(stage.carry_out(), Ok(()));
    assert_eq!(stage.places("0"), [1]);
    let counted = stage.shard.counters();
    assert_eq!((counted.moved_replicas, counted.moves.started, counted.moves.ended), (1, 1, 1));
    assert_eq!((counted.moves.revoked, counted.copies.started), (0, 0));
}

#[test]
fn the_progress_of_a_task_is_shown_step_by_step() {
    let mut stage = Stage::stored(1, &[1]);
    assert_eq!(stage.check_task(&copy("0", &[1])), Ok(100), "the source's owner");
    stage.ask_for(ID, copy("0", &[1]));
    assert_eq!(stage.news(), [TaskUpdate::Assigned(100)]);
    assert_eq!(stage.news(), []);
    let task = stage.take_as(100).remove(0);
    assert_eq!((task.source.segment, task.target.segment), (0, 1));
    assert_eq!(stage.news(), [TaskUpdate::Taken]);
    assert_eq!(stage.news(), []);
    assert_eq!(stage.finish_as(100, &task, Status::Ok), 0);
    assert_eq!(stage.news(), [TaskUpdate::Ended(Ok(()))]);
}

#[test]
fn a_target_that_holds_the_object_is_served_already() {
    let mut stage = Stage::stored(1, &[1, 1]);
    stage.ask_for(ID, copy("0", &[0]));
    assert_eq!(stage.carry_out(), Ok(()));
    stage.ask_for(ID, copy("0", &[1, 1]));
    assert_eq!(stage.carry_out(), Ok(()));
    assert_eq!(stage.places("0"), [0, 1]);
    stage.ask_for(ID, relocation("0", 0, 1));
    assert_eq!(stage.carry_out(), Ok(()));
    assert_eq!(stage.places("0"), [1], "the source's replica is dropped");
}

#[test]
fn a_task_that_makes_no_sense_is_refused() {
    let mut stage = Stage::stored(1, &[1]);
    let refused = |stage: &mut Stage, request: &TaskRequest| stage.check_task(request).unwrap_err();
    assert_eq!(refused(&mut stage, &copy("none", &[1])), Status::ObjectNotFound);
    assert_eq!(refused(&mut stage, &copy("0", &[])), Status::InvalidParams);
    assert_eq!(refused(&mut stage, &copy("0", &[7])), Status::InvalidParams);
    let many: Vec<u32> = (0..=REPLICAS_MAX).collect();
    assert_eq!(refused(&mut stage, &copy("0", &many)), Status::InvalidParams);
    assert_eq!(refused(&mut stage, &relocation("0", 0, 0)), Status::InvalidParams);
    assert_eq!(refused(&mut stage, &relocation("0", 1, 0)), Status::InvalidParams);
    assert_eq!(refused(&mut stage, &relocation("0", 7, 1)), Status::InvalidParams);
    assert_eq!(stage.start("unfinished"), 0);
    assert_eq!(refused(&mut stage, &copy("unfinished", &[1])), Status::ReplicaIsNotReady);
    let draining = SegmentEvent::Draining { index: 1 };
    stage.shard.apply(stage.now_ms, &draining);
    assert_eq!(refused(&mut stage, &copy("0", &[1])), Status::UnavailableInCurrentStatus);
}

#[test]
fn removing_the_object_ends_the_task_and_frees_the_copys_place() {
    let mut stage = Stage::stored(1, &[1]);
    stage.ask_for(ID, copy("0", &[1]));
    stage.news();
    let task = stage.take_as(100).remove(0);
    assert_eq!(stage.remove("0", true), 0);
    assert_eq!(stage.news(), [TaskUpdate::Ended(Err(Status::ObjectNotFound))]);
    let not_found = Status::TaskNotFound.code();
    assert_eq!(stage.finish_as(100, &task, Status::Ok), not_found);
    assert_eq!(stage.shard.gauges().allocated_bytes, 0);
}

#[test]
fn a_source_or_target_that_goes_away_ends_the_task() {
    let mut stage = Stage::stored(1, &[1, 1]);
    stage.ask_for(ID, copy("0", &[2]));
    assert_eq!(stage.carry_out(), Ok(()));
    stage.ask_for(ID, relocation("0", 0, 1));
    stage.news();
    let unmounted = SegmentEvent::Unmounted { index: 0 };
    stage.shard.apply(stage.now_ms, &unmounted);
    stage.tick();
    assert_eq!(stage.carry_out(), Err(Status::ReplicaNotFound), "another replica is left");
    stage.ask_for(ID, copy("0", &[1]));
    stage.news();
    let unmounted = SegmentEvent::Unmounted { index: 1 };
    stage.shard.apply(stage.now_ms, &unmounted);
    stage.tick();
    assert_eq!(stage.carry_out(), Err(Status::SegmentNotFound));
    assert_eq!(stage.places("0"), [2]);
}

#[test]
fn a_target_without_room_is_tried_for_a_while_and_nothing_is_evicted_for_it() {
    let mut stage = Stage::stored(2, &[1]);
    stage.ask_for(ID, copy("0", &[1]));
    assert_eq!(stage.carry_out(), Ok(()));
    stage.ask_for(ID, copy("1", &[1]));
    assert_eq!(stage.turn_tasks().active, 0);
    assert_eq!(stage.carry_out(), Err(Status::NoAvailableHandle));
    assert_eq!(stage.places("1"), [0]);
    assert_eq!(stage.places("0").len(), 2);
}

#[test]
fn other_shards_are_asked_for_the_room_that_all_waiting_tasks_need() {
    let halves = ShardSettings { count: 2, ..settings() };
    let mut stage = Stage::with(halves, &[8, 8]);
    for key in 0..6 {
        let config =
            PutConfig { preferred_segments: &[&name(u32::from(key >= 2))], ..PutConfig::default() };
        assert_eq!(stage.put_with(&key.to_string(), &config), 0);
    }
    for key in 0..2 {
        stage.ask_for(ID + key, copy(&key.to_string(), &[1]));
    }
    let turn = stage.turn_tasks();
    let needs = turn.needs.iter();
    let needs: Vec<_> = needs.map(|it| (it.segment, it.waiting_bytes, it.longest_bytes)).collect();
    assert_eq!(needs, [(1, 2 * EXTENT_BYTES, EXTENT_BYTES)]);
    assert!(stage.turn_tasks().needs.is_empty(), "not before the pause is over");
}

#[test]
fn a_copy_that_fails_is_tried_again_from_another_replica() {
    let mut stage = Stage::stored(1, &[1, 1]);
    stage.ask_for(ID, copy("0", &[1]));
    assert_eq!(stage.carry_out(), Ok(()));
    stage.ask_for(ID, copy("0", &[2]));
    assert_eq!(stage.news(), [TaskUpdate::Assigned(100)]);
    let task = stage.take_as(100).remove(0);
    assert_eq!(stage.finish_as(100, &task, Status::TransferFail), 0);
    assert_eq!(stage.news(), []);
    stage.pass(RETRY_PAUSE_MS);
    assert_eq!(stage.news(), [TaskUpdate::Assigned(101)]);
    assert_eq!(stage.carry_out(), Ok(()));
}

#[test]
fn a_client_that_is_silent_costs_a_try_and_all_tries_end() {
    let mut stage = Stage::stored(1, &[1]);
    stage.shard.settings.task_retries_max = 1;
    stage.ask_for(ID, copy("0", &[1]));
    for _ in 0..2 {
        assert_eq!(stage.news(), [TaskUpdate::Assigned(100)]);
        stage.pass(MOVE_DEADLINE_MS + 1);
        stage.tick();
        stage.pass(RETRY_PAUSE_MS);
    }
    assert_eq!(stage.news(), [TaskUpdate::Ended(Err(Status::RpcTimeout))]);
}

#[test]
fn no_more_copies_are_under_way_than_allowed_in_all_and_for_one_client() {
    let many = u64::from(TASK_MOVES_PER_CLIENT_MAX) + 10;
    let mut stage = Stage::stored(many, &[many]);
    for key in 0..many {
        stage.ask_for(u128::from(key) + 1, copy(&key.to_string(), &[1]));
    }
    assert_eq!(stage.turn_tasks_within(3).active, 3);
    assert_eq!(stage.turn_tasks_within(3).active, 3);
    assert_eq!(stage.turn_tasks().active, TASK_MOVES_PER_CLIENT_MAX);
    for task in stage.take_as(100) {
        stage.finish_as(100, &task, Status::Ok);
    }
    let turn = stage.turn_tasks();
    assert_eq!(turn.active, 10);
}

#[test]
fn a_task_waits_while_a_drain_moves_its_object() {
    let mut stage = Stage::stored(1, &[1, 1]);
    stage.ask_for(ID, copy("0", &[2]));
    let draining = SegmentEvent::Draining { index: 0 };
    stage.shard.apply(stage.now_ms, &draining);
    let order = DrainOrder { job: 5, sources: [0].into(), targets: [1].into(), allowance: 1 };
    assert_eq!(stage.shard.drain_turn(stage.now_ms, &order).active, 1);
    assert_eq!(stage.news(), []);
    let drained = stage.take_as(100).remove(0);
    stage.finish_as(100, &drained, Status::Ok);
    assert_eq!(stage.carry_out(), Ok(()));
    assert_eq!(stage.places("0"), [1, 2]);
}

#[test]
fn a_rewritten_object_is_copied_as_it_is_then() {
    let mut stage = Stage::stored(1, &[4]);
    stage.ask_for(ID, copy("0", &[1]));
    stage.news();
    let outdated = stage.take_as(100).remove(0);
    let config = PutConfig { preferred_segments: &[&name(0)], ..PutConfig::default() };
    let bytes = PAYLOAD_BYTES / 4;
    assert_eq!(stage.start_with("0", bytes, &config, true), 0);
    assert_eq!(stage.end("0"), 0);
    let not_found = Status::TaskNotFound.code();
    assert_eq!(stage.finish_as(100, &outdated, Status::Ok), not_found);
    let before = stage.peek("0");
    assert_eq!(stage.carry_out(), Ok(()));
    let after = stage.peek("0");
    assert!(before.iter().all(|at| after.contains(at)));
    assert!(after.iter().all(|at| at.payload_bytes == bytes));
    assert!(after.iter().any(|at| at.segment == 1));
}

#[test]
fn a_task_that_is_dropped_leaves_nothing_behind() {
    let mut stage = Stage::stored(1, &[1]);
    stage.ask_for(ID, copy("0", &[1]));
    stage.news();
    let task = stage.take_as(100).remove(0);
    stage.shard.drop_task(stage.now_ms, ID);
    stage.shard.check();
    assert!(stage.turn_tasks().news.is_empty());
    assert_eq!(stage.finish_as(100, &task, Status::Ok), Status::TaskNotFound.code());
    assert_eq!(stage.places("0"), [0]);
    assert_eq!(stage.shard.gauges().allocated_bytes, EXTENT_BYTES);
    stage.shard.drop_task(stage.now_ms, ID);
}

#[test]
fn an_object_has_no_more_replicas_than_it_may_have() {
    let rooms = vec![1; REPLICAS_MAX as usize];
    let mut stage = Stage::stored(1, &rooms);
    let most: Vec<u32> = (1..REPLICAS_MAX).collect();
    stage.ask_for(ID, copy("0", &most));
    assert_eq!(stage.carry_out(), Ok(()));
    assert_eq!(stage.places("0").len(), REPLICAS_MAX as usize);
    stage.ask_for(ID, copy("0", &[REPLICAS_MAX]));
    assert_eq!(stage.carry_out(), Err(Status::InvalidParams));
}

#[test]
fn a_task_refuses_a_name_that_segments_of_several_clients_have() {
    let mut stage = Stage::stored(1, &[4, 4]);
    let shared =
        |index: u32, client| SegmentSpec { name: name(1), client, ..spec(index, EXTENT_BYTES) };
    stage.mount(shared(3, spec(1, 0).client), 3);
    assert!(stage.check_task(&copy("0", &[1])).is_ok(), "one client's");
    stage.mount(shared(4, 77), 4);
    let refused = Err(Status::UnavailableInCurrentStatus);
    assert_eq!(stage.check_task(&copy("0", &[1])), refused);
    assert_eq!(stage.check_task(&relocation("0", 0, 1)), refused);
    assert_eq!(stage.check_task(&relocation("0", 1, 2)), refused);
    assert!(stage.check_task(&relocation("0", 0, 2)).is_ok());
}
