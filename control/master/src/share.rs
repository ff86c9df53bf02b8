//! A shard's share of one segment: the space that it holds.
//! Invariant: a share that is gone hands out no space.

use std::sync::Arc;

use perigee_allocator::{Extent, OffsetAllocator};
use perigee_schemas::{DiskHealth, SegmentKind};

use crate::limits::{
    AWAITED_MS, DISK_HAS_ROOM, DISK_QUEUE_STEP_BYTES, DISK_UNCONFIRMED_MS, SHARE_ALIGNMENT_BYTES,
};
use crate::segment::{Announces, SegmentSpec};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShareState {
    /// Takes new objects.
    Live,
    /// Readable, but takes no new objects.
    Draining,
    /// Unmounted; its replicas are being forgotten.
    Gone,
}

#[derive(Debug)]
pub(crate) struct SegmentShare {
    pub(crate) spec: Arc<SegmentSpec>,
    /// The bytes of the segment that this shard holds; the shards together hold each byte once.
    pub(crate) allocator: OffsetAllocator,
    pub(crate) state: ShareState,
    /// Bytes of the whole segment that its owner has memory for.
    pub(crate) segment_usable_bytes: u64,
    /// Ranges of the segment that its owner has no memory for.
    unbacked: Arc<[Extent]>,
    /// Free bytes of those that are kept from the allocator until there is memory.
    withheld: Vec<Extent>,
    /// Until then the other shards are taken to have no room to spare.
    pub(crate) dry_until_ms: u64,
    /// While the segment is being rebuilt: up to which offset its owner has announced what lies
    /// there.
    pub(crate) announced_until: Option<u64>,
    /// When it was mounted.
    pub(crate) mounted_ms: u64,
    /// Of a disk: its owner has not said yet all that lies there.
    pub(crate) is_unheard: bool,
    /// Of a disk: how its owner finds it.
    pub(crate) health: DiskHealth,
    /// Of a disk that does not write: when it is tried whether it does again.
    pub(crate) trial_ms: u64,
    /// Of a disk: number of the oldest segment of its log.
    pub(crate) oldest_sequence: u32,
    /// Of a disk: payload bytes of the copies that lie there.
    pub(crate) copied_bytes: u64,
    /// Of a disk: bytes of this shard that are on their way there.
    pub(crate) coming_bytes: u64,
    /// Bytes that a disk was given less than its part among those of its owner, or more if they are
    /// negative.
    pub(crate) turn_bytes: i64,
}

impl SegmentShare {
    /// A share whose space is in `allocator`.
    pub(crate) fn new(spec: Arc<SegmentSpec>, allocator: OffsetAllocator, now_ms: u64) -> Self {
        let is_announced = spec.kind == SegmentKind::Memory && spec.announces != Announces::Nothing;
        Self {
            segment_usable_bytes: spec.bytes,
            unbacked: Arc::default(),
            withheld: Vec::new(),
            announced_until: is_announced.then_some(0),
            mounted_ms: now_ms,
            is_unheard: spec.kind == SegmentKind::Disk,
            spec,
            allocator,
            state: ShareState::Live,
            dry_until_ms: 0,
            health: DiskHealth::Healthy,
            trial_ms: 0,
            oldest_sequence: 0,
            copied_bytes: 0,
            coming_bytes: 0,
            turn_bytes: 0,
        }
    }

    /// What shard `index` of `count` holds of a new segment: an equal part, all free.
    pub(crate) fn first_part(bytes: u64, index: usize, count: usize) -> OffsetAllocator {
        let (start, end) = share_range(bytes, index, count);
        let mut allocator = OffsetAllocator::holding_nothing(bytes);
        if start < end {
            let received = allocator.receive(Extent::new(start, end - start));
            debug_assert_eq!(received, Ok(()), "an empty allocator takes any part");
        }
        allocator
    }

    /// Whether it is a disk, whose owner hands out the space.
    pub(crate) fn is_disk(&self) -> bool {
        self.spec.kind == SegmentKind::Disk
    }

    /// Whether it is memory whose replicas can be read.
    pub(crate) fn is_memory(&self) -> bool {
        self.is_readable() && !self.is_disk()
    }

    /// Whether it is memory that takes new objects.
    pub(crate) fn is_live(&self) -> bool {
        self.state == ShareState::Live && !self.is_disk() && self.announced_until.is_none()
    }

    /// Whether it is readable and takes no new objects.
    pub(crate) fn is_closed(&self) -> bool {
        self.state == ShareState::Draining
    }

    /// Whether its owner has not announced all that lies there.
    pub(crate) fn is_rebuilding(&self) -> bool {
        self.is_readable() && self.announced_until.is_some()
    }

    /// Whether puts wait for what its owner has to announce.
    pub(crate) fn is_awaited(&self, now_ms: u64) -> bool {
        self.is_rebuilding() && self.is_young(now_ms, AWAITED_MS)
    }

    /// Whether calls about unknown keys wait for what its owner has to announce.
    pub(crate) fn may_have_more(&self, now_ms: u64) -> bool {
        let has_objects = self.is_rebuilding() && self.spec.announces == Announces::Objects;
        let has_copies = self.is_readable() && self.is_unheard;
        (has_objects || has_copies) && self.is_young(now_ms, AWAITED_MS)
    }

    /// Whether it is a disk that takes copies of a size.
    pub(crate) fn takes_copies(&self, bytes: u64) -> bool {
        self.state == ShareState::Live && self.has_room_for_copy(bytes)
    }

