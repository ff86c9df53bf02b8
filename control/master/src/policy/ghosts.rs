//! Fingerprints of recently evicted keys: a key that is put again soon was worth keeping.
//! Invariant: bounded memory; a wrong answer only costs a little order, never correctness.
//!
//! A ghost counts for a number of further evictions. The exact window matters: prompts are evicted
//! and put again as runs of blocks, and forgetting single blocks at random would tear holes into
//! runs.

use crate::limits::{GHOST_BUCKETS_MAX, GHOST_WINDOW_MAX};

/// One cache line of ghosts.
type Bucket = [Ghost; 16];

/// Objects per bucket when the table is made: as many ghosts as their window is long.
const OBJECTS_PER_BUCKET: usize = 16 / GHOST_WINDOW_MAX;

/// Ticks of the clock in the time in which the table fills once.
const TICKS_PER_TABLE: u64 = 1 << 13;

/// 16 bytes for each object of the shard.
#[derive(Debug, Clone, Copy, Default)]
struct Ghost {
    /// 0 for none.
    fingerprint: u16,
    /// Tick of the eviction, modulo 2^16. An older one is hardly ever still there.
    tick: u16,
}

/// Which keys were evicted lately.
#[derive(Debug)]
pub(crate) struct Ghosts {
    buckets: Vec<Bucket>,
    evictions: u64,
}

impl Ghosts {
    pub(crate) fn new() -> Self {
        Self { buckets: vec![Bucket::default()], evictions: 0 }
    }

    /// Remembers an evicted key of a shard with `objects` objects.
    pub(crate) fn remember(&mut self, hash: u64, objects: usize) {
        let wanted = objects.div_ceil(OBJECTS_PER_BUCKET).min(GHOST_BUCKETS_MAX);
        if wanted > self.buckets.len() {
            // Starting afresh is cheaper than moving: evictions are rare while the cache still
            // grows.
            self.buckets = vec![Bucket::default(); wanted.next_power_of_two()];
        }
        self.evictions += 1;
        let tick = self.tick();
        let oldest = self.bucket(hash).iter_mut().max_by_key(|old| match old.fingerprint {
            0 => u16::MAX,
            _ => tick.wrapping_sub(old.tick),
        });
        if let Some(oldest) = oldest {
            *oldest = Ghost { fingerprint: fingerprint(hash), tick };
        }
    }

    /// Whether the key was evicted within about the last `evictions` evictions; forgets it.
    pub(crate) fn take(&mut self, hash: u64, evictions: usize) -> bool {
        let (tick, evictions_per_tick) = (self.tick(), self.evictions_per_tick());
        let same = |ghost: &&mut Ghost| ghost.fingerprint == fingerprint(hash);
        let Some(ghost) = self.bucket(hash).iter_mut().find(same) else {
            return false;
        };
        ghost.fingerprint = 0;
        let ticks = u64::from(tick.wrapping_sub(ghost.tick));
        ticks * evictions_per_tick <= evictions as u64
    }

    fn bucket(&mut self, hash: u64) -> &mut Bucket {
        debug_assert!((1..=GHOST_BUCKETS_MAX).contains(&self.buckets.len()));
        let at = (hash >> 32) as usize % self.buckets.len();
        &mut self.buckets[at]
    }

    fn evictions_per_tick(&self) -> u64 {
        let ghosts =
            self.buckets.len() as u64 * size_of::<Bucket>() as u64 / size_of::<Ghost>() as u64;
        (ghosts / TICKS_PER_TABLE).max(1)
    }

    fn tick(&self) -> u16 {
        (self.evictions / self.evictions_per_tick()) as u16
    }
}

fn fingerprint(hash: u64) -> u16 {
    (hash as u16).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::hash_key;

    #[test]
    fn an_evicted_key_is_known_once() {
        let mut ghosts = Ghosts::new();
        let (evicted, other) = (hash_key(b"evicted"), hash_key(b"other"));
        ghosts.remember(evicted, 10);
        assert!(!ghosts.take(other, 10));
        assert!(ghosts.take(evicted, 10));
        assert!(!ghosts.take(evicted, 10));
    }

    #[test]
    fn a_key_is_forgotten_after_so_many_evictions() {
        let mut ghosts = Ghosts::new();
        let hashes: Vec<u64> = (0..3_000_u32).map(|n| hash_key(&n.to_le_bytes())).collect();
        for hash in &hashes {
            ghosts.remember(*hash, 1_000);
        }
        let known = |range: &[u64], ghosts: &mut Ghosts| {
            range.iter().filter(|hash| ghosts.take(**hash, 1_000)).count()
        };
        assert_eq!(known(&hashes[..1_999], &mut ghosts), 0);
        let recent = known(&hashes[1_999..], &mut ghosts);
        assert!(recent > 950, "{recent} of 1001");
    }

    #[test]
    fn the_table_grows_with_the_objects_up_to_its_bound() {
        let mut ghosts = Ghosts::new();
        ghosts.remember(1, usize::MAX / 2);
        assert_eq!(ghosts.buckets.len(), GHOST_BUCKETS_MAX);
    }
}
