//! Who is evicted next in a segment, whatever tenants may hold and disks are to have.
//! Invariant: what a disk is to have goes only when it has a copy, unless a put may not wait.

use crate::list_name::ListName;
use crate::slab::NONE;
use crate::tenant::{TenantLane, TenantNumber};
use crate::victim::{EvictionReason, Victim};

use super::KeyShard;

impl KeyShard {
    /// The replica of a segment to evict next, if any may be evicted: one that is ready to go, or
    /// the next in order unless a disk is to have a copy of it first.
    pub(super) fn victim(&mut self, segment: u32, need: EvictionReason) -> Option<Victim> {
        if !self.quotas.are_needed() {
            return self.victim_in(TenantLane::shared(segment), need);
        }
        if self.stored.extras > 0
            && let Some(extra) = self
                .least_of(segment, need, |it, lane, need| it.order.extra(&it.stored, lane, need))
        {
            return Some(extra);
        }
        if let Some(ready) = self
            .least_of(segment, need, |it, lane, need| it.order.ready(&mut it.stored, lane, need))
        {
            return Some(ready);
        }
        let next = self
            .least_of(segment, need, |it, lane, need| it.order.next(&mut it.stored, lane, need))?;
        let Self { tier, stored, space, counters, .. } = self;
        tier.may_lose(stored, space, &mut counters.demotions, next.replica, need).then_some(next)
    }

    /// As `victim`, of one tenant.
    pub(super) fn victim_in(&mut self, lane: TenantLane, need: EvictionReason) -> Option<Victim> {
        if let Some(extra) = self.order.extra(&self.stored, lane, need) {
            return Some(extra);
        }
        if let Some(ready) = self.order.ready(&mut self.stored, lane, need) {
            return Some(ready);
        }
        let next = self.order.next(&mut self.stored, lane, need)?;
        let Self { tier, stored, space, counters, .. } = self;
        tier.may_lose(stored, space, &mut counters.demotions, next.replica, need).then_some(next)
    }

    /// The replica of a segment that is next in the order of eviction, wherever its bytes lie
    /// otherwise.
    pub(super) fn next_victim(&mut self, segment: u32, need: EvictionReason) -> Option<Victim> {
        match self.quotas.are_needed() {
            false => self.order.next(&mut self.stored, TenantLane::shared(segment), need),
            true => self.least_of(segment, need, |it, lane, need| {
                it.order.next(&mut it.stored, lane, need)
            }),
        }
    }

    /// How long the next victim of a segment has been idle, weighted by its class as all shards
    /// weight it; 0 if nothing may be evicted.
    pub(super) fn victim_idle_ms(&mut self, segment: u32, need: EvictionReason) -> u64 {
        let Some(victim) = self.victim(segment, need) else {
            return 0;
        };
        let object = &self.stored.keys[self.stored.replicas[victim.replica].object];
        let stamp = self.stored.groups.touched(object).stamp;
        let idle_ms = self.stored.clock.idle_ms(stamp);
        idle_ms.saturating_mul(victim.weight())
    }

    /// Free and evictable bytes of a segment for a put of a tenant, as far as they are needed for
    /// `bytes`: looks only at as many replicas as that takes.
    pub(super) fn room_bytes(&self, segment: u32, bytes: u64, writer: TenantNumber) -> u64 {
        let Some(share) = self.space.get(segment) else {
            return 0;
        };
        let free_bytes = share.free_bytes();
        match self.quotas.are_needed() {
            false => {
                free_bytes + self.evictable_bytes(TenantLane::shared(segment), bytes, free_bytes)
            }
            true => free_bytes + self.room_of_tenants(segment, bytes, free_bytes, writer),
        }
    }

    /// Bytes of a lane that may be evicted, as far as they are needed beside others for `bytes`.
    pub(super) fn evictable_bytes(&self, lane: TenantLane, bytes: u64, others: u64) -> u64 {
        let Some(lists) = self.stored.replicas.lists(lane) else {
            return 0;
        };
        let mut evictable_bytes = 0;
        let saves_first = self.tier.saves_first(self.view(), lane.segment);
        for list in self.order.lists_to_lose(&self.stored) {
            if others + evictable_bytes >= bytes {
                break;
            }
            let mut id = lists.oldest(list);
            while others + evictable_bytes < bytes && id != NONE {
                let replica = &self.stored.replicas[id];
                let object = &self.stored.keys[replica.object];
                let is_read =
                    self.stored.groups.touched(object).read_end_ms > self.stored.clock.now_ms();
                let is_first = matches!(list, ListName::Ready | ListName::Extra);
                let is_kept = saves_first && !is_first && self.tier.is_wanted(self.view(), id);
                if is_read || is_kept {
                    break;
                }
                evictable_bytes += self.stored.bytes_behind(id);
                id = replica.newer;
            }
        }
        evictable_bytes
            + self.tier.revocable_bytes(&self.stored, lane, bytes, others + evictable_bytes)
    }
}
