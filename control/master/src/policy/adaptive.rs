//! The order that hits most for what is stored and read now: what each kind of object is worth at
//! its age is learned from a sample of the keys. Where that loses to the order of last use, that
//! one is followed.
//! Invariant: a smaller sample is part of the one before it, and has no more than `SAMPLE_KEYS`
//! keys, whatever the number of objects.
//!
//! The sample has keys long after they were evicted, so it shows what would have come back had it
//! been kept. It knows too which of its keys a least recently used cache would have.

use crate::limits::{GHOST_WINDOW, LEARN_ACCESSES_MIN, SAMPLE_KEYS, SAMPLE_REACH};

use super::curves::Curves;
use super::eviction_policy::{EvictionPolicy, KeyAccess, worth_by_age};
use super::ghosts::Ghosts;
use super::guard::LruGuard;
use super::kind::ObjectKind;
use super::sample::{AgeSample, SampleTouch};

#[derive(Debug)]
pub(super) struct Adaptive {
    ghosts: Ghosts,
    sample: AgeSample,
    curves: Box<Curves>,
    guard: LruGuard,
    /// One key of `1 << thinning` is in the sample.
    thinning: u32,
    /// Accesses of the sample until the curves are drawn again.
    until_learned: usize,
}

impl Adaptive {
    pub(super) fn new() -> Self {
        Self {
            ghosts: Ghosts::new(),
            sample: AgeSample::new(),
            curves: Curves::new(),
            guard: LruGuard::new(),
            thinning: 0,
            until_learned: LEARN_ACCESSES_MIN,
        }
    }

    /// Whether a hash is in the sample. Its bits are mixed, because some of them chose the shard.
    fn is_sampled(hash: u64, thinning: u32) -> bool {
        hash.wrapping_mul(0x9e37_79b9_7f4a_7c15).leading_zeros() >= thinning
    }

    /// Fits the sample to `objects` objects.
    fn fit(&mut self, objects: usize) {
        let reached = objects.saturating_mul(SAMPLE_REACH);
        if self.thinning > 0 && reached >> self.thinning < SAMPLE_KEYS / 8 {
            // Most objects went at once. So few would teach noise, and a larger sample cannot be
            // made of a smaller one.
            (self.sample, self.thinning) = (AgeSample::new(), 0);
        }
        while reached >> self.thinning > SAMPLE_KEYS {
            self.thinning += 1;
            let thinning = self.thinning;
            self.sample.keep(|hash| Self::is_sampled(hash, thinning));
        }
    }

    fn learn(&mut self, now: u64) {
        self.curves.learn(self.sample.iter().map(|seen| (seen.kind, now - seen.stamp)));
        self.until_learned = (self.sample.len() / 2).max(LEARN_ACCESSES_MIN);
    }
}

impl EvictionPolicy for Adaptive {
    fn accessed(&mut self, access: KeyAccess, objects: usize) {
        let KeyAccess { hash, kind, hit, stamp, call } = access;
        if !Self::is_sampled(hash, self.thinning) {
            return;
        }
        self.fit(objects);
        if !Self::is_sampled(hash, self.thinning) {
            return;
        }
        let room = objects >> self.thinning;
        let SampleTouch { known, given_up } = self.sample.touch(hash, kind, stamp, room);
        self.guard.note(hit, known.is_some_and(|known| known.in_lru), call, room);
        if let Some(known) = known {
            self.curves.note_return(known.kind, stamp - known.stamp, call);
        }
        if let Some(oldest) = given_up {
            self.curves.note_end(oldest.kind, stamp - oldest.stamp);
        }
        self.until_learned -= 1;
        if self.until_learned == 0 {
            self.learn(stamp);
        }
    }

    fn evicted(&mut self, hash: u64, kind: ObjectKind, objects: usize) {
        self.ghosts.remember(hash, kind.reads(), objects);
    }

    fn take_returned(&mut self, hash: u64, objects: usize) -> Option<ObjectKind> {
        let reads = self.ghosts.take(hash, objects.saturating_mul(GHOST_WINDOW))?;
        Some(ObjectKind::returned(reads))
    }

    fn worth(&self, kind: ObjectKind, age: u64) -> u64 {
        if !self.guard.allows() {
            return worth_by_age(age);
        }
        let worth = self.curves.worth(kind, age);
        debug_assert!(worth >= 0.0, "no chance is negative");
        // Among equals the oldest is worth least.
        u64::from(worth.to_bits()) << 32
            | u64::from(u32::MAX - u32::try_from(age).unwrap_or(u32::MAX))
    }

    fn check(&self) {
        self.sample.check();
        assert!(self.until_learned > 0);
    }
}

#[cfg(test)]
mod tests;
