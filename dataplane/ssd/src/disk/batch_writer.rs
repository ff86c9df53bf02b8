//! One batch on its way to the disk, in pieces that are copied from memory just before they are
//! written. Invariant: an object is announced only if its memory was its own before and after all
//! of it was copied.

use super::command::Outgoing;
use super::driver::DiskDriver;
use super::error::WriteError;
use super::file_use::FileUse;
use super::folder::FileOf;
use super::status::count;
use super::write_queue::WriteTicket;
use crate::limits::BLOCK_BYTES;
use crate::log::{PlacedBatch, Tombstone, Written};
use crate::stage::PooledStage;
use perigee_schemas::disk_address::DiskAddress;
use perigee_schemas::extent::extent_bytes;
use perigee_shard::{Environment, File};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// What its pieces have come to.
#[derive(Default)]
struct BatchProgress {
    under_way: Cell<usize>,
    failed: RefCell<Option<io::Error>>,
}

impl<E: Environment> DiskDriver<E> {
    /// Begins to write a batch that the log has placed.
    pub(super) fn begin_batch(
        self: &Rc<Self>,
        batch: PlacedBatch,
        outgoing: Vec<Outgoing>,
        tickets: &[WriteTicket],
    ) {
        debug_assert_eq!(batch.images.len(), outgoing.len(), "each object has a place");
        debug_assert_eq!(tickets.len(), outgoing.len(), "each object has a caller who waits");
        for (image, ticket) in batch.images.iter().zip(tickets) {
            let address = DiskAddress { sequence: batch.sequence, offset: image.offset };
            self.queue.borrow_mut().place(address, ticket.clone());
        }
        self.batches.set(self.batches.get() + 1);
        self.unwritten.set(self.unwritten.get() + u64::from(batch.bytes));
        let driver = self.clone();
        self.environment.spawn(async move {
            let written = driver.write_pieces(&batch, &outgoing).await;
            driver.end_batch(&batch, &outgoing, written);
            driver.batches.set(driver.batches.get() - 1);
            driver.changes.notify();
        });
    }

    async fn write_pieces(
        self: &Rc<Self>,
        batch: &PlacedBatch,
        outgoing: &[Outgoing],
    ) -> io::Result<()> {
        let mut begun = 0;
        let written = match self.file(batch.slot) {
            Some(file) => self.write_to(&file, batch, outgoing, &mut begun).await,
            None => Err(io::ErrorKind::NotFound.into()),
        };
        // What was not tried any more.
        self.unwritten.set(self.unwritten.get() - u64::from(batch.bytes - begun));
        written
    }

    async fn write_to(
        self: &Rc<Self>,
        file: &FileOf<E>,
        batch: &PlacedBatch,
        outgoing: &[Outgoing],
        begun: &mut u32,
    ) -> io::Result<()> {
        let progress = Rc::new(BatchProgress::default());
        let (room, cipher) = (self.room(), self.cipher(batch.sequence)?);
        while *begun < batch.bytes && progress.failed.borrow().is_none() {
            let most = self.flow.begin_write(|| self.now()).await;
            let bytes = piece_bytes(batch.bytes - *begun, room.in_log(most));
            debug_assert!(bytes > 0 && bytes <= batch.bytes - *begun, "pieces are the whole batch");
            let (offset, blocks) = (room.on_disk(batch.offset + *begun), room.on_disk(bytes));
            // Reads leave some memory to writes, so that this ends soon.
            let mut stage = self.stages.wait(&self.environment, blocks as usize).await;
            self.register(&stage);
            fill(batch, outgoing, *begun, stage.as_mut_slice(bytes as usize));
            if let Some(cipher) = &cipher {
                cipher.encrypt(offset / BLOCK_BYTES, stage.as_mut_slice(blocks as usize));
            }
            self.begin_piece(file, (Arc::new(stage), bytes), offset, &progress);
            *begun += bytes;
        }
        self.changes.until(|| (progress.under_way.get() == 0).then_some(())).await;
        progress.failed.take().map_or(Ok(()), Err)
    }

