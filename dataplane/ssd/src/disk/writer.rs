//! The task that writes: gathers batches, begins and ends segments, syncs tombstones.
//! Invariant: segments, syncs and superblocks are written by this task alone, one after the other;
//! only batches overlap.

use super::command::{Outgoing, VoidCopy, VoidPromise, WritePromise};
use super::driver::DiskDriver;
use super::error::WriteError;
use super::file_use::FileUse;
use super::write_queue::{QueuedObject, WriteQueue, WriteTicket};
use crate::limits::{
    BATCH_BYTES_IDLE, BATCH_BYTES_READY, BATCH_WAIT, QUEUED_BYTES_MAX, TOMBSTONE_WAIT, WRITES_MAX,
    WRITES_WANTED,
};
use crate::log::{LogError, Tombstone};
use perigee_shard::{Environment, File, at_most};
use std::rc::Rc;
use std::time::Duration;

/// What the writer does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriterStep {
    Batch,
    Sync,
    RemoveAll,
    Close,
    /// Nothing before this time.
    Until(Option<Duration>),
}

impl<E: Environment> DiskDriver<E> {
    pub(super) fn take_write(&self, objects: Vec<Outgoing>, promise: WritePromise) {
        let now = self.now();
        let tickets = WriteQueue::begin_call(objects.len(), promise);
        for (outgoing, ticket) in objects.into_iter().zip(tickets) {
            match self.refusal_of(&outgoing) {
                Some(error) => ticket.decide(Err(error)),
                None => self.queue.borrow_mut().push(QueuedObject { outgoing, ticket }, now),
            }
        }
    }

    fn refusal_of(&self, outgoing: &Outgoing) -> Option<WriteError> {
        if self.is_closing() {
            return Some(LogError::Closed.into());
        }
        if let Some(refusal) = self.refusal() {
            return Some(refusal);
        }
        if self.queue.borrow().waiting_bytes() >= QUEUED_BYTES_MAX {
            return Some(WriteError::Full);
        }
        self.log.borrow().check_object(&outgoing.object).err().map(WriteError::from)
    }

    pub(super) fn take_burial(&self, copies: &[VoidCopy], promise: VoidPromise) {
        let refusal = match self.is_closing() {
            true => Some(LogError::Closed.into()),
            false => self.refusal(),
        };
        match refusal {
            Some(error) => promise.give(Err(error)),
            None => {
                let void = self.queue.borrow_mut().take_void(copies);
                void.into_iter().for_each(|ticket| ticket.decide(Err(WriteError::Removed)));
                copies.iter().for_each(|copy| self.unlist((copy.hash, copy.generation)));
                self.tombstones.borrow_mut().bury(copies, promise, self.now());
            }
        }
    }

    /// Runs until the disk is closed.
    pub(super) async fn write_all(self: Rc<Self>) {
        loop {
            match self.next_step() {
                WriterStep::Batch => self.write_next_batch().await,
                WriterStep::Sync => self.sync_tombstones().await,
                WriterStep::RemoveAll => self.remove_everything().await,
                WriterStep::Close => return self.finish().await,
                WriterStep::Until(time) => self.rest(time).await,
            }
        }
    }

    fn next_step(&self) -> WriterStep {
        let now = self.now();
        let (queue, tombstones) = (self.queue.borrow(), self.tombstones.borrow());
        if !self.removals.borrow().is_empty() {
            return WriterStep::RemoveAll;
        }
        let is_closing = self.is_closing();
        let due = |since: Option<Duration>, wait: Duration| since.map(|since| since + wait);
        let is_due = |time: Option<Duration>| time.is_some_and(|time| time <= now || is_closing);
        let batch = due(queue.since(), BATCH_WAIT);
        let burial = due(tombstones.since(), TOMBSTONE_WAIT);
        let rests = self.unwritten.get() < WRITES_WANTED;
        let ready = if rests { BATCH_BYTES_IDLE } else { BATCH_BYTES_READY };
        if queue.waiting_bytes() >= ready || is_due(batch) || is_due(burial) {
            return WriterStep::Batch;
        }
        let sync = due(tombstones.written_since(), TOMBSTONE_WAIT);
        if is_due(sync) {
            return WriterStep::Sync;
        }
        if is_closing {
            return WriterStep::Close;
        }
        WriterStep::Until([batch, burial, sync].into_iter().flatten().min())
    }

    /// Waits until something has changed, and no longer than until a time.
    async fn rest(&self, time: Option<Duration>) {
        let is_other = || match self.next_step() {
            WriterStep::Until(other) => (other != time).then_some(()),
            _ => Some(()),
        };
        let changed = self.changes.until(is_other);
        match time {
            Some(time) => {
                let left = time.saturating_sub(self.now());
                let _ = at_most(&self.environment, left, changed).await;
            }
            None => changed.await,
        }
    }

