//! What comes next in the order of eviction has a copy on a disk by then, also what tenants lose
//! next when their quotas are used up, however much room there is in segments.
//! Invariant: all shards together keep as much of a tenant ready as one put after another may need
//! at once. A disk that is not well gets single copies that show whether it still is.

use crate::limits::LOOK_AHEAD_RATIO;
use crate::settings::OffloadSettings;
use crate::victim::EvictionReason;

use super::VictimSearch;

impl VictimSearch<'_> {
    /// Begins to copy what comes next in the order of eviction, so that eviction finds what has a
    /// copy; returns what is left of the budget. Without `on_evict` most has one; the rest was put
    /// while the disk was away or had too much to do, or lost its copy there.
    pub(crate) fn look_ahead(&mut self, mut budget: usize) -> usize {
        let Some(offload) = self.tier.offload else {
            return budget;
        };
        if self.space.disks().is_empty() {
            return budget;
        }
        self.try_disks(&offload);
        for segment in self.space.live().to_vec() {
            while budget > 0 && self.tier.lacks_ready(self.view(), segment) {
                budget -= 1;
                let next = self.next(segment, EvictionReason::LookAhead);
                let Some(next) = next else {
                    break;
                };
                if !self.demoting().prepare(next.replica, &offload) {
                    break;
                }
            }
        }
        self.look_ahead_of_tenants(budget, &offload)
    }

    /// Begins to copy what tenants near their quotas lose next; returns what is left of the budget.
    pub(super) fn look_ahead_of_tenants(
        &mut self,
        mut budget: usize,
        offload: &OffloadSettings,
    ) -> usize {
        let parts = self.tier.shards as u64;
        for (tenant, beyond_bytes) in self.quotas.near_quota(LOOK_AHEAD_RATIO) {
            let wanted_bytes = beyond_bytes.div_ceil(parts);
            while budget > 0 && self.tier.stock_of(self.view(), tenant) < wanted_bytes {
                budget -= 1;
                let need = EvictionReason::LookAhead;
                let next = self
                    .of_tenant(tenant, need, |it, lane, need| it.order.next(it.stored, lane, need));
                let Some(next) = next else {
                    break;
                };
                if !self.demoting().prepare(next.replica, offload) {
                    break;
                }
            }
        }
        budget
    }

    /// Begins a copy to each disk that has written nothing for long: only a write shows its owner
    /// that there is room again.
    pub(super) fn try_disks(&mut self, offload: &OffloadSettings) {
        let due: Vec<u32> = self.space.disks_to_try(self.stored.clock.now_ms()).collect();
        for disk in due {
            if let Some(id) =
                self.trial_of(disk).filter(|id| self.tier.may_demote(self.view(), *id, offload))
            {
                self.demoting().begin(id, disk, false);
                let health = self.space.health(disk);
                self.space.note_health(disk, health, self.stored.clock.now_ms());
            }
        }
    }

    /// What comes next in the order of eviction in memory of a disk's owner, if that disk can have
    /// a copy.
    pub(super) fn trial_of(&mut self, disk: u32) -> Option<u32> {
        let client = self.space.get(disk)?.spec.client;
        let is_own = |it: &&u32| self.space.get(**it).is_some_and(|it| it.spec.client == client);
        let own: Vec<u32> = self.space.live().iter().filter(is_own).copied().collect();
        own.into_iter().find_map(|segment| {
            let next = self.next(segment, EvictionReason::LookAhead)?.replica;
            let (hash, generation) = (
                self.stored.keys[self.stored.replicas[next].object].hash(),
                self.stored.replicas[next].generation,
            );
            let is_void = self.tier.tombstones.is_void(disk, hash, generation);
            (self.view().lies_only_there(next) && !is_void).then_some(next)
        })
    }
}
