//! Facts about a client that leaves: what its memory alone has goes to its disks, most worth first.

use super::demotion::{DISK, OWNER, address, offload};
use super::*;
use crate::limits::{LAST_LOOK_REPLICAS, LAST_PUTS_WAIT_MS};
use perigee_schemas::DiskHealth;

impl Stage {
    /// The keys that a client that leaves is given, and how many may be to come.
    fn last(&mut self, limit: usize) -> (Vec<DemotionTask>, u64) {
        let last = self.shard.take_last_demotions(self.now_ms, OWNER, limit);
        self.shard.check();
        last
    }

    /// All of them, in order, each written before the next ones are asked for.
    fn save_all(&mut self, limit: usize) -> Vec<String> {
        let mut keys = Vec::new();
        loop {
            let (tasks, left) = self.last(limit);
            if tasks.is_empty() && left == 0 {
                return keys;
            }
            for task in tasks {
                assert_eq!(self.end_demotion(&task, 0, address(1)), 0);
                keys.push(String::from_utf8_lossy(&task.key).into_owned());
            }
        }
    }
}

#[test]
fn what_memory_alone_has_is_given_most_worth_first() {
    let mut stage = Stage::with_disk(offload(), 10);
    let pinned = PutConfig { hard_pin: true, ..PutConfig::default() };
    let soft =
        PutConfig { soft_pin: SoftPin::Enable { ttl_ms: Some(60_000) }, ..PutConfig::default() };
    assert_eq!(stage.put_with("hard", &pinned), 0);
    assert_eq!(stage.put_with("soft", &soft), 0);
    for key in ["a", "b", "c"] {
        assert_eq!(stage.put(key), 0);
    }
    assert_eq!(stage.read("a"), 0);
    assert!(stage.take_demotions().is_empty(), "there is room enough");
    assert_eq!(stage.save_all(2), ["hard", "soft", "a", "c", "b"]);
    assert!(["hard", "soft", "a", "b", "c"].iter().all(|key| stage.lies_in(key) == [0, DISK]));
    assert!(stage.save_all(2).is_empty(), "each is written once");
}

#[test]
fn nothing_is_put_into_memory_that_leaves_and_what_was_being_put_is_awaited() {
    let mut stage = Stage::with_disk(offload(), 10);
    assert_eq!(stage.put("a"), 0);
    assert_eq!((stage.start("b"), stage.start("dead")), (0, 0));
    let (tasks, left) = stage.last(9);
    assert_eq!((tasks.len(), &*tasks[0].key), (1, &b"a"[..]));
    assert!(left > 0, "b is to come");
    assert_eq!(stage.put("c"), Status::NoAvailableHandle.code());
    assert_eq!(stage.end_demotion(&tasks[0], 0, address(1)), 0);
    assert_eq!(stage.end("b"), 0);
    let (mut saved, mut calls) = (Vec::new(), 0);
    loop {
        let (tasks, left) = stage.last(9);
        calls += 1;
        saved.extend(tasks.iter().map(|task| String::from_utf8_lossy(&task.key).into_owned()));
        assert!(tasks.iter().all(|task| stage.end_demotion(task, 0, address(2)) == 0));
        if tasks.is_empty() && left == 0 {
            break;
        }
        if calls == 10 {
            // The writer of the other one says nothing more.
            stage.now_ms += LAST_PUTS_WAIT_MS + 1;
        }
        assert!(calls < 20, "a writer that has died is not waited for");
    }
    assert_eq!((&*saved, calls >= 10), (&["b".to_owned()][..], true));
}

#[test]
fn what_was_to_be_copied_elsewhere_goes_to_the_disk_instead() {
    let mut stage = Stage::with_disk(offload(), 10);
    assert_eq!(stage.put("a"), 0);
    let other = DISK + 1;
    stage.mount(spec(other, 10 * EXTENT_BYTES), other);
    let targets = vec![format!("host-{other}:1")];
    let request = TaskRequest { key: b"a"[..].into(), action: TaskAction::Copy { targets } };
    stage.shard.check_task(&request).unwrap();
    stage.shard.begin_task(1, request);
    stage.shard.task_turn(stage.now_ms, u32::MAX);
    assert!(stage.shard.has_moves(OWNER), "its owner is to copy it");
    assert_eq!(stage.save_all(9), ["a"]);
    assert!(!stage.shard.has_moves(OWNER));
}

#[test]
fn what_goes_while_it_waits_is_passed_over() {
    let mut stage = Stage::with_disk(offload(), 10);
    for key in ["a", "b", "c"] {
        assert_eq!(stage.put(key), 0);
    }
    let (tasks, left) = stage.last(1);
    assert_eq!((&*tasks[0].key, left), (&b"c"[..], 2));
    assert_eq!(stage.remove("b", true), 0);
    stage.apply(&SegmentEvent::Resumed { index: 0 });
    assert_eq!(stage.put("other"), 0);
    assert_eq!(stage.end_demotion(&tasks[0], 0, address(1)), 0);
    let (tasks, left) = stage.last(9);
    assert_eq!(tasks.len(), 1, "the number of b is another one's now");
    assert_eq!(&*tasks[0].key, b"a");
    assert!(left > 0, "its memory was open in between");
    assert_eq!(stage.end_demotion(&tasks[0], 0, address(2)), 0);
    assert_eq!(stage.save_all(9), ["other"]);
}

#[test]
fn nothing_is_given_for_a_disk_that_takes_none_and_nothing_waits_for_it() {
    for health in [DiskHealth::Hung, DiskHealth::Full, DiskHealth::ReadOnly, DiskHealth::Slow] {
        let mut stage = Stage::with_disk(offload(), 10);
        stage.put("a");
        stage.apply(&SegmentEvent::Health { index: DISK, health });
        stage.tick();
        let (tasks, left) = stage.last(9);
        assert!(tasks.is_empty() && left == 0, "{health:?}");
    }
    let mut stage = Stage::with(settings(), &[4]);
    stage.put("a");
    assert_eq!(stage.last(9), (Vec::new(), 0), "the tier is off");
}

#[test]
fn a_large_memory_is_looked_through_in_steps_before_anything_is_given() {
    let objects = u64::from(LAST_LOOK_REPLICAS) + 2;
    let mut stage = Stage::with_disk(offload(), 2 * objects);
    for number in 0..objects {
        stage.put(&number.to_string());
    }
    let (tasks, left) = stage.last(9);
    assert_eq!((tasks.len(), left), (0, objects));
    let (tasks, left) = stage.last(9);
    assert_eq!(&*tasks[0].key, (objects - 1).to_string().as_bytes(), "the newest");
    assert_eq!((tasks.len(), left), (9, objects - 9));
}

#[test]
fn of_two_nodes_that_leave_together_one_writes_what_both_have() {
    let mut stage = Stage::with_disk(offload(), 10);
    let other = DISK + 1;
    stage.mount(spec(other, 10 * EXTENT_BYTES), other);
    let twice = PutConfig { replica_num: 2, ..PutConfig::default() };
    assert_eq!(stage.put_with("a", &twice), 0);
    assert!(stage.save_all(9).is_empty(), "the other one has it");
    let mut stage = Stage::with_disk(offload(), 10);
    stage.mount(spec(other, 10 * EXTENT_BYTES), other);
    assert_eq!(stage.put_with("a", &twice), 0);
    stage.apply(&SegmentEvent::Draining { index: other });
    assert_eq!(stage.save_all(9), ["a"], "the other one is leaving");
}
