//! Facts about disks whose owner has not answered for them yet.

use super::demotion::*;
use super::*;

#[test]
fn nothing_goes_without_a_copy_before_the_owner_of_a_disk_has_answered_for_it() {
    let mut stage = Stage::with_disk(offload(), 10);
    stage.apply(&SegmentEvent::Draining { index: DISK });
    for key in 0..10 {
        assert_eq!(stage.put(&format!("{key}")), 0);
    }
    stage.tick();
    assert!(stage.take_demotions().is_empty(), "the disk takes none yet");
    assert_eq!(stage.put("more"), code(Status::NoAvailableHandle));
    stage.apply(&SegmentEvent::Resumed { index: DISK });
    stage.tick();
    let tasks = stage.take_demotions();
    assert!(!tasks.is_empty());
    for task in tasks {
        assert_eq!(stage.end_demotion(&task, 0, address(1)), 0);
    }
    assert_eq!(stage.put("more"), 0);
    assert_eq!(stage.shard.counters().evicted_keys, 0);
}

#[test]
fn a_disk_whose_owner_never_answers_for_it_keeps_nothing_in_memory() {
    let mut stage = Stage::with_disk(offload(), 2);
    stage.apply(&SegmentEvent::Draining { index: DISK });
    assert_eq!([stage.put("a"), stage.put("b")], [0, 0]);
    assert_eq!(stage.put("c"), code(Status::NoAvailableHandle));
    stage.now_ms += crate::limits::DISK_UNCONFIRMED_MS;
    assert_eq!(stage.put("c"), 0);
}
