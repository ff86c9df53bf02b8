//! Facts about copies on disks that readers could not read.

use perigee_schemas::master::UnreadableCopy;

use crate::tombstone::{DamagedPlace, Tombstone};

use super::demotion::*;
use super::*;

impl Stage {
    /// Puts a key that is in memory and on the disk, at `address(1)`.
    fn put_with_copy(&mut self, key: &str) -> u64 {
        assert_eq!(self.put(key), 0);
        let generation = self.generation(key);
        assert_eq!(self.announce(key, generation, true), 0);
        generation
    }

    /// A reader looks a key up again, and names the copy that it could not read.
    fn forget(&mut self, key: &str, disk: u128, address: u64, generation: u64) {
        let named = UnreadableCopy::new((disk >> 64) as u64, disk as u64, address, generation);
        self.shard.forget_unreadable(self.now_ms, &[key.as_bytes()], &[named]);
        self.shard.check();
    }
}

#[test]
fn a_copy_that_cannot_be_read_is_forgotten_and_its_key_can_be_put_again() {
    let mut stage = Stage::with_disk(offload(), 4);
    let generation = stage.put_with_copy("k");
    stage.apply(&SegmentEvent::Unmounted { index: 0 });
    assert_eq!(stage.lies_in("k"), [DISK]);
    stage.forget("k", DISK_ID, address(1), generation);
    assert!(!stage.holds("k"));
    assert_eq!(stage.tombstones(), [(hash("k"), generation)], "it does not come back");
    assert_eq!(stage.announce("k", generation, true), code(Status::ObjectNotFound));
    assert_eq!(stage.shard.counters().unreadable_copies, 1);
}

#[test]
fn an_owner_looks_at_a_damaged_copy_before_it_makes_it_void() {
    let mut stage = Stage::with_disk(offload(), 4);
    let generation = stage.put_with_copy("k");
    stage.forget("k", DISK_ID, address(1), generation);
    let disk = stage.shard.space.disks()[0];
    let void = stage.shard.tombstones(OWNER, disk, 1).unwrap()[0];
    let place = DamagedPlace { address: address(1), payload_bytes: PAYLOAD_BYTES };
    assert_eq!(stage.shard.suspect(disk, &void), Some(place));
    let unsuspected = Tombstone { generation: generation + 1, ..void };
    assert_eq!(stage.shard.suspect(disk, &unsuspected), None);
    stage.shard.confirm_tombstones(stage.now_ms, OWNER, disk, &[void.number]);
    assert_eq!(stage.shard.suspect(disk, &void), None);
}

#[test]
fn what_lies_elsewhere_than_the_reader_looked_stays() {
    let mut stage = Stage::with_disk(offload(), 4);
    let generation = stage.put_with_copy("k");
    stage.forget("k", DISK_ID + 1, address(1), generation);
    stage.forget("k", DISK_ID, address(2), generation);
    stage.forget("k", DISK_ID, address(1), generation + 1);
    stage.forget("k", 0, 0, 0);
    stage.forget("unknown", DISK_ID, address(1), generation);
    assert_eq!(stage.lies_in("k"), [0, DISK]);
    assert_eq!(stage.shard.counters().unreadable_copies, 0);
}

#[test]
fn an_object_keeps_its_replica_in_memory() {
    let mut stage = Stage::with_disk(offload(), 4);
    let generation = stage.put_with_copy("k");
    stage.forget("k", DISK_ID, address(1), generation);
    assert_eq!(stage.lies_in("k"), [0]);
}
