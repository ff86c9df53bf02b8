//! The log of one disk: which segment is written, which ones can be read, which one goes next.
//! Invariant: what is announced lies in completed batches before which there is no gap; a segment
//! is only used again after all older ones, and only when no write or read of it is under way.

mod batch;
mod error;
mod open_segment;
mod segment_end;
pub(crate) mod segments;
#[cfg(test)]
mod tests;

use perigee_schemas::disk_address::DiskAddress;

pub use batch::{NewObject, PlacedBatch, PlacedImage, Tombstone, Written};
pub use error::LogError;
use open_segment::OpenSegment;
pub use segment_end::SegmentEnd;
use segments::SegmentFiles;

use crate::format::{Entry, SegmentHeader, Superblock};
use crate::limits::BLOCK_BYTES;

/// A segment that begins: `header` is written at offset 0 of its file and synced, then
/// [`Log::started`] is called.
#[derive(Debug)]
pub struct SegmentStart {
    /// The file.
    pub slot: u32,
    /// The number of the segment.
    pub sequence: u32,
    /// Whole blocks of the disk.
    pub header: Vec<u8>,
}

/// A read: `bytes` at `offset` of the file, whole blocks. The image starts at `skip` of what they
/// have of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// The segment, for [`Log::end_read`].
    pub sequence: u32,
    /// The file.
    pub slot: u32,
    /// Where to read.
    pub offset: u32,
    /// How much to read.
    pub bytes: u32,
    /// Where in that the image starts.
    pub skip: u32,
}

/// The log of one disk.
#[derive(Debug)]
pub struct Log {
    superblock: Superblock,
    segments: SegmentFiles,
    open: Option<OpenSegment>,
    starting: Option<Starting>,
    next_sequence: u32,
    next_batch: u64,
    /// Objects of older segments may be void without a tombstone that says so.
    certain_from: u32,
    is_closed: bool,
    /// The file system has no room for another file.
    is_held_back: bool,
}

#[derive(Debug)]
struct Starting {
    slot: u32,
    sequence: u32,
    salt: Option<u128>,
    recycled: Option<u32>,
}

impl Log {
    /// The log of an empty disk.
    pub fn new(superblock: Superblock) -> Self {
        let first = superblock.void_before;
        Self::recovered(superblock, SegmentFiles::default(), first, 0)
    }

    pub(crate) fn recovered(
        superblock: Superblock,
        segments: SegmentFiles,
        next_sequence: u32,
        certain_from: u32,
    ) -> Self {
        Self {
            superblock,
            segments,
            open: None,
            starting: None,
            next_sequence,
            next_batch: 0,
            certain_from,
            is_closed: false,
            is_held_back: false,
        }
    }

    /// What the folder is.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Whether a segment is open for batches.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Begins a segment in a free file, or in that of the oldest segment, which cannot be read any
    /// more from now on. The key of an encrypted one is made from `salt`, which must be random.
    ///
    /// # Errors
    /// `Busy` while the oldest segment is in use; `Closed` for good. `Full` if a segment is open.
    pub fn start(&mut self, salt: u128) -> Result<SegmentStart, LogError> {
        if self.open.is_some() || self.starting.is_some() {
            return Err(LogError::Full);
        }
        if self.is_closed || self.next_sequence == u32::MAX {
            return Err(LogError::Closed);
        }
        let (slot, recycled) = self.segments.take_slot(self.files_max())?;
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let salt = self.superblock.key_check.map(|_| salt);
        self.starting = Some(Starting { slot, sequence, salt, recycled });
        let (disk, segment_bytes) = (self.superblock.disk, self.superblock.segment_bytes);
        let header = SegmentHeader { disk, sequence, segment_bytes, salt }.encode();
        Ok(SegmentStart { slot, sequence, header })
    }

    /// The header is on the disk. Returns the segment whose place it took: the master may forget
    /// its copies only now, for until now a loss of power could have brought them back, and
    /// removals after the master has forgotten them reach no tombstone.
    pub fn started(&mut self) -> Option<u32> {
        let starting = self.starting.take()?;
        self.segments.add(starting.sequence, starting.slot, starting.salt);
        debug_assert!(self.open.is_none(), "one segment is written at a time");
        if starting.sequence >= self.superblock.void_before {
            let room = self.superblock.room();
            self.open = Some(OpenSegment::new(starting.sequence, starting.slot, room));
        }
        starting.recycled
    }

