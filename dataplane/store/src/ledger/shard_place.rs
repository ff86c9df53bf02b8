//! Which part of a segment, and which keys, are a shard's.
//! Invariant: the parts of all shards are the whole segment, and no two of them have a byte in
//! common.

use perigee_schemas::key_hash::shard_of_hash;

/// Parts of the shards begin at multiples of this.
const ALIGNMENT_BYTES: u64 = 4096;

/// One shard of a master, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShardPlace {
    pub(super) shard: u32,
    pub(super) shards: u32,
}

impl ShardPlace {
    pub(super) fn owns(self, hash: u64) -> bool {
        debug_assert!(self.shard < self.shards, "a shard is one of those there are");
        shard_of_hash(hash, self.shards as usize) == self.shard as usize
    }

    /// First byte and end of the shard's part of a segment.
    pub(super) fn part(self, bytes: u64) -> (u64, u64) {
        let start = |shard: u32| match shard {
            shard if shard >= self.shards => bytes,
            shard => {
                let exact = u128::from(bytes) * u128::from(shard) / u128::from(self.shards.max(1));
                exact as u64 / ALIGNMENT_BYTES * ALIGNMENT_BYTES
            }
        };
        let (first, end) = (start(self.shard), start(self.shard + 1));
        debug_assert!(first <= end && end <= bytes, "a part lies in its segment");
        let is_rest = self.shard + 1 < self.shards || end == bytes;
        debug_assert!(is_rest, "the last part ends with the segment");
        (first, end)
    }
}
