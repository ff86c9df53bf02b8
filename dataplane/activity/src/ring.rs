//! The marks of one thread: its latest batches, and its latest slow ones, which come so much more
//! rarely that they stay until a reader has come by. Invariant: one writer; what a reader takes was
//! written whole.

use crate::limits::{MARKS, SLOW_MARK_NS};
use crate::link::now_ms;
use crate::mark::{BatchMark, MARK_WORDS};
use crate::page::{Page, page};
use crate::slot::grow;
use std::cell::OnceCell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering, fence};

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
    pub(crate) counts: [AtomicU64; 2],
    pub(crate) marks: [[MarkCells; MARKS]; 2],
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
    fn put(&self, kind: usize, mark: &BatchMark) {
        let count = self.counts[kind].load(Ordering::Relaxed);
        let cells = &self.marks[kind][count as usize % MARKS];
        cells.number.store(2 * count + 1, Ordering::Relaxed);
        // A reader that sees one of the new words also sees the odd number.
        fence(Ordering::Release);
        for (cell, word) in cells.words.iter().zip(mark.encode()) {
            cell.store(word, Ordering::Relaxed);
        }
        cells.number.store(2 * count + 2, Ordering::Release);
        self.counts[kind].store(count + 1, Ordering::Release);
    }
}

/// A ring on loan to one thread. Dropping it gives it back; its marks stay.
#[derive(Debug)]
pub struct MarkRing {
    page: &'static Page,
    index: usize,
    cells: &'static RingCells,
    /// Must not be written by two threads.
    thread: PhantomData<*const ()>,
}

impl MarkRing {
    /// A ring for this thread; `None` when all are taken.
    pub fn claim(page: &'static Page) -> Option<Self> {
        let (index, cells) = page.claim_ring()?;
        Some(Self { page, index, cells, thread: PhantomData })
    }

    /// Shows a finished batch.
    pub fn put(&self, mark: &BatchMark) {
        self.cells.put(RECENT, mark);
        if mark.total_ns() >= SLOW_MARK_NS {
            let mut slow = *mark;
            slow.ended_ms = now_ms();
            self.cells.put(SLOW, &slow);
        }
    }
}

impl Drop for MarkRing {
    fn drop(&mut self) {
        self.page.give_back_ring(self.index);
    }
}

thread_local! {
    /// `None` inside where all rings were taken when this thread ended its first batch.
    static RING: OnceCell<Option<MarkRing>> = const { OnceCell::new() };
}

/// Shows a finished batch to readers of the page of this process.
#[inline]
pub fn batch_done(mark: &BatchMark) {
    // A thread that is ending has no ring any more; what it still does is not shown.
    let _ = RING.try_with(|ring| match ring.get_or_init(|| page().and_then(MarkRing::claim)) {
        Some(ring) => ring.put(mark),
        None => page().into_iter().for_each(|page| grow(page.marks_lost(), 1)),
    });
}
