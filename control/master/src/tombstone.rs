//! Copies on disks that are void but that their owners have not erased from their logs yet, and
//! what has changed while disks are away, or before this life of the master heard of them.
//! Invariant: what was removed or replaced is either reported to the owner of each mounted disk
//! that may still have it, until that confirms, or refused when the disk announces it again.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::absences::Absences;
use crate::changed_keys::ChangedKeys;
use crate::limits::{DISKS_KNOWN_MAX, SUSPECTS_MAX, TOMBSTONES_MAX};

/// A copy that its owner must not announce or serve any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tombstone {
    /// Number by which its owner confirms it; no other one of the master has it.
    pub number: u64,
    /// Hash of the key.
    pub hash: u64,
    /// Generation of the copy.
    pub generation: u64,
}

/// Where a copy lies in which a reader has found something else than was put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DamagedPlace {
    /// Packed disk address.
    pub address: u64,
    /// Length of the object.
    pub payload_bytes: u64,
}

/// The tombstones of a shard.
#[derive(Debug)]
pub(crate) struct Tombstones {
    /// By disk and number.
    waiting: BTreeMap<u32, BTreeMap<u64, Tombstone>>,
    /// The copies that they name: disk, hash and generation.
    void: HashSet<(u32, u64, u64)>,
    /// Those of them that readers have found damaged, for their owners to look at.
    suspects: BTreeMap<(u32, u64, u64), DamagedPlace>,
    /// The known disks that may announce what has become void unheard.
    absences: Absences,
    /// Disks that have announced all that they have in this life of the master.
    known: BTreeSet<u128>,
    /// Keys that were written or removed in this life: other disks may have them as they were.
    since_start: ChangedKeys,
    /// Whether there can be disks.
    is_used: bool,
    next: u64,
    step: u64,
}

impl Tombstones {
    /// Those of shard `index` of `count`, of a master with disks or without.
    pub(crate) fn new(index: usize, count: usize, is_used: bool) -> Self {
        Self {
            waiting: BTreeMap::new(),
            void: HashSet::new(),
            suspects: BTreeMap::new(),
            absences: Absences::default(),
            known: BTreeSet::new(),
            since_start: ChangedKeys::default(),
            is_used,
            next: (count + index) as u64,
            step: count as u64,
        }
    }

    /// A disk is mounted.
    pub(crate) fn open(&mut self, disk: u32) {
        self.waiting.insert(disk, BTreeMap::new());
    }

    /// A copy on a mounted disk is void. Returns false if the owner has left too many unconfirmed:
    /// then none waits any more, and the disk must announce all that it has before it is given
    /// others.
    pub(crate) fn note(&mut self, disk: u32, id: u128, hash: u64, generation: u64) -> bool {
        let Some(waiting) = self.waiting.get_mut(&disk) else {
            self.note_change(hash);
            return !self.absences.has(id);
        };
        if waiting.len() >= TOMBSTONES_MAX {
            self.leave(disk, id);
            self.note_change(hash);
            return false;
        }
        let number = self.next;
        self.next += self.step;
        waiting.insert(number, Tombstone { number, hash, generation });
        self.void.insert((disk, hash, generation));
        true
    }

    /// A reader has found a copy damaged that is void now, or will be once it has no readers.
    pub(crate) fn note_suspect(&mut self, copy: (u32, u64, u64), place: DamagedPlace) {
        if self.suspects.len() < SUSPECTS_MAX && self.waiting.contains_key(&copy.0) {
            self.suspects.insert(copy, place);
        }
    }

    /// Where a void copy lies, if a reader has found it damaged.
    pub(crate) fn suspect(&self, disk: u32, void: &Tombstone) -> Option<DamagedPlace> {
        self.suspects.get(&(disk, void.hash, void.generation)).copied()
    }

    /// Whether a copy is void that its owner may not have heard of.
    pub(crate) fn is_void(&self, disk: u32, hash: u64, generation: u64) -> bool {
        self.void.contains(&(disk, hash, generation))
    }

    /// The oldest tombstones of a disk, at most `limit`; `None` if the disk has to announce first
    /// what it has.
    pub(crate) fn oldest(&self, disk: u32, limit: usize) -> Option<Vec<Tombstone>> {
        Some(self.waiting.get(&disk)?.values().take(limit).copied().collect())
    }

    /// All tombstones that there will be have a number that is not below this one.
    pub(crate) fn mark(&self) -> u64 {
        self.next
    }

    /// Tombstones of a disk whose number is below one.
    pub(crate) fn before(&self, disk: u32, mark: u64) -> impl Iterator<Item = &Tombstone> {
        let waiting = self.waiting.get(&disk).into_iter();
        waiting.flat_map(move |waiting| waiting.range(..mark).map(|(_, tombstone)| tombstone))
    }

    /// Whether tombstones wait for the owner of a disk.
    pub(crate) fn has_some(&self, disk: u32) -> bool {
        self.waiting.get(&disk).is_some_and(|waiting| !waiting.is_empty())
    }

    /// The owner of a disk has made sure that a copy never comes back.
    pub(crate) fn confirm(&mut self, disk: u32, number: u64) {
        let waiting = self.waiting.get_mut(&disk);
        if let Some(safe) = waiting.and_then(|waiting| waiting.remove(&number)) {
            self.void.remove(&(disk, safe.hash, safe.generation));
            self.suspects.remove(&(disk, safe.hash, safe.generation));
        }
    }

