//! A bounded set of endpoints: which one makes room when another is needed, and which have been
//! idle for too long.
//!
//! Eviction is SIEVE: a hand walks from the oldest entry to the newest and takes the first idle one
//! that was not used since the hand last passed. Entries in use are never taken. The number of
//! entries never exceeds the capacity.

use std::collections::BTreeMap;
use std::time::Duration;

/// One entry, as the pool sees it.
#[derive(Clone, Debug)]
struct PoolEntry {
    key: u64,
    visited: bool,
    busy: bool,
    used_at: Duration,
}

/// Endpoints by key, in the order they came.
#[derive(Clone, Debug)]
pub(crate) struct EndpointPool {
    capacity: usize,
    /// Entries by order of arrival.
    entries: BTreeMap<u64, PoolEntry>,
    order: BTreeMap<u64, u64>,
    next: u64,
    hand: u64,
}

impl EndpointPool {
    /// An empty pool for up to `capacity` entries.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            entries: BTreeMap::new(),
            order: BTreeMap::new(),
            next: 0,
            hand: 0,
        }
    }

    /// Whether another entry needs an eviction first.
    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() >= self.capacity
    }

    /// Adds an entry; false if the pool is full or knows the key.
    pub(crate) fn insert(&mut self, key: u64, now: Duration) -> bool {
        if self.is_full() || self.order.contains_key(&key) {
            return false;
        }
        let entry = PoolEntry { key, visited: false, busy: false, used_at: now };
        self.entries.insert(self.next, entry);
        self.order.insert(key, self.next);
        self.next += 1;
        debug_assert!(self.entries.len() <= self.capacity, "the pool is bounded");
        true
    }

    /// Takes an entry out; false if it is not there.
    pub(crate) fn remove(&mut self, key: u64) -> bool {
        debug_assert_eq!(self.order.len(), self.entries.len());
        match self.order.remove(&key) {
            Some(order) => self.entries.remove(&order).is_some(),
            None => false,
        }
    }

    /// The entry is in use from now on.
    pub(crate) fn hold(&mut self, key: u64, now: Duration) {
        if let Some(entry) = self.entry(key) {
            entry.busy = true;
            entry.visited = true;
            entry.used_at = now;
        }
    }

    /// The entry is idle from now on.
    pub(crate) fn release(&mut self, key: u64, now: Duration) {
        let entry = self.entry(key);
        if let Some(entry) = entry.filter(|entry| entry.busy) {
            entry.busy = false;
            entry.used_at = now;
        }
    }

    /// Takes out the idle entry that is missed least; `None` if all are in use.
    pub(crate) fn evict(&mut self) -> Option<u64> {
        // Two rounds: the first may only clear marks.
        for _ in 0..2 * self.entries.len() {
            let order = match self.entries.range(self.hand..).next() {
                Some((order, _)) => *order,
                None => *self.entries.keys().next()?,
            };
            self.hand = order + 1;
            let entry = self.entries.get_mut(&order)?;
            if entry.busy {
                continue;
            }
            if std::mem::take(&mut entry.visited) {
                continue;
            }
            let key = entry.key;
            let was_there = self.remove(key);
            debug_assert!(was_there, "what is evicted was in the pool");
            return Some(key);
        }
        None
    }

    /// The entry that has been there longest, in use or not.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.entries.values().next().map(|entry| entry.key)
    }

    /// Takes out one entry that has been idle for at least `idle`; call again until `None`.
    pub(crate) fn expire(&mut self, now: Duration, idle: Duration) -> Option<u64> {
        let is_old = |entry: &&PoolEntry| !entry.busy && now.saturating_sub(entry.used_at) >= idle;
        let key = self.entries.values().find(is_old)?.key;
        self.remove(key);
        Some(key)
    }

    /// Panics unless entries and keys are the same, and as many as may be. Calls `each` with every
    /// key.
    #[cfg(test)]
    pub(crate) fn check(&self, mut each: impl FnMut(u64)) {
        assert!(self.entries.len() <= self.capacity);
        assert_eq!(self.entries.len(), self.order.len());
        for (order, entry) in &self.entries {
            assert_eq!(self.order.get(&entry.key), Some(order));
            assert!(*order < self.next, "entries come in order");
            each(entry.key);
        }
    }

    fn entry(&mut self, key: u64) -> Option<&mut PoolEntry> {
        self.entries.get_mut(self.order.get(&key)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Duration = Duration::from_secs(1);

    fn filled(keys: std::ops::Range<u64>) -> EndpointPool {
        let mut pool = EndpointPool::new(keys.clone().count());
        for key in keys {
            assert!(pool.insert(key, NOW));
        }
        pool
    }

    #[test]
    fn an_entry_used_since_outlives_one_that_was_not() {
        let mut pool = filled(0..3);
        pool.hold(0, NOW);
        pool.release(0, NOW);
        assert_eq!(pool.evict(), Some(1));
        assert!(pool.insert(3, NOW));
        assert_eq!(pool.evict(), Some(2));
        assert_eq!(pool.evict(), Some(3));
        assert_eq!(pool.evict(), Some(0));
        assert_eq!(pool.evict(), None);
    }

    #[test]
    fn entries_in_use_are_never_evicted() {
        let mut pool = filled(0..2);
        pool.hold(0, NOW);
        assert_eq!(pool.evict(), Some(1));
        assert_eq!(pool.evict(), None);
        pool.release(0, NOW);
        assert_eq!(pool.evict(), Some(0));
    }

    #[test]
    fn idle_entries_expire_and_busy_ones_do_not() {
        let mut pool = filled(0..3);
        let later = NOW + Duration::from_secs(60);
        pool.hold(0, NOW);
        pool.hold(1, later);
        pool.release(1, later);
        assert_eq!(pool.expire(later, Duration::from_secs(60)), Some(2));
        assert_eq!(pool.expire(later, Duration::from_secs(60)), None);
    }

    proptest! {
        #[test]
        fn the_pool_never_exceeds_its_bound_and_always_makes_room_while_one_is_idle(
            capacity in 1usize..8, steps in proptest::collection::vec((0u8..4, 0u64..12), 1..300),
        ) {
            let mut pool = EndpointPool::new(capacity);
            let mut busy = BTreeMap::<u64, bool>::new();
            for (step, key) in steps {
                match step {
                    0 => {
                        if pool.is_full() && !busy.contains_key(&key) {
                            let victim = pool.evict();
                            prop_assert_eq!(victim.is_some(), busy.values().any(|busy| !busy));
                            if let Some(victim) = victim {
                                prop_assert_eq!(busy.remove(&victim), Some(false));
                            }
                        }
                        if pool.insert(key, NOW) {
                            busy.insert(key, false);
                        }
                    }
                    1 => {
                        pool.hold(key, NOW);
                        busy.entry(key).and_modify(|busy| *busy = true);
                    }
                    2 => {
                        pool.release(key, NOW);
                        busy.entry(key).and_modify(|busy| *busy = false);
                    }
                    _ => prop_assert_eq!(pool.remove(key), busy.remove(&key).is_some()),
                }
                prop_assert_eq!(pool.entries.len(), busy.len());
                prop_assert!(pool.entries.len() <= capacity);
            }
        }
    }
}
