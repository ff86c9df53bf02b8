//! Which bytes of the memory for stages are free.
//! Invariant: free ranges are whole blocks, never touch each other, and never overlap what was
//! taken.

use crate::limits::{BLOCK_BYTES, REGISTERED_BYTES};
use std::collections::BTreeMap;

const BLOCK: usize = BLOCK_BYTES as usize;

/// The free ranges, by where they start.
#[derive(Debug)]
pub(crate) struct FreeRanges {
    ranges: BTreeMap<usize, usize>,
}

impl FreeRanges {
    pub(crate) fn new(bytes: usize) -> Self {
        debug_assert!(bytes.is_multiple_of(BLOCK), "whole blocks");
        Self { ranges: BTreeMap::from([(0, bytes)]) }
    }

    /// Takes whole blocks: the first that fit, so that few pages are ever touched, and within one
    /// registered part if possible. What is larger than such a part comes from the end, so that
    /// small ranges do not stand in its way.
    pub(crate) fn take(&mut self, bytes: usize) -> Option<usize> {
        debug_assert!(bytes > 0 && bytes.is_multiple_of(BLOCK));
        let fits = |(start, free): (&usize, &usize)| (*free >= bytes).then_some((*start, *free));
        let (range, start) = if bytes > REGISTERED_BYTES {
            let (range, free) = self.ranges.iter().rev().find_map(fits)?;
            (range, range + free - bytes)
        } else {
            let within = |(start, free): (&usize, &usize)| {
                let place = in_one_part(*start, bytes);
                (place + bytes <= start + free).then_some((*start, place))
            };
            let first = self.ranges.iter().find_map(within);
            first.or_else(|| self.ranges.iter().find_map(fits).map(|(start, _)| (start, start)))?
        };
        let end = range + self.ranges.remove(&range)?;
        if start > range {
            self.ranges.insert(range, start - range);
        }
        if start + bytes < end {
            self.ranges.insert(start + bytes, end - start - bytes);
        }
        Some(start)
    }

    /// Gives blocks back that were taken.
    pub(crate) fn give(&mut self, start: usize, bytes: usize) {
        let (mut first, mut end) = (start, start + bytes);
        let behind = self.ranges.range(start..).next();
        debug_assert!(behind.is_none_or(|(free, _)| *free >= end), "what comes back was taken");
        if let Some((before, free)) = self.ranges.range(..start).next_back() {
            debug_assert!(before + free <= start, "it was taken");
            if before + free == start {
                first = *before;
            }
        }
        if let Some(behind) = self.ranges.remove(&end) {
            end += behind;
        }
        self.ranges.insert(first, end - first);
    }

    /// Number of free bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.ranges.values().sum()
    }
}

/// The first place from `start` on where so many bytes lie in one registered part.
fn in_one_part(start: usize, bytes: usize) -> usize {
    let end_of_part = (start + 1).next_multiple_of(REGISTERED_BYTES);
    if start + bytes <= end_of_part { start } else { end_of_part }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PART: usize = REGISTERED_BYTES;

    #[test]
    fn small_ranges_are_at_the_front_and_large_ones_at_the_end() {
        let mut free = FreeRanges::new(4 * PART);
        assert_eq!(free.take(PART - BLOCK), Some(0));
        assert_eq!(free.take(2 * BLOCK), Some(PART), "not across the border");
        assert_eq!(free.take(BLOCK), Some(PART - BLOCK));
        assert_eq!(free.take(2 * PART), Some(2 * PART));
        assert_eq!(free.take(PART), None);
        free.give(2 * PART, 2 * PART);
        assert_eq!(free.take(PART), Some(2 * PART));
        free.give(0, PART - BLOCK);
        assert_eq!(free.take(BLOCK), Some(0));
    }

    #[test]
    fn a_range_crosses_a_border_if_nothing_else_is_left() {
        let mut free = FreeRanges::new(2 * PART);
        let taken = [free.take(PART - BLOCK), free.take(PART - BLOCK)];
        assert_eq!(taken, [Some(0), Some(PART)]);
        free.give(0, PART - BLOCK);
        assert_eq!(free.take(PART - 2 * BLOCK), Some(0));
        free.give(PART, PART - BLOCK);
        assert_eq!(free.take(PART), Some(PART));
        free.give(PART, PART);
        assert_eq!(free.take(2 * BLOCK), Some(PART - 2 * BLOCK));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Take(usize),
        Give(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![(1..40usize).prop_map(Step::Take), (0..64usize).prop_map(Step::Give)]
    }

    proptest! {
        #[test]
        fn what_is_taken_never_overlaps_and_all_of_it_comes_back(
            steps in prop::collection::vec(step(), 1..200),
        ) {
            let all = 2 * PART;
            let unit = all / 64;
            let mut free = FreeRanges::new(all);
            let mut taken: Vec<(usize, usize)> = Vec::new();
            for step in steps {
                match step {
                    Step::Take(units) => {
                        let bytes = units * unit;
                        if let Some(start) = free.take(bytes) {
                            prop_assert!(start + bytes <= all && start.is_multiple_of(BLOCK));
                            let is_apart = |it: &(usize, usize)| {
                                start + bytes <= it.0 || it.0 + it.1 <= start
                            };
                            prop_assert!(taken.iter().all(is_apart));
                            taken.push((start, bytes));
                        }
                    }
                    Step::Give(at) if !taken.is_empty() => {
                        let (start, bytes) = taken.swap_remove(at % taken.len());
                        free.give(start, bytes);
                    }
                    Step::Give(_) => {}
                }
                let used: usize = taken.iter().map(|it| it.1).sum();
                prop_assert_eq!(free.bytes() + used, all);
            }
            taken.into_iter().for_each(|(start, bytes)| free.give(start, bytes));
            prop_assert_eq!(free.ranges, BTreeMap::from([(0, all)]));
        }
    }
}
