//! The buffers of this process that peers may read and write.
//!
//! The invariant: an address leaves this table only as part of a [`RegionUse`] that was checked
//! against one registered buffer, and a buffer is gone from the table only after its last use has
//! ended.

mod location;
mod mapped;
mod region;

pub use location::MemoryLocation;
pub(crate) use mapped::check_mapped;
pub(crate) use region::{RegionUse, RegisteredRegion};

use crate::error::{BufferError, EngineError};
use crate::limits::REGIONS_MAX;
use perigee_discovery::BufferEntry;
use perigee_memory::Segment;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// Registered buffers by first address.
#[derive(Debug, Default)]
pub(crate) struct MemoryRegistry {
    table: RwLock<BTreeMap<u64, Arc<RegisteredRegion>>>,
}

impl MemoryRegistry {
    /// Adds a buffer.
    pub(crate) fn insert(
        &self,
        region: RegisteredRegion,
    ) -> Result<Arc<RegisteredRegion>, EngineError> {
        let (address, bytes) = (region.address(), region.bytes());
        let end = address.checked_add(bytes).filter(|_| address > 0 && bytes > 0);
        let Some(end) = end else {
            let reason = "it has no bytes or runs past the end of the address space".to_owned();
            return Err(BufferError::Unusable { address, bytes, reason }.into());
        };
        let mut table = self.write();
        // Buffers are disjoint, so only the last one that begins before our end can reach into us.
        if let Some(other) = table.range(..end).next_back().map(|(_, other)| other)
            && other.end() > address
        {
            let (other_address, other_bytes) = (other.address(), other.bytes());
            let overlap = BufferError::Overlap { address, bytes, other_address, other_bytes };
            return Err(overlap.into());
        }
        if table.len() >= REGIONS_MAX {
            return Err(EngineError::TooMany {
                what: "registered buffers",
                limit: REGIONS_MAX,
                remedy: "register fewer and larger ones",
            });
        }
        let region = Arc::new(region);
        let is_new = table.insert(address, region.clone()).is_none();
        debug_assert!(is_new, "no other buffer begins there");
        Ok(region)
    }

    /// Takes a buffer out: from now on it gets no new uses.
    pub(crate) fn close(&self, address: u64) -> Result<Arc<RegisteredRegion>, BufferError> {
        let region = self.read().get(&address).cloned();
        let region = region.ok_or(BufferError::NotRegistered { address })?;
        region.close();
        Ok(region)
    }

    /// Waits until a closed buffer is not used any more and forgets it; false if it still is used
    /// after `limit`.
    pub(crate) fn forget_unused(&self, region: &Arc<RegisteredRegion>, limit: Duration) -> bool {
        debug_assert!(region.is_closed(), "what is forgotten takes no new uses");
        let unused = region.wait_unused(limit);
        if unused {
            let mut table = self.write();
            let same = table.get(&region.address()).is_some_and(|known| Arc::ptr_eq(known, region));
            if same {
                table.remove(&region.address());
            }
        }
        unused
    }

    /// The right to use a range, if it lies in one registered buffer that is not being taken out.
    pub(crate) fn use_range(&self, address: u64, bytes: u64) -> Option<RegionUse> {
        self.region(address, bytes)?.acquire()
    }

    /// The buffer that holds a range.
    pub(crate) fn region(&self, address: u64, bytes: u64) -> Option<Arc<RegisteredRegion>> {
        let end = address.checked_add(bytes)?;
        let table = self.read();
        let (_, region) = table.range(..=address).next_back()?;
        (end <= region.end() && address < region.end()).then(|| region.clone())
    }

    /// Every buffer that takes uses, by address.
    pub(crate) fn list(&self) -> Vec<Arc<RegisteredRegion>> {
        let table = self.read();
        table.values().filter(|region| !region.is_closed()).cloned().collect()
    }

    /// First address and memory of each buffer that can be handed to peers on this host.
    pub(crate) fn shared(&self) -> Vec<(u64, Arc<Segment>)> {
        let shared =
            |region: &Arc<RegisteredRegion>| Some((region.address(), region.segment()?.clone()));
        self.list().iter().filter_map(shared).collect()
    }

    /// The buffers that peers may use, as a segment's document lists them.
    pub(crate) fn describe(&self) -> Vec<BufferEntry> {
        let entry = |region: &Arc<RegisteredRegion>| BufferEntry {
            name: region.location().to_string(),
            addr: region.address(),
            length: region.bytes(),
            ..BufferEntry::default()
        };
        self.list().iter().filter(|region| !region.is_private()).map(entry).collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<u64, Arc<RegisteredRegion>>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<u64, Arc<RegisteredRegion>>> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn region(address: u64, bytes: u64) -> RegisteredRegion {
        RegisteredRegion::new(address, bytes, MemoryLocation::Anywhere)
    }

    #[test]
    fn empty_null_and_wrapping_buffers_are_refused() {
        let registry = MemoryRegistry::default();
        for (address, bytes) in [(4096, 0), (0, 4096), (u64::MAX - 5, 100)] {
            let refused = registry.insert(region(address, bytes));
            assert!(matches!(refused, Err(EngineError::Buffer(BufferError::Unusable { .. }))));
        }
    }

    #[test]
    fn a_closed_buffer_gives_no_uses_and_is_forgotten_when_the_last_one_ends() {
        let registry = MemoryRegistry::default();
        registry.insert(region(4096, 100)).unwrap();
        let held = registry.use_range(4100, 10).unwrap();
        let closed = registry.close(4096).unwrap();
        assert!(registry.use_range(4100, 10).is_none());
        assert!(!registry.forget_unused(&closed, Duration::from_millis(5)));
        assert!(registry.insert(region(4100, 1)).is_err(), "its space is not free yet");
        drop(held);
        assert!(registry.forget_unused(&closed, Duration::from_secs(60)));
        registry.insert(region(4100, 1)).unwrap();
        assert_eq!(registry.close(4096).unwrap_err(), BufferError::NotRegistered { address: 4096 });
    }

    proptest! {
        /// Against a map of single bytes: overlaps are refused, and a range is found exactly if one
        /// buffer covers it.
        #[test]
        fn ranges_are_found_exactly_inside_one_buffer(
            buffers in proptest::collection::vec((1u64..120, 1u64..20, any::<bool>()), 1..30),
            probes in proptest::collection::vec((0u64..150, 0u64..25), 1..60),
        ) {
            let registry = MemoryRegistry::default();
            let mut owner = [0u64; 200];
            for (address, bytes, remove) in buffers {
                let cells = address as usize..(address + bytes) as usize;
                let free = owner[cells.clone()].iter().all(|owner| *owner == 0);
                prop_assert_eq!(registry.insert(region(address, bytes)).is_ok(), free);
                if free {
                    owner[cells.clone()].fill(address);
                }
                if free && remove {
                    let closed = registry.close(address).unwrap();
                    prop_assert!(registry.forget_unused(&closed, Duration::ZERO));
                    owner[cells].fill(0);
                }
            }
            for (address, bytes) in probes {
                let cells = &owner[address as usize..(address + bytes.max(1)) as usize];
                let inside = cells[0] != 0 && cells.iter().all(|owner| *owner == cells[0]);
                prop_assert_eq!(registry.use_range(address, bytes).is_some(), inside);
            }
        }
    }
}
