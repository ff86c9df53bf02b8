//! Which keys have changed, in bounded memory: a Bloom filter of their hashes, in blocks.
//! Invariant: a key that was noted is always found; one that was not is found by mistake now and
//! then, the more often the more were noted; after too many every key counts as changed.

/// Blocks of the filter, a power of two: for two million keys one in fifty is found by mistake.
const BLOCKS: usize = 1 << 15;
/// Words of a block, which is what a core loads at once.
const BLOCK_WORDS: usize = 8;
/// Bits that stand for one key, all of them in one block.
const BITS_PER_KEY: u32 = 6;
/// Notes after which the filter says yes to every third key by mistake and more: then it says yes
/// to all.
const NOTED_MAX: u32 = 8_000_000;

/// Hashes of keys that have changed. Takes no memory while it is empty, 2 MiB otherwise.
#[derive(Debug, Default)]
pub(crate) struct ChangedKeys {
    blocks: Vec<FilterBlock>,
    noted: u32,
}

/// Some bits of the filter that lie in one line of a core's cache.
#[derive(Debug, Clone, Default)]
#[repr(align(64))]
struct FilterBlock([u64; BLOCK_WORDS]);

impl ChangedKeys {
    pub(crate) fn note(&mut self, hash: u64) {
        if self.noted >= NOTED_MAX {
            self.blocks = Vec::new();
            return;
        }
        self.noted += 1;
        if self.blocks.is_empty() {
            self.blocks = vec![FilterBlock::default(); BLOCKS];
        }
        let (block, bits) = place_of(hash);
        let words = &mut self.blocks[block].0;
        bits.for_each(|(word, bit)| words[word] |= bit);
    }

    /// Any key may have changed.
    pub(crate) fn note_all(&mut self) {
        *self = Self { blocks: Vec::new(), noted: NOTED_MAX };
    }

    /// Notes what another filter has.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.noted = self.noted.saturating_add(other.noted).min(NOTED_MAX);
        if self.noted >= NOTED_MAX {
            self.blocks = Vec::new();
        } else if self.blocks.is_empty() {
            self.blocks = other.blocks;
        } else {
            let words = self.blocks.iter_mut().flat_map(|block| &mut block.0);
            let more = other.blocks.iter().flat_map(|block| &block.0);
            words.zip(more).for_each(|(word, more)| *word |= more);
        }
    }

    pub(crate) fn may_have(&self, hash: u64) -> bool {
        if self.noted >= NOTED_MAX {
            return true;
        }
        let (block, mut bits) = place_of(hash);
        self.blocks.get(block).is_some_and(|block| bits.all(|(word, bit)| block.0[word] & bit != 0))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.noted == 0
    }
}

/// The block of a hash, and its bits there, each with the word that it is of. The hash is mixed
/// again, because shards share bits of it.
fn place_of(hash: u64) -> (usize, impl Iterator<Item = (usize, u64)>) {
    let product = u128::from(hash) * 0x9e37_79b9_7f4a_7c15;
    let mixed = product as u64 ^ (product >> 64) as u64;
    let spread = mixed.wrapping_mul(0xd6e8_feb8_6659_fd93);
    let bit = move |at: u32| {
        let number = spread.rotate_left((at + 1) * 9);
        (number as usize >> 6 & (BLOCK_WORDS - 1), 1 << (number & 63))
    };
    ((mixed >> 32) as usize & (BLOCKS - 1), (0..BITS_PER_KEY).map(bit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::hash_key;

    fn hash(n: u32) -> u64 {
        hash_key(&n.to_le_bytes())
    }

    #[test]
    fn what_was_noted_is_found_and_hardly_anything_else() {
        let mut changed = ChangedKeys::default();
        assert!(!changed.may_have(hash(1)));
        (0..100_000).for_each(|n| changed.note(hash(n)));
        assert!((0..100_000).all(|n| changed.may_have(hash(n))));
        let mistakes = (100_000..200_000).filter(|n| changed.may_have(hash(*n))).count();
        assert!(mistakes < 100, "{mistakes} of 100,000 were never noted");
        let mut both = ChangedKeys::default();
        both.note(hash(500_000));
        both.absorb(ChangedKeys::default());
        assert!(both.may_have(hash(500_000)) && !both.may_have(hash(1)));
        let mut empty = ChangedKeys::default();
        empty.absorb(both);
        changed.absorb(empty);
        assert!([1, 99_999, 500_000].iter().all(|n| changed.may_have(hash(*n))));
        changed.noted = NOTED_MAX - 1;
        let mut last = ChangedKeys::default();
        last.note(hash(1));
        changed.absorb(last);
        assert!(changed.may_have(hash(300_000)) && changed.blocks.is_empty(), "too many to tell");
    }
}
