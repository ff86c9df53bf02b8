//! Objects that are larger than any segment: how they are cut, and what never becomes whole.
//! Invariant: an object of which a part has no replica any more goes as a whole, unless its owners
//! are still announcing it.

use perigee_schemas::PartLayout;
use perigee_schemas::extent::extent_bytes;
use perigee_schemas::limits::PARTS_MAX;

use crate::limits::OBJECT_BYTES_MAX;

use super::KeyShard;

impl KeyShard {
    /// How a payload is cut that is too large for any segment; `None` if one is large enough, or
    /// if parts that small would be too many.
    pub fn cut(&self, payload_bytes: u64, replica_num: u32) -> Option<PartLayout> {
        if payload_bytes > OBJECT_BYTES_MAX {
            return None;
        }
        let bytes = extent_bytes(payload_bytes);
        let live = || self.space.live().iter().filter_map(|segment| self.space.get(*segment));
        if live().any(|share| share.longest_extent() >= bytes) {
            return None;
        }
        let keeping = live().filter(|share| share.spec.keeps_parts);
        let extent_max = keeping.map(|share| share.longest_extent()).max()?;
        // A key has 255 places at most.
        let parts = u32::from(u8::MAX) / replica_num.max(1);
        PartLayout::cut(payload_bytes, extent_max, parts.min(PARTS_MAX.into()) as u8)
    }

    /// Bytes beyond which no object is placed, however much room there is: it would have too many
    /// parts.
    pub fn largest_object_bytes(&self) -> u64 {
        let segments = self.space.live().iter().filter(|segment| self.space.takes_parts(**segment));
        let longest = segments.filter_map(|segment| self.space.get(*segment));
        let longest = longest.map(|share| share.longest_extent()).max().unwrap_or_default();
        longest.saturating_mul(PARTS_MAX.into()).min(OBJECT_BYTES_MAX)
    }

    /// Owners announce no more: what lacks a part never gets it.
    pub(super) fn drop_partial(&mut self) {
        for object in self.stored.striped.objects() {
            if !self.view().is_whole(object) {
                self.drop_all_complete(object);
            }
        }
    }
}
