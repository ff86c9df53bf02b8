//! What tenants lose next when their quotas are used up has a copy on a disk by then, however much
//! room there is in segments.
//! Invariant: all shards together keep as much ready as one put after another may need at once.

use crate::limits::LOOK_AHEAD_RATIO;
use crate::settings::OffloadSettings;
use crate::tenant::TenantNumber;
use crate::victim::EvictionReason;

use super::KeyShard;

impl KeyShard {
    /// Begins to copy what tenants near their quotas lose next; returns what is left of the budget.
    pub(super) fn look_ahead_of_tenants(
        &mut self,
        mut budget: usize,
        offload: &OffloadSettings,
    ) -> usize {
        for (tenant, wanted_bytes) in self.tenants_near_quota() {
            while budget > 0 && self.stock_of(tenant) < wanted_bytes {
                budget -= 1;
                let need = EvictionReason::LookAhead;
                let next = self.least_of_tenant(tenant, need, |it, lane, need| {
                    it.order.next(&mut it.stored, lane, need)
                });
                if !next.is_some_and(|next| self.prepare(next.replica, offload)) {
                    break;
                }
            }
        }
        budget
    }

    /// Tenants whose quotas are used up but for a margin, and how much of each is to be ready on
    /// this shard.
    fn tenants_near_quota(&self) -> Vec<(TenantNumber, u64)> {
        let accounts = self.quotas.iter().flat_map(|quotas| quotas.iter());
        let parts = self.settings.count as u64;
        let wanted =
            accounts.map(|it| (it.number(), it.above(1.0 - LOOK_AHEAD_RATIO).div_ceil(parts)));
        wanted.filter(|(_, bytes)| *bytes > 0).collect()
    }

    /// Bytes of a tenant that are ready to go, or on their way.
    fn stock_of(&self, tenant: TenantNumber) -> u64 {
        self.stored.replicas.ready_bytes_of(tenant, self.space.live())
            + self.demotions.bytes_of_tenant(tenant)
    }
}
