//! How an object that is larger than any segment is cut into parts, which lie in several.
//! Invariant: the parts in their order are the object; all are of one length, but the last may be
//! shorter.

use crate::extent::extent_bytes;
use crate::limits::{OBJECT_BYTES_MAX, PARTS_MAX};

/// Parts but the last are a multiple of this many bytes.
const GRANULE_BYTES: u64 = 4096;

/// The cut of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartLayout {
    /// Length of the object in bytes.
    pub payload_bytes: u64,
    /// Length of each part but the last.
    pub part_bytes: u64,
}

impl PartLayout {
    /// The cut of a payload that no single extent of `extent_max` bytes holds into at most `parts`
    /// parts; `None` if it needs more of them. It has as many parts as it may have: small ones find
    /// room more easily.
    pub fn cut(payload_bytes: u64, extent_max: u64, parts: u8) -> Option<Self> {
        let parts = u64::from(parts.min(PARTS_MAX));
        if parts == 0 || payload_bytes > OBJECT_BYTES_MAX {
            return None;
        }
        let part_bytes = payload_bytes.div_ceil(parts).next_multiple_of(GRANULE_BYTES);
        let layout = Self { payload_bytes, part_bytes };
        (layout.is_valid() && extent_bytes(part_bytes) <= extent_max).then_some(layout)
    }

    /// Whether there are parts, and not too many.
    pub fn is_valid(&self) -> bool {
        let is_cut = (1..self.payload_bytes).contains(&self.part_bytes);
        is_cut
            && self.payload_bytes <= OBJECT_BYTES_MAX
            && self.payload_bytes.div_ceil(self.part_bytes) <= u64::from(PARTS_MAX)
    }

    /// Number of parts, at least two.
    pub fn parts(&self) -> u8 {
        debug_assert!(self.is_valid(), "there are parts");
        self.payload_bytes.div_ceil(self.part_bytes) as u8
    }

    /// First byte of a part in the object. Parts count from 0.
    pub fn offset_of(&self, part: u8) -> u64 {
        self.part_bytes * u64::from(part)
    }

    /// Length of a part in bytes; 0 for one that the object does not have.
    pub fn bytes_of(&self, part: u8) -> u64 {
        self.payload_bytes.saturating_sub(self.offset_of(part)).min(self.part_bytes)
    }

    /// Bytes to allocate for all parts.
    pub fn extents_bytes(&self) -> u64 {
        (0..self.parts()).map(|part| extent_bytes(self.bytes_of(part))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_needs_too_many_parts_is_not_cut() {
        let extent_max = extent_bytes(1 << 20);
        let most = u64::from(PARTS_MAX) << 20;
        assert!(PartLayout::cut(most, extent_max, PARTS_MAX).is_some());
        assert_eq!(PartLayout::cut(most + 1, extent_max, PARTS_MAX), None);
        assert_eq!(PartLayout::cut(most, extent_max, PARTS_MAX / 2), None);
        assert_eq!(PartLayout::cut(most, extent_max, 0), None);
        assert_eq!(PartLayout::cut(u64::MAX, u64::MAX, PARTS_MAX), None);
        assert_eq!(PartLayout::cut(100, extent_max, PARTS_MAX), None, "one part is no cut");
    }

    proptest! {
        #[test]
        fn parts_follow_each_other_and_are_the_object(
            payload_bytes in 4097..OBJECT_BYTES_MAX,
            parts in 2..=PARTS_MAX,
        ) {
            let layout = PartLayout::cut(payload_bytes, u64::MAX, parts).unwrap();
            prop_assert!((2..=parts).contains(&layout.parts()));
            let mut end = 0;
            for part in 0..layout.parts() {
                prop_assert_eq!(layout.offset_of(part), end);
                prop_assert!(layout.bytes_of(part) > 0);
                end += layout.bytes_of(part);
            }
            prop_assert_eq!(end, payload_bytes);
            prop_assert_eq!(layout.bytes_of(layout.parts()), 0);
        }
    }
}
