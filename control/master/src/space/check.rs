//! The records of a shard's space against each other.
//! Invariant: tests and models alone look at all of it.

use std::collections::BTreeMap;

use perigee_allocator::{Extent, OffsetAllocator};

use crate::loan::SpaceLoan;
use crate::share::{SegmentShare, ShareState};

use super::Space;

impl Space {
    /// Panics unless the lists of segments agree with the states of the shares, and what is `live`
    /// (the extents of replicas, by segment), quarantined and free is what the shard holds.
    pub(crate) fn check(&self, live: impl Iterator<Item = (u32, Extent)>) {
        self.quarantine.check();
        self.check_states();
        let quarantined = self.quarantine.iter().map(|it| (it.segment, it.extent));
        let mut taken: BTreeMap<u32, Vec<Extent>> = BTreeMap::new();
        for (segment, extent) in live.chain(quarantined) {
            taken.entry(segment).or_default().push(extent);
        }
        for (segment, share) in self.iter().filter(|(_, share)| share.is_readable()) {
            let taken = taken.remove(&segment).unwrap_or_default();
            let taken_bytes: u64 = taken.iter().map(|extent| extent.bytes).sum();
            assert_eq!(share.allocator.used(), taken_bytes, "{segment}");
            let with_free = taken.into_iter().chain(share.allocator.free_extents());
            let with_withheld = with_free.chain(share.withheld().iter().copied());
            let held = OffsetAllocator::rebuild(share.spec.bytes, with_withheld);
            let held = held.map(|held| held.used());
            let withheld_bytes = share.withheld_bytes();
            assert_eq!(held, Ok(share.allocator.capacity() + withheld_bytes), "{segment}");
        }
    }

    /// Panics unless a master's only shard holds all of each segment, once that is known.
    pub(crate) fn check_whole(&self) {
        let is_whole = |share: &SegmentShare| share.is_memory() && !share.is_rebuilding();
        for (segment, share) in self.iter().filter(|(_, share)| is_whole(share)) {
            let held_bytes = share.allocator.capacity() + share.withheld_bytes();
            assert_eq!(held_bytes, share.spec.bytes, "{segment}");
        }
    }

    fn check_states(&self) {
        assert!(self.live.is_sorted_by(|a, b| a < b), "each once, in order");
        let is_early = |loan: &SpaceLoan| loan.segment >= self.bound();
        assert!(self.early_loans.iter().all(is_early), "what is known is taken over");
        for (segment, share) in (0..).zip(&self.by_segment) {
            let state = share.as_ref().map(|share| share.state);
            let is_disk = share.as_ref().is_some_and(|share| share.is_disk());
            let is_live = share.as_ref().is_some_and(|share| share.is_live());
            assert_eq!(self.live.contains(&segment), is_live, "{segment}");
            let is_mounted = state.is_some_and(|state| state != ShareState::Gone);
            assert_eq!(self.disks.contains(&segment), is_disk && is_mounted, "{segment}");
            let is_gone = state == Some(ShareState::Gone);
            assert_eq!(self.gone.contains(&segment), is_gone, "{segment}");
            if let Some(share) = share {
                share.allocator.check();
                assert!(share.segment_usable_bytes <= share.spec.bytes, "{segment}");
            }
        }
    }
}
