//! Which segment is in which file, and which files are free.
//! Invariant: a file is free, has one segment, is about to get one, or is not ours.

use std::collections::{BTreeMap, BTreeSet};

use super::error::LogError;

#[derive(Debug, Clone, Copy)]
struct HeldSegment {
    slot: u32,
    /// What its key is made from, if it is encrypted.
    salt: Option<u128>,
    /// Reads and writes under way.
    holds: u32,
}

/// The segments of a disk by their numbers, and the files.
#[derive(Debug, Default)]
pub(crate) struct SegmentFiles {
    by_sequence: BTreeMap<u32, HeldSegment>,
    free: BTreeSet<u32>,
    /// Files that do not verify as ours.
    foreign: BTreeSet<u32>,
    /// Files of this number and above do not exist yet.
    next_slot: u32,
}

impl SegmentFiles {
    pub(crate) fn add(&mut self, sequence: u32, slot: u32, salt: Option<u128>) {
        let segment = HeldSegment { slot, salt, holds: 0 };
        let is_new = self.by_sequence.insert(sequence, segment).is_none();
        debug_assert!(is_new, "no number is given twice");
        self.next_slot = self.next_slot.max(slot + 1);
    }

    pub(crate) fn add_free(&mut self, slot: u32) {
        self.free.insert(slot);
        self.next_slot = self.next_slot.max(slot + 1);
    }

    pub(crate) fn add_foreign(&mut self, slot: u32) {
        self.foreign.insert(slot);
        self.next_slot = self.next_slot.max(slot + 1);
    }

    /// A file could not be made, or not be given its length, and is gone.
    pub(super) fn forget_new(&mut self, slot: u32) {
        if slot + 1 == self.next_slot {
            self.next_slot = slot;
        }
    }

    /// Files that there are.
    pub(super) fn files(&self) -> u32 {
        (self.by_sequence.len() + self.free.len() + self.foreign.len()) as u32
    }

    pub(super) fn oldest_from(&self, first: u32) -> Option<u32> {
        self.by_sequence.range(first..).next().map(|(sequence, _)| *sequence)
    }

    pub(super) fn from(&self, first: u32) -> impl Iterator<Item = u32> {
        self.by_sequence.range(first..).map(|(sequence, _)| *sequence)
    }

    pub(super) fn count_from(&self, first: u32) -> usize {
        self.by_sequence.range(first..).count()
    }

    pub(crate) fn newest(&self) -> Option<u32> {
        self.by_sequence.last_key_value().map(|(sequence, _)| *sequence)
    }

    /// Whether the next segment needs a new file, if there may be so many.
    pub(super) fn needs_file(&self, slots: u32) -> bool {
        self.free.is_empty() && self.by_sequence.len() + self.foreign.len() < slots as usize
    }

    /// A file for a new segment, and the segment that had it.
    pub(super) fn take_slot(&mut self, slots: u32) -> Result<(u32, Option<u32>), LogError> {
        if let Some(slot) = self.free.pop_first() {
            return Ok((slot, None));
        }
        if self.needs_file(slots) {
            let slot = self.next_slot;
            self.next_slot += 1;
            return Ok((slot, None));
        }
        let oldest = self.by_sequence.first_entry().ok_or(LogError::Closed)?;
        if oldest.get().holds > 0 {
            return Err(LogError::Busy);
        }
        let sequence = *oldest.key();
        Ok((oldest.remove().slot, Some(sequence)))
    }

    pub(super) fn salt(&self, sequence: u32) -> Option<u128> {
        self.by_sequence.get(&sequence)?.salt
    }

    /// One more read or write of a segment: its file, unless it has gone.
    pub(super) fn hold(&mut self, sequence: u32) -> Option<u32> {
        let segment = self.by_sequence.get_mut(&sequence)?;
        segment.holds += 1;
        Some(segment.slot)
    }

    pub(super) fn release(&mut self, sequence: u32) {
        let segment = self.by_sequence.get_mut(&sequence);
        debug_assert!(segment.is_some(), "a segment in use stays");
        if let Some(segment) = segment {
            debug_assert!(segment.holds > 0, "each use ends once");
            segment.holds = segment.holds.saturating_sub(1);
        }
    }

    pub(super) fn check(&self, slots: u32, starting: Option<u32>) {
        let used = self.by_sequence.values().map(|segment| segment.slot);
        let all: Vec<u32> =
            used.chain(self.free.iter().chain(&self.foreign).copied()).chain(starting).collect();
        let distinct: BTreeSet<u32> = all.iter().copied().collect();
        assert_eq!(all.len(), distinct.len(), "a file has one use");
        assert!(all.iter().all(|slot| *slot < self.next_slot));
        assert!(self.by_sequence.len() <= slots.max(1) as usize || starting.is_none());
    }
}
