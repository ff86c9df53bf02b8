//! One call for pieces of images: which blocks it reads itself, which ones a read of another call
//! brings, and what becomes of each piece.
//! Invariant: a call ends within its own deadline, and not earlier because a read that it has
//! joined had less time.

use super::change_notify::ChangeNotify;
use super::command::{DiskPiece, ReadPromise};
use super::driver::DiskDriver;
use super::error::ReadError;
use super::event::DiskEvent;
use super::shared_reads::ReadSource;
use super::span::{BlockSpan, SpanReading, merge};
use super::status::count;
use crate::limits::READ_DEADLINE;
use crate::stage::StagedBytes;
use perigee_schemas::extent::GENERATION_BYTES;
use perigee_shard::{Environment, at_most};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

type PieceResult = Result<StagedBytes, ReadError>;

/// A call whose reads have begun.
struct ReadCall {
    pieces: Vec<DiskPiece>,
    placed: Vec<Option<PlacedPiece>>,
    /// Reads of its own, then those of others.
    readings: Vec<Rc<SpanReading>>,
    changes: Rc<ChangeNotify>,
}

/// Where a piece lies in its file.
struct PlacedPiece {
    own: BlockSpan,
    guard: Option<BlockSpan>,
    /// A read of another call brings its bytes.
    is_joined: bool,
}

impl<E: Environment> DiskDriver<E> {
    pub(super) fn take_read(
        self: &Rc<Self>,
        pieces: Vec<DiskPiece>,
        source: ReadSource,
        promise: ReadPromise,
    ) {
        if !self.takes_reads() {
            let error = ReadError::State(self.cells.state());
            promise.give(pieces.iter().map(|_| Err(error.clone())).collect());
            return;
        }
        let end = self.now() + READ_DEADLINE;
        let call = self.begin_call(pieces, source, end);
        if source == ReadSource::UnderWay && self.promotes() {
            self.tell(DiskEvent::Read);
        }
        let driver = self.clone();
        self.environment.spawn(async move {
            let mut results = driver.end_call(&call, end).await;
            let again: Vec<usize> =
                (0..results.len()).filter(|at| call.is_read_again(*at, &results[*at])).collect();
            if !again.is_empty() && driver.now() < end {
                let pieces = again.iter().map(|at| call.pieces[*at]).collect();
                let second = driver.begin_call(pieces, ReadSource::Disk, end);
                for (at, result) in again.iter().zip(driver.end_call(&second, end).await) {
                    results[*at] = result;
                }
            }
            driver.count_reads(&call, source, &results, &again);
            promise.give(results);
        });
    }

    /// Reads one piece from the disk, whatever others read.
    pub(super) async fn read_alone(
        self: &Rc<Self>,
        piece: DiskPiece,
        end: Duration,
    ) -> PieceResult {
        let call = self.begin_call(vec![piece], ReadSource::Disk, end);
        self.end_call(&call, end).await.pop().unwrap_or(Err(ReadError::Gone))
    }

    fn begin_call(
        self: &Rc<Self>,
        pieces: Vec<DiskPiece>,
        source: ReadSource,
        end: Duration,
    ) -> ReadCall {
        let changes = Rc::new(ChangeNotify::default());
        let (mut spans, mut holds) = (Vec::new(), Vec::new());
        let mut joined: Vec<Rc<SpanReading>> = Vec::new();
        let mut place = |address, bytes| {
            let (span, hold) = self.span(address, bytes)?;
            let Some(reading) = self.shared.find(&span, source, self.now()) else {
                spans.push(span);
                holds.push(hold);
                return Some((span, false));
            };
            if !joined.iter().any(|known| Rc::ptr_eq(known, &reading)) {
                reading.listen(&changes);
                joined.push(reading);
            }
            Some((span, true))
        };
        let placed: Vec<_> = pieces
            .iter()
            .map(|piece| {
                let (own, is_joined) = place(piece.address, piece.bytes)?;
                let guard = match piece.guard {
                    Some((word, _)) => Some(place(word, GENERATION_BYTES as u32)?.0),
                    None => None,
                };
                Some(PlacedPiece { own, guard, is_joined })
            })
            .collect();
        debug_assert_eq!(spans.len(), holds.len(), "what is read stays until it was read");
        let mut readings: Vec<_> =
            merge(spans).into_iter().map(|span| self.reading(span, &changes)).collect();
        if !readings.is_empty() {
            let (driver, begun) = (self.clone(), readings.clone());
            self.environment.spawn(async move { driver.begin_readings(&begun, holds, end).await });
        }
        readings.extend(joined);
        ReadCall { pieces, placed, readings, changes }
    }

