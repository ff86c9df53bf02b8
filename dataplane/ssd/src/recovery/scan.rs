//! One segment's file, read in a few steps: header and first summary, trailer, footer; the
//! summaries one by one if there is no footer that verifies. Of an encrypted one the first two
//! blocks are the header, twice; a block that does not verify counts as zeros.
//! Invariant: the number of reads is bounded by the batches of the segment, and every read lies in
//! the file.

use std::borrow::Cow;

use perigee_schemas::Identity;
use perigee_schemas::extent::extent_bytes;

use crate::cipher::{LogKey, SegmentCipher};
use crate::format::{
    BlockRoom, Entry, EntryKind, Footer, SUMMARY_COPIES, SegmentHeader, SegmentTrailer, Structure,
    Summary, Superblock, claimed_bytes, footer_bytes as bytes_of_footer, summary_bytes,
};
use crate::limits::{BATCH_ENTRY_BYTES_MAX, BLOCK_BYTES, SEGMENT_ENTRY_BYTES_MAX};

/// Bytes that a scan wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadAt {
    /// From the start of the file.
    pub offset: u32,
    /// Whole blocks.
    pub bytes: u32,
}

/// What a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Zeros where segments have their structures: a file that was made and not used.
    Blank,
    /// It does not verify as a segment of this disk and version.
    Foreign,
    /// A segment of this disk.
    Segment {
        /// Its number.
        sequence: u32,
        /// What its key is made from, if it is encrypted.
        salt: Option<u128>,
        /// What could be read of it, in the order in which it was written.
        entries: Vec<Entry>,
    },
    /// A segment of this disk that is damaged so much that its entries may be those of an earlier
    /// one in the same file.
    Unsure {
        /// The highest number that it may have.
        sequence: u32,
    },
}

/// A segment's file while it is scanned.
#[derive(Debug)]
pub struct SegmentScan {
    disk: Identity,
    segment_bytes: u32,
    room: BlockRoom,
    key: Option<LogKey>,
    cipher: Option<SegmentCipher>,
    salt: Option<u128>,
    state: State,
}

#[derive(Debug)]
enum State {
    Head,
    Trailer(Head),
    Footer { sequence: u32, offset: u32, bytes: u32 },
    Summaries(Summaries),
    Done(Found),
}

/// What the first two blocks are; offsets and lengths from here on are those of the log.
#[derive(Debug)]
struct Head {
    header: Option<u32>,
    first_summary: Option<u32>,
    is_blank: bool,
}

#[derive(Debug)]
struct Summaries {
    sequence: u32,
    entries: Vec<Entry>,
    batch: u32,
    offset: u32,
    /// Bytes to read at the offset: one block, then as many as the summary says, then all among
    /// which its second copy must be.
    bytes: u32,
}

impl SegmentScan {
    /// Of a file of the disk of this superblock.
    pub(crate) fn new(superblock: &Superblock, key: Option<&LogKey>) -> Self {
        let (disk, segment_bytes) = (superblock.disk, superblock.segment_bytes);
        let (room, key) = (superblock.room(), key.cloned());
        Self { disk, segment_bytes, room, key, cipher: None, salt: None, state: State::Head }
    }

    /// What to read next; `None` when it is done.
    pub fn next_read(&self) -> Option<ReadAt> {
        let at = |offset: u32, bytes: u32| ReadAt {
            offset: self.room.on_disk(offset),
            bytes: self.room.on_disk(bytes),
        };
        let read = match &self.state {
            State::Head => Some(ReadAt { offset: 0, bytes: 2 * BLOCK_BYTES }),
            State::Trailer(_) => {
                Some(ReadAt { offset: self.segment_bytes - BLOCK_BYTES, bytes: BLOCK_BYTES })
            }
            State::Footer { offset, bytes, .. } => Some(at(*offset, *bytes)),
            State::Summaries(now) => Some(at(now.offset, now.bytes)),
            State::Done(_) => None,
        };
        let is_inside = |read: &ReadAt| read.offset + read.bytes <= self.segment_bytes;
        debug_assert!(read.iter().all(is_inside), "every read lies in the file");
        read
    }

    /// Takes what was read; fewer bytes if the file is shorter. A read that fails must end the
    /// recovery instead: with a segment its tombstones would be missing.
    pub fn take(&mut self, bytes: &[u8]) {
        let first = self.next_read().map_or(0, |read| read.offset / BLOCK_BYTES);
        let bytes = match &self.cipher {
            Some(cipher) => Cow::Owned(cipher.decrypted(first, bytes)),
            None => Cow::Borrowed(bytes),
        };
        let state = std::mem::replace(&mut self.state, State::Done(Found::Foreign));
        self.state = match state {
            State::Head => State::Trailer(self.head(&bytes)),
            State::Trailer(head) => self.trailer(&head, &bytes),
            State::Footer { sequence, offset, .. } => self.footer(sequence, offset, &bytes),
            State::Summaries(summaries) => self.summaries(summaries, &bytes),
            State::Done(found) => State::Done(found),
        };
    }

    /// The result, when nothing is to be read any more.
    pub fn into_found(self) -> Found {
        match self.state {
            State::Done(found) => found,
            _ => Found::Foreign,
        }
    }

