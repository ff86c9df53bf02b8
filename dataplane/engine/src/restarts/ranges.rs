//! Sets of addresses as ranges. Invariant: no two ranges overlap or touch, so one look finds
//! whether another range meets any of them.

use std::collections::BTreeMap;

/// End of each range by its first address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AddressRanges(BTreeMap<u64, u64>);

impl AddressRanges {
    /// Adds `bytes` from `start` on.
    pub(super) fn insert(&mut self, start: u64, bytes: u64) {
        let (mut start, mut end) = (start, start.saturating_add(bytes));
        if start == end {
            return;
        }
        while let Some((first, last)) = self.last_until(end).filter(|(_, last)| *last >= start) {
            self.0.remove(&first);
            start = start.min(first);
            end = end.max(last);
        }
        let before = self.0.range(..start).next_back();
        debug_assert!(before.is_none_or(|(_, last)| *last < start), "ranges do not touch");
        let behind = self.0.range(start..).next();
        debug_assert!(behind.is_none_or(|(first, _)| *first > end), "what they met is in them");
        self.0.insert(start, end);
    }

    /// Adds all of another set.
    pub(super) fn join(&mut self, other: &Self) {
        for (start, end) in &other.0 {
            self.insert(*start, end - start);
        }
    }

    /// Whether any of `bytes` from `start` on is in the set.
    pub(super) fn touch(&self, start: u64, bytes: u64) -> bool {
        let end = start.saturating_add(bytes);
        let before = self.0.range(..end).next_back();
        start < end && before.is_some_and(|(_, last)| *last > start)
    }

    /// Number of ranges.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The last range that begins at or before an address.
    fn last_until(&self, address: u64) -> Option<(u64, u64)> {
        let range = self.0.range(..=address).next_back();
        range.map(|(first, last)| (*first, *last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// As a set of single addresses would answer.
        #[test]
        fn ranges_know_exactly_what_was_put_in(
            put in proptest::collection::vec((0u64..200, 0u64..20), 0..20),
            asked in (0u64..220, 0u64..20),
        ) {
            let mut ranges = AddressRanges::default();
            let mut plain = [false; 256];
            for (start, bytes) in put {
                ranges.insert(start, bytes);
                plain[start as usize..(start + bytes) as usize].fill(true);
            }
            let (start, bytes) = asked;
            let expected = plain[start as usize..(start + bytes) as usize].contains(&true);
            prop_assert_eq!(ranges.touch(start, bytes), expected);
            let islands = plain.windows(2).filter(|pair| !pair[0] && pair[1]).count();
            prop_assert_eq!(ranges.len(), islands + usize::from(plain[0]));
            let mut twice = ranges.clone();
            twice.join(&ranges);
            prop_assert_eq!(twice, ranges);
        }
    }
}
