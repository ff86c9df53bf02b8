//! A range of memory cut into parts that have a key each. A slice never crosses a border between
//! parts.

/// A range and the borders inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SplitRange {
    address: u64,
    bytes: u64,
    borders: Vec<u64>,
}

impl SplitRange {
    /// A range with the first byte of each part after the first; `None` if the borders are not
    /// ascending inside it.
    pub(crate) fn new(address: u64, bytes: u64, borders: Vec<u64>) -> Option<Self> {
        let end = address.checked_add(bytes)?;
        let mut last = address;
        for border in &borders {
            if *border <= last || *border >= end {
                return None;
            }
            last = *border;
        }
        Some(Self { address, bytes, borders })
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn borders(&self) -> &[u64] {
        &self.borders
    }

    /// Number of parts.
    pub(crate) fn count(&self) -> usize {
        self.borders.len() + 1
    }

    /// Whether all of `bytes` at `address` lies inside.
    pub(crate) fn contains(&self, address: u64, bytes: u64) -> bool {
        let Some(offset) = address.checked_sub(self.address) else {
            return false;
        };
        offset.checked_add(bytes).is_some_and(|end| end <= self.bytes)
    }

    /// The part that an address inside lies in, and the bytes from there to the part's end.
    pub(crate) fn find(&self, address: u64) -> (usize, u64) {
        debug_assert!(self.contains(address, 0), "the address lies inside");
        let part = self.borders.partition_point(|border| *border <= address);
        let end = self.borders.get(part).copied();
        let end = end.unwrap_or(self.address + self.bytes);
        debug_assert!(part < self.count() && address <= end);
        (part, end.saturating_sub(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn borders_outside_or_out_of_order_are_refused() {
        assert!(SplitRange::new(100, 100, vec![100]).is_none());
        assert!(SplitRange::new(100, 100, vec![200]).is_none());
        assert!(SplitRange::new(100, 100, vec![150, 150]).is_none());
        assert!(SplitRange::new(u64::MAX, 2, vec![]).is_none());
        assert!(SplitRange::new(100, 100, vec![150, 160]).is_some());
    }

    proptest! {
        #[test]
        fn an_address_is_in_the_part_whose_borders_enclose_it(
            mut borders in proptest::collection::vec(1001u64..2000, 0..10),
            address in 1000u64..2000,
        ) {
            borders.sort_unstable();
            borders.dedup();
            let parts = SplitRange::new(1000, 1000, borders.clone()).unwrap();
            let (part, room) = parts.find(address);
            let starts: Vec<u64> = [1000].into_iter().chain(borders).chain([2000]).collect();
            prop_assert!(starts[part] <= address && address + room == starts[part + 1]);
            prop_assert!(parts.contains(address, 2000 - address));
            prop_assert!(!parts.contains(address, 2001 - address));
            prop_assert!(!parts.contains(999, 1) && !parts.contains(address, u64::MAX));
        }
    }
}
