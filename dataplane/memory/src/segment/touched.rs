//! Which parts of a mapping this process has touched. A first touch fills the page tables of a
//! whole 2 MiB part with one system call; without it every 4 KiB page of a new mapping would cost a
//! fault of its own.

use crate::limits::PART_BYTES;
use crate::mapping::{Mapping, page_bytes};
use std::sync::atomic::{AtomicU64, Ordering};

/// One bit per part of a mapping.
#[derive(Debug)]
pub(super) struct TouchedParts {
    bits: Box<[AtomicU64]>,
}

impl TouchedParts {
    /// Nothing of `mapped_bytes` has been touched.
    pub(super) fn nothing(mapped_bytes: usize) -> Self {
        let words = mapped_bytes.div_ceil(PART_BYTES).div_ceil(64);
        Self { bits: (0..words).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Whether the owner has made all pages of `offset .. offset + len`, which lies within the
    /// mapping. A page that this process makes is charged to its own control group, for as long as
    /// the segment lives.
    ///
    /// Owners make a part whole and in order, so its last page answers for all of it: looking at
    /// every page of a part for each small object would take longer than copying it.
    pub(super) fn has_pages(&self, mapping: &Mapping, offset: usize, len: usize) -> bool {
        debug_assert!(offset + len <= mapping.mapped_bytes(), "the range is mapped");
        (offset / PART_BYTES..(offset + len).div_ceil(PART_BYTES)).all(|part| {
            let seen = self.bits[part / 64].load(Ordering::Relaxed);
            let end = ((part + 1) * PART_BYTES).min(mapping.mapped_bytes());
            seen & (1 << (part % 64)) != 0 || mapping.is_resident(end - page_bytes())
        })
    }

    /// Fills the page tables of every part of `offset .. offset + len` that was not touched yet.
    /// The range lies within the mapping. If the kernel refuses, pages are faulted in one by one as
    /// ever.
    ///
    /// The pages exist. To map them as for reading is then enough for writing too, and takes half
    /// the time: the kernel maps their neighbours with each.
    pub(super) fn touch(&self, mapping: &Mapping, offset: usize, len: usize) {
        if len == 0 {
            return;
        }
        debug_assert!(offset + len <= mapping.mapped_bytes(), "the range is mapped");
        for part in offset / PART_BYTES..=(offset + len - 1) / PART_BYTES {
            let (word, bit) = (&self.bits[part / 64], 1u64 << (part % 64));
            if word.load(Ordering::Relaxed) & bit != 0 {
                continue;
            }
            let start = part * PART_BYTES;
            let bytes = PART_BYTES.min(mapping.mapped_bytes() - start);
            let _ = mapping.advise(start, bytes, libc::MADV_POPULATE_READ);
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_range_is_touched_once() {
        let bytes = 3 * PART_BYTES + 8192;
        let mapping = Mapping::anonymous(bytes).unwrap();
        let touched = TouchedParts::nothing(bytes);
        touched.touch(&mapping, PART_BYTES - 1, 2);
        assert_eq!(touched.bits[0].load(Ordering::Relaxed), 0b0011);
        touched.touch(&mapping, bytes - 1, 1);
        assert_eq!(touched.bits[0].load(Ordering::Relaxed), 0b1011);
        touched.touch(&mapping, 0, bytes);
        assert_eq!(touched.bits[0].load(Ordering::Relaxed), 0b1111);
    }
}