    async fn write_next_batch(self: &Rc<Self>) {
        self.changes.until(|| (self.unwritten.get() < WRITES_MAX).then_some(())).await;
        if let Some(error) = self.refusal() {
            return self.refuse_waiting(&error);
        }
        let taken = self.queue.borrow_mut().take(self.now());
        let objects = taken.into_iter().filter_map(|waiting| {
            let QueuedObject { outgoing, ticket } = waiting;
            if outgoing.source.is_of(outgoing.object.generation) {
                return Some((outgoing, ticket));
            }
            ticket.decide(Err(WriteError::Changed));
            None
        });
        let (outgoing, tickets): (Vec<Outgoing>, Vec<WriteTicket>) = objects.unzip();
        let newest = self.log.borrow().newest();
        let tombstones = self.tombstones.borrow_mut().take(newest);
        if outgoing.is_empty() && tombstones.is_empty() {
            return;
        }
        if let Err(error) = self.place(outgoing, &tickets, &tombstones).await {
            tickets.into_iter().for_each(|ticket| ticket.decide(Err(error.clone())));
            self.tombstones.borrow_mut().end_all(&Err(error));
        }
    }

    /// The disk takes no writes at present. Tombstones are tried again, unless it is closing.
    fn refuse_waiting(&self, error: &WriteError) {
        let waiting = self.queue.borrow_mut().take_waiting();
        waiting.into_iter().for_each(|ticket| ticket.decide(Err(error.clone())));
        match self.is_closing() {
            true => self.tombstones.borrow_mut().end_all(&Err(error.clone())),
            false => self.tombstones.borrow_mut().postpone(self.now()),
        }
    }

    /// Finds a place for a batch, in the next segment if need be, and begins to write it.
    async fn place(
        self: &Rc<Self>,
        outgoing: Vec<Outgoing>,
        tickets: &[WriteTicket],
        tombstones: &[Tombstone],
    ) -> Result<(), WriteError> {
        let objects: Vec<_> = outgoing.iter().map(|outgoing| outgoing.object.clone()).collect();
        loop {
            if !self.log.borrow().is_open() {
                self.begin_segment().await?;
            }
            let placed = self.log.borrow_mut().append(&objects, tombstones);
            match placed {
                Ok(batch) => {
                    self.begin_batch(batch, outgoing, tickets);
                    return Ok(());
                }
                Err(LogError::Full) => self.end_segment().await,
                // The segment was closed by a write that failed.
                Err(LogError::NotOpen) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits until fewer batches than this are under way.
    pub(super) async fn batches_below(&self, count: usize) {
        self.changes.until(|| (self.batches.get() < count).then_some(())).await;
    }

    async fn sync_tombstones(&self) {
        self.tombstones.borrow_mut().note_synced();
        let point = self.log.borrow().sync_point();
        let Some((slot, count)) = point else { return };
        let Some(file) = self.file(slot) else { return };
        match self.timed(FileUse::Write, file.sync()).await {
            Ok(()) => {
                let safe = self.log.borrow_mut().synced(slot, count);
                self.confirm(safe);
            }
            // What a sync that failed has made of the file is unknown: it takes no more.
            Err(error) => self.give_segment_up(&error),
        }
    }

    pub(super) fn confirm(&self, safe: Vec<Tombstone>) {
        super::status::count(&self.cells.counters.buried, safe.len() as u64);
        self.tombstones.borrow_mut().confirm(safe);
    }

    async fn remove_everything(&self) {
        let promises = std::mem::take(&mut *self.removals.borrow_mut());
        self.batches_below(1).await;
        let removed = self.queue.borrow_mut().take_all();
        removed.into_iter().for_each(|ticket| ticket.decide(Err(WriteError::Removed)));
        self.end_listing();
        let superblock = self.log.borrow_mut().remove_all().clone();
        let writing = self.folder.write_superblock(&self.stages, &superblock);
        let result = match self.timed(FileUse::Write, writing).await {
            Ok(()) => Ok(()),
            Err(error) => {
                self.log.borrow_mut().close();
                self.note_log_end(&format!(
                    "its log has ended, its superblock could not be written: {error}"
                ));
                Err(WriteError::Io(error.to_string()))
            }
        };
        self.tombstones.borrow_mut().end_all(&result);
        promises.into_iter().for_each(|promise| promise.give(result.clone()));
        self.tell_recycled();
    }

    async fn finish(&self) {
        self.batches_below(1).await;
        if self.log.borrow().is_open() {
            self.end_segment().await;
        }
        self.log.borrow_mut().close();
        let closed: WriteError = LogError::Closed.into();
        let left = self.queue.borrow_mut().take_all();
        left.into_iter().for_each(|ticket| ticket.decide(Err(closed.clone())));
        self.tombstones.borrow_mut().end_all(&Err(closed));
        self.end();
    }
}
