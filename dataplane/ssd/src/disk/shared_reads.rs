//! Reads whose bytes another call can use: those under way, which a second call for the same bytes
//! joins, and for promotions those that have ended lately.
//! Invariant: a read that has failed is found by no call that comes later, and what is kept is
//! bounded in bytes, in number and in time.

use super::span::{BlockSpan, SpanReading};
use crate::limits::{
    KEPT_READ_BYTES_MAX, KEPT_READS_MAX, KEPT_READS_TIME, SHARED_LOOKS, STALL_SHOWN,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

/// Which reads of others a call can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadSource {
    /// Those under way.
    UnderWay,
    /// Those that have ended lately, too.
    Lately,
    /// None: the disk is read.
    Disk,
}

/// Segment, where it begins, and what tells it from others that begin there.
type ReadingPlace = (u32, u32, usize);

#[derive(Default)]
pub(super) struct SharedReads {
    /// Each with when it began.
    under_way: RefCell<BTreeMap<ReadingPlace, (Duration, Rc<SpanReading>)>>,
    ended: RefCell<EndedReads>,
}

/// Reads that have ended, the latest ones last.
#[derive(Default)]
struct EndedReads {
    readings: VecDeque<(Duration, Rc<SpanReading>)>,
    bytes: u64,
}

fn place(reading: &Rc<SpanReading>) -> ReadingPlace {
    (reading.span.sequence, reading.span.start, Rc::as_ptr(reading).addr())
}

impl SharedReads {
    /// A read of another call that brings these blocks, or has brought them.
    pub(super) fn find(
        &self,
        span: &BlockSpan,
        source: ReadSource,
        now: Duration,
    ) -> Option<Rc<SpanReading>> {
        match source {
            ReadSource::Disk => None,
            ReadSource::UnderWay => self.under_way(span, now),
            ReadSource::Lately => self.under_way(span, now).or_else(|| self.ended(span)),
        }
    }

    fn under_way(&self, span: &BlockSpan, now: Duration) -> Option<Rc<SpanReading>> {
        let under_way = self.under_way.borrow();
        // What covers the blocks begins at their first one, or not far before it.
        let before = under_way.range(..=(span.sequence, span.start, usize::MAX)).rev();
        let mut near = before.take(SHARED_LOOKS).map(|(_, reading)| reading);
        // Behind one that hangs another one may come sooner.
        let is_joined = |(began, reading): &&(Duration, Rc<SpanReading>)| {
            reading.has(span) && !reading.has_failed() && now < *began + STALL_SHOWN
        };
        near.find(is_joined).map(|(_, reading)| reading.clone())
    }

    fn ended(&self, span: &BlockSpan) -> Option<Rc<SpanReading>> {
        let ended = self.ended.borrow();
        let found = ended.readings.iter().rev().find(|(_, reading)| reading.has(span));
        found.map(|(_, reading)| reading.clone())
    }

    /// A read begins, which others may join.
    pub(super) fn note_begin(&self, reading: &Rc<SpanReading>, now: Duration) {
        let begun = (now, reading.clone());
        let before = self.under_way.borrow_mut().insert(place(reading), begun);
        debug_assert!(before.is_none(), "a read begins once");
    }

    /// A read is over; what it has brought is kept for promotions, if there are any.
    pub(super) fn note_end(&self, reading: &Rc<SpanReading>, is_kept: bool, now: Duration) {
        debug_assert!(reading.is_over(), "others may wait for it");
        let was_shared = self.under_way.borrow_mut().remove(&place(reading)).is_some();
        if was_shared && is_kept && !reading.has_failed() {
            self.ended.borrow_mut().push(reading.clone(), now);
        }
    }

    /// Gives the memory of the oldest read back that has ended; false if none is kept.
    pub(super) fn forget_one(&self) -> bool {
        self.ended.borrow_mut().pop()
    }

    /// Gives the memory of reads back that nothing has wanted for long.
    pub(super) fn forget_old(&self, now: Duration) {
        let mut ended = self.ended.borrow_mut();
        let is_old = |ended: &EndedReads| {
            ended.readings.front().is_some_and(|(at, _)| *at + KEPT_READS_TIME < now)
        };
        while is_old(&ended) {
            ended.pop();
        }
    }
}

