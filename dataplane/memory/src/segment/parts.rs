//! Which parts of a mapping have pages, one bit each. Invariant: a bit that is set stays set.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::limits::PART_BYTES;

/// One bit per part of a mapping, and the bytes of all whose bit is set.
#[derive(Debug)]
pub(super) struct PartBitmap {
    bits: Box<[AtomicU64]>,
    mapped_bytes: usize,
    bytes: AtomicUsize,
}

impl PartBitmap {
    /// No part of `mapped_bytes`.
    pub(super) fn none(mapped_bytes: usize) -> Self {
        let words = mapped_bytes.div_ceil(PART_BYTES).div_ceil(64);
        Self {
            bits: (0..words).map(|_| AtomicU64::new(0)).collect(),
            mapped_bytes,
            bytes: AtomicUsize::new(0),
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.mapped_bytes.div_ceil(PART_BYTES)
    }

    /// The parts that a range of the mapping touches.
    pub(super) fn of(&self, offset: usize, len: usize) -> Range<usize> {
        debug_assert!(offset + len <= self.mapped_bytes, "the range is mapped");
        offset / PART_BYTES..(offset + len).div_ceil(PART_BYTES)
    }

    /// First byte and length of a part.
    pub(super) fn range(&self, part: usize) -> (usize, usize) {
        debug_assert!(part < self.count(), "part {part} is mapped");
        let start = part * PART_BYTES;
        (start, PART_BYTES.min(self.mapped_bytes - start))
    }

    pub(super) fn has(&self, part: usize) -> bool {
        // Pairs with `add`: a thread that sees the bit finds the pages made.
        self.bits[part / 64].load(Ordering::Acquire) & (1 << (part % 64)) != 0
    }

    pub(super) fn has_all(&self, offset: usize, len: usize) -> bool {
        self.of(offset, len).all(|part| self.has(part))
    }

    /// Adds a part; whether it is new.
    pub(super) fn add(&self, part: usize) -> bool {
        let bit = 1 << (part % 64);
        let is_new = self.bits[part / 64].fetch_or(bit, Ordering::AcqRel) & bit == 0;
        if is_new {
            let before = self.bytes.fetch_add(self.range(part).1, Ordering::Relaxed);
            debug_assert!(before < self.mapped_bytes, "each part counts once");
        }
        is_new
    }

    /// The ranges of the mapping that have no pages, but the first `left_out_bytes` of them, in
    /// order: the `most` longest if there are more.
    pub(super) fn missing(&self, mut left_out_bytes: u64, most: usize) -> Vec<Range<u64>> {
        let mut missing: Vec<Range<u64>> = Vec::new();
        for part in (0..self.count()).filter(|part| !self.has(*part)) {
            if left_out_bytes >= self.range(part).1 as u64 {
                left_out_bytes -= self.range(part).1 as u64;
                continue;
            }
            left_out_bytes = 0;
            let (start, bytes) = self.range(part);
            let (start, end) = (start as u64, (start + bytes) as u64);
            match missing.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => missing.push(start..end),
            }
        }
        if missing.len() > most {
            missing.sort_by_key(|range| std::cmp::Reverse(range.end - range.start));
            missing.truncate(most);
            missing.sort_by_key(|range| range.start);
        }
        missing
    }

    /// Panics unless the bytes are those of the parts. No part may be added at the same time.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let there = (0..self.count()).filter(|part| self.has(*part));
        let bytes: usize = there.map(|part| self.range(part).1).sum();
        assert_eq!(self.bytes(), bytes, "the bytes of the parts that are there");
    }

    /// Bytes of all parts that were added.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_a_mapping_and_are_added_once() {
        let parts = PartBitmap::none(70 * PART_BYTES + 4096);
        assert_eq!(parts.count(), 71);
        assert_eq!(parts.of(PART_BYTES - 1, 2), 0..2);
        assert_eq!(parts.of(PART_BYTES, PART_BYTES), 1..2);
        assert_eq!(parts.range(70), (70 * PART_BYTES, 4096));
        assert!(parts.add(70) && !parts.add(70) && parts.add(1));
        assert_eq!(parts.bytes(), PART_BYTES + 4096);
        assert!(parts.has_all(PART_BYTES, PART_BYTES));
        assert!(!parts.has_all(PART_BYTES, PART_BYTES + 1));
        assert!(parts.has_all(70 * PART_BYTES, 4096));
        parts.check();
    }

    #[test]
    fn the_longest_ranges_without_pages_are_named_in_order() {
        let part = PART_BYTES as u64;
        let parts = PartBitmap::none(9 * PART_BYTES + 4096);
        let end = 9 * part + 4096;
        let only = |parts: &PartBitmap, left_out_bytes| {
            let missing = parts.missing(left_out_bytes, 8);
            (missing.len(), missing[0].clone())
        };
        assert_eq!(only(&parts, 0), (1, 0..end));
        assert_eq!(only(&parts, 3 * part - 1), (1, 2 * part..end));
        [1, 4, 8].into_iter().for_each(|there| assert!(parts.add(there)));
        let all = [0..part, 2 * part..4 * part, 5 * part..8 * part, 9 * part..end];
        assert_eq!(parts.missing(0, 4), all);
        assert_eq!(
            parts.missing(2 * part, 4),
            [3 * part..4 * part, all[2].clone(), all[3].clone()]
        );
        assert_eq!(parts.missing(0, 2), all[1..3]);
        (0..10).for_each(|there| _ = parts.add(there));
        assert!(parts.missing(0, 4).is_empty());
    }
}
