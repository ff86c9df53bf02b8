//! Facts about disks without `on_evict`: what is put is copied at once, and what was not is copied
//! before it has to go.

use super::demotion::{DISK, address, offload};
use super::*;

impl Stage {
    /// Ends the only demotion, which is that of a key.
    fn end_demotion_of(&mut self, key: &str) -> i32 {
        let tasks = self.take_demotions();
        let keys: Vec<&[u8]> = tasks.iter().map(|task| &*task.key).collect();
        assert_eq!(keys, [key.as_bytes()]);
        self.end_demotion(&tasks[0], 0, address(1))
    }
}

fn early(queue_limit: usize) -> OffloadSettings {
    OffloadSettings { on_evict: false, queue_limit, ..offload() }
}

#[test]
fn without_on_evict_a_put_is_copied_at_once_and_stays_in_its_turn() {
    let mut stage = Stage::with_disk(early(100), 4);
    for key in ["a", "b"] {
        stage.put(key);
    }
    let tasks = stage.take_demotions();
    assert_eq!(tasks.len(), 2);
    for task in &tasks {
        assert_eq!(stage.end_demotion(task, 0, address(1)), 0);
    }
    for key in ["c", "d", "e"] {
        assert_eq!(stage.put(key), 0);
    }
    assert_eq!((stage.lies_in("a"), stage.lies_in("b")), (vec![DISK], vec![0, DISK]));
}

#[test]
fn what_the_queue_had_no_room_for_is_copied_before_it_has_to_go() {
    let mut stage = Stage::with_disk(early(1), 3);
    for key in ["a", "b", "c"] {
        assert_eq!(stage.put(key), 0);
    }
    assert_eq!(stage.end_demotion_of("a"), 0);
    for (next, put) in [("b", "d"), ("c", "e")] {
        stage.tick();
        assert_eq!(stage.end_demotion_of(next), 0);
        assert_eq!(stage.put(put), 0, "{put} waits for no disk");
        assert_eq!(stage.end_demotion_of(put), 0);
    }
    assert_eq!((stage.lies_in("b"), stage.lies_in("c")), (vec![DISK], vec![DISK]));
}
