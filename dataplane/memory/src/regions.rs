//! The buffers that a caller has registered by address, from which and into which transfers may go.
//! Invariant: registered intervals never overlap and never wrap around the address space.

use std::collections::BTreeMap;

use crate::limits::REGIONS_MAX;

/// Why a buffer was not registered.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RegionError {
    /// No bytes, or bytes that run past the end of the address space.
    #[error(
        "The buffer at {address:#x} cannot have {len} bytes; register at least 1 byte that exists"
    )]
    Extent {
        /// First byte.
        address: usize,
        /// Length in bytes.
        len: usize,
    },
    /// Part of it is registered already.
    #[error(
        "The buffer at {address:#x} of {len} bytes overlaps the one registered at {other_address:#x} of \
         {other_len} bytes; unregister that first"
    )]
    Overlap {
        /// First byte of the new buffer.
        address: usize,
        /// Length of the new buffer.
        len: usize,
        /// First byte of the registered buffer.
        other_address: usize,
        /// Length of the registered buffer.
        other_len: usize,
    },
    /// Too many.
    #[error("{REGIONS_MAX} buffers are registered already; register fewer and larger ones")]
    TooMany,
}

/// A set of disjoint intervals of addresses.
#[derive(Clone, Debug, Default)]
pub struct RegisteredRegions {
    /// Length by first address.
    len_by_address: BTreeMap<usize, usize>,
}

impl RegisteredRegions {
    /// An empty set.
    #[must_use]
    pub fn new() -> RegisteredRegions {
        RegisteredRegions::default()
    }

    /// Adds `len` bytes at `address`.
    pub fn register(&mut self, address: usize, len: usize) -> Result<(), RegionError> {
        let end = address.checked_add(len).filter(|_| len > 0 && address > 0);
        let Some(end) = end else {
            return Err(RegionError::Extent { address, len });
        };
        // Intervals are disjoint, so only the last one that starts before our end can reach into
        // us.
        if let Some((&other_address, &other_len)) = self.len_by_address.range(..end).next_back()
            && other_address + other_len > address
        {
            return Err(RegionError::Overlap { address, len, other_address, other_len });
        }
        if self.len_by_address.len() >= REGIONS_MAX {
            return Err(RegionError::TooMany);
        }
        let before = self.len_by_address.insert(address, len);
        debug_assert_eq!(before, None, "its first byte was free");
        Ok(())
    }

    /// Removes the buffer that begins at `address` and returns its length; `None` if there is none,
    /// which is no error.
    pub fn unregister(&mut self, address: usize) -> Option<usize> {
        self.len_by_address.remove(&address)
    }

    /// Whether `len` bytes at `address` lie within one registered buffer.
    #[must_use]
    pub fn contains(&self, address: usize, len: usize) -> bool {
        self.covering(address, len).is_some()
    }

    /// The registered buffer (first byte, length) that holds all `len` bytes at `address`.
    #[must_use]
    pub fn covering(&self, address: usize, len: usize) -> Option<(usize, usize)> {
        let end = address.checked_add(len)?;
        let (&region_address, &region_len) = self.len_by_address.range(..=address).next_back()?;
        (end <= region_address + region_len).then_some((region_address, region_len))
    }

    /// The end of the buffers that follow each other from `address` on, if `len` bytes begin in
    /// them and do not end there.
    #[must_use]
    pub fn overrun(&self, address: usize, len: usize) -> Option<usize> {
        let end = address.saturating_add(len);
        let (first, bytes) = self.covering(address, 1)?;
        let mut reached = first + bytes;
        while reached < end
            && let Some(bytes) = self.len_by_address.get(&reached)
        {
            reached += bytes;
        }
        (reached < end).then_some(reached)
    }

    /// Panics unless the buffers are disjoint and end within the address space: for tests and
    /// models.
    pub fn check(&self) {
        assert!(self.len_by_address.len() <= REGIONS_MAX);
        let mut reached = 0;
        for (address, len) in self.iter() {
            assert!(address >= reached && len > 0, "{address:#x} belongs to no other region");
            let end = address.checked_add(len);
            assert!(end.is_some(), "{address:#x} ends within the address space");
            reached = end.unwrap_or(usize::MAX);
        }
    }

