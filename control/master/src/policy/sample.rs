//! A sample of the keys in the order of their last access, and which of them a cache with this
//! order alone would have.
//! Invariant: no more than `SAMPLE_KEYS` keys. Those from the newest to the edge are the ones that
//! a least recently used cache keeps.

use hashbrown::HashMap;

use crate::limits::SAMPLE_KEYS;
use crate::slab::NONE;

use super::kind::ObjectKind;

/// What the sample knew of a key.
#[derive(Debug, Clone, Copy)]
pub(super) struct SampledKey {
    pub(super) kind: ObjectKind,
    pub(super) stamp: u64,
    /// A least recently used cache would have it.
    pub(super) in_lru: bool,
}

/// What an access changed.
#[derive(Debug, Default)]
pub(super) struct SampleTouch {
    /// What was known of the key.
    pub(super) known: Option<SampledKey>,
    /// The oldest, if there was no room for one more.
    pub(super) given_up: Option<SampledKey>,
}

#[derive(Debug, Clone, Copy)]
struct SampledEntry {
    hash: u64,
    stamp: u64,
    newer: u32,
    older: u32,
    kind: ObjectKind,
    in_lru: bool,
}

#[derive(Debug)]
pub(super) struct AgeSample {
    at: HashMap<u64, u32>,
    entries: Vec<SampledEntry>,
    newest: u32,
    oldest: u32,
    /// The oldest that a least recently used cache has.
    edge: u32,
    in_lru: usize,
}

impl AgeSample {
    pub(super) fn new() -> Self {
        let (at, entries) = (HashMap::new(), Vec::new());
        Self { at, entries, newest: NONE, oldest: NONE, edge: NONE, in_lru: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// All that it knows.
    pub(super) fn iter(&self) -> impl Iterator<Item = SampledKey> {
        self.entries.iter().map(SampledEntry::seen)
    }

    /// Makes a key the newest; a least recently used cache has room for `room` of the sample.
    pub(super) fn touch(
        &mut self,
        hash: u64,
        kind: ObjectKind,
        stamp: u64,
        room: usize,
    ) -> SampleTouch {
        let entry = SampledEntry { hash, stamp, newer: NONE, older: NONE, kind, in_lru: true };
        let mut touch = SampleTouch::default();
        let at = if let Some(at) = self.at.get(&hash).copied() {
            touch.known = Some(self.unlink(at));
            at
        } else if self.len() >= SAMPLE_KEYS {
            // The new one gets the place of the oldest.
            let at = self.oldest;
            self.at.remove(&self.entries[at as usize].hash);
            touch.given_up = Some(self.unlink(at));
            self.at.insert(hash, at);
            at
        } else {
            let at = self.entries.len() as u32;
            self.entries.push(entry);
            self.at.insert(hash, at);
            at
        };
        self.entries[at as usize] = entry;
        self.link_newest(at);
        self.bound_lru(room);
        touch
    }

    fn link_newest(&mut self, at: u32) {
        self.entries[at as usize].older = self.newest;
        self.link_neighbours(at);
        if self.edge == NONE {
            self.edge = at;
        }
        self.in_lru += 1;
    }

    /// A least recently used cache gives up what it has no room for.
    fn bound_lru(&mut self, room: usize) {
        while self.in_lru > room.max(1) {
            let edge = &mut self.entries[self.edge as usize];
            edge.in_lru = false;
            self.edge = edge.newer;
            self.in_lru -= 1;
        }
    }

    /// Forgets what is no part of a smaller sample.
    pub(super) fn keep(&mut self, is_sampled: impl Fn(u64) -> bool) {
        let gone: Vec<u64> = self.at.keys().copied().filter(|hash| !is_sampled(*hash)).collect();
        for hash in gone {
            let at = self.at.remove(&hash);
            at.into_iter().for_each(|at| self.remove(at));
        }
    }

    /// Takes an entry out of the order.
    fn unlink(&mut self, at: u32) -> SampledKey {
        let entry = self.entries[at as usize];
        match entry.newer {
            NONE => self.newest = entry.older,
            newer => self.entries[newer as usize].older = entry.older,
        }
        match entry.older {
            NONE => self.oldest = entry.newer,
            older => self.entries[older as usize].newer = entry.newer,
        }
        if self.edge == at {
            self.edge = entry.newer;
        }
        self.in_lru -= usize::from(entry.in_lru);
        entry.seen()
    }

    /// Takes an entry out; the last one gets its place.
    fn remove(&mut self, at: u32) {
        self.unlink(at);
        self.entries.swap_remove(at as usize);
        let moved = self.entries.len() as u32;
        if moved != at {
            self.at.insert(self.entries[at as usize].hash, at);
            self.link_neighbours(at);
            if self.edge == moved {
                self.edge = at;
            }
        }
    }

    /// Has the neighbours of an entry, or the ends of the list, name it.
    fn link_neighbours(&mut self, at: u32) {
        let SampledEntry { newer, older, .. } = self.entries[at as usize];
        match newer {
            NONE => self.newest = at,
            newer => self.entries[newer as usize].older = at,
        }
        match older {
            NONE => self.oldest = at,
            older => self.entries[older as usize].newer = at,
        }
    }

    /// Panics unless its records agree.
    pub(super) fn check(&self) {
        assert!(self.len() <= SAMPLE_KEYS && self.at.len() == self.len());
        let (mut at, mut listed, mut in_lru, mut edge) = (self.newest, 0, 0, NONE);
        while at != NONE {
            let entry = self.entries[at as usize];
            assert_eq!(self.at.get(&entry.hash), Some(&at));
            assert!(!entry.in_lru || in_lru == listed, "the newest are in it");
            if entry.in_lru {
                (in_lru, edge) = (in_lru + 1, at);
            }
            listed += 1;
            at = entry.older;
        }
        assert_eq!((listed, in_lru, edge), (self.len(), self.in_lru, self.edge));
    }
}

impl SampledEntry {
    fn seen(&self) -> SampledKey {
        SampledKey { kind: self.kind, stamp: self.stamp, in_lru: self.in_lru }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_what_a_least_recently_used_cache_has() {
        let mut sample = AgeSample::new();
        let mut access = |hash: u64, stamp: u64| {
            let touch = sample.touch(hash, ObjectKind::READ, stamp, 3);
            sample.check();
            touch.known.is_some_and(|seen| seen.in_lru)
        };
        for (stamp, hash) in [1, 2, 3, 1, 4, 5].into_iter().enumerate() {
            assert_eq!(access(hash, stamp as u64), stamp == 3);
        }
        assert!(access(1, 6) && access(5, 7) && !access(3, 8));
    }

    #[test]
    fn the_oldest_goes_when_there_are_too_many() {
        let mut sample = AgeSample::new();
        let keys = SAMPLE_KEYS as u64 + 10;
        for hash in 0..keys {
            let touch = sample.touch(hash, ObjectKind::default(), hash, 100);
            let expected = hash.checked_sub(SAMPLE_KEYS as u64);
            assert_eq!(touch.given_up.map(|oldest| oldest.stamp), expected);
        }
        sample.keep(|hash| hash % 16 == 0);
        sample.check();
        assert!(sample.len() <= SAMPLE_KEYS / 16 + 1);
    }
}
