//! Space that must not be reused yet, because somebody may still read or write it.
//! Invariant: a parked extent is allocated in its share until it is released here.

use std::collections::BTreeMap;

use perigee_allocator::Extent;

/// An extent of a share that waits for its release.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parked {
    pub(crate) segment: u32,
    pub(crate) extent: Extent,
    /// Whether it belonged to a discarded put.
    pub(crate) staging: bool,
}

/// All parked extents in order of their release times.
#[derive(Debug, Default)]
pub(crate) struct Parking {
    by_release: BTreeMap<(u64, u64), Parked>,
    sequence: u64,
    bytes: u64,
    staging_bytes: u64,
}

impl Parking {
    pub(crate) fn park(&mut self, release_ms: u64, parked: Parked) {
        self.sequence += 1;
        self.by_release.insert((release_ms, self.sequence), parked);
        self.bytes += parked.extent.bytes;
        if parked.staging {
            self.staging_bytes += parked.extent.bytes;
        }
    }

    /// Takes one extent whose time has come.
    pub(crate) fn pop_due(&mut self, now_ms: u64) -> Option<Parked> {
        let entry = self.by_release.first_entry()?;
        if entry.key().0 > now_ms {
            return None;
        }
        let parked = entry.remove();
        self.bytes -= parked.extent.bytes;
        if parked.staging {
            self.staging_bytes -= parked.extent.bytes;
        }
        Some(parked)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn staging_bytes(&self) -> u64 {
        self.staging_bytes
    }

    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Parked> {
        self.by_release.values()
    }
}
