//! Who is evicted next, whatever tenants may hold and disks are to have.
//! Invariant: what a disk is to have goes only when it has a copy, unless a put may not wait; with
//! `force_evict` a put finds room wherever it would without disks.

mod look_ahead;
mod of_tenants;
mod room;

#[cfg(test)]
mod tests;

use crate::counters::ShardCounters;
use crate::demoting::Demoting;
use crate::disk_tier::DiskTier;
use crate::eviction_order::EvictionOrder;
use crate::limits::REVOCATIONS_MAX;
use crate::outbox::Outbox;
use crate::read_view::ReadView;
use crate::relocation::Relocation;
use crate::shard_quotas::ShardQuotas;
use crate::space::Space;
use crate::stored::StoredObjects;
use crate::tenant::TenantLane;
use crate::victim::{EvictionReason, Victim};

/// What decides about victims, and what looking for one may change.
pub(crate) struct VictimSearch<'a> {
    pub(crate) order: &'a mut EvictionOrder,
    pub(crate) quotas: &'a ShardQuotas,
    pub(crate) relocation: &'a Relocation,
    pub(crate) tier: &'a mut DiskTier,
    pub(crate) stored: &'a mut StoredObjects,
    pub(crate) space: &'a mut Space,
    pub(crate) outbox: &'a mut Outbox,
    pub(crate) counters: &'a mut ShardCounters,
}

impl VictimSearch<'_> {
    fn view(&self) -> ReadView<'_> {
        ReadView { stored: self.stored, space: self.space }
    }

    fn demoting(&mut self) -> Demoting<'_> {
        Demoting {
            tier: self.tier,
            stored: self.stored,
            space: self.space,
            outbox: self.outbox,
            counters: self.counters,
        }
    }

    /// The replica of a segment to evict next, if any may be evicted: one that is ready to go, or
    /// the next in order unless a disk is to have a copy of it first.
    pub(crate) fn of_segment(&mut self, segment: u32, need: EvictionReason) -> Option<Victim> {
        if !self.quotas.are_needed() {
            return self.in_lane(TenantLane::shared(segment), need);
        }
        if self.stored.extras > 0
            && let Some(extra) =
                self.least_of(segment, need, |it, lane, need| it.order.extra(it.stored, lane, need))
        {
            return Some(extra);
        }
        if let Some(ready) =
            self.least_of(segment, need, |it, lane, need| it.order.ready(it.stored, lane, need))
        {
            return Some(ready);
        }
        let next =
            self.least_of(segment, need, |it, lane, need| it.order.next(it.stored, lane, need))?;
        self.demoting().may_lose(next.replica, need).then_some(next)
    }

    /// As `of_segment`, of one tenant.
    pub(super) fn in_lane(&mut self, lane: TenantLane, need: EvictionReason) -> Option<Victim> {
        if let Some(extra) = self.order.extra(self.stored, lane, need) {
            return Some(extra);
        }
        if let Some(ready) = self.order.ready(self.stored, lane, need) {
            return Some(ready);
        }
        let next = self.order.next(self.stored, lane, need)?;
        self.demoting().may_lose(next.replica, need).then_some(next)
    }

    /// The replica of a segment that is next in the order of eviction, wherever its bytes lie
    /// otherwise.
    pub(crate) fn next(&mut self, segment: u32, need: EvictionReason) -> Option<Victim> {
        match self.quotas.are_needed() {
            false => self.order.next(self.stored, TenantLane::shared(segment), need),
            true => {
                self.least_of(segment, need, |it, lane, need| it.order.next(it.stored, lane, need))
            }
        }
    }

    /// How long the next victim of a segment has been idle, weighted by its class as all shards
    /// weight it; 0 if nothing may be evicted.
    pub(crate) fn idle_ms(&mut self, segment: u32, need: EvictionReason) -> u64 {
        let Some(victim) = self.of_segment(segment, need) else {
            return 0;
        };
        let object = &self.stored.keys[self.stored.replicas[victim.replica].object];
        let stamp = self.stored.groups.touched(object).stamp;
        let idle_ms = self.stored.clock.idle_ms(stamp);
        idle_ms.saturating_mul(victim.weight())
    }

    /// As `of_segment`; where nothing else may go for a put, a copy is given up.
    pub(crate) fn at_all_costs(&mut self, segment: u32, need: EvictionReason) -> Option<Victim> {
        self.of_segment(segment, need).or_else(|| self.revoked(segment, need))
    }

    /// A replica whose copy is given up for a put.
    pub(crate) fn revoked(&mut self, segment: u32, need: EvictionReason) -> Option<Victim> {
        match self.quotas.are_needed() {
            false => self.revoked_in_lane(TenantLane::shared(segment), need),
            true => self.least_of(segment, need, Self::revoked_in_lane),
        }
    }

    pub(super) fn revoked_in_lane(
        &mut self,
        lane: TenantLane,
        need: EvictionReason,
    ) -> Option<Victim> {
        if !need.is_put() {
            return None;
        }
        for _ in 0..REVOCATIONS_MAX {
            let object = self.tier.revocable(self.stored, lane).next()?;
            self.demoting().cancel(object);
            if let Some(victim) = self.in_lane(lane, need) {
                return Some(victim);
            }
        }
        None
    }
}
