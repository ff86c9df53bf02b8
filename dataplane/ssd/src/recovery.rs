//! What a disk has in it after a restart: each segment is read by a [`SegmentScan`], and all of
//! them together give the log and the objects to announce.
//! Invariant: an object is found only if its entry verifies, and not if a later entry of the same
//! hash replaced or removed it; files that do not verify as ours are neither read from nor reused.

mod liveness;
mod scan;
mod survivor;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub(crate) use liveness::CopyLiveness;
pub use scan::{Found, ReadAt, SegmentScan};
pub use survivor::Survivor;

use crate::format::{Entry, Superblock};
use crate::log::Log;
use crate::log::segments::SegmentFiles;

/// What the scans of a disk have found.
#[derive(Debug)]
pub struct Recovery {
    superblock: Superblock,
    segments: SegmentFiles,
    entries: BTreeMap<u32, Vec<Entry>>,
    next_sequence: u32,
    foreign: Vec<u32>,
    /// Tombstones are missing that may have voided objects of segments below this number.
    doubtful_below: u32,
}

impl Recovery {
    /// Of the disk of this superblock.
    pub fn new(superblock: Superblock) -> Self {
        let next_sequence = superblock.void_before;
        Self {
            superblock,
            segments: SegmentFiles::default(),
            entries: BTreeMap::new(),
            next_sequence,
            foreign: Vec::new(),
            doubtful_below: 0,
        }
    }

    /// Adds what the scan of a file has found.
    pub fn add(&mut self, slot: u32, found: Found) {
        match found {
            Found::Blank => self.segments.add_free(slot),
            Found::Foreign => self.leave_alone(slot),
            Found::Segment { sequence, salt, entries } => {
                self.add_segment((slot, sequence, salt), entries);
            }
            Found::Unsure { sequence } => {
                self.add_segment((slot, sequence, None), Vec::new());
                self.doubtful_below = self.doubtful_below.max(sequence.saturating_add(1));
            }
        }
    }

    /// Files that are left as they are.
    pub fn foreign(&self) -> &[u32] {
        &self.foreign
    }

    /// The log, and what is to be announced. The caller has synced the superblock and all files
    /// that were scanned: what a dead process left unsynced decides what is found now, so it must
    /// decide the same after a later loss of power.
    pub fn finish(self) -> (Log, Vec<Survivor>) {
        let certain = self.entries.into_iter().rev();
        let certain = certain.take_while(|(sequence, _)| *sequence >= self.doubtful_below);
        let mut liveness = CopyLiveness::default();
        let alive = certain.flat_map(|(sequence, entries)| liveness.take(sequence, entries));
        let mut survivors: Vec<_> = alive.collect();
        survivors.sort_unstable_by_key(|object| object.address);
        let next = self.next_sequence;
        let log = Log::recovered(self.superblock, self.segments, next, self.doubtful_below);
        (log, survivors)
    }

    fn add_segment(
        &mut self,
        (slot, sequence, salt): (u32, u32, Option<u128>),
        entries: Vec<Entry>,
    ) {
        // No number is used twice, so one of two such files is a copy that another hand made.
        if self.entries.contains_key(&sequence) {
            self.leave_alone(slot);
            return;
        }
        self.next_sequence = self.next_sequence.max(sequence.saturating_add(1));
        if sequence < self.superblock.void_before || entries.is_empty() {
            self.segments.add_free(slot);
            return;
        }
        self.segments.add(sequence, slot, salt);
        self.entries.insert(sequence, entries);
    }

    fn leave_alone(&mut self, slot: u32) {
        self.segments.add_foreign(slot);
        self.foreign.push(slot);
    }
}
