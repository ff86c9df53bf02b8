//! Copies to disks that are given up because a put needs the room: the last that it costs.
//! Invariant: with `force_evict` a put finds room wherever it would without disks.

use crate::limits::{REVOCATION_LOOKS_MAX, REVOCATIONS_MAX};
use crate::object::Flags;
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
            let object = self.revocable(lane).next()?;
            self.cancel_demotion(object);
            if let Some(victim) = self.victim_in(lane, need) {
                return Some(victim);
            }
        }
        None
    }

    /// Objects of a lane that only their copy to a disk keeps from going, if puts wait for none.
    fn revocable(&self, lane: TenantLane) -> impl Iterator<Item = u32> {
        let drops = self.settings.offload.is_some_and(|offload| offload.force_evict);
        let on_their_way = drops.then(|| self.demotions.of_lane(lane)).into_iter().flatten();
        on_their_way.take(REVOCATION_LOOKS_MAX).filter(|object| {
            let record = &self.stored.keys[*object];
            let is_read =
                self.stored.groups.touched(record).read_end_ms > self.stored.clock.now_ms();
            !is_read
                && !record.flags.has(Flags::PINNED)
                && !self.stored.groups.is_held_elsewhere(record.group)
        })
    }

    /// Bytes of those, as far as they are needed beside others for `bytes`.
    pub(super) fn revocable_bytes(&self, lane: TenantLane, bytes: u64, others: u64) -> u64 {
        let mut revocable_bytes = 0;
        for object in self.revocable(lane) {
            if others + revocable_bytes >= bytes {
                break;
            }
            let group = self.stored.groups.get(self.stored.keys[object].group);
            let own = self.demotions.of(object).map_or(0, |demotion| demotion.bytes);
            revocable_bytes += group.map_or(own, |group| group.bytes_in(lane.segment));
        }
        revocable_bytes
    }
}
