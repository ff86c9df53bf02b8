//! Reads: pieces of images become few reads of the file, all under way at once.
//! Invariant: a piece is handed out only if its segment was the same from before the read to after
//! it, and its guard lies there as it must.

use super::bell::ChangeBell;
use super::command::{DiskPiece, ReadPromise};
use super::driver::DiskDriver;
use super::error::ReadError;
use super::file_use::FileUse;
use super::status::count;
use crate::limits::{
    BLOCK_BYTES, READ_BYTES_MAX, READ_DEADLINE, READ_GAP_BYTES, STAGE_BYTES_MAX, STAGE_LEFT_BYTES,
    STAGE_LOOK,
};
use crate::stage::{PooledStage, StagePool, StagedBytes};
use perigee_schemas::disk_address::DiskAddress;
use perigee_schemas::extent::GENERATION_BYTES;
use perigee_shard::{Environment, File, at_most};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A segment that is not used again while this is kept.
pub(super) struct Hold<E: Environment> {
    driver: Rc<DiskDriver<E>>,
    sequence: u32,
}

impl<E: Environment> Drop for Hold<E> {
    fn drop(&mut self) {
        self.driver.log.borrow_mut().end_read(self.sequence);
        self.driver.bell.ring();
    }
}

/// Whole blocks of one file that are read into one stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BlockSpan {
    sequence: u32,
    slot: u32,
    start: u32,
    end: u32,
}

impl BlockSpan {
    /// Whether `other`, which begins no earlier, is read with it.
    fn takes(&self, other: &Self) -> bool {
        let is_near = other.start <= self.end.saturating_add(READ_GAP_BYTES);
        let fits = other.start < self.end || other.end.max(self.end) - self.start <= READ_BYTES_MAX;
        (self.sequence, self.slot) == (other.sequence, other.slot) && is_near && fits
    }
}

/// Spans that overlap or are near become one.
fn merge(mut spans: Vec<BlockSpan>) -> Vec<BlockSpan> {
    spans.sort_unstable();
    let mut merged: Vec<BlockSpan> = Vec::with_capacity(spans.len());
    for span in spans {
        match merged.last_mut() {
            Some(last) if last.takes(&span) => last.end = last.end.max(span.end),
            _ => merged.push(span),
        }
    }
    merged
}

/// A span that is being read.
pub(super) struct SpanReading {
    span: BlockSpan,
    stage: RefCell<Option<Arc<PooledStage>>>,
    left: Cell<u32>,
    error: RefCell<Option<ReadError>>,
    /// Rung when it is over.
    bell: Rc<ChangeBell>,
}

impl SpanReading {
    pub(super) fn is_over(&self) -> bool {
        self.left.get() == 0 || self.error.borrow().is_some()
    }

    /// Bytes of the span that were read.
    pub(super) fn bytes(&self, address: DiskAddress, bytes: u32) -> Result<StagedBytes, ReadError> {
        if let Some(error) = &*self.error.borrow() {
            return Err(error.clone());
        }
        let stage = self.stage.borrow().clone().ok_or(ReadError::Late)?;
        let start = (address.offset - self.span.start) as usize;
        Ok(StagedBytes::new(stage, start, bytes as usize))
    }
}

