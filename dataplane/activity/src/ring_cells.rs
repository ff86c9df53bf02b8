//! Marks as words in the page. Invariant: one thread writes a ring, and a mark's number tells
//! whether it is whole.

use crate::limits::MARKS;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Words of a mark.
pub(crate) const MARK_WORDS: usize = 23;

/// A mark in the page. The number is odd while it is written, and twice the count of marks up to
/// this one afterwards.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct MarkCells {
    number: AtomicU64,
    words: [AtomicU64; MARK_WORDS],
}

/// The marks of a thread. How many were written stands before each kind.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct RingCells {
    counts: [AtomicU64; 2],
    marks: [[MarkCells; MARKS]; 2],
}

/// Which marks are meant.
pub(crate) const RECENT: usize = 0;
pub(crate) const SLOW: usize = 1;

/// Bytes before the marks of a ring.
pub(crate) const COUNTS_BYTES: usize = std::mem::offset_of!(RingCells, marks);
pub(crate) const MARK_BYTES: usize = size_of::<MarkCells>();
pub(crate) const RING_BYTES: usize = size_of::<RingCells>();

const _: () = assert!(COUNTS_BYTES == 64 && MARK_BYTES == 192);

impl RingCells {
    /// Writes a mark over the oldest one of its kind.
    pub(crate) fn put(&self, kind: usize, mark: &[u64; MARK_WORDS]) {
        let count = self.counts[kind].load(Ordering::Relaxed);
        let cells = &self.marks[kind][count as usize % MARKS];
        cells.number.store(2 * count + 1, Ordering::Relaxed);
        // A reader that sees one of the new words also sees the odd number.
        fence(Ordering::Release);
        for (cell, word) in cells.words.iter().zip(mark) {
            cell.store(*word, Ordering::Relaxed);
        }
        cells.number.store(2 * count + 2, Ordering::Release);
        self.counts[kind].store(count + 1, Ordering::Release);
    }
}
