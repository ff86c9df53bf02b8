//! The shard's source of arbitrary choices: a seeded xorshift generator.
//! Invariant: the sequence depends on the seed only; it is not meant to be unpredictable.

/// Marsaglia's xorshift64.
#[derive(Debug)]
pub(crate) struct Xorshift(u64);

impl Xorshift {
    pub(crate) fn new(seed: u64) -> Self {
        // Zero is the one state that xorshift never leaves.
        Self(if seed == 0 { 0x9e37_79b9_7f4a_7c15 } else { seed })
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `bound`, which must not be 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        debug_assert!(bound > 0, "no number is below 0");
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}
