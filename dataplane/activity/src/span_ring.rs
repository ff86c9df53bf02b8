//! The latest spans that a process has kept, as words in its page. Invariant: one thread writes at
//! a time, and a span's number tells whether it is whole.

use crate::limits::SPANS;
use std::sync::atomic::{AtomicU64, Ordering, fence};

pub(crate) const SPAN_WORDS: usize = 31;

/// A span in the page. The number is odd while it is written, and twice the count of spans up to
/// this one afterwards.
#[derive(Debug)]
#[repr(C, align(64))]
struct SpanCells {
    number: AtomicU64,
    words: [AtomicU64; SPAN_WORDS],
}

/// The spans, behind the count of those that were ever written.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct SpanRing {
    count: AtomicU64,
    spans: [SpanCells; SPANS],
}

/// Bytes before the spans.
pub(crate) const SPANS_HEAD_BYTES: usize = std::mem::offset_of!(SpanRing, spans);
pub(crate) const SPAN_BYTES: usize = size_of::<SpanCells>();
pub(crate) const SPAN_RING_BYTES: usize = size_of::<SpanRing>();

const _: () = assert!(SPANS_HEAD_BYTES == 64 && SPAN_BYTES == 256);

impl SpanRing {
    /// Writes a span over the oldest one. The caller sees to it that no other thread does.
    pub(crate) fn put(&self, span: &[u64; SPAN_WORDS]) {
        let count = self.count.load(Ordering::Relaxed);
        let cells = &self.spans[count as usize % SPANS];
        cells.number.store(2 * count + 1, Ordering::Relaxed);
        // A reader that sees one of the new words also sees the odd number.
        fence(Ordering::Release);
        for (cell, word) in cells.words.iter().zip(span) {
            cell.store(*word, Ordering::Relaxed);
        }
        cells.number.store(2 * count + 2, Ordering::Release);
        self.count.store(count + 1, Ordering::Release);
    }
}
