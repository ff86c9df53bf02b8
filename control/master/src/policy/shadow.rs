//! A small cache of hashes that plays an age rule for a sample of the keys, to see how many hits it
//! would bring.
//! Invariant: no more entries than its room, and no more ghosts than its window has room for.

use hashlink::LinkedHashMap;

/// What would be stored under a rule.
#[derive(Debug)]
pub(super) struct Shadow {
    /// How many times as old counts what was never read.
    pub(super) factor: u64,
    /// For how many evictions per entry a hash that comes back counts as read.
    pub(super) window: usize,
    /// Accesses so far.
    clock: u64,
    /// Never read, by the time of their store; the oldest first.
    cold: LinkedHashMap<u64, u64>,
    /// Read, or stored again soon after they were evicted, by their last access.
    hot: LinkedHashMap<u64, u64>,
    /// Evicted hashes, the first evicted first.
    ghosts: LinkedHashMap<u64, ()>,
}

impl Shadow {
    pub(super) fn new((factor, window): (u64, usize)) -> Self {
        let (cold, hot) = (LinkedHashMap::new(), LinkedHashMap::new());
        Self { factor, window, clock: 0, cold, hot, ghosts: LinkedHashMap::new() }
    }

    /// Stores a hash with room for `room` of them. Whether it was stored already.
    pub(super) fn access(&mut self, hash: u64, room: usize) -> bool {
        self.clock += 1;
        if self.hot.remove(&hash).or_else(|| self.cold.remove(&hash)).is_some() {
            self.hot.insert(hash, self.clock);
            return true;
        }
        while self.len() >= room.max(1) {
            self.evict(room);
        }
        match self.ghosts.remove(&hash) {
            Some(()) => self.hot.insert(hash, self.clock),
            None => self.cold.insert(hash, self.clock),
        };
        debug_assert!(self.len() <= room.max(1), "room was made");
        false
    }

    /// Forgets what is no part of a smaller sample.
    pub(super) fn keep(&mut self, is_sampled: impl Fn(u64) -> bool) {
        self.cold.retain(|hash, _| is_sampled(*hash));
        self.hot.retain(|hash, _| is_sampled(*hash));
        self.ghosts.retain(|hash, ()| is_sampled(*hash));
    }

    fn len(&self) -> usize {
        self.cold.len() + self.hot.len()
    }

    fn evict(&mut self, room: usize) {
        let age = |list: &LinkedHashMap<u64, u64>| list.front().map(|(_, at)| self.clock - at);
        let cold_age = age(&self.cold).map(|age| age.saturating_mul(self.factor));
        let oldest = if cold_age >= age(&self.hot) { &mut self.cold } else { &mut self.hot };
        let Some((hash, _)) = oldest.pop_front() else {
            return;
        };
        self.ghosts.insert(hash, ());
        while self.ghosts.len() > room.saturating_mul(self.window) {
            self.ghosts.pop_front();
        }
    }

    /// Panics unless what it holds is within its bounds and in order.
    pub(super) fn check(&self, entries_max: usize) {
        assert!(self.len() <= entries_max, "{} entries of {entries_max}", self.len());
        assert!(self.ghosts.len() <= entries_max * self.window);
        for list in [&self.cold, &self.hot] {
            assert!(list.values().is_sorted(), "the oldest is first");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_of_one_is_least_recently_used() {
        let mut shadow = Shadow::new((1, 1));
        assert!(!shadow.access(1, 2) && !shadow.access(2, 2));
        assert!(shadow.access(1, 2));
        assert!(!shadow.access(3, 2), "2 goes, the least recently used");
        assert!(shadow.access(1, 2));
        assert!(!shadow.access(2, 2));
        shadow.check(2);
    }

    #[test]
    fn what_was_read_outlives_what_was_not_by_the_factor() {
        let survives = |factor, others: u64| {
            let mut shadow = Shadow::new((factor, 1));
            shadow.access(0, 4);
            shadow.access(0, 4);
            for other in 1..=others {
                shadow.access(other, 4);
            }
            shadow.check(4);
            shadow.access(0, 4)
        };
        assert!(survives(1, 3) && !survives(1, 4));
        assert!(survives(10, 20) && !survives(10, 50));
    }

    #[test]
    fn what_returns_soon_counts_as_read() {
        let mut shadow = Shadow::new((100, 4));
        for hash in [1, 2, 3, 1, 4, 5, 6] {
            shadow.access(hash, 2);
        }
        assert!(shadow.access(1, 2), "it came back after its eviction");
    }

    #[test]
    fn a_smaller_sample_keeps_its_part() {
        let mut shadow = Shadow::new((3, 1));
        (0..8).for_each(|hash| {
            shadow.access(hash, 8);
        });
        shadow.keep(|hash| hash % 2 == 0);
        assert!(shadow.access(4, 8) && !shadow.access(5, 8));
    }
}