    /// How many buffers are registered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len_by_address.len()
    }

    /// Whether none is registered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len_by_address.is_empty()
    }

    /// All buffers (first byte, length) by address.
    pub fn iter(&self) -> impl Iterator<Item = (usize, usize)> {
        self.len_by_address.iter().map(|(&address, &len)| (address, len))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{RegionError, RegisteredRegions};

    #[test]
    fn what_begins_in_a_buffer_and_ends_beyond_its_neighbours_is_an_overrun() {
        let mut regions = RegisteredRegions::new();
        assert_eq!(regions.register(100, 50), Ok(()));
        assert_eq!(regions.register(150, 50), Ok(()));
        assert_eq!(regions.register(300, 50), Ok(()));
        assert_eq!(regions.overrun(100, 50), None);
        assert_eq!(regions.overrun(149, 51), None, "neighbours are one stretch");
        assert_eq!(regions.overrun(149, 52), Some(200));
        assert_eq!(regions.overrun(349, usize::MAX), Some(350));
        assert_eq!(regions.overrun(200, 500), None, "it begins in none");
    }

    #[test]
    fn neighbours_may_touch_but_not_overlap() {
        let mut regions = RegisteredRegions::new();
        assert_eq!(regions.register(100, 50), Ok(()));
        assert_eq!(regions.register(150, 50), Ok(()));
        let overlap =
            |address, len| RegionError::Overlap { address, len, other_address: 100, other_len: 50 };
        assert_eq!(regions.register(100, 50), Err(overlap(100, 50)));
        assert_eq!(regions.register(90, 11), Err(overlap(90, 11)));
        assert_eq!(regions.register(149, 1), Err(overlap(149, 1)));
        assert_eq!(regions.len(), 2);
    }

    #[test]
    fn a_run_across_two_neighbours_is_in_neither() {
        let mut regions = RegisteredRegions::new();
        regions.register(100, 50).unwrap();
        regions.register(150, 50).unwrap();
        assert_eq!(regions.covering(149, 1), Some((100, 50)));
        assert!(!regions.contains(149, 2));
        assert!(!regions.contains(199, usize::MAX));
    }

    #[test]
    fn unregistering_twice_is_no_error() {
        let mut regions = RegisteredRegions::new();
        regions.register(100, 50).unwrap();
        assert_eq!(regions.unregister(100), Some(50));
        assert_eq!(regions.unregister(100), None);
        assert!(!regions.contains(100, 1));
    }

    #[test]
    fn empty_null_and_wrapping_buffers_are_refused() {
        let mut regions = RegisteredRegions::new();
        for (address, len) in [(100, 0), (0, 100), (usize::MAX, 2)] {
            let refused = Err(RegionError::Extent { address, len });
            assert_eq!(regions.register(address, len), refused);
        }
    }

    proptest! {
        #[test]
        fn look_ups_agree_with_a_map_of_bytes(
            steps in proptest::collection::vec((1usize..200, 1usize..40, any::<bool>()), 1..60),
        ) {
            let mut regions = RegisteredRegions::new();
            let mut owner = [None; 300];
            for (address, len, add) in steps {
                if add {
                    let free = owner[address..address + len].iter().all(Option::is_none);
                    prop_assert_eq!(regions.register(address, len).is_ok(), free);
                    if free {
                        owner[address..address + len].fill(Some(address));
                    }
                } else {
                    let had = owner[address] == Some(address);
                    prop_assert_eq!(regions.unregister(address).is_some(), had);
                    owner.iter_mut().filter(|o| **o == Some(address)).for_each(|o| *o = None);
                }
                let run = &owner[address..address + len];
                let inside = run[0].is_some() && run.iter().all(|o| *o == run[0]);
                prop_assert_eq!(regions.contains(address, len), inside);
                regions.check();
            }
        }
    }
}