    fn begin_piece(
        self: &Rc<Self>,
        file: &FileOf<E>,
        (stage, bytes): (Arc<PooledStage>, u32),
        offset: u32,
        progress: &Rc<BatchProgress>,
    ) {
        progress.under_way.set(progress.under_way.get() + 1);
        let (driver, file, progress) = (self.clone(), file.clone(), progress.clone());
        self.environment.spawn(async move {
            let blocks = driver.room().on_disk(bytes);
            let message = stage.message(0, blocks as usize);
            let writing = file.write_at(message, u64::from(offset));
            match driver.timed(FileUse::Write, writing).await {
                Ok(()) => count(&driver.cells.counters.written_bytes, blocks.into()),
                Err(error) => *progress.failed.borrow_mut() = Some(error),
            }
            drop(stage);
            progress.under_way.set(progress.under_way.get() - 1);
            driver.unwritten.set(driver.unwritten.get() - u64::from(bytes));
            driver.flow.end_write();
            driver.changes.notify();
        });
    }

    fn end_batch(&self, batch: &PlacedBatch, outgoing: &[Outgoing], written: io::Result<()>) {
        let now = self.now();
        if let Err(error) = written {
            let lost = self.log.borrow_mut().fail(batch);
            self.tombstones.borrow_mut().push_lost(lost, now);
            let tickets = self.queue.borrow_mut().take_placed_in(batch.sequence);
            let error = WriteError::Io(error.to_string());
            tickets.into_iter().for_each(|ticket| ticket.decide(Err(error.clone())));
            return;
        }
        self.note_written();
        let images = outgoing.iter().map(|it| extent_bytes(it.object.payload_bytes.into()));
        count(&self.cells.counters.image_bytes, images.sum());
        count(&self.cells.counters.written_objects, outgoing.len() as u64);
        self.bury_changed(batch, outgoing);
        let announced = self.log.borrow_mut().complete(batch);
        if self.log.borrow().sync_point().is_some() {
            self.tombstones.borrow_mut().note_written(now);
        }
        for Written { address, .. } in announced {
            let ticket = self.queue.borrow_mut().take_placed(address);
            if let Some(ticket) = ticket {
                ticket.decide(Ok(address));
            }
        }
    }

    /// Objects whose memory was given to others while it was copied: their entries are on the disk
    /// already, so a tombstone follows.
    fn bury_changed(&self, batch: &PlacedBatch, outgoing: &[Outgoing]) {
        for (image, Outgoing { object, source }) in batch.images.iter().zip(outgoing) {
            if source.is_of(object.generation) {
                continue;
            }
            let address = DiskAddress { sequence: batch.sequence, offset: image.offset };
            let (hash, generation) = (object.hash, object.generation);
            let void = Tombstone { hash, generation, sequence: batch.sequence };
            self.tombstones.borrow_mut().push_lost(vec![void], self.now());
            let ticket = self.queue.borrow_mut().take_placed(address);
            if let Some(ticket) = ticket {
                ticket.decide(Err(WriteError::Changed));
            }
        }
    }
}

/// Bytes of the next piece of so many. A short rest goes with the last one: a disk takes as long
/// for it as for a whole piece.
fn piece_bytes(left: u32, most: u32) -> u32 {
    if left <= most + most / 4 { left } else { most }
}

/// Fills a piece of a batch that begins `start` bytes behind the begin of the batch.
fn fill(batch: &PlacedBatch, outgoing: &[Outgoing], start: u32, piece: &mut [u8]) {
    let (start, end) = (start as usize, start as usize + piece.len());
    let mut filled = start;
    if start < batch.summary.len() {
        let stop = batch.summary.len().min(end);
        piece[..stop - start].copy_from_slice(&batch.summary[start..stop]);
        filled = stop;
    }
    for (image, outgoing) in batch.images.iter().zip(outgoing) {
        let first = (image.offset - batch.offset) as usize;
        let last = first + image.bytes as usize;
        if last <= start {
            continue;
        }
        if first >= end {
            break;
        }
        let (from, to) = (first.max(start), last.min(end));
        piece[filled - start..from - start].fill(0);
        outgoing.source.copy(from - first, &mut piece[from - start..to - start]);
        filled = to;
    }
    piece[filled - start..].fill(0);
}
