//! What tenants lose next when their quotas are used up has a copy on a disk by then, however much
//! room there is in segments.
//! Invariant: all shards together keep as much ready as one put after another may need at once.

use crate::limits::LOOK_AHEAD_RATIO;
use crate::settings::OffloadSettings;
use crate::victim::EvictionReason;

use super::KeyShard;

impl KeyShard {
    /// Begins to copy what tenants near their quotas lose next; returns what is left of the budget.
    pub(super) fn look_ahead_of_tenants(
        &mut self,
        mut budget: usize,
        offload: &OffloadSettings,
    ) -> usize {
        let parts = self.settings.count as u64;
        for (tenant, beyond_bytes) in self.quotas.near_quota(LOOK_AHEAD_RATIO) {
            let wanted_bytes = beyond_bytes.div_ceil(parts);
            while budget > 0 && self.tier.stock_of(self.view(), tenant) < wanted_bytes {
                budget -= 1;
                let need = EvictionReason::LookAhead;
                let next = self.least_of_tenant(tenant, need, |it, lane, need| {
                    it.order.next(&mut it.stored, lane, need)
                });
                let Some(next) = next else {
                    break;
                };
                let Self { tier, stored, space, counters, .. } = self;
                if !tier.prepare(stored, space, &mut counters.demotions, next.replica, offload) {
                    break;
                }
            }
        }
        budget
    }
}