    /// Whether it is a disk that is going to take copies of a size, once its owner has answered for
    /// it.
    pub(crate) fn takes_copies_soon(&self, bytes: u64, now_ms: u64) -> bool {
        let is_unconfirmed = self.state == ShareState::Draining;
        let is_young = self.is_young(now_ms, DISK_UNCONFIRMED_MS);
        is_unconfirmed && is_young && self.has_room_for_copy(bytes)
    }

    fn has_room_for_copy(&self, bytes: u64) -> bool {
        let is_well = self.health == DiskHealth::Healthy;
        self.is_disk() && is_well && self.segment_usable_bytes >= bytes
    }

    fn is_young(&self, now_ms: u64, age_ms: u64) -> bool {
        now_ms < self.mounted_ms.saturating_add(age_ms)
    }

    /// How full a disk is with what is there and what comes, in parts of 2^48: single objects
    /// count on the largest disks.
    pub(crate) fn copied_part(&self) -> u128 {
        let bytes = u128::from(self.copied_bytes) + u128::from(self.coming_bytes);
        (bytes << 48) / u128::from(self.segment_usable_bytes.max(1))
    }

    /// Its place among the disks of its owner: the least one takes the next copy. Queues of equal
    /// length come first, so that all disks write at once; then those with room, the least full one
    /// before others; disks without room take turns by their size.
    pub(crate) fn disk_rank(&self) -> (u64, u128) {
        let part = self.copied_part();
        let turn = match part < DISK_HAS_ROOM {
            true => part,
            false => DISK_HAS_ROOM + self.turn_bytes.abs_diff(i64::MAX) as u128,
        };
        (self.coming_bytes / DISK_QUEUE_STEP_BYTES, turn)
    }

    /// Whether its replicas can be read.
    pub(crate) fn is_readable(&self) -> bool {
        self.state != ShareState::Gone
    }

    /// The owner has memory for all but these ranges.
    pub(crate) fn set_unbacked(&mut self, ranges: &Arc<[Extent]>) {
        for extent in self.withheld.drain(..) {
            let received = self.allocator.receive(extent);
            debug_assert_eq!(received, Ok(()), "what was withheld was free");
        }
        self.unbacked = Arc::clone(ranges);
        self.withhold();
    }

    /// Takes what is free and has no memory from the allocator.
    fn withhold(&mut self) {
        for range in self.unbacked.iter() {
            self.withheld.extend(self.allocator.cede_within(*range));
        }
    }

    /// What is kept from the allocator.
    pub(crate) fn withheld(&self) -> &[Extent] {
        &self.withheld
    }

    /// Length in bytes of what is kept from the allocator.
    pub(crate) fn withheld_bytes(&self) -> u64 {
        self.withheld.iter().map(|extent| extent.bytes).sum()
    }

    /// Whether an extent has bytes that there is no memory for.
    fn is_unbacked(&self, extent: Extent) -> bool {
        let end = extent.offset + extent.bytes;
        self.unbacked
            .iter()
            .any(|range| range.offset < end && extent.offset < range.offset + range.bytes)
    }

    /// How much of what it holds may be used: all of it, or less while the owner of the segment
    /// lacks memory. Where it has said what it lacks, that is withheld already.
    pub(crate) fn usable_bytes(&self) -> u64 {
        let (held, whole) = (self.allocator.capacity(), self.spec.bytes);
        if self.segment_usable_bytes >= whole || !self.unbacked.is_empty() {
            return held;
        }
        let part = u128::from(held) * u128::from(self.segment_usable_bytes) / u128::from(whole);
        debug_assert!(part <= u128::from(held), "a part of what it holds");
        part as u64
    }

    /// Longest extent that all shards together could ever find here.
    pub(crate) fn longest_extent(&self) -> u64 {
        self.segment_usable_bytes.min(self.spec.bytes)
    }

    /// Bytes that can be allocated, in one piece or in several.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.usable_bytes().saturating_sub(self.allocator.used())
    }

    /// Takes `bytes` bytes, if there is a hole and the owner has memory for them.
    pub(crate) fn alloc(&mut self, bytes: u64) -> Option<Extent> {
        debug_assert!(self.is_readable(), "what is gone hands out no space");
        if self.free_bytes() < bytes {
            return None;
        }
        let extent = self.allocator.alloc(bytes)?;
        if !self.is_unbacked(extent) {
            return Some(extent);
        }
        // It has come back, or from another shard, since the owner has said so.
        let freed = self.allocator.free(extent);
        debug_assert_eq!(freed, Ok(()), "it was allocated");
        self.withhold();
        self.allocator.alloc(bytes)
    }

    /// Used part of what it may use, 0 to 1.
    pub(crate) fn used_ratio(&self) -> f64 {
        match self.usable_bytes() {
            0 => 1.0,
            usable => self.allocator.used() as f64 / usable as f64,
        }
    }
}

/// First byte and end of what shard `index` of `count` holds at first of a segment of `bytes`
/// bytes.
pub(crate) fn share_range(bytes: u64, index: usize, count: usize) -> (u64, u64) {
    let start = |index: usize| match index {
        index if index == count => bytes,
        index => {
            let exact = u128::from(bytes) * index as u128 / count as u128;
            exact as u64 / SHARE_ALIGNMENT_BYTES * SHARE_ALIGNMENT_BYTES
        }
    };
    (start(index), start(index + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_contiguous_aligned_and_cover_the_segment() {
        for bytes in [1, 4096, 100_000, (1 << 30) + 17, u64::MAX] {
            for count in [1, 2, 3, 8] {
                let mut next = 0;
                for index in 0..count {
                    let (start, end) = share_range(bytes, index, count);
                    assert_eq!((start, start % SHARE_ALIGNMENT_BYTES), (next, 0));
                    assert!(end >= start);
                    next = end;
                }
                assert_eq!(next, bytes);
            }
        }
    }
}