impl<E: Environment> DiskDriver<E> {
    pub(super) fn take_read(self: &Rc<Self>, pieces: &[DiskPiece], promise: ReadPromise) {
        if !self.takes_reads() {
            let error = ReadError::State(self.cells.state());
            promise.give(pieces.iter().map(|_| Err(error.clone())).collect());
            return;
        }
        let (mut spans, mut holds) = (Vec::new(), Vec::new());
        let mut place = |address, bytes| {
            let (span, hold) = self.span(address, bytes)?;
            spans.push(span);
            holds.push(hold);
            Some(span)
        };
        let placed: Vec<_> = pieces
            .iter()
            .map(|piece| {
                let own = place(piece.address, piece.bytes)?;
                let guard = match piece.guard {
                    Some((word, _)) => Some(place(word, GENERATION_BYTES as u32)?),
                    None => None,
                };
                Some((own, guard))
            })
            .collect();
        let bell = Rc::new(ChangeBell::default());
        let reading = |span| Rc::new(SpanReading::of(span, &bell));
        let readings: Vec<_> = merge(spans).into_iter().map(reading).collect();
        let end = self.now() + READ_DEADLINE;
        let (driver, begun) = (self.clone(), readings.clone());
        self.environment.spawn(async move { driver.begin_readings(&begun, holds, end).await });
        let (driver, pieces) = (self.clone(), pieces.to_vec());
        self.environment.spawn(async move {
            let is_over = || readings.iter().all(|reading| reading.is_over()).then_some(());
            let waiting = bell.until(is_over);
            let _ = at_most(&driver.environment, READ_DEADLINE, waiting).await;
            let results = pieces.iter().zip(placed);
            let results = results.map(|(piece, placed)| finish(piece, placed, &readings));
            let results: Vec<_> = results.collect();
            driver.count_reads(&pieces, &results);
            promise.give(results);
        });
    }

    /// The blocks that have these bytes, and a hold on their segment.
    pub(super) fn span(
        self: &Rc<Self>,
        address: DiskAddress,
        bytes: u32,
    ) -> Option<(BlockSpan, Hold<E>)> {
        let read = self.log.borrow_mut().read(address, bytes.max(1))?;
        let hold = Hold { driver: self.clone(), sequence: read.sequence };
        let (start, end) = (read.offset, read.offset + read.bytes);
        Some((BlockSpan { sequence: read.sequence, slot: read.slot, start, end }, hold))
    }

    /// Begins all reads of a call. What has begun ends by itself, also when nothing waits for it
    /// any more: until then its segments stay.
    pub(super) async fn begin_readings(
        self: &Rc<Self>,
        readings: &[Rc<SpanReading>],
        holds: Vec<Hold<E>>,
        end: Duration,
    ) {
        let holds = Rc::new(holds);
        let sizes = readings.iter().map(|reading| reading.left.get() as usize);
        match self.stages_for_read(&sizes.collect::<Vec<_>>(), end).await {
            Ok(stages) => {
                for (reading, stage) in readings.iter().zip(stages) {
                    self.read_span(reading, Arc::new(stage), &holds, end).await;
                }
            }
            Err(error) => {
                readings.iter().for_each(|it| Self::end_reading(it, Err(error.clone())));
            }
        }
    }

    async fn read_span(
        self: &Rc<Self>,
        reading: &Rc<SpanReading>,
        stage: Arc<PooledStage>,
        holds: &Rc<Vec<Hold<E>>>,
        end: Duration,
    ) {
        let span = reading.span;
        self.register(&stage);
        *reading.stage.borrow_mut() = Some(stage.clone());
        let Some(file) = self.file(span.slot) else {
            return Self::end_reading(reading, Err(ReadError::Gone));
        };
        let mut start = span.start;
        while start < span.end {
            let bytes = (span.end - start).min(READ_BYTES_MAX);
            self.flow.begin_read(bytes).await;
            if self.now() >= end {
                self.flow.end_read(bytes, self.now());
                return Self::end_reading(reading, Err(ReadError::Late));
            }
            let message = stage.message((start - span.start) as usize, bytes as usize);
            let (driver, file) = (self.clone(), file.clone());
            let (reading, holds) = (reading.clone(), holds.clone());
            self.environment.spawn(async move {
                let read = async {
                    match file.read_at(message, u64::from(start)).await? {
                        found if found == bytes as usize => Ok(bytes),
                        _ => Err(io::ErrorKind::UnexpectedEof.into()),
                    }
                };
                let result = driver.timed(FileUse::Read, read).await;
                driver.flow.end_read(bytes, driver.now());
                drop(holds);
                let result = result.map_err(|error| ReadError::Io(error.to_string()));
                Self::end_reading(&reading, result);
            });
            start += bytes;
        }
    }