    /// The header could not be written. Whether the old segment is still there is unknown, and
    /// younger ones have the tombstones of its objects: none of them may be used again.
    pub fn start_failed(&mut self) {
        self.starting = None;
        self.is_closed = true;
    }

    /// A new file could not be made, so no byte of a header was written. False if the segment was
    /// to take the place of the oldest one.
    pub fn start_refused(&mut self) -> bool {
        let Some(starting) = self.starting.take_if(|starting| starting.recycled.is_none()) else {
            return false;
        };
        self.segments.forget_new(starting.slot);
        true
    }

    /// Whether the next segment needs a new file, if there is room for one.
    pub fn needs_file(&self) -> bool {
        self.segments.needs_file(self.superblock.segments)
    }

    /// Whether the file system has room for another file. Without it the next segment takes the
    /// place of the oldest one; false if there is none.
    pub fn note_room(&mut self, has_room: bool) -> bool {
        self.is_held_back = !has_room && self.segments.files() > 0;
        has_room || self.is_held_back
    }

    /// Whether the log has fewer files than it may, for want of room.
    pub fn is_held_back(&self) -> bool {
        self.is_held_back
    }

    /// Segments that there may be at present.
    pub fn files_max(&self) -> u32 {
        match self.is_held_back {
            true => self.segments.files(),
            false => self.superblock.segments,
        }
    }

    /// Whether an object can be written at all.
    ///
    /// # Errors
    /// `TooLarge` or `Labels`.
    pub fn check_object(&self, object: &NewObject) -> Result<(), LogError> {
        open_segment::check_object(object, &self.superblock)
    }

    /// Places a batch: first the objects, then the tombstones, in the open segment.
    ///
    /// # Errors
    /// `Full` if the segment must be sealed first; `NotOpen`; `TooLarge` and `Labels` if an object
    /// can never be written.
    pub fn append(
        &mut self,
        objects: &[NewObject],
        tombstones: &[Tombstone],
    ) -> Result<PlacedBatch, LogError> {
        let open = self.open.as_mut().ok_or(LogError::NotOpen)?;
        let number = self.next_batch;
        let batch = open.append(&self.superblock, number, objects, tombstones)?;
        self.next_batch += 1;
        self.segments.hold(open.sequence);
        Ok(batch)
    }

    /// A batch has been written. Returns what can be announced: this batch and later ones that
    /// were written before it, if all before it are written.
    pub fn complete(&mut self, batch: &PlacedBatch) -> Vec<Written> {
        self.segments.release(batch.sequence);
        match &mut self.open {
            Some(open) if open.sequence == batch.sequence => open.complete(batch.number),
            _ => Vec::new(),
        }
    }

    /// A batch could not be written: its segment takes no more, and what was not announced is
    /// forgotten. Returns the tombstones that are not safe and must be written again.
    pub fn fail(&mut self, batch: &PlacedBatch) -> Vec<Tombstone> {
        self.segments.release(batch.sequence);
        match self.open.take_if(|open| open.sequence == batch.sequence) {
            Some(open) => open.into_unsafe_tombstones(),
            None => Vec::new(),
        }
    }

    /// The file to sync so that the tombstones written so far are safe, and how many they are.
    pub fn sync_point(&self) -> Option<(u32, usize)> {
        let open = self.open.as_ref()?;
        let count = open.unsynced_tombstones();
        (count > 0).then_some((open.slot, count))
    }

    /// The sync that began at a [`Log::sync_point`] of `slot` is done: tombstones that are safe.
    pub fn synced(&mut self, slot: u32, count: usize) -> Vec<Tombstone> {
        match &mut self.open {
            Some(open) if open.slot == slot => open.synced(count),
            _ => Vec::new(),
        }
    }

    /// Ends the open segment.
    ///
    /// # Errors
    /// `NotOpen`, or `Busy` while a batch of it is being written.
    pub fn seal(&mut self) -> Result<SegmentEnd, LogError> {
        let open = self.open.as_mut().ok_or(LogError::NotOpen)?;
        open.seal(&self.superblock).ok_or(LogError::Busy)
    }

