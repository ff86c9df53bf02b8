//! What lies in a segment, kept beside it by its owner: a log of records in two regions, of which
//! one is in use.
//! Invariant: whatever byte the process ends at, the log that is found again holds every record
//! that was appended before, and of the one that was being appended all or nothing.
//!
//! The header page holds a word whose lowest bit names the region in use. Records follow each other
//! there without padding, and zeros follow the last one. Compaction writes what is live into the
//! other region and then changes the word, which is one store.

mod live;
mod log_memory;
mod sealed;
#[cfg(test)]
mod tests;

pub use live::live_records;
pub use log_memory::LogMemory;
pub use sealed::SealedLog;

use crate::limits::{JOURNAL_COMPACT_BYTES_MIN, JOURNAL_HEADER_BYTES, JOURNAL_SLACK_PART};
use perigee_schemas::record::{Record, RecordError, RecordOp};
use std::io;

/// First word of a journal, and the version of its layout.
const MAGIC: u64 = u64::from_le_bytes(*b"prgjrnl1");
/// Place of the word that names the region in use.
const ACTIVE_AT: usize = 8;

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// What is live fills the region.
    #[error(
        "The journal of {region_bytes} bytes is full: its segment holds more objects than it was made for"
    )]
    Full {
        /// Bytes that it can hold.
        region_bytes: usize,
    },
    /// The memory is no journal, or too short for one.
    #[error("The memory holds no journal of this build")]
    Foreign,
    /// There is no memory for it.
    #[error("No memory for the journal: {0}")]
    Memory(#[from] io::Error),
}

/// The journal of one segment.
#[derive(Debug)]
pub struct Journal<M> {
    memory: M,
    region_bytes: usize,
    /// The word of the header: how often regions were changed.
    changes: u64,
    /// Bytes of records in the region in use.
    used_bytes: usize,
    /// Bytes of those that compaction would keep, as far as known: found out at each compaction.
    live_bytes: usize,
    scratch: Vec<u8>,
}

impl<M: LogMemory> Journal<M> {
    /// An empty journal in memory that holds zeros.
    ///
    /// # Errors
    /// The memory is too short, or cannot be allocated.
    pub fn create(mut memory: M) -> Result<Self, JournalError> {
        let region_bytes = region_bytes(memory.bytes().len())?;
        memory.reserve(0, JOURNAL_HEADER_BYTES)?;
        memory.store(0, MAGIC);
        Ok(Self::empty(memory, region_bytes, 0))
    }

    /// The journal that a process left in this memory. What it was writing when it ended is
    /// cleared.
    ///
    /// # Errors
    /// The memory holds no journal, or one that a later build wrote.
    pub fn open(memory: M) -> Result<Self, JournalError> {
        let region_bytes = region_bytes(memory.bytes().len())?;
        let word = |at: usize| memory.bytes()[at..].first_chunk().copied().map(u64::from_le_bytes);
        if word(0) != Some(MAGIC) {
            return Err(JournalError::Foreign);
        }
        let changes = word(ACTIVE_AT).ok_or(JournalError::Foreign)?;
        let mut journal = Self::empty(memory, region_bytes, changes);
        journal.used_bytes = journal.find_end()?;
        journal.live_bytes =
            live_records(journal.records()).iter().map(Record::encoded_bytes).sum();
        let (start, end) = journal.region(changes);
        journal.memory.clear(start + journal.used_bytes, end)?;
        let (start, end) = journal.region(changes + 1);
        journal.memory.clear(start, end)?;
        Ok(journal)
    }

    fn empty(memory: M, region_bytes: usize, changes: u64) -> Self {
        Self { memory, region_bytes, changes, used_bytes: 0, live_bytes: 0, scratch: Vec::new() }
    }

