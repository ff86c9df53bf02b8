//! Copies that are to be void: waiting, written, safe. Invariant: a burial is answered when all of
//! its copies are safe, and a tombstone that was lost is written again.

use super::command::{VoidCopy, VoidPromise};
use super::error::WriteError;
use crate::limits::BATCH_TOMBSTONES_MAX;
use crate::log::Tombstone;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// What makes two tombstones the same: the log only compares these.
type CopyName = (u128, u64);

struct Burial {
    left: usize,
    promise: VoidPromise,
}

/// All burials of a disk.
#[derive(Default)]
pub(super) struct TombstoneQueue {
    /// With the last segment that may have the copy; none if every one of now may.
    waiting: VecDeque<(CopyName, Option<u32>)>,
    since: Option<Duration>,
    /// When the oldest one that was written must be synced.
    written_since: Option<Duration>,
    /// Burials that wait for a copy.
    asked: HashMap<CopyName, Vec<u64>>,
    burials: HashMap<u64, Burial>,
    numbered: u64,
}

impl TombstoneQueue {
    pub(super) fn bury(&mut self, copies: &[VoidCopy], promise: VoidPromise, now: Duration) {
        if copies.is_empty() {
            promise.give(Ok(()));
            return;
        }
        self.numbered += 1;
        self.burials.insert(self.numbered, Burial { left: copies.len(), promise });
        for copy in copies {
            let key = (copy.hash, copy.generation);
            self.asked.entry(key).or_default().push(self.numbered);
            self.push(key, None, now);
        }
        self.check();
    }

    fn check(&self) {
        let is_waiting = !self.waiting.is_empty();
        debug_assert_eq!(self.since.is_some(), is_waiting, "what waits has its time");
        let asked: usize = self.asked.values().map(Vec::len).sum();
        let left: usize = self.burials.values().map(|burial| burial.left).sum();
        debug_assert_eq!(asked, left, "a burial waits for copies that are not safe");
    }

    fn push(&mut self, key: CopyName, last: Option<u32>, now: Duration) {
        self.since.get_or_insert(now);
        self.waiting.push_back((key, last));
    }

    /// Makes copies void that the log has lost: their tombstones, or they themselves. The same
    /// objects may be written again, so their segments are kept.
    pub(super) fn push_lost(&mut self, lost: Vec<Tombstone>, now: Duration) {
        for Tombstone { hash, generation, sequence } in lost {
            self.push((hash, generation), Some(sequence), now);
        }
    }

    /// Nothing is written at present: what waits is tried again later.
    pub(super) fn postpone(&mut self, now: Duration) {
        self.since = self.since.map(|_| now);
    }

    /// What waits, with the last segment that may have each copy.
    pub(super) fn waiting(&self) -> Vec<(CopyName, u32)> {
        self.waiting.iter().map(|(key, last)| (*key, last.unwrap_or(u32::MAX))).collect()
    }

    pub(super) fn since(&self) -> Option<Duration> {
        self.since
    }

    pub(super) fn written_since(&self) -> Option<Duration> {
        self.written_since
    }

    pub(super) fn note_written(&mut self, now: Duration) {
        self.written_since.get_or_insert(now);
    }

    /// The next ones for a batch. A copy lies in the segment `newest` or an older one.
    pub(super) fn take(&mut self, newest: u32) -> Vec<Tombstone> {
        let count = self.waiting.len().min(BATCH_TOMBSTONES_MAX);
        let taken = self.waiting.drain(..count);
        let taken = taken
            .map(|((hash, generation), last)| {
                let sequence = last.unwrap_or(newest);
                Tombstone { hash, generation, sequence }
            })
            .collect();
        if self.waiting.is_empty() {
            self.since = None;
        }
        self.check();
        taken
    }

    /// The sync of all that was written has ended.
    pub(super) fn note_synced(&mut self) {
        self.written_since = None;
    }

    /// Tombstones are safe.
    pub(super) fn confirm(&mut self, safe: Vec<Tombstone>) {
        for tombstone in safe {
            let asked = self.asked.remove(&(tombstone.hash, tombstone.generation));
            for number in asked.into_iter().flatten() {
                self.one_less(number);
            }
        }
        self.check();
    }

    /// All copies are void, or none can be made void any more.
    pub(super) fn end_all(&mut self, result: &Result<(), WriteError>) {
        let Self { burials, .. } = std::mem::take(self);
        burials.into_values().for_each(|burial| burial.promise.give(result.clone()));
    }

    fn one_less(&mut self, number: u64) {
        let Some(burial) = self.burials.get_mut(&number) else { return };
        burial.left -= 1;
        if burial.left == 0
            && let Some(burial) = self.burials.remove(&number)
        {
            burial.promise.give(Ok(()));
        }
    }
}