impl EndedReads {
    fn push(&mut self, reading: Rc<SpanReading>, now: Duration) {
        self.bytes += reading.span.bytes();
        self.readings.push_back((now, reading));
        while self.bytes > KEPT_READ_BYTES_MAX || self.readings.len() > KEPT_READS_MAX {
            self.pop();
        }
    }

    fn pop(&mut self) -> bool {
        let Some((_, reading)) = self.readings.pop_front() else { return false };
        self.bytes -= reading.span.bytes();
        debug_assert_eq!(self.bytes == 0, self.readings.is_empty(), "each has bytes");
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::error::ReadError;
    use crate::limits::BLOCK_BYTES;

    const NOW: Duration = Duration::from_secs(9);

    fn span(start: u32, blocks: u32) -> BlockSpan {
        let start = start * BLOCK_BYTES;
        BlockSpan { sequence: 3, slot: 0, start, end: start + blocks * BLOCK_BYTES }
    }

    fn reading(span: BlockSpan) -> Rc<SpanReading> {
        Rc::new(SpanReading::of(span, None, &Rc::default()))
    }

    fn end(shared: &SharedReads, reading: &Rc<SpanReading>) {
        reading.left.set(0);
        shared.note_end(reading, true, NOW);
    }

    #[test]
    fn a_read_under_way_is_joined_by_what_it_covers_until_it_fails() {
        let (shared, own) = (SharedReads::default(), reading(span(4, 8)));
        shared.note_begin(&own, NOW);
        let find = |wanted: BlockSpan| shared.find(&wanted, ReadSource::UnderWay, NOW).is_some();
        assert!(find(span(4, 8)) && find(span(6, 2)) && find(span(11, 1)));
        assert!(!find(span(3, 2)) && !find(span(11, 2)) && !find(span(40, 1)));
        assert!(!find(BlockSpan { sequence: 4, ..span(4, 8) }));
        assert!(shared.find(&span(4, 8), ReadSource::Disk, NOW).is_none());
        let late = |after: Duration| shared.find(&span(4, 8), ReadSource::UnderWay, NOW + after);
        assert!(late(STALL_SHOWN).is_none(), "it hangs");
        own.fail(ReadError::Late);
        assert!(!find(span(4, 8)), "a failure stays with those that have waited for it");
        shared.note_end(&own, true, NOW);
        assert!(shared.find(&span(4, 8), ReadSource::Lately, NOW).is_none());
        assert!(!shared.forget_one());
    }

    #[test]
    fn what_has_ended_is_for_promotions_and_only_for_a_while() {
        let (shared, own) = (SharedReads::default(), reading(span(4, 8)));
        shared.note_begin(&own, NOW);
        end(&shared, &own);
        assert!(shared.find(&span(4, 8), ReadSource::UnderWay, NOW).is_none());
        assert!(shared.find(&span(5, 3), ReadSource::Lately, NOW).is_some());
        shared.forget_old(NOW + KEPT_READS_TIME);
        assert!(shared.find(&span(5, 3), ReadSource::Lately, NOW).is_some());
        shared.forget_old(NOW + KEPT_READS_TIME + Duration::from_millis(1));
        assert!(shared.find(&span(5, 3), ReadSource::Lately, NOW).is_none());
    }

    #[test]
    fn what_is_kept_is_bounded_in_bytes_and_in_number() {
        let shared = SharedReads::default();
        let blocks = (KEPT_READ_BYTES_MAX / 4 / u64::from(BLOCK_BYTES)) as u32;
        for at in 0..6 {
            let own = reading(span(at * blocks, blocks));
            shared.note_begin(&own, NOW);
            end(&shared, &own);
        }
        let is_kept =
            |at: u32| shared.find(&span(at * blocks, 1), ReadSource::Lately, NOW).is_some();
        assert_eq!((0..6).filter(|at| is_kept(*at)).collect::<Vec<_>>(), [2, 3, 4, 5]);
        for at in 0..=KEPT_READS_MAX as u32 {
            let own = reading(span(at, 1));
            shared.note_begin(&own, NOW);
            end(&shared, &own);
        }
        assert!(!is_kept(0) && (0..KEPT_READS_MAX).all(|_| shared.forget_one()));
        assert!(!shared.forget_one());
    }
}
