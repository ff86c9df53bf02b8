//! Reads of blocks of the files, all of a call under way at once.
//! Invariant: a segment is not used again from before a read of it to after it.

use super::driver::DiskDriver;
use super::error::ReadError;
use super::file_use::FileUse;
use super::span::{BlockSpan, SpanReading};
use crate::limits::{READ_BYTES_MAX, STAGE_BYTES_MAX, STAGE_LEFT_BYTES, STAGE_LOOK};
use crate::recovery::ReadAt;
use crate::stage::{PooledStage, StagePool};
use perigee_schemas::disk_address::DiskAddress;
use perigee_shard::{Environment, File};
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

    fn end_reading(&self, reading: &Rc<SpanReading>, result: Result<(u32, u32), ReadError>) {
        match result.map(|(start, bytes)| reading.take_blocks(start, bytes)) {
            Ok(0) => {}
            Ok(blocks) => self.note_forged(reading.span.slot, blocks),
            Err(error) => reading.fail(error),
        }
        if reading.is_over() {
            self.shared.note_end(reading, self.promotes(), self.now());
        }
        reading.notify();
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
            if place.is_first() && self.shared.forget_one() {
                continue;
            }
            if self.now() >= end {
                return Err(ReadError::Crowded);
            }
            self.environment.sleep(STAGE_LOOK).await;
        }
    }
}
