//! Which numbers of a slab are free, the lowest first: what is made together lies together then,
//! whatever the order was in which numbers became free.
//! Invariant: a bit of a level says whether the word with its number has any in the level below.

/// As many as there are digits of 6 bits in a number.
const LEVELS: usize = 6;
const WORD_BITS: u32 = u64::BITS;
const _: () = assert!((WORD_BITS as u64).pow(LEVELS as u32) > u32::MAX as u64);

#[derive(Debug, Default)]
pub(crate) struct FreeNumbers {
    /// The first one has a bit for each number.
    levels: [Vec<u64>; LEVELS],
}

/// The word of a bit, and its place there.
fn place_of(bit: u32) -> (usize, u32) {
    ((bit / WORD_BITS) as usize, bit % WORD_BITS)
}

impl FreeNumbers {
    pub(crate) fn add(&mut self, number: u32) {
        debug_assert!(!self.has(number), "{number} became free once");
        let mut bit = number;
        for words in &mut self.levels {
            let (word, place) = place_of(bit);
            if words.len() <= word {
                words.resize(word + 1, 0);
            }
            let before = words[word];
            words[word] = before | 1 << place;
            if before != 0 {
                return;
            }
            bit = word as u32;
        }
    }

    /// Takes the lowest.
    pub(crate) fn take_lowest(&mut self) -> Option<u32> {
        let lowest = self.lowest()?;
        let mut bit = lowest;
        for words in &mut self.levels {
            let (word, place) = place_of(bit);
            words[word] &= !(1 << place);
            if words[word] != 0 {
                break;
            }
            bit = word as u32;
        }
        Some(lowest)
    }

    fn lowest(&self) -> Option<u32> {
        self.levels.iter().rev().try_fold(0, |bit, words| {
            let word = words.get(bit as usize).filter(|word| **word != 0)?;
            Some(bit * WORD_BITS + word.trailing_zeros())
        })
    }

    pub(crate) fn has(&self, number: u32) -> bool {
        let (word, place) = place_of(number);
        self.levels[0].get(word).is_some_and(|word| word >> place & 1 == 1)
    }

    /// Panics unless each level says what there is below.
    pub(crate) fn check(&self) {
        for (below, above) in self.levels.iter().zip(&self.levels[1..]) {
            for (number, word) in (0..).zip(below) {
                let (of_above, place) = place_of(number);
                let bit = above.get(of_above).map_or(0, |word| word >> place & 1);
                assert_eq!(bit == 1, *word != 0, "word {number}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_lowest_of_those_that_were_added_is_taken(
            steps in prop::collection::vec(prop::option::weighted(0.6, 0..300_000_u32), 1..300),
        ) {
            let (mut free, mut model) = (FreeNumbers::default(), BTreeSet::new());
            for step in steps {
                match step {
                    Some(number) if model.insert(number) => free.add(number),
                    Some(number) => prop_assert!(free.has(number)),
                    None => prop_assert_eq!(free.take_lowest(), model.pop_first()),
                }
            }
            free.check();
            while let Some(lowest) = model.pop_first() {
                prop_assert_eq!(free.take_lowest(), Some(lowest));
                prop_assert!(!free.has(lowest));
            }
            prop_assert_eq!(free.take_lowest(), None);
        }
    }
}
