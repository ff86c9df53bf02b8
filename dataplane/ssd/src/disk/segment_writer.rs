//! How segments begin and end on the disk. Invariant: each step is on the disk before the log
//! learns of it, in the order that the log asks for.

use super::driver::DiskDriver;
use super::error::WriteError;
use super::file_use::FileUse;
use super::health::is_full;
use crate::limits::{RECYCLE_WAIT, WRITE_RETRY};
use crate::log::{LogError, SegmentEnd, SegmentStart};
use perigee_shard::{Environment, File, Files, at_most};
use std::io;
use std::time::Duration;

impl<E: Environment> DiskDriver<E> {
    /// Begins the next segment; where no file can be made for it, in the place of the oldest one.
    pub(super) async fn begin_segment(&self) -> Result<(), WriteError> {
        loop {
            self.look_for_room().await?;
            let start = self.next_start().await?;
            let made = self.make_file(&start).await;
            let error = match made {
                Ok(()) => match self.write_header(&start).await {
                    Ok(()) => {
                        if self.log.borrow_mut().started().is_some() {
                            self.tell_recycled();
                        }
                        debug_assert!(self.log.borrow().is_open(), "a segment that began is open");
                        self.publish();
                        return Ok(());
                    }
                    Err(error) => error,
                },
                Err(error) if self.log.borrow_mut().start_refused() => {
                    let _ = self.folder.files.remove(&self.folder.slot_path(start.slot)).await;
                    self.folder.slots.borrow_mut().remove(&start.slot);
                    self.publish();
                    if is_full(&error) {
                        self.refused_at.set(Some(self.now()));
                        continue;
                    }
                    return Err(WriteError::Io(error.to_string()));
                }
                Err(error) => error,
            };
            self.log.borrow_mut().start_failed();
            self.note_log_end(&format!(
                "its log has ended, the header of a segment could not be written: {error}"
            ));
            return Err(WriteError::Io(error.to_string()));
        }
    }

    /// Lets the log have another file where the file system has room for it beside what is left to
    /// others. A quota may refuse what the file system shows as free: then it is tried again later.
    async fn look_for_room(&self) -> Result<(), WriteError> {
        if !self.log.borrow().needs_file() {
            return Ok(());
        }
        let was_refused = |at: Duration| self.now().saturating_sub(at) < WRITE_RETRY;
        let bytes = u64::from(self.log.borrow().superblock().segment_bytes);
        let has_room =
            !self.refused_at.get().is_some_and(was_refused) && self.folder.has_room(bytes).await;
        let was_held_back = self.log.borrow().is_held_back();
        let can_go_on = self.log.borrow_mut().note_room(has_room);
        self.publish();
        if !can_go_on {
            let error = io::Error::from(io::ErrorKind::StorageFull);
            self.note_error(FileUse::Write, &error);
            return Err(WriteError::Io(error.to_string()));
        }
        if !has_room && !was_held_back {
            let disk = self.folder.path.display();
            tracing::info!(%disk, "The file system has no room for another segment: the oldest one goes");
        }
        Ok(())
    }

    /// The next segment, as soon as the one whose place it takes is not read any more.
    async fn next_start(&self) -> Result<SegmentStart, WriteError> {
        let random = || u128::from(self.environment.random());
        let start = || match self.log.borrow_mut().start(random() << 64 | random()) {
            Err(LogError::Busy) => None,
            other => Some(other),
        };
        let started = at_most(&self.environment, RECYCLE_WAIT, self.changes.until(start)).await;
        Ok(started.unwrap_or(Err(LogError::Busy))?)
    }

    /// The file of a segment, with room for all of it.
    async fn make_file(&self, start: &SegmentStart) -> io::Result<()> {
        let bytes = u64::from(self.log.borrow().superblock().segment_bytes);
        let known = self.file(start.slot);
        let make = async {
            let is_new = known.is_none();
            let file = match known {
                Some(file) => file,
                None => self.folder.open_slot(start.slot, true).await?,
            };
            // Free for a file that has all of it: one whose maker died may have nothing.
            file.allocate(bytes).await?;
            if is_new { self.folder.files.sync_folder(&self.folder.path).await } else { Ok(()) }
        };
        self.timed(FileUse::Write, make).await
    }

    async fn write_header(&self, start: &SegmentStart) -> io::Result<()> {
        let file = self.file(start.slot).ok_or(io::ErrorKind::NotFound)?;
        self.put(&file, &start.header, 0).await?;
        self.timed(FileUse::Write, file.sync()).await
    }

    /// Seals the open segment once its batches are written.
    pub(super) async fn end_segment(&self) {
        self.batches_below(1).await;
        let end = self.log.borrow_mut().seal();
        let is_idle = !matches!(end, Err(LogError::Busy));
        debug_assert!(is_idle, "batches are over before their segment ends");
        let Ok(end) = end else { return };
        match self.write_end(&end).await {
            Ok(()) => {
                let safe = self.log.borrow_mut().sealed();
                self.confirm(safe);
            }
            Err(error) => self.give_segment_up(&error),
        }
    }

    async fn write_end(&self, end: &SegmentEnd) -> io::Result<()> {
        let file = self.file(end.slot).ok_or(io::ErrorKind::NotFound)?;
        self.put_log(&file, (end.sequence, end.footer_offset), &end.footer).await?;
        self.timed(FileUse::Write, file.sync()).await?;
        self.put_log(&file, (end.sequence, end.trailer_offset), &end.trailer).await?;
        self.timed(FileUse::Write, file.sync()).await
    }

    /// The open segment takes no more after a sync or its end has failed. What was announced of it
    /// can be read, and its tombstones are written again.
    pub(super) fn give_segment_up(&self, error: &io::Error) {
        let newest = self.log.borrow().newest();
        let lost = self.log.borrow_mut().seal_failed();
        let waiting = self.queue.borrow_mut().take_placed_in(newest);
        let error = WriteError::Io(error.to_string());
        waiting.into_iter().for_each(|ticket| ticket.decide(Err(error.clone())));
        self.tombstones.borrow_mut().push_lost(lost, self.now());
        self.publish();
    }
}
