//! A disk of a process as words in its page. Invariant: one thread writes a place, and a number
//! tells whether what a reader has copied is whole.

use crate::limits::{DISK_PATH_BYTES, DISK_REASON_BYTES, DISK_STATE_BYTES, LATENCY_BUCKETS};
use std::sync::atomic::{AtomicU64, Ordering, fence};

pub(crate) const TEXT_WORDS: usize = (DISK_PATH_BYTES + DISK_REASON_BYTES + DISK_STATE_BYTES) / 8;
const NUMBERS: usize = 8;
const TIMES: usize = LATENCY_BUCKETS + 1;
pub(crate) const DISK_WORDS: usize = TEXT_WORDS + NUMBERS + 2 * TIMES;

/// A disk in the page. The number is odd while it is written, and 0 where there is none.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct DiskPlaceCells {
    number: AtomicU64,
    words: [AtomicU64; DISK_WORDS],
}

pub(crate) const DISK_BYTES: usize = size_of::<DiskPlaceCells>();

const _: () = assert!(TEXT_WORDS * 8 == DISK_PATH_BYTES + DISK_REASON_BYTES + DISK_STATE_BYTES);

impl DiskPlaceCells {
    /// There is no disk here any more.
    pub(crate) fn clear(&self) {
        self.number.store(0, Ordering::Release);
    }

    pub(crate) fn put(&self, words: &[u64; DISK_WORDS]) {
        let number = self.number.load(Ordering::Relaxed) | 1;
        self.number.store(number, Ordering::Relaxed);
        // A reader that sees one of the new words also sees the odd number.
        fence(Ordering::Release);
        for (cell, word) in self.words.iter().zip(words) {
            cell.store(*word, Ordering::Relaxed);
        }
        self.number.store(number.wrapping_add(1).max(2), Ordering::Release);
    }
}
