//! Reads: pieces of images become few reads of the file, all under way at once.
//! Invariant: a piece is handed out only if its segment was the same from before the read to after
//! it, and its guard lies there as it must.

use super::change_notify::ChangeNotify;
use super::command::{DiskPiece, ReadPromise};
use super::driver::DiskDriver;
use super::error::ReadError;
use super::file_use::FileUse;
use super::span::{BlockSpan, SpanReading, merge};
use super::status::count;
use crate::limits::{READ_BYTES_MAX, READ_DEADLINE, STAGE_BYTES_MAX, STAGE_LEFT_BYTES, STAGE_LOOK};
use crate::recovery::ReadAt;
use crate::stage::{PooledStage, StagePool, StagedBytes};
use perigee_schemas::disk_address::DiskAddress;
use perigee_schemas::extent::GENERATION_BYTES;
use perigee_shard::{Environment, File, at_most};
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
        self.driver.changes.notify();
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
        debug_assert_eq!(spans.len(), holds.len(), "what is read stays until it was read");
        let changes = Rc::new(ChangeNotify::default());
        let readings = merge(spans).into_iter().map(|span| {
            let cipher = self.cipher(span.sequence);
            debug_assert!(cipher.is_ok(), "a segment that is held has its key");
            let error = cipher.as_ref().err().map(|_| ReadError::Gone);
            let reading = SpanReading::of(span, cipher.ok().flatten(), &changes);
            *reading.error.borrow_mut() = error;
            Rc::new(reading)
        });
        let readings: Vec<_> = readings.collect();
        let end = self.now() + READ_DEADLINE;
        let (driver, begun) = (self.clone(), readings.clone());
        self.environment.spawn(async move { driver.begin_readings(&begun, holds, end).await });
        let (driver, pieces) = (self.clone(), pieces.to_vec());
        self.environment.spawn(async move {
            let is_over = || readings.iter().all(|reading| reading.is_over()).then_some(());
            let waiting = changes.until(is_over);
            let _ = at_most(&driver.environment, READ_DEADLINE, waiting).await;
            let results = pieces.iter().zip(placed);
            let results = results.map(|(piece, placed)| finish(piece, placed, &readings));
            let results: Vec<_> = results.collect();
            debug_assert_eq!(results.len(), pieces.len(), "one result per piece");
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

    /// Blocks of a segment's file as they are, and a hold on the segment.
    pub(super) fn block_span(
        self: &Rc<Self>,
        sequence: u32,
        read: ReadAt,
    ) -> Option<(BlockSpan, Hold<E>)> {
        let slot = self.log.borrow_mut().hold(sequence)?;
        let hold = Hold { driver: self.clone(), sequence };
        let (start, end) = (read.offset, read.offset + read.bytes);
        Some((BlockSpan { sequence, slot, start, end }, hold))
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
                debug_assert_eq!(stages.len(), readings.len(), "each span has its memory");
                for (reading, stage) in readings.iter().zip(stages) {
                    self.read_span(reading, Arc::new(stage), &holds, end).await;
                }
            }
            Err(error) => {
                readings.iter().for_each(|it| self.end_reading(it, Err(error.clone())));
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
            return self.end_reading(reading, Err(ReadError::Gone));
        };
        let mut start = span.start;
        while start < span.end {
            let bytes = (span.end - start).min(READ_BYTES_MAX);
            self.flow.begin_read(bytes).await;
            if self.now() >= end {
                self.flow.end_read(bytes, self.now());
                return self.end_reading(reading, Err(ReadError::Late));
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
                driver.end_reading(&reading, result.map(|bytes| (start, bytes)));
            });
            start += bytes;
        }
    }

    fn end_reading(&self, reading: &SpanReading, result: Result<(u32, u32), ReadError>) {
        match result.map(|(start, bytes)| reading.take_blocks(start, bytes)) {
            Ok(0) => {}
            Ok(blocks) => self.note_forged(reading.span.slot, blocks),
            Err(error) => *reading.error.borrow_mut() = Some(error),
        }
        reading.changes.notify();
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
