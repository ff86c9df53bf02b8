//! Which shard of a master owns a key.
//! Invariant: it depends on the key's bytes and the shard count only, on every machine.

use xxhash_rust::xxh3::xxh3_64;

/// The 64-bit hash that everything about a key is derived from.
pub fn hash_key(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// The shard, below `count`, that owns a key. `count` must be at least 1.
pub fn shard_of(key: &[u8], count: usize) -> usize {
    shard_of_hash(hash_key(key), count)
}

/// [`shard_of`] for a key whose hash is known.
pub fn shard_of_hash(hash: u64, count: usize) -> usize {
    debug_assert!((1..=u32::MAX as usize).contains(&count));
    // Bits 16..48: the table inside a shard uses the lowest and the highest bits.
    ((((hash >> 16) & 0xffff_ffff) * count as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shard_owns_about_the_same_number_of_keys() {
        for count in [1, 2, 3, 4, 7, 16] {
            let mut keys = vec![0; count];
            for number in 0..10_000 * count {
                keys[shard_of(format!("key-{number}").as_bytes(), count)] += 1;
            }
            assert!(keys.iter().all(|keys| (9_500..10_500).contains(keys)), "{count}: {keys:?}");
        }
    }
}
