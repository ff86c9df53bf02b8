//! Fingerprints of recently evicted keys: a key that is put again soon was worth keeping.
//! Invariant: bounded memory; a wrong answer only costs a little order, never correctness.
//!
//! A ghost counts for a number of further evictions. The exact window matters: prompts are evicted
//! and put again as runs of blocks, and forgetting single blocks at random would tear holes into
//! runs.

use crate::limits::{GHOST_BUCKETS_MAX, GHOST_WINDOW};

/// Ghosts of a bucket: more than an even share, because some buckets get more than others.
const SLOTS: usize = 21;

/// Objects per bucket when the table is made: at least as many ghosts as their window is long, 16
/// bytes for each object of the shard.
const OBJECTS_PER_BUCKET: usize = 4;
const _: () = assert!(OBJECTS_PER_BUCKET * GHOST_WINDOW < SLOTS);

/// Ticks of the clock in the longest window.
const TICKS_PER_WINDOW: usize = 96;

/// The bits of a fingerprint that are reads.
const READS: u16 = 3;

/// One cache line of ghosts.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
struct Bucket {
    /// 0 for none; in the two lowest bits the reads before the eviction.
    fingerprints: [u16; SLOTS],
    /// Tick of the eviction, modulo 2^8. An older one is hardly ever still there.
    ticks: [u8; SLOTS],
}
const _: () = assert!(size_of::<Bucket>() == 64);

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

    /// Remembers a key of a shard with `objects` objects that was evicted after so many reads.
    pub(crate) fn remember(&mut self, hash: u64, reads: u8, objects: usize) {
        let wanted = objects.div_ceil(OBJECTS_PER_BUCKET).min(GHOST_BUCKETS_MAX);
        if wanted > self.buckets.len() {
            // Starting afresh is cheaper than moving: evictions are rare while the cache still
            // grows.
            self.buckets = vec![Bucket::default(); wanted.next_power_of_two()];
        }
        self.evictions += 1;
        let tick = self.tick();
        let bucket = self.bucket(hash);
        let age = |at: &usize| match bucket.fingerprints[*at] {
            0 => u16::MAX,
            _ => tick.wrapping_sub(bucket.ticks[*at]).into(),
        };
        let oldest = (0..SLOTS).max_by_key(age).unwrap_or(0);
        bucket.fingerprints[oldest] = fingerprint(hash) | u16::from(reads) & READS;
        bucket.ticks[oldest] = tick;
    }

    /// How often the key had been read when it was evicted, if that was within about the last
    /// `evictions` evictions; forgets it.
    pub(crate) fn take(&mut self, hash: u64, evictions: usize) -> Option<u8> {
        if self.evictions == 0 {
            return None;
        }
        let (tick, evictions_per_tick) = (self.tick(), self.evictions_per_tick());
        let bucket = self.bucket(hash);
        let same = |found: &u16| *found & !READS == fingerprint(hash);
        let at = bucket.fingerprints.iter().position(same)?;
        let reads = bucket.fingerprints[at] & READS;
        bucket.fingerprints[at] = 0;
        let ticks = u64::from(tick.wrapping_sub(bucket.ticks[at]));
        (ticks * evictions_per_tick <= evictions as u64).then_some(reads as u8)
    }

    fn bucket(&mut self, hash: u64) -> &mut Bucket {
        debug_assert!((1..=GHOST_BUCKETS_MAX).contains(&self.buckets.len()));
        let at = (hash >> 32) as usize % self.buckets.len();
        &mut self.buckets[at]
    }

    fn evictions_per_tick(&self) -> u64 {
        let window = self.buckets.len() * OBJECTS_PER_BUCKET * GHOST_WINDOW;
        (window / TICKS_PER_WINDOW).max(1) as u64
    }

    fn tick(&self) -> u8 {
        (self.evictions / self.evictions_per_tick()) as u8
    }
}

fn fingerprint(hash: u64) -> u16 {
    (hash as u16 & !READS).max(READS + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::hash_key;

    #[test]
    fn an_evicted_key_is_known_once() {
        let mut ghosts = Ghosts::new();
        let (evicted, other) = (hash_key(b"evicted"), hash_key(b"other"));
        ghosts.remember(evicted, 2, 10);
        assert_eq!(ghosts.take(other, 10), None);
        assert_eq!(ghosts.take(evicted, 10), Some(2));
        assert_eq!(ghosts.take(evicted, 10), None);
    }

    #[test]
    fn a_key_is_forgotten_after_so_many_evictions() {
        let mut ghosts = Ghosts::new();
        let hashes: Vec<u64> = (0..3_000_u32).map(|n| hash_key(&n.to_le_bytes())).collect();
        for hash in &hashes {
            ghosts.remember(*hash, 0, 1_000);
        }
        let known = |range: &[u64], ghosts: &mut Ghosts| {
            range.iter().filter(|hash| ghosts.take(**hash, 1_000).is_some()).count()
        };
        // Ticks are 42 evictions long.
        assert_eq!(known(&hashes[..1_950], &mut ghosts), 0);
        let recent = known(&hashes[2_050..], &mut ghosts);
        assert!(recent > 940, "{recent} of 950");
    }

    #[test]
    fn the_table_grows_with_the_objects_up_to_its_bound() {
        let mut ghosts = Ghosts::new();
        ghosts.remember(1, 0, usize::MAX / 2);
        assert_eq!(ghosts.buckets.len(), GHOST_BUCKETS_MAX);
    }
}
