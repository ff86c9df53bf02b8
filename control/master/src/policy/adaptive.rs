//! Which age rule suits what is stored and read now: shadows play several for a sample of the
//! keys, and the shard follows the one that hits most.
//! Invariant: a smaller sample is part of the one before it, and no sample is larger than
//! `SHADOW_OBJECTS`, whatever the number of objects.
//!
//! Why it must be learned: where far more comes in than fits, only what has come back is worth
//! keeping at all; where nearly all fits, what is new is worth as much as what was read. On a
//! published conversation trace the best factor is 100 for a pool of 4,096 blocks and 3 for one of
//! 16,384. With 1 among them, the order becomes least recently used where that is better, once the
//! sample shows it.

use crate::limits::{
    AGE_FACTOR_EVIDENCE, AGE_RULE_AT_START, AGE_RULES, SHADOW_COMPARISONS, SHADOW_OBJECTS,
};

use super::eviction_policy::EvictionPolicy;
use super::ghosts::Ghosts;
use super::shadow::Shadow;

#[derive(Debug)]
pub(super) struct Adaptive {
    ghosts: Ghosts,
    shadows: [Shadow; AGE_RULES.len()],
    /// Each shadow against the followed one.
    duels: [Duel; AGE_RULES.len()],
    /// The rule that the shard follows.
    followed: usize,
    /// One key of `1 << thinning` is in the sample.
    thinning: u32,
}

/// Accesses that one shadow hit and another did not.
#[derive(Debug, Clone, Copy, Default)]
struct Duel {
    won: u64,
    lost: u64,
}

impl Duel {
    fn note(&mut self, hit: bool, followed_hit: bool) {
        self.won += u64::from(hit && !followed_hit);
        self.lost += u64::from(!hit && followed_hit);
        if self.won + self.lost > SHADOW_COMPARISONS {
            // Load changes, so old outcomes count less.
            (self.won, self.lost) = (self.won / 2, self.lost / 2);
        }
    }

    /// How sure it is that the challenger is better: as in McNemar's test, the square of the lead
    /// by the number of accesses that tell the two apart.
    fn evidence(self) -> u64 {
        let lead = self.won.saturating_sub(self.lost);
        lead * lead / (self.won + self.lost).max(1)
    }
}

impl Adaptive {
    pub(super) fn new() -> Self {
        Self {
            ghosts: Ghosts::new(),
            shadows: AGE_RULES.map(Shadow::new),
            duels: [Duel::default(); AGE_RULES.len()],
            followed: AGE_RULE_AT_START,
            thinning: 0,
        }
    }

    /// Whether a hash is in the sample. Its bits are mixed, because some of them chose the shard.
    fn is_sampled(hash: u64, thinning: u32) -> bool {
        hash.wrapping_mul(0x9e37_79b9_7f4a_7c15).leading_zeros() >= thinning
    }

    /// Fits the sample to `objects` objects.
    fn fit(&mut self, objects: usize) {
        if self.thinning > 0 && objects >> self.thinning < SHADOW_OBJECTS / 8 {
            // Most objects went at once. So few would teach noise, and a larger sample cannot be
            // made of a smaller one.
            let followed = self.followed;
            let ghosts = std::mem::replace(&mut self.ghosts, Ghosts::new());
            *self = Self { ghosts, followed, ..Self::new() };
        }
        while objects >> self.thinning > SHADOW_OBJECTS {
            self.thinning += 1;
            let thinning = self.thinning;
            for shadow in &mut self.shadows {
                shadow.keep(|hash| Self::is_sampled(hash, thinning));
            }
        }
    }

    /// Follows the rule that is better beyond doubt, if there is one.
    fn choose(&mut self) {
        let best = (0..self.duels.len()).max_by_key(|at| self.duels[*at].evidence());
        let sure = best.filter(|at| self.duels[*at].evidence() >= AGE_FACTOR_EVIDENCE);
        if let Some(better) = sure {
            self.followed = better;
            self.duels = [Duel::default(); AGE_RULES.len()];
        }
    }
}

impl EvictionPolicy for Adaptive {
    fn accessed(&mut self, hash: u64, objects: usize) {
        if !Self::is_sampled(hash, self.thinning) {
            return;
        }
        self.fit(objects);
        if !Self::is_sampled(hash, self.thinning) {
            return;
        }
        let room = objects >> self.thinning;
        let hits = self.shadows.each_mut().map(|shadow| shadow.access(hash, room));
        if hits.iter().any(|hit| *hit != hits[self.followed]) {
            for (duel, hit) in self.duels.iter_mut().zip(hits) {
                duel.note(hit, hits[self.followed]);
            }
            self.choose();
        }
    }

    fn evicted(&mut self, hash: u64, objects: usize) {
        self.ghosts.remember(hash, objects);
    }

    fn take_returned(&mut self, hash: u64, objects: usize) -> bool {
        self.ghosts.take(hash, objects.saturating_mul(self.shadows[self.followed].window))
    }

    fn cold_age_factor(&self) -> u64 {
        self.shadows[self.followed].factor
    }

    fn check(&self) {
        for shadow in &self.shadows {
            shadow.check(SHADOW_OBJECTS);
        }
        assert_eq!(self.duels[self.followed].won + self.duels[self.followed].lost, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::hash_key;

    /// Stores keys in turn, with room for `room` of them.
    fn play(policy: &mut Adaptive, keys: impl Iterator<Item = u64>, room: usize) {
        for key in keys {
            policy.accessed(hash_key(&key.to_le_bytes()), room);
        }
        policy.check();
    }

    #[test]
    fn where_only_what_comes_back_is_worth_keeping_the_factor_grows() {
        let mut policy = Adaptive::new();
        // Every fifth access is to one of 400 keys that take turns; the other keys come once.
        let scan = (0..60_000_u64).map(|at| if at % 5 == 0 { at / 5 % 400 } else { 1_000 + at });
        play(&mut policy, scan, 500);
        assert!(policy.cold_age_factor() > AGE_RULES[AGE_RULE_AT_START].0);
    }

    #[test]
    fn where_the_recent_come_back_it_becomes_least_recently_used() {
        let mut policy = Adaptive::new();
        // Each key comes three times, each time after nearly the whole room, and never again.
        let window = (0..60_000_u64).map(|at| at / 3 + (at % 3) * 150);
        play(&mut policy, window, 500);
        assert_eq!(policy.cold_age_factor(), 1);
    }

    #[test]
    fn the_sample_stays_small_as_objects_become_many() {
        let mut policy = Adaptive::new();
        for objects in (0..20 * SHADOW_OBJECTS).step_by(7) {
            policy.accessed(hash_key(&objects.to_le_bytes()), objects);
            policy.check();
        }
        assert!(policy.thinning >= 4);
    }

    #[test]
    fn a_shard_that_loses_most_of_its_objects_begins_a_new_sample() {
        let mut policy = Adaptive::new();
        play(&mut policy, 0..40_000, 64 * SHADOW_OBJECTS);
        assert_eq!(policy.thinning, 6);
        play(&mut policy, 0..40_000, SHADOW_OBJECTS / 2);
        assert_eq!(policy.thinning, 0);
        assert_eq!(policy.cold_age_factor(), AGE_RULES[AGE_RULE_AT_START].0);
    }
}
