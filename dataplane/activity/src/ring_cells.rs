//! Marks as words in the page. Invariant: one thread writes a ring, and a mark's number tells
//! whether it is whole.

use crate::limits::{FRESH_MARK_MS, MARKS, SLOW_CLASSES};
use std::sync::atomic::{AtomicU64, Ordering, fence};

pub(crate) const MARK_WORDS: usize = 23;

/// A mark in the page. The number is odd while it is written, and twice the count of marks up to
/// this one afterwards.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct MarkCells {
    number: AtomicU64,
    words: [AtomicU64; MARK_WORDS],
}

/// The marks of a thread. How many there were stands before each kind: of the slow ones also those
/// that found no place.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct RingCells {
    counts: [AtomicU64; 2],
    /// Slow batches by how slow they were; zero in pages of older builds.
    slow: [AtomicU64; SLOW_CLASSES],
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

/// Bytes before the counts of slow batches.
pub(crate) const SLOW_COUNTS_OFFSET: usize = std::mem::offset_of!(RingCells, slow);

/// A slow mark as it is weighed against the one in its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlowMark<'a> {
    pub(crate) words: &'a [u64; MARK_WORDS],
    pub(crate) class: usize,
    pub(crate) total_ns: u64,
    pub(crate) ended_ms: u64,
}

impl RingCells {
    /// Writes a slow mark over the oldest one, unless that is slower and so young that no reader
    /// may have seen it: of many in a short time those stay that are worth to be seen.
    pub(crate) fn put_slow(
        &self,
        mark: SlowMark<'_>,
        weigh: impl Fn(&[u64; MARK_WORDS]) -> [u64; 2],
    ) {
        let count = self.counts[SLOW].load(Ordering::Relaxed);
        let cells = &self.marks[SLOW][count as usize % MARKS];
        let [total_ns, ended_ms] =
            weigh(&cells.words.each_ref().map(|word| word.load(Ordering::Relaxed)));
        let is_fresh = mark.ended_ms.abs_diff(ended_ms) < FRESH_MARK_MS;
        // Before the mark: a reader never takes more than it knows of.
        let ended = &self.slow[mark.class];
        ended.store(ended.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        if is_fresh && total_ns > mark.total_ns {
            self.counts[SLOW].store(count + 1, Ordering::Release);
        } else {
            self.put(SLOW, mark.words);
        }
    }

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
