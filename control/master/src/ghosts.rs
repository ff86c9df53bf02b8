//! Fingerprints of recently evicted keys: a key that is put again soon was worth keeping.
//! Invariant: bounded memory; a wrong answer only costs a little order, never correctness.
//!
//! A ghost counts for as many further evictions as there are objects. The exact window matters:
//! prompts are evicted and put again as runs of blocks, and forgetting single blocks at random
//! would tear holes into runs.

use crate::limits::GHOST_BUCKETS_MAX;

/// One cache line of ghosts.
type Bucket = [Ghost; 8];

/// Objects per bucket when the table is made; few enough that buckets hardly ever overflow.
const OBJECTS_PER_BUCKET: usize = 4;

#[derive(Debug, Clone, Copy, Default)]
struct Ghost {
    /// 0 for none.
    fingerprint: u32,
    /// Number of the eviction, modulo 2^32.
    evicted: u32,
}

/// Which keys were evicted lately.
#[derive(Debug)]
pub(crate) struct Ghosts {
    buckets: Vec<Bucket>,
    evictions: u32,
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
        self.evictions = self.evictions.wrapping_add(1);
        let ghost = Ghost { fingerprint: fingerprint(hash), evicted: self.evictions };
        let evictions = self.evictions;
        let oldest = self.bucket(hash).iter_mut().max_by_key(|old| match old.fingerprint {
            0 => u32::MAX,
            _ => evictions.wrapping_sub(old.evicted),
        });
        if let Some(oldest) = oldest {
            *oldest = ghost;
        }
    }

    /// Whether the key was evicted within the last `objects` evictions; forgets it.
    pub(crate) fn take(&mut self, hash: u64, objects: usize) -> bool {
        let evictions = self.evictions;
        let same = |ghost: &&mut Ghost| ghost.fingerprint == fingerprint(hash);
        let Some(ghost) = self.bucket(hash).iter_mut().find(same) else {
            return false;
        };
        ghost.fingerprint = 0;
        evictions.wrapping_sub(ghost.evicted) as usize <= objects
    }

    fn bucket(&mut self, hash: u64) -> &mut Bucket {
        debug_assert!((1..=GHOST_BUCKETS_MAX).contains(&self.buckets.len()));
        let at = (hash >> 32) as usize % self.buckets.len();
        &mut self.buckets[at]
    }
}

fn fingerprint(hash: u64) -> u32 {
    (hash as u32).max(1)
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
    fn a_key_is_forgotten_after_as_many_evictions_as_there_are_objects() {
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
