//! Numbers of allocations. Invariant: unique over all shards of a master, and never given twice.

use crate::settings::ShardSettings;

/// Shard i of n gives the numbers base + i, base + i + n, base + i + 2n and so on.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_never_give_the_same_number() {
        let settings = |index| ShardSettings {
            index,
            count: 3,
            generation_base: u64::MAX - 4,
            ..ShardSettings::default()
        };
        let mut given: Vec<u64> = (0..3)
            .flat_map(|index| {
                let mut generations = Generations::new(&settings(index));
                std::array::from_fn::<u64, 4, _>(|_| generations.next())
            })
            .collect();
        given.sort_unstable();
        given.dedup();
        assert_eq!(given.len(), 12, "also beyond the largest number");
    }
}