    /// Appends a record, which must be valid. Where more than half of a region is out of date, or
    /// there is no room and enough is out of date, what is live is written again first. Commits
    /// leave room for the records that free them.
    ///
    /// # Errors
    /// Live records leave no room, or memory cannot be allocated. The journal is unchanged then.
    pub fn append(&mut self, record: &Record<'_>) -> Result<(), JournalError> {
        let bytes = record.encoded_bytes();
        let slack_bytes = self.region_bytes / JOURNAL_SLACK_PART;
        let room_bytes = match record.op {
            RecordOp::Commit => self.region_bytes - slack_bytes,
            _ => self.region_bytes,
        };
        let garbage_bytes = self.used_bytes - self.live_bytes.min(self.used_bytes);
        let is_garbage = garbage_bytes > self.used_bytes / 2;
        let is_full = self.used_bytes + bytes > room_bytes;
        if (is_garbage && self.used_bytes >= JOURNAL_COMPACT_BYTES_MIN)
            || (is_full && garbage_bytes > slack_bytes / 2)
        {
            self.compact()?;
        }
        let end = self.used_bytes + bytes;
        if end > room_bytes {
            return Err(JournalError::Full { region_bytes: self.region_bytes });
        }
        let at = self.region(self.changes).0 + self.used_bytes;
        self.memory.reserve(at, at + bytes)?;
        self.scratch.clear();
        record.encode(&mut self.scratch);
        self.memory.write(at, &self.scratch);
        self.used_bytes = end;
        match record.op {
            RecordOp::Commit => self.live_bytes += bytes,
            // A free repeats the texts of the commit, so both are as long.
            RecordOp::Free => self.live_bytes = self.live_bytes.saturating_sub(bytes),
            _ => {}
        }
        Ok(())
    }

    /// All records in the order in which they were appended, without those that compaction has
    /// left out.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let (start, _) = self.region(self.changes);
        let mut rest = &self.memory.bytes()[start..start + self.used_bytes];
        std::iter::from_fn(move || {
            let record = Record::decode(rest).ok()?;
            rest = &rest[record.encoded_bytes()..];
            Some(record)
        })
    }

    /// Bytes of records, live or not.
    pub fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// Panics if its numbers do not agree with its bytes: for tests, because it looks at
    /// everything.
    pub fn check(&self) {
        let bytes: usize = self.records().map(|record| record.encoded_bytes()).sum();
        assert_eq!(bytes, self.used_bytes, "records follow each other up to the end");
        let (start, end) = self.region(self.changes);
        let free = &self.memory.bytes()[start + self.used_bytes..end];
        assert!(free.iter().all(|byte| *byte == 0), "zeros follow the last record");
    }

    /// Start and end of the region that is in use after so many changes.
    fn region(&self, changes: u64) -> (usize, usize) {
        let start = JOURNAL_HEADER_BYTES + if changes & 1 == 1 { self.region_bytes } else { 0 };
        (start, start + self.region_bytes)
    }

    /// Bytes of the records up to the first place where there is none.
    fn find_end(&self) -> Result<usize, JournalError> {
        let (start, end) = self.region(self.changes);
        let mut at = start;
        loop {
            match Record::decode(&self.memory.bytes()[at..end]) {
                Ok(record) => at += record.encoded_bytes(),
                Err(RecordError::Unknown) => return Err(JournalError::Foreign),
                Err(_) => return Ok(at - start),
            }
        }
    }

    /// Writes what is live into the other region and changes to it.
    fn compact(&mut self) -> Result<(), JournalError> {
        let mut bytes = Vec::with_capacity(self.live_bytes);
        for record in live_records(self.records()) {
            record.encode(&mut bytes);
        }
        debug_assert!(bytes.len() <= self.used_bytes, "compaction adds nothing");
        let (start, end) = self.region(self.changes + 1);
        // Where giving the region back had failed, its old records would follow the new ones.
        self.memory.clear(start, end)?;
        self.memory.reserve(start, start + bytes.len())?;
        self.memory.write(start, &bytes);
        let (old_start, old_end) = self.region(self.changes);
        self.changes += 1;
        self.memory.store(ACTIVE_AT, self.changes);
        (self.used_bytes, self.live_bytes) = (bytes.len(), bytes.len());
        if let Err(error) = self.memory.clear(old_start, old_end) {
            tracing::debug!(%error, "The old region of a journal is cleared later");
        }
        Ok(())
    }
}

fn region_bytes(bytes: usize) -> Result<usize, JournalError> {
    match bytes.saturating_sub(JOURNAL_HEADER_BYTES) / 2 {
        0 => Err(JournalError::Foreign),
        region_bytes => Ok(region_bytes),
    }
}