    fn head(&mut self, bytes: &[u8]) -> Head {
        let (first, second) = bytes.split_at(bytes.len().min(BLOCK_BYTES as usize));
        let header = self.header(first);
        let header = header.or_else(|| self.header(second).filter(|_| self.key.is_some()));
        if let (Some(key), Some(SegmentHeader { sequence, salt: Some(salt), .. })) =
            (&self.key, &header)
        {
            self.cipher = Some(key.segment(*sequence, *salt));
            self.salt = Some(*salt);
        }
        let is_first = |summary: &Summary| summary.disk == self.disk && summary.batch == 0;
        let summary = Summary::decode(second, self.room).ok().filter(is_first);
        Head {
            header: header.map(|header| header.sequence),
            first_summary: summary.map(|first| first.sequence),
            // A file that is shorter was made, and not used before its process died.
            is_blank: bytes.iter().all(|byte| *byte == 0),
        }
    }

    fn header(&self, block: &[u8]) -> Option<SegmentHeader> {
        let is_ours = |header: &SegmentHeader| {
            header.disk == self.disk
                && header.segment_bytes == self.segment_bytes
                && header.salt.is_some() == self.key.is_some()
        };
        SegmentHeader::decode(block).ok().filter(is_ours)
    }

    /// Which segment it is. Without a header it is what trailer and first summary agree on: a
    /// trailer alone may be left from an earlier segment in the same file, and the master
    /// knows that that one has gone.
    fn trailer(&self, head: &Head, bytes: &[u8]) -> State {
        let trailer =
            SegmentTrailer::decode(bytes, self.room).ok().filter(|it| it.disk == self.disk);
        let named = trailer.map(|trailer| trailer.sequence);
        if head.is_blank && bytes.iter().all(|byte| *byte == 0) {
            return State::Done(Found::Blank);
        }
        let sequence = match (head.header, head.first_summary) {
            (Some(sequence), _) => sequence,
            (None, Some(sequence)) if named.is_none_or(|other| other <= sequence) => sequence,
            _ => return State::Done(self.unsure(named, head.first_summary)),
        };
        match trailer {
            Some(SegmentTrailer { footer_offset, footer_bytes, .. })
                if named == Some(sequence) && self.has_room(footer_offset, footer_bytes) =>
            {
                State::Footer { sequence, offset: footer_offset, bytes: footer_bytes }
            }
            _ => self.first_summary(sequence),
        }
    }

    fn unsure(&self, trailer: Option<u32>, summary: Option<u32>) -> Found {
        match trailer.max(summary) {
            Some(sequence) => Found::Unsure { sequence },
            None => Found::Foreign,
        }
    }

    fn has_room(&self, footer_offset: u32, footer_bytes: u32) -> bool {
        let end = u64::from(footer_offset) + u64::from(footer_bytes);
        let largest = bytes_of_footer(SEGMENT_ENTRY_BYTES_MAX, self.room);
        (1..=largest).contains(&(footer_bytes as usize)) && end <= u64::from(self.batches_end())
    }

    /// Where the trailer begins.
    fn batches_end(&self) -> u32 {
        self.room.in_log(self.segment_bytes - BLOCK_BYTES)
    }

    fn footer(&self, sequence: u32, offset: u32, bytes: &[u8]) -> State {
        let is_its = |footer: &Footer| footer.disk == self.disk && footer.sequence == sequence;
        match Footer::decode(bytes).ok().filter(is_its) {
            Some(mut footer) => {
                let start = self.room.first_batch();
                footer.entries.retain(|entry| lies_in(entry, start, offset));
                self.done(sequence, footer.entries)
            }
            None => self.first_summary(sequence),
        }
    }

    fn first_summary(&self, sequence: u32) -> State {
        let (offset, bytes) = (self.room.first_batch(), self.room.bytes());
        State::Summaries(Summaries { sequence, entries: Vec::new(), batch: 0, offset, bytes })
    }

    fn done(&self, sequence: u32, entries: Vec<Entry>) -> State {
        State::Done(Found::Segment { sequence, salt: self.salt, entries })
    }

    fn summaries(&self, mut now: Summaries, bytes: &[u8]) -> State {
        let (end, block) = (self.batches_end(), self.room.bytes());
        let largest = summary_bytes(BATCH_ENTRY_BYTES_MAX as usize, self.room) as u32;
        let room = end - now.offset;
        let is_next = |summary: &Summary| {
            (summary.disk, summary.sequence, summary.batch) == (self.disk, now.sequence, now.batch)
                && summary.batch_bytes <= room
        };
        let both = (SUMMARY_COPIES as u32 * largest).min(room);
        let claimed = claimed_bytes(Structure::Summary, bytes, self.room).unwrap_or(0);
        if claimed > bytes.len() && claimed <= largest.min(room) as usize && now.bytes < both {
            now.bytes = claimed as u32;
            return State::Summaries(now);
        }
        let starts = (0..bytes.len()).step_by(block as usize).map(|start| &bytes[start..]);
        let mut summaries = starts.filter_map(|start| Summary::decode(start, self.room).ok());
        match summaries.find(is_next) {
            Some(summary) => {
                let (start, stop) = (now.offset, now.offset + summary.batch_bytes);
                let entries = summary.entries.into_iter();
                now.entries.extend(entries.filter(|entry| lies_in(entry, start, stop)));
                (now.batch, now.offset, now.bytes) = (now.batch + 1, stop, block);
            }
            None if now.bytes < both => now.bytes = both,
            None => now.offset = end,
        }
        if now.offset + block > end {
            return self.done(now.sequence, now.entries);
        }
        State::Summaries(now)
    }
}

/// Whether the image of an entry lies between two offsets.
fn lies_in(entry: &Entry, start: u32, end: u32) -> bool {
    match &entry.kind {
        EntryKind::Object { offset, payload_bytes, .. } => {
            let stop = u64::from(*offset) + extent_bytes(u64::from(*payload_bytes));
            *offset >= start && stop <= u64::from(end)
        }
        EntryKind::Tombstone { .. } => true,
    }
}