    fn end_reading(reading: &SpanReading, result: Result<u32, ReadError>) {
        match result {
            Ok(bytes) => reading.left.set(reading.left.get() - bytes),
            Err(error) => *reading.error.borrow_mut() = Some(error),
        }
        reading.bell.ring();
    }

    /// Memory for all spans of a call, for which it waits as long as its caller does, and in line:
    /// calls that each had a part of theirs would wait for each other.
    async fn stages_for_read(
        &self,
        sizes: &[usize],
        end: Duration,
    ) -> Result<Vec<PooledStage>, ReadError> {
        if StagePool::bytes_of(sizes) > STAGE_BYTES_MAX - STAGE_LEFT_BYTES {
            return Err(ReadError::Crowded);
        }
        let place = self.flow.join_line();
        loop {
            if place.is_first()
                && let Some(stages) = self.stages.take_all(sizes, STAGE_LEFT_BYTES)
            {
                return Ok(stages);
            }
            if self.now() >= end {
                return Err(ReadError::Crowded);
            }
            self.environment.sleep(STAGE_LOOK).await;
        }
    }

    fn count_reads(&self, pieces: &[DiskPiece], results: &[Result<StagedBytes, ReadError>]) {
        let read = pieces.iter().zip(results).filter(|(_, result)| result.is_ok());
        let (mut count_read, mut bytes) = (0, 0);
        for (piece, _) in read {
            count_read += 1;
            bytes += u64::from(piece.bytes);
        }
        count(&self.cells.counters.read_pieces, count_read);
        count(&self.cells.counters.read_bytes, bytes);
    }
}

impl SpanReading {
    pub(super) fn of(span: BlockSpan, bell: &Rc<ChangeBell>) -> Self {
        debug_assert!(span.start < span.end && span.start.is_multiple_of(BLOCK_BYTES));
        let left = Cell::new(span.end - span.start);
        let (stage, error) = (RefCell::default(), RefCell::default());
        Self { span, stage, left, error, bell: bell.clone() }
    }

    fn has(&self, span: &BlockSpan) -> bool {
        let own = &self.span;
        own.sequence == span.sequence && own.start <= span.start && span.end <= own.end
    }
}

/// What has become of a piece.
fn finish(
    piece: &DiskPiece,
    placed: Option<(BlockSpan, Option<BlockSpan>)>,
    readings: &[Rc<SpanReading>],
) -> Result<StagedBytes, ReadError> {
    let (own, guard) = placed.ok_or(ReadError::Gone)?;
    let find = |span: &BlockSpan| {
        let found = readings.iter().find(|reading| reading.has(span)).ok_or(ReadError::Gone)?;
        if found.is_over() { Ok(found) } else { Err(ReadError::Late) }
    };
    let bytes = find(&own)?.bytes(piece.address, piece.bytes)?;
    if let (Some(span), Some((word, value))) = (guard, piece.guard) {
        let found = find(&span)?.bytes(word, GENERATION_BYTES as u32)?;
        if found.as_slice() != value.to_le_bytes() {
            return Err(ReadError::Gone);
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: u32, end: u32) -> BlockSpan {
        BlockSpan { sequence: 1, slot: 4, start, end }
    }

    #[test]
    fn neighbours_are_read_together_and_large_gaps_are_not_read() {
        let block = BLOCK_BYTES;
        let far = 100 * block;
        let spans = vec![span(far, far + block), span(0, block), span(4 * block, 5 * block)];
        assert_eq!(merge(spans), [span(0, 5 * block), span(far, far + block)]);
    }

    #[test]
    fn what_overlaps_is_read_once_and_neighbours_up_to_a_bound() {
        let whole = READ_BYTES_MAX;
        let spans = vec![span(0, 2 * whole), span(4096, 8192), span(2 * whole, 3 * whole)];
        assert_eq!(merge(spans), [span(0, 2 * whole), span(2 * whole, 3 * whole)]);
        let other = BlockSpan { sequence: 2, slot: 5, start: 8192, end: 12288 };
        assert_eq!(merge(vec![span(4096, 8192), other]).len(), 2, "of another segment");
    }
}
