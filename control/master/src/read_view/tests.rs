//! Facts about what can be read.

use std::sync::Arc;

use perigee_allocator::OffsetAllocator;
use perigee_schemas::SegmentKind;

use crate::columns::ReplicaColumns;
use crate::segment::SegmentSpec;
use crate::share::SegmentShare;
use crate::space::Space;
use crate::stored::StoredObjects;
use crate::stored::tests::{DISK, MEMORY, add, add_on_disk, stored};

use super::ReadView;

pub(crate) const OWNER: u128 = 7;

/// A segment of memory and a disk of one owner.
pub(crate) fn space() -> Space {
    let mut space = Space::default();
    for (segment, kind) in [(MEMORY, SegmentKind::Memory), (DISK, SegmentKind::Disk)] {
        let bare = SegmentSpec::bare(u128::from(segment) + 1, OWNER, 1 << 20);
        let spec = Arc::new(SegmentSpec { kind, ..bare });
        let held = match kind {
            SegmentKind::Memory => SegmentShare::first_part(spec.bytes, 0, 1),
            SegmentKind::Disk => OffsetAllocator::holding_nothing(spec.bytes),
        };
        assert!(space.add(segment, &spec, held, 0));
    }
    space
}

fn found(stored: &StoredObjects, space: &Space, key: &str) -> usize {
    let (view, mut columns) = (ReadView { stored, space }, ReplicaColumns::default());
    let slot = stored.keys.find(key.as_bytes()).unwrap();
    view.describe(slot, &mut columns);
    assert_eq!(columns.status[0] == 0, view.is_slot_complete(slot));
    columns.locations.len()
}

#[test]
fn what_lies_in_a_segment_is_read_until_that_is_gone() {
    let (mut stored, mut space) = (stored(), space());
    let object = add(&mut stored, "a", "");
    assert_eq!(found(&stored, &space, "a"), 1);
    assert_eq!(ReadView { stored: &stored, space: &space }.in_memory(object).len(), 1);
    space.unmount(MEMORY);
    assert_eq!(found(&stored, &space, "a"), 0);
    assert!(ReadView { stored: &stored, space: &space }.in_memory(object).is_empty());
}

#[test]
fn what_lies_on_a_disk_is_read_until_the_log_uses_its_place_again() {
    let (mut stored, mut space) = (stored(), space());
    let object = add_on_disk(&mut stored, "a");
    assert_eq!(found(&stored, &space, "a"), 1);
    assert!(stored.pack(object), "packed or not");
    assert_eq!(found(&stored, &space, "a"), 1);
    space.recycle(DISK, 2);
    assert_eq!(found(&stored, &space, "a"), 0);
    stored.find(b"a").unwrap();
    assert_eq!(found(&stored, &space, "a"), 0);
}
