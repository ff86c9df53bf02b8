//! Numbers of allocations. Invariant: unique over all shards of a master, and never given twice; of
//! two allocations of one byte the later one has the larger number, whichever shards made them.

use crate::settings::ShardSettings;

/// A generation is the epoch of the master that gave it, in the bits from this one on, and a
/// count, which begins at a place of its life's own. A count that overflows goes on in the next
/// epoch.
pub(crate) const EPOCH_SHIFT: u32 = 40;

/// Shard i of n gives the numbers base + i, base + i + n, base + i + 2n and so on, with gaps.
#[derive(Debug)]
pub(crate) struct Generations {
    next: u64,
    step: u64,
}

impl Generations {
    pub(crate) fn new(settings: &ShardSettings) -> Self {
        debug_assert!(settings.index < settings.count, "one of its shards");
        Self {
            next: settings.generation_base.wrapping_add(settings.index as u64),
            step: settings.count as u64,
        }
    }

    pub(crate) fn next(&mut self) -> u64 {
        let next = self.next;
        self.next = next.wrapping_add(self.step);
        next
    }

    /// All numbers that were given are smaller than this one.
    pub(crate) fn bound(&self) -> u64 {
        self.next
    }

    /// From now on only numbers of at least `bound` are given. A shard does this before it hands
    /// out bytes that were given out elsewhere before.
    pub(crate) fn raise(&mut self, bound: u64) {
        if self.next < bound {
            let steps = (bound - self.next).div_ceil(self.step);
            self.next = self.next.wrapping_add(steps.wrapping_mul(self.step));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(index: usize, count: usize, generation_base: u64) -> ShardSettings {
        ShardSettings { index, count, generation_base, ..ShardSettings::default() }
    }

    #[test]
    fn shards_never_give_the_same_number() {
        let mut given: Vec<u64> = (0..3)
            .flat_map(|index| {
                let mut generations = Generations::new(&settings(index, 3, u64::MAX - 4));
                std::array::from_fn::<u64, 4, _>(|_| generations.next())
            })
            .collect();
        given.sort_unstable();
        given.dedup();
        assert_eq!(given.len(), 12);
    }

    #[test]
    fn a_raise_skips_numbers_and_keeps_shards_apart() {
        for index in 0..3 {
            let mut generations = Generations::new(&settings(index, 3, 10));
            for bound in [0, 11, 12, 13, 1 << 40, 5] {
                let before = generations.bound();
                generations.raise(bound);
                let next = generations.next();
                assert!(next >= bound && next >= before);
                assert!(next < bound.max(before) + 3, "no more than needed is skipped");
                assert_eq!((next - 10) % 3, index as u64);
            }
        }
    }
}