    /// A disk is gone, or no tombstone reaches it: it is not believed about what changes from now
    /// on.
    pub(crate) fn leave(&mut self, disk: u32, id: u128) {
        let unheard = self.waiting.remove(&disk).unwrap_or_default();
        self.suspects.retain(|(of, ..), _| *of != disk);
        if self.known.contains(&id) {
            self.absences.begin(id);
        }
        for tombstone in unheard.values() {
            self.void.remove(&(disk, tombstone.hash, tombstone.generation));
            self.note_change(tombstone.hash);
        }
    }

    /// A disk has announced all that it has.
    pub(crate) fn has_returned(&mut self, disk: u32, id: u128) {
        self.waiting.entry(disk).or_default();
        self.absences.end(id);
        if self.known.len() < DISKS_KNOWN_MAX {
            self.known.insert(id);
        }
    }

    /// A disk that has left had a copy of a key.
    pub(crate) fn note_left_copy(&mut self, hash: u64) {
        self.absences.note_copy(hash);
    }

    /// Whether a disk that is away may have a copy of a key.
    pub(crate) fn may_be_away(&self, hash: u64) -> bool {
        self.absences.may_have_copy(hash)
    }

    /// A key is written or removed.
    pub(crate) fn note_change(&mut self, hash: u64) {
        if self.is_used {
            self.since_start.note(hash);
        }
        self.absences.note(hash);
    }

    /// Keys were removed by a pattern: those that only a disk knows that is away may be among them.
    pub(crate) fn note_pattern(&mut self) {
        if self.is_used {
            self.since_start.note_all();
        }
        self.absences.note_all();
    }

    /// Whether a key may have changed since a disk knew all about it: since it went, or since the
    /// master started.
    pub(crate) fn may_have_changed(&self, id: u128, hash: u64) -> bool {
        match self.known.contains(&id) {
            true => self.absences.may_have_changed(id, hash),
            false => self.since_start.may_have(hash),
        }
    }

    /// Number of tombstones that wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.values().map(BTreeMap::len).sum()
    }

    /// Panics unless numbers are this shard's and bounds are kept.
    pub(crate) fn check(&self) {
        self.absences.check();
        assert!(self.void.len() <= self.len(), "each names one that waits");
        assert!(self.suspects.len() <= SUSPECTS_MAX);
        let is_mounted = |(disk, ..): &(u32, u64, u64)| self.waiting.contains_key(disk);
        assert!(self.suspects.keys().all(is_mounted), "each has an owner that asks");
        for (disk, waiting) in &self.waiting {
            assert!(waiting.len() <= TOMBSTONES_MAX, "{disk}");
            for (number, tombstone) in waiting {
                assert_eq!(*number, tombstone.number);
                assert!(*number < self.next && (self.next - number).is_multiple_of(self.step));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: u32 = 4;
    const ID: u128 = 40;

    fn with_disk() -> Tombstones {
        let mut tombstones = Tombstones::new(1, 3, true);
        tombstones.open(DISK);
        tombstones.has_returned(DISK, ID);
        tombstones
    }

    #[test]
    fn a_tombstone_waits_until_its_owner_confirms_it() {
        let mut tombstones = with_disk();
        assert!(tombstones.note(DISK, ID, 7, 70) && tombstones.note(DISK, ID, 8, 80));
        let first = tombstones.oldest(DISK, 1).unwrap();
        assert_eq!((first[0].hash, first[0].generation), (7, 70));
        assert_eq!(tombstones.oldest(DISK, 1), Some(first.clone()), "it is reported again");
        tombstones.confirm(DISK, first[0].number);
        tombstones.confirm(DISK, first[0].number);
        assert_eq!((tombstones.oldest(DISK, 9).unwrap()[0].hash, tombstones.len()), (8, 1));
        tombstones.check();
    }

    #[test]
    fn what_changes_while_a_disk_is_away_is_not_believed() {
        let mut tombstones = with_disk();
        tombstones.note_change(1);
        tombstones.note(DISK, ID, 2, 20);
        tombstones.leave(DISK, ID);
        tombstones.note_change(3);
        tombstones.check();
        let changed = [1, 2, 3].map(|hash| tombstones.may_have_changed(ID, hash));
        assert_eq!(changed, [false, true, true]);
        tombstones.has_returned(DISK + 1, ID);
        tombstones.check();
        assert!(!tombstones.may_have_changed(ID, 3), "no disk is away any more");
        let stranger = [1, 3, 4].map(|hash| tombstones.may_have_changed(ID + 1, hash));
        assert_eq!(stranger, [true, true, false], "it has heard of no change in this life");
        assert!(tombstones.note(DISK + 1, ID, 5, 50));
    }

    #[test]
    fn a_disk_with_too_many_unconfirmed_must_announce_what_it_has() {
        let mut tombstones = with_disk();
        for hash in 0..TOMBSTONES_MAX as u64 {
            assert!(tombstones.note(DISK, ID, hash, hash));
        }
        assert!(!tombstones.note(DISK, ID, u64::MAX, 1));
        assert_eq!((tombstones.oldest(DISK, 1), tombstones.len()), (None, 0));
        assert!(tombstones.may_have_changed(ID, u64::MAX) && tombstones.may_have_changed(ID, 17));
        tombstones.check();
        tombstones.has_returned(DISK, ID);
        assert!(tombstones.note(DISK, ID, 1, 1), "it is reported again");
    }
}