    /// Footer and trailer are on the disk: the tombstones that have become safe with them.
    pub fn sealed(&mut self) -> Vec<Tombstone> {
        self.open.take().map(OpenSegment::into_unsafe_tombstones).unwrap_or_default()
    }

    /// The segment could not be sealed: it stays readable. The tombstones to write again.
    pub fn seal_failed(&mut self) -> Vec<Tombstone> {
        self.sealed()
    }

    /// Removes everything. The superblock is written at its offset and synced before the caller
    /// answers; if that fails, the caller calls [`Log::close`].
    pub fn remove_all(&mut self) -> &Superblock {
        self.open = None;
        self.superblock.serial += 1;
        self.superblock.void_before = self.next_sequence;
        &self.superblock
    }

    /// Takes no more writes; reads go on.
    pub fn close(&mut self) {
        self.open = None;
        self.is_closed = true;
    }

    /// The newest segment; 0 if there is none.
    pub fn newest(&self) -> u32 {
        self.segments.newest().unwrap_or_default()
    }

    /// The first segment that can be read, or the next one if there is none.
    pub fn oldest(&self) -> u32 {
        let oldest = self.segments.oldest_from(self.superblock.void_before);
        oldest.unwrap_or(self.next_sequence)
    }

    /// Number of segments that can be read, the open one too.
    pub fn live_segments(&self) -> usize {
        self.segments.count_from(self.superblock.void_before)
    }

    /// Segments whose objects can be announced, oldest first, without the open one.
    pub(crate) fn listable(&self) -> Vec<u32> {
        let first = self.superblock.void_before.max(self.certain_from);
        let open = self.open.as_ref().map(|open| open.sequence);
        self.segments.from(first).filter(|sequence| Some(*sequence) != open).collect()
    }

    /// The open segment and the entries of what is announced of it.
    pub(crate) fn open_entries(&self) -> Option<(u32, Vec<Entry>)> {
        self.open.as_ref().map(|open| (open.sequence, open.entries()))
    }

    /// Tombstones that are being written.
    pub(crate) fn tombstones_in_flight(&self) -> impl Iterator<Item = &Tombstone> {
        self.open.iter().flat_map(OpenSegment::tombstones_in_flight)
    }

    /// What the key of a segment is made from; none if it has gone or is not encrypted.
    pub fn salt(&self, sequence: u32) -> Option<u128> {
        self.segments.salt(sequence)
    }

    /// The file of a segment, which stays until [`Log::end_read`].
    pub(crate) fn hold(&mut self, sequence: u32) -> Option<u32> {
        self.segments.hold(sequence)
    }

    /// The read of an object's image, unless its segment has gone. [`Log::end_read`] must follow.
    pub fn read(&mut self, address: DiskAddress, image_bytes: u32) -> Option<Read> {
        let end = address.offset.checked_add(image_bytes.max(1))?;
        let room = self.superblock.room();
        let batches = room.first_batch()..=self.superblock.log_bytes();
        let is_void = address.sequence < self.superblock.void_before;
        if is_void || !batches.contains(&address.offset) || !batches.contains(&end) {
            return None;
        }
        let slot = self.segments.hold(address.sequence)?;
        let offset = room.on_disk(address.offset);
        let bytes = room.on_disk(end - 1) + BLOCK_BYTES - offset;
        let is_inside = bytes <= self.superblock.segment_bytes - offset;
        debug_assert!(is_inside, "a read lies in the file of its segment");
        let skip = address.offset % room.bytes();
        Some(Read { sequence: address.sequence, slot, offset, bytes, skip })
    }

    /// A read is over.
    pub fn end_read(&mut self, sequence: u32) {
        self.segments.release(sequence);
    }

    /// Panics if the records of the log disagree.
    pub fn check(&self) {
        self.segments.check(self.superblock.segments, self.starting.as_ref().map(|new| new.slot));
        if let Some(open) = &self.open {
            assert_eq!(self.segments.newest(), Some(open.sequence), "the newest segment is open");
            open.check(&self.superblock);
        }
        assert!(self.segments.newest().is_none_or(|newest| newest < self.next_sequence));
    }
}
