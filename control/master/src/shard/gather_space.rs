//! The space of all shards for one object that no shard has room for alone.
//! Invariant: nothing is evicted for it unless what is free and what may go are together enough.

use perigee_schemas::extent::extent_bytes;

use crate::limits::{GATHER_PARTS_MAX, GATHER_SEGMENTS_MAX};
use crate::loan::SpaceLoan;
use crate::tenant::SHARED;
use crate::victim::EvictionReason as Urgency;

use super::KeyShard;

impl KeyShard {
    /// Segments that are large enough for a payload, some of them if there are many.
    pub fn large_enough(&self, payload_bytes: u64) -> Vec<u32> {
        let bytes = extent_bytes(payload_bytes);
        let fits = |segment: &&u32| {
            self.space.get(**segment).is_some_and(|share| share.spec.bytes >= bytes)
        };
        let segments = self.space.live().iter().filter(fits).copied();
        segments.take(GATHER_SEGMENTS_MAX).collect()
    }

    /// Segments that take parts of an object, some of them if there are many.
    pub fn part_segments(&self) -> Vec<u32> {
        let segments = self.space.live().iter().copied();
        segments.filter(|segment| self.space.takes_parts(*segment)).take(GATHER_PARTS_MAX).collect()
    }

    /// Free and evictable bytes of this shard in a segment, not counted further than a payload
    /// needs; `None` if the segment takes nothing here.
    pub fn room(&mut self, now_ms: u64, segment: u32, payload_bytes: u64) -> Option<u64> {
        self.begin(now_ms);
        self.space.get(segment).filter(|share| share.is_live())?;
        Some(self.victims().room_bytes(segment, extent_bytes(payload_bytes), SHARED))
    }

    /// Evicts about `bytes` bytes from a segment, or as much as may go.
    pub fn evict_from(&mut self, now_ms: u64, segment: u32, bytes: u64) {
        self.begin(now_ms);
        if bytes > 0 {
            self.evict_bytes(segment, bytes, Urgency::Put(SHARED));
        }
    }

    /// Gives all free bytes of a segment away, the longest extents first.
    pub fn surrender(&mut self, segment: u32) -> Vec<SpaceLoan> {
        self.space.cede_pieces(segment, u64::MAX, self.stored.replicas.generation_bound())
    }

    /// Gives `parts` equal shares of its free bytes of a segment away and keeps one itself.
    pub fn share_out(&mut self, segment: u32, parts: usize) -> Vec<Vec<SpaceLoan>> {
        let share = self.space.readable(segment);
        let free_bytes = share.map_or(0, |share| share.allocator.free_bytes());
        let part_bytes = free_bytes / (parts as u64 + 1);
        let bound = self.stored.replicas.generation_bound();
        (0..parts).map(|_| self.space.cede_pieces(segment, part_bytes, bound)).collect()
    }
}
