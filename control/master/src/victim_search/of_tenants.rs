//! What goes of tenants when one of them or a segment is full.
//! Invariant: an eviction for others leaves each tenant what is guaranteed to it; only a tenant's
//! own puts take more. A group that goes counts with its members on this shard.

use std::collections::BTreeSet;

use crate::limits::PRESSURE_SAMPLES;
use crate::tenant::{TenantLane, TenantNumber};
use crate::victim::{EvictionReason, Victim};

use super::VictimSearch;

impl VictimSearch<'_> {
    /// The least that `find` finds in a segment of tenants that can spare it.
    pub(super) fn least_of(
        &mut self,
        segment: u32,
        need: EvictionReason,
        find: fn(&mut Self, TenantLane, EvictionReason) -> Option<Victim>,
    ) -> Option<Victim> {
        let lanes = self.quotas.lanes(&self.stored.replicas, segment, need.writer());
        let found = lanes.into_iter().filter_map(|lane| {
            let victim = find(self, lane, need)?;
            let bytes = self.bytes_with(victim.replica);
            self.quotas.can_spare(lane.tenant, bytes, need.writer()).then_some(victim)
        });
        found.min()
    }

    /// The least that `find` finds of a tenant in some of the segments where it has something.
    pub(super) fn of_tenant(
        &mut self,
        tenant: TenantNumber,
        need: EvictionReason,
        find: fn(&mut Self, TenantLane, EvictionReason) -> Option<Victim>,
    ) -> Option<Victim> {
        let bound = self.space.bound();
        let first = (self.stored.clock.call() % u64::from(bound.max(1))) as u32;
        let (mut best, mut looked_at) = (None::<Victim>, 0);
        for segment in (first..bound).chain(0..first) {
            let lane = TenantLane { segment, tenant };
            if looked_at == PRESSURE_SAMPLES {
                break;
            }
            if self.stored.replicas.has_some(lane) && self.space.is_readable(segment) {
                let victim = find(self, lane, need);
                looked_at += usize::from(victim.is_some());
                best = best.into_iter().chain(victim).min();
            }
        }
        best
    }

    /// As `at_all_costs`, of what a tenant that puts has itself.
    pub(crate) fn of_tenant_at_all_costs(&mut self, writer: TenantNumber) -> Option<Victim> {
        let need = EvictionReason::Put(writer);
        self.of_tenant(writer, need, Self::in_lane)
            .or_else(|| self.of_tenant(writer, need, Self::revoked_in_lane))
    }

    /// Bytes that go with a replica if it is evicted: its own, its object's if that lies in parts,
    /// or its group's on this shard, and those of copies that are being made of them.
    pub(crate) fn bytes_with(&self, replica: u32) -> u64 {
        let replicas = match self
            .stored
            .groups
            .get(self.stored.keys[self.stored.replicas[replica].object].group)
        {
            Some(group) => group.replicas(&self.stored.replicas),
            None if self.stored.replicas[replica].part().is_some() => {
                let object = self.stored.replicas[replica].object;
                self.stored.replicas.chain(self.stored.keys[object].first).collect()
            }
            None => vec![replica],
        };
        let bytes = |id: u32| self.stored.replicas[id].extent().bytes;
        let objects: BTreeSet<u32> =
            replicas.iter().map(|id| self.stored.replicas[*id].object).collect();
        let copies = objects.into_iter().filter_map(|object| self.relocation.of(object));
        copies.map(|copy| bytes(copy.target)).chain(replicas.iter().map(|id| bytes(*id))).sum()
    }
}
