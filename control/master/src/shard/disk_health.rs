//! What waits for disks, and what may be written to them.
//! Invariant: nothing waits for a disk that is not well.

use perigee_schemas::DiskHealth;

use crate::write_budget::BudgetState;

use super::KeyShard;

impl KeyShard {
    /// Whether nothing is to be evicted before a disk that is well has a copy.
    pub fn puts_wait_for_disks(&self) -> bool {
        self.settings.offload.is_some_and(|offload| !offload.force_evict)
    }

    /// Whether room may come soon because a disk is being given copies, or is going to.
    pub fn awaits_disks(&self, now_ms: u64) -> bool {
        let mut live = self.space.live().iter().filter_map(|segment| self.space.get(*segment));
        let has_soon = |client| self.space.has_disk_soon(client, 1, now_ms);
        self.tier.demotions.len() > 0 || live.any(|share| has_soon(share.spec.client))
    }

    /// Tombstones that come from now on have numbers that are not below this one.
    pub fn tombstone_mark(&self) -> u64 {
        self.tier.tombstones.mark()
    }

    /// Whether a disk that can write has still to make copies void whose tombstones have numbers
    /// below `mark`.
    pub fn awaits_void(&self, mark: u64) -> bool {
        self.space.disks().iter().any(|disk| {
            let can_write =
                matches!(self.space.health(*disk), DiskHealth::Healthy | DiskHealth::Slow);
            can_write && self.tier.tombstones.before(*disk, mark).next().is_some()
        })
    }

    /// How many copies with such tombstones there are on all disks.
    pub fn void_before(&self, mark: u64) -> usize {
        let disks = self.space.disks().iter();
        disks.map(|disk| self.tier.tombstones.before(*disk, mark).count()).sum()
    }

    /// How this shard's part of a disk's write budget stands; `None` without one.
    pub fn write_budget(&self, disk: u128) -> Option<BudgetState> {
        self.tier.budgets.as_ref()?.state(disk)
    }
}
