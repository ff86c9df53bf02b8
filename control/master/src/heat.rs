//! How often keys are read: which of them are hot, and which have had their replica lately.
//! Invariant: both tables are bounded, and a key is found to be hot once per window.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::HEAT_KEYS_MAX;
use crate::settings::HeatSettings;

/// Keys that share a place of the table.
const WAYS: usize = 4;

/// Reads of a key since a window began. The time is that of the shard without its high bits.
#[derive(Debug, Clone, Copy, Default)]
struct Reads {
    hash: u64,
    since_ms: u32,
    count: u32,
}

#[derive(Debug)]
pub(crate) struct Heat {
    settings: HeatSettings,
    buckets: Box<[[Reads; WAYS]]>,
    /// Until when a key is left alone, by its hash.
    paused: BTreeMap<u64, u64>,
    by_end: BTreeSet<(u64, u64)>,
    keys_max: usize,
}

impl Heat {
    /// For one shard of `shards`.
    pub(crate) fn new(settings: HeatSettings, shards: usize) -> Self {
        let keys_max = (HEAT_KEYS_MAX / shards).max(WAYS);
        Self {
            settings,
            buckets: vec![[Reads::default(); WAYS]; keys_max / WAYS].into_boxed_slice(),
            paused: BTreeMap::new(),
            by_end: BTreeSet::new(),
            keys_max,
        }
    }

    pub(crate) fn settings(&self) -> &HeatSettings {
        &self.settings
    }

    /// A key was read; whether that makes it hot.
    pub(crate) fn note(&mut self, hash: u64, now_ms: u64) -> bool {
        let now = now_ms as u32;
        let window_ms = self.settings.window_ms;
        let is_over = |reads: &Reads| now.wrapping_sub(reads.since_ms) >= window_ms;
        let bucket = self.bucket(hash);
        let known = bucket.iter_mut().find(|reads| reads.hash == hash && reads.count > 0);
        let reads = match known {
            Some(reads) => reads,
            None => {
                // What is read least makes way, and before it what was read in another window.
                let least = |reads: &&mut Reads| if is_over(reads) { 0 } else { reads.count };
                let Some(least) = bucket.iter_mut().min_by_key(least) else {
                    return false;
                };
                *least = Reads { hash, since_ms: now, count: 0 };
                least
            }
        };
        if is_over(reads) {
            (reads.since_ms, reads.count) = (now, 0);
        }
        reads.count = reads.count.saturating_add(1);
        reads.count == self.settings.reads_needed
    }

    /// Leaves a key alone until then, at least. False if that is one key too many.
    pub(crate) fn pause(&mut self, hash: u64, now_ms: u64, until_ms: u64) -> bool {
        while let Some((end_ms, other)) = self.by_end.first().copied().filter(|it| it.0 <= now_ms) {
            self.by_end.remove(&(end_ms, other));
            self.paused.remove(&other);
        }
        let before = self.paused.get(&hash).copied();
        if before.is_none() && self.paused.len() >= self.keys_max {
            return false;
        }
        let until_ms = until_ms.max(before.unwrap_or_default());
        self.by_end.remove(&(before.unwrap_or_default(), hash));
        self.by_end.insert((until_ms, hash));
        self.paused.insert(hash, until_ms);
        true
    }

    /// Whether a key is left alone.
    pub(crate) fn is_paused(&self, hash: u64, now_ms: u64) -> bool {
        self.paused.get(&hash).is_some_and(|until_ms| *until_ms > now_ms)
    }

    /// Panics unless both orders of the paused keys agree.
    pub(crate) fn check(&self) {
        assert!(self.paused.len() <= self.keys_max);
        assert_eq!(self.paused.len(), self.by_end.len());
        let agrees = |(end_ms, hash): &(u64, u64)| self.paused.get(hash) == Some(end_ms);
        assert!(self.by_end.iter().all(agrees));
    }

    fn bucket(&mut self, hash: u64) -> &mut [Reads; WAYS] {
        /// Bits of the hash that choose the shard must not choose the place alone.
        const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
        let mixed = u128::from(hash.wrapping_mul(MIX));
        let at = (mixed * self.buckets.len() as u128) >> u64::BITS;
        &mut self.buckets[at as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: HeatSettings =
        HeatSettings { enforce: true, window_ms: 10_000, reads_needed: 8, replicas_max: 2 };

    #[test]
    fn a_key_is_hot_when_it_is_read_often_enough_within_a_window_and_once() {
        let mut heat = Heat::new(SETTINGS, 1);
        let hot: Vec<u64> = (0..40).filter(|n| heat.note(5, 1_000 + n * 100)).collect();
        assert_eq!(hot, [7]);
        let slow = (0..40).filter(|n| heat.note(6, n * 1_500)).count();
        assert_eq!(slow, 0, "seven reads in ten seconds are too few");
        let again = (0..8).filter(|n| heat.note(5, 20_000 + n)).count();
        assert_eq!(again, 1, "another window");
    }

    #[test]
    fn a_hot_key_is_found_among_more_keys_than_there_are_places() {
        let mut heat = Heat::new(SETTINGS, 64);
        let mut found = 0;
        for round in 0..20_u64 {
            found += u32::from(heat.note(u64::MAX / 3, round * 10));
            // Each of these is read once.
            for other in 1..=60_u64 {
                let hash = (round * 60 + other).wrapping_mul(0x2545_f491_4f6c_dd1d);
                assert!(!heat.note(hash, round * 10 + 1));
            }
        }
        assert_eq!(found, 1);
    }

    #[test]
    fn keys_are_left_alone_for_a_time_and_so_many_of_them() {
        let mut heat = Heat::new(SETTINGS, HEAT_KEYS_MAX / WAYS);
        assert!((0..WAYS as u64).all(|hash| heat.pause(hash, 0, 100 + hash)));
        assert!(!heat.pause(9, 0, 100), "one too many");
        assert!(heat.pause(0, 0, 50), "known already");
        heat.check();
        assert!(heat.is_paused(0, 99) && !heat.is_paused(0, 100));
        assert!(heat.pause(9, 101, 200), "two of them are over");
        heat.check();
        assert!(heat.is_paused(9, 101) && !heat.is_paused(0, 50));
    }
}
