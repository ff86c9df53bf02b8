//! Copies to disks that are given up because a put needs the room: the last that it costs.
//! Invariant: with `force_evict` a put finds room wherever it would without disks.

use crate::limits::REVOCATIONS_MAX;
use crate::tenant::{TenantLane, TenantNumber};
use crate::victim::{EvictionReason, Victim};

use super::KeyShard;

impl KeyShard {
    /// As `victim`; where nothing else may go for a put, a copy is given up.
    pub(super) fn victim_at_all_costs(
        &mut self,
        segment: u32,
        need: EvictionReason,
    ) -> Option<Victim> {
        self.victim(segment, need).or_else(|| self.revoked_victim(segment, need))
    }

    /// As `victim_at_all_costs`, of what a tenant that puts has itself.
    pub(super) fn least_of_tenant_at_all_costs(&mut self, writer: TenantNumber) -> Option<Victim> {
        let need = EvictionReason::Put(writer);
        self.least_of_tenant(writer, need, Self::victim_in)
            .or_else(|| self.least_of_tenant(writer, need, Self::revoked_victim_in))
    }

    /// A replica whose copy is given up for a put.
    pub(super) fn revoked_victim(&mut self, segment: u32, need: EvictionReason) -> Option<Victim> {
        match self.quotas.are_needed() {
            false => self.revoked_victim_in(TenantLane::shared(segment), need),
            true => self.least_of(segment, need, Self::revoked_victim_in),
        }
    }

    fn revoked_victim_in(&mut self, lane: TenantLane, need: EvictionReason) -> Option<Victim> {
        if !need.is_put() {
            return None;
        }
        for _ in 0..REVOCATIONS_MAX {
            let object = self.tier.revocable(&self.stored, lane).next()?;
            self.cancel_demotion(object);
            if let Some(victim) = self.victim_in(lane, need) {
                return Some(victim);
            }
        }
        None
    }
}
