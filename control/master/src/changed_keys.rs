//! Which keys have changed, in bounded memory: a Bloom filter of their hashes.
//! Invariant: a key that was noted is always found; one that was not is found by mistake now and
//! then, the more often the more were noted; after too many every key counts as changed.

/// Bits of the filter, a power of two: for two million keys one in a hundred is found by mistake.
const BITS: u64 = 1 << 24;
/// Bits that stand for one key.
const BITS_PER_KEY: u32 = 6;
/// Notes after which the filter says yes to every third key by mistake and more: then it says yes
/// to all.
const NOTED_MAX: u32 = 8_000_000;

/// Hashes of keys that have changed. Takes no memory while it is empty, 2 MiB otherwise.
#[derive(Debug, Default)]
pub(crate) struct ChangedKeys {
    words: Vec<u64>,
    noted: u32,
}

impl ChangedKeys {
    pub(crate) fn note(&mut self, hash: u64) {
        if self.noted >= NOTED_MAX {
            self.words = Vec::new();
            return;
        }
        self.noted += 1;
        if self.words.is_empty() {
            self.words = vec![0; (BITS / 64) as usize];
        }
        for bit in bits(hash) {
            self.words[(bit / 64) as usize] |= 1 << (bit % 64);
        }
    }

    /// Any key may have changed.
    pub(crate) fn note_all(&mut self) {
        *self = Self { words: Vec::new(), noted: NOTED_MAX };
    }

    /// Notes what another filter has.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.noted = self.noted.saturating_add(other.noted).min(NOTED_MAX);
        if self.noted >= NOTED_MAX {
            self.words = Vec::new();
        } else if self.words.is_empty() {
            self.words = other.words;
        } else {
            let words = self.words.iter_mut().zip(&other.words);
            words.for_each(|(word, more)| *word |= more);
        }
    }

    pub(crate) fn may_have(&self, hash: u64) -> bool {
        if self.noted >= NOTED_MAX {
            return true;
        }
        !self.words.is_empty()
            && bits(hash).all(|bit| self.words[(bit / 64) as usize] >> (bit % 64) & 1 == 1)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.noted == 0
    }
}

/// The bits of a hash. Its low and high halves are mixed again, because shards share bits of it.
fn bits(hash: u64) -> impl Iterator<Item = u64> {
    let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (start, stride) = (mixed >> 32, mixed | 1);
    (0..u64::from(BITS_PER_KEY)).map(move |at| start.wrapping_add(at.wrapping_mul(stride)) % BITS)
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
        assert!(changed.may_have(hash(300_000)) && changed.words.is_empty(), "too many to tell");
    }
}
