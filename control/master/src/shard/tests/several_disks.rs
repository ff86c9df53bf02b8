//! Facts about several disks of one owner: which of them has the next copy.

use super::demotion::{DISK, DISK_ID, OWNER, address, offload};
use super::*;
use perigee_schemas::SegmentKind;

/// The second disk, smaller than the first one, which has 2^40 bytes.
const SMALL: u32 = 10;

fn with_two(small_bytes: u64, objects: u64) -> Stage {
    let settings = OffloadSettings { on_evict: false, queue_limit: 10_000, ..offload() };
    let mut stage = Stage::with_disk(settings, objects);
    let spec = SegmentSpec::bare(DISK_ID + 1, OWNER, small_bytes);
    stage.mount(SegmentSpec { kind: SegmentKind::Disk, ..spec }, SMALL);
    stage
}

impl Stage {
    /// Puts so many objects of a size, each with its copy on the way; how many each disk is to
    /// have.
    fn put_burst(
        &mut self,
        name: &str,
        objects: u64,
        bytes: u64,
    ) -> (Vec<DemotionTask>, usize, usize) {
        for number in 0..objects {
            let key = format!("{name}-{number}");
            assert_eq!(self.start_with(&key, bytes, &PutConfig::default(), false), 0);
            assert_eq!(self.end(&key), 0);
        }
        let tasks = self.shard.take_demotions(self.now_ms, OWNER, objects as usize);
        let small = tasks.iter().filter(|task| task.disk == SMALL).count();
        let large = tasks.iter().filter(|task| task.disk == DISK).count();
        assert_eq!(small + large, objects as usize);
        (tasks, small, large)
    }
}

#[test]
fn all_disks_write_at_once_however_large_they_are() {
    let (objects, bytes) = (64, 256 << 10);
    let mut stage = with_two(1 << 36, 2 * objects * bytes / EXTENT_BYTES);
    let (_, small, large) = stage.put_burst("burst", objects, bytes);
    assert!(small.min(large) as u64 >= objects / 3, "{small} and {large}");
}

#[test]
fn a_disk_with_room_comes_before_one_without() {
    let mut stage = with_two(4 * EXTENT_BYTES, 40);
    let (tasks, small, _) = stage.put_burst("first", 6, PAYLOAD_BYTES);
    assert!(small > 0, "it has room at first");
    for task in &tasks {
        assert_eq!(stage.end_demotion(task, 0, address(1)), 0);
    }
    let mut taken = small;
    for round in 0..6 {
        let (tasks, small, _) = stage.put_burst(&round.to_string(), 1, PAYLOAD_BYTES);
        taken += small;
        assert_eq!(stage.end_demotion(&tasks[0], 0, address(1)), 0);
    }
    assert!(taken <= 5, "{taken} copies on a disk for four");
}

#[test]
fn disks_without_room_take_turns_by_their_size() {
    let mut stage = Stage::with_disk(OffloadSettings { on_evict: false, ..offload() }, 400);
    stage.apply(&SegmentEvent::Unmounted { index: DISK });
    for (number, index, objects) in [(1, 20, 8), (2, 21, 24)] {
        let spec = SegmentSpec::bare(DISK_ID + number, OWNER, objects * EXTENT_BYTES);
        stage.mount(SegmentSpec { kind: SegmentKind::Disk, ..spec }, index);
    }
    let (mut small, mut large) = (0, 0);
    for number in 0..160 {
        assert_eq!(stage.put(&number.to_string()), 0);
        for task in stage.take_demotions() {
            assert_eq!(stage.end_demotion(&task, 0, address(1)), 0);
            let is_counted = number >= 64;
            small += u32::from(is_counted && task.disk == 20);
            large += u32::from(is_counted && task.disk == 21);
        }
    }
    assert!(small >= 20 && large >= 66, "a quarter and three: {small} and {large}");
}
