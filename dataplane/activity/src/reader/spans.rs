//! Reading the spans that a process has kept. Invariant: a span is taken once, and only if it was
//! whole both before and after it was copied.

use super::PageReader;
use super::ring_entry::whole_entry;
use crate::layout::{PageHeader, SPANS_OFFSET};
use crate::limits::SPANS;
use crate::span::Span;
use crate::span_ring::{SPAN_BYTES, SPAN_RING_BYTES, SPAN_WORDS, SPANS_HEAD_BYTES};
use std::io;
use std::mem::offset_of;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// How far a reader has come in the spans of one page.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpansSeen(u64);

/// New entries since the last reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptSpans {
    /// Spans in the order in which they were kept.
    pub spans: Vec<Span>,
    /// Those that were overwritten before they were seen.
    pub lost: u64,
}

impl PageReader {
    /// The spans that were kept since the last call with the same `seen`; none in the page of an
    /// older build.
    ///
    /// # Errors
    /// The page has shrunk.
    pub fn spans(&self, seen: &mut SpansSeen) -> io::Result<KeptSpans> {
        let room = self.count_at(offset_of!(PageHeader, spans))?;
        if room != SPANS as u64 {
            return Ok(KeptSpans::default());
        }
        let count = self.count_at(SPANS_OFFSET)?;
        if count == seen.0 {
            return Ok(KeptSpans::default());
        }
        // One that is being written differs between two copies, or has an odd number.
        let (mut before, mut after) = (vec![0; SPAN_RING_BYTES], vec![0; SPAN_RING_BYTES]);
        self.file.read_exact_at(&mut before, SPANS_OFFSET as u64)?;
        self.file.read_exact_at(&mut after, SPANS_OFFSET as u64)?;
        let copies = before[SPANS_HEAD_BYTES..].chunks_exact(SPAN_BYTES);
        let copies = copies.zip(after[SPANS_HEAD_BYTES..].chunks_exact(SPAN_BYTES));
        let fresh = seen.0..count;
        let mut taken: Vec<(u64, Option<Span>)> =
            copies.filter_map(|(one, other)| whole(one, other, fresh.clone())).collect();
        taken.sort_by_key(|(number, _)| *number);
        let lost = count.saturating_sub(seen.0).saturating_sub(taken.len() as u64);
        *seen = SpansSeen(count);
        Ok(KeptSpans { spans: taken.into_iter().filter_map(|(_, span)| span).collect(), lost })
    }

    fn count_at(&self, offset: usize) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, offset as u64)?;
        Ok(u64::from_ne_bytes(bytes))
    }
}

/// A span whose copies agree, if its count is a fresh one; `None` inside for a kind that this build
/// does not know.
fn whole(one: &[u8], other: &[u8], fresh: Range<u64>) -> Option<(u64, Option<Span>)> {
    let (count, words) = whole_entry::<SPAN_WORDS>(one, other, &fresh)?;
    Some((count, Span::decode(&words)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::{PageDirectory, pages};
    use crate::page::Page;
    use crate::span::SpanKind;

    fn page() -> (tempfile::TempDir, &'static Page, PageReader) {
        let folder = tempfile::tempdir().unwrap();
        let directory = PageDirectory::new(folder.path());
        let page = Box::leak(Box::new(Page::create(&directory).unwrap()));
        let reader = pages(&directory).pop().unwrap();
        (folder, page, reader)
    }

    fn span(bytes: u64) -> Span {
        let mut span = Span::new(SpanKind::Transfer, "eth0", "10.0.0.9");
        span.bytes = bytes;
        span
    }

    #[test]
    fn every_span_is_taken_once_and_those_that_were_overwritten_are_counted() {
        let (_folder, page, reader) = page();
        let mut seen = SpansSeen::default();
        assert_eq!(reader.spans(&mut seen).unwrap(), KeptSpans::default());
        for turn in 0..SPANS as u64 {
            page.put_spans(&[span(turn), span(turn + 1)]);
            let reading = reader.spans(&mut seen).unwrap();
            assert_eq!((reading.spans, reading.lost), (vec![span(turn), span(turn + 1)], 0));
        }
        let many: Vec<Span> = (0..SPANS as u64 + 7).map(span).collect();
        page.put_spans(&many);
        let reading = reader.spans(&mut seen).unwrap();
        assert_eq!((&reading.spans[..], reading.lost), (&many[7..], 7));
    }

    /// The kernel lets a process write what it likes into its own page.
    #[test]
    fn a_page_that_lies_gives_no_more_than_it_has_room_for() {
        let (_folder, _page, reader) = page();
        let file = std::fs::OpenOptions::new().write(true).open(reader.path()).unwrap();
        let span = [&u64::MAX.wrapping_sub(1).to_ne_bytes()[..], &[0xff; SPAN_BYTES - 8]].concat();
        let ring = [&[0xff; SPANS_HEAD_BYTES][..], &span.repeat(SPANS)].concat();
        file.write_all_at(&ring, SPANS_OFFSET as u64).unwrap();
        let mut seen = SpansSeen::default();
        assert!(reader.spans(&mut seen).unwrap().spans.is_empty(), "no kind that is known");
        // A count that falls gives nothing.
        file.write_all_at(&[0; 8], SPANS_OFFSET as u64).unwrap();
        assert_eq!(reader.spans(&mut seen).unwrap(), KeptSpans::default());
        file.set_len(SPANS_OFFSET as u64).unwrap();
        assert!(reader.spans(&mut seen).is_err());
    }
}
