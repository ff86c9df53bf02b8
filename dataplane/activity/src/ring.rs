//! The marks of one thread: its latest batches, and slow ones, of which the slowest stay until a
//! reader has come by. Invariant: one writer; what a reader takes was written whole.

use crate::link::now_ms;
use crate::mark::BatchMark;
use crate::page::{Page, page};
use crate::ring_cells::{RECENT, RingCells, SlowMark};
use crate::slot::grow;
use std::cell::OnceCell;
use std::marker::PhantomData;

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
        self.cells.put(RECENT, &mark.encode());
        if let Some(class) = mark.slow_class() {
            self.put_slow(mark, class, now_ms());
        }
    }

    pub(crate) fn put_slow(&self, mark: &BatchMark, class: usize, ended_ms: u64) {
        let mut slow = *mark;
        slow.ended_ms = ended_ms;
        let (words, total_ns) = (&slow.encode(), slow.total_ns());
        self.cells.put_slow(SlowMark { words, class, total_ns, ended_ms }, |words| {
            let before = BatchMark::decode(words);
            [before.total_ns(), before.ended_ms]
        });
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
