//! About how often keys were read lately, in bounded memory: a count-min sketch that forgets.
//! Invariant: a key is never counted lower than it was noted since the last halving.

/// Counters in a row, a power of two.
const ROW: usize = 1 << 14;
/// Rows; each has another counter for a key.
const ROWS: usize = 4;
/// After so many reads all counts are halved, so that what was read long ago counts less.
const HALVED_AFTER: u32 = 8 * ROW as u32;

#[derive(Debug, Default)]
pub(crate) struct HitSketch {
    /// Empty before the first read.
    counts: Vec<u8>,
    noted: u32,
}

impl HitSketch {
    /// Counts a read of a key; about how many there were, this one with them.
    pub(crate) fn note(&mut self, hash: u64) -> u8 {
        if self.counts.is_empty() {
            self.counts = vec![0; ROWS * ROW];
        }
        self.noted += 1;
        if self.noted >= HALVED_AFTER {
            self.noted = 0;
            self.counts.iter_mut().for_each(|count| *count /= 2);
        }
        let mut least = u8::MAX;
        for row in 0..ROWS {
            let mixed = hash.rotate_left(16 * row as u32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let at = row * ROW + (mixed >> 50) as usize;
            self.counts[at] = self.counts[at].saturating_add(1);
            least = least.min(self.counts[at]);
        }
        least
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::hash_key;

    #[test]
    fn reads_are_counted_per_key_and_forgotten_in_time() {
        let mut sketch = HitSketch::default();
        let key = hash_key(b"read often");
        assert_eq!((1..=3).map(|_| sketch.note(key)).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(sketch.note(hash_key(b"read once")), 1);
        for other in 0..HALVED_AFTER {
            sketch.note(hash_key(&other.to_le_bytes()));
        }
        let later = sketch.note(key);
        assert!(later < 40, "halved, though others share its counters: {later}");
    }

    #[test]
    fn a_count_does_not_wrap() {
        let mut sketch = HitSketch::default();
        let last = (0..300).map(|_| sketch.note(7)).last();
        assert_eq!(last, Some(u8::MAX));
    }
}
