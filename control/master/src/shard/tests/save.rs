//! Facts about a client that leaves: what its memory alone has goes to its disks, most worth first.

use super::demotion::{DISK, OWNER, address, offload};
use super::*;
use crate::limits::LAST_LOOK_REPLICAS;
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
    assert_eq!(stage.put("d"), 0);
    assert_eq!(stage.save_all(2), ["d"], "what comes in between is found by the next look");
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
    assert_eq!(stage.put("other"), 0);
    assert_eq!(stage.end_demotion(&tasks[0], 0, address(1)), 0);
    let (tasks, left) = stage.last(9);
    assert_eq!(tasks.len(), 1, "the number of b is another one's now");
    assert_eq!((&*tasks[0].key, left), (&b"a"[..], 0));
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