    /// A read that begins, which later calls may join.
    fn reading(&self, span: BlockSpan, changes: &Rc<ChangeNotify>) -> Rc<SpanReading> {
        let cipher = self.cipher(span.sequence);
        debug_assert!(cipher.is_ok(), "a segment that is held has its key");
        let is_lost = cipher.is_err();
        let reading = Rc::new(SpanReading::of(span, cipher.ok().flatten(), changes));
        match is_lost {
            true => reading.fail(ReadError::Gone),
            false => self.shared.note_begin(&reading, self.now()),
        }
        reading
    }

    /// What has become of the pieces of a call when all is over, or time is.
    async fn end_call(&self, call: &ReadCall, end: Duration) -> Vec<PieceResult> {
        let is_over = || call.readings.iter().all(|reading| reading.is_over()).then_some(());
        let left = end.saturating_sub(self.now());
        let _ = at_most(&self.environment, left, call.changes.until(is_over)).await;
        let results: Vec<_> = (0..call.pieces.len()).map(|at| call.finish(at)).collect();
        debug_assert_eq!(results.len(), call.placed.len(), "one result per piece");
        results
    }

    fn count_reads(
        &self,
        call: &ReadCall,
        source: ReadSource,
        results: &[PieceResult],
        again: &[usize],
    ) {
        let (mut own, mut joined, mut bytes) = (0, 0, 0);
        for (at, piece) in call.pieces.iter().enumerate().filter(|(at, _)| results[*at].is_ok()) {
            match call.is_joined(at) && !again.contains(&at) {
                true => joined += 1,
                false => own += 1,
            }
            bytes += u64::from(piece.bytes);
        }
        let counters = &self.cells.counters;
        if source == ReadSource::UnderWay {
            count(&counters.read_pieces, own + joined);
            count(&counters.joined_pieces, joined);
            count(&counters.read_bytes, bytes);
        } else {
            count(&counters.promotions_read, own);
            count(&counters.promotions_joined, joined);
        }
    }

    /// Whether what is read may be wanted in memory soon.
    pub(super) fn promotes(&self) -> bool {
        self.promotes.load(Ordering::Relaxed)
    }
}

impl ReadCall {
    fn is_joined(&self, at: usize) -> bool {
        self.placed[at].as_ref().is_some_and(|placed| placed.is_joined)
    }

    /// Whether a piece is read once more by this call itself. What another call has run out of,
    /// this one may have yet; and bytes that were not written yet when that one asked for them are
    /// there by now. A failure of the disk is one for all.
    fn is_read_again(&self, at: usize, result: &PieceResult) -> bool {
        let is_of_the_other =
            matches!(result, Err(ReadError::Late | ReadError::Crowded | ReadError::Gone));
        is_of_the_other && self.is_joined(at)
    }

    /// What has become of a piece.
    fn finish(&self, at: usize) -> PieceResult {
        let (piece, placed) = (&self.pieces[at], self.placed[at].as_ref());
        let placed = placed.ok_or(ReadError::Gone)?;
        let find = |span: &BlockSpan| {
            let found = self.readings.iter().find(|reading| reading.has(span));
            let found = found.ok_or(ReadError::Gone)?;
            if found.is_over() { Ok(found) } else { Err(ReadError::Late) }
        };
        let bytes = find(&placed.own)?.bytes(piece.address, piece.bytes)?;
        if let (Some(span), Some((word, value))) = (placed.guard, piece.guard) {
            let found = find(&span)?.bytes(word, GENERATION_BYTES as u32)?;
            if found.as_slice() != value.to_le_bytes() {
                return Err(ReadError::Gone);
            }
        }
        Ok(bytes)
    }
}
