//! Quotas of tenants: who pays for a replica, and what goes when a tenant or a segment is full.
//! Invariant: an eviction for others leaves each tenant what is guaranteed to it; only a tenant's
//! own puts take more. A group that goes counts with its members on this shard.

use std::collections::{BTreeMap, BTreeSet};

use perigee_schemas::Status;

use crate::departures::DepartureCause;
use crate::limits::{
    EVICTION_WASTE_BYTES, EVICTION_WASTE_FACTOR, OBJECT_BYTES_MAX, PRESSURE_SAMPLES,
    QUOTA_TRIES_MAX,
};
use crate::tenant::{ChargeRefusal, SHARED, TenantLane, TenantLedger, TenantNumber, TenantUsage};
use crate::victim::{EvictionReason, Victim};

use super::KeyShard;
use super::place::PlaceRequest;

impl KeyShard {
    /// From now on tenants need a quota, and what they hold is charged to it. For a shard that has
    /// no objects yet.
    pub fn charge_to(&mut self, ledger: &TenantLedger) {
        debug_assert_eq!(self.stored.keys.len(), 0, "nothing is left uncharged");
        self.quotas.open(ledger);
    }

    /// The tenants with quotas, bytes or objects on any shard; `None` where there are no quotas.
    pub fn tenants(&self) -> Option<Vec<TenantUsage>> {
        self.quotas.usages()
    }

    /// Charges a put before it is placed, evicting what the tenant has if its quota is used up;
    /// returns the charge.
    pub(super) fn reserve(&mut self, request: &PlaceRequest<'_>) -> Result<u64, Status> {
        let payer = request.payer;
        if payer == SHARED || request.payload_bytes > OBJECT_BYTES_MAX {
            return Ok(0);
        }
        let places = self.space.live().len().clamp(1, request.config.replica_num.max(1) as usize);
        let bytes = request.bytes() * places as u64;
        for _ in 0..QUOTA_TRIES_MAX {
            let Some(account) = self.quotas.account(payer) else {
                break;
            };
            let short_bytes = match account.try_charge(bytes) {
                Ok(()) => return Ok(bytes),
                Err(ChargeRefusal::Closed) => return Err(Status::TenantNotRegistered),
                Err(ChargeRefusal::Short(short_bytes)) => short_bytes,
            };
            if !account.can_ever_hold(bytes) || self.evict_own(payer, short_bytes) == 0 {
                break;
            }
        }
        Err(Status::TenantQuotaExceeded)
    }

    /// Evicts this shard's share, one of `parts`, of the quota that puts on other shards lack. They
    /// have `bytes` bytes in all, the longest `longest_bytes`, and are of the tenant of `key`.
    pub fn evict_of_tenant(
        &mut self,
        now_ms: u64,
        key: &[u8],
        (bytes, longest_bytes): (u64, u64),
        parts: u64,
    ) {
        self.begin(now_ms);
        let Some(account) = self.quotas.account_of(key) else {
            return;
        };
        if !account.can_ever_hold(longest_bytes) {
            return;
        }
        let payer = account.number();
        let short_bytes = account.short_of(bytes).div_ceil(parts.max(1));
        if short_bytes > 0 {
            self.evict_own(payer, short_bytes);
        }
    }

    /// A put of a key was refused for good, because the quota of its tenant is used up.
    pub fn count_refused(&mut self, key: &[u8]) {
        self.quotas.account_of(key).into_iter().for_each(|account| account.count_refusal());
    }

    /// Evicts the least valuable objects of a tenant until about `bytes` bytes less are charged, or
    /// some multiple if that is many; returns how many.
    fn evict_own(&mut self, payer: TenantNumber, bytes: u64) -> u64 {
        let most_bytes = bytes.min(EVICTION_WASTE_BYTES * EVICTION_WASTE_FACTOR);
        self.counters.evictions_attempted += 1;
        let mut evicted_bytes = 0;
        while evicted_bytes < most_bytes
            && let Some(victim) = self.least_of_tenant_at_all_costs(payer)
        {
            evicted_bytes += self.bytes_with(victim.replica);
            self.evict(victim.replica, DepartureCause::TenantQuota);
        }
        self.counters.evictions_successful += u64::from(evicted_bytes > 0);
        evicted_bytes
    }

    /// The least that `find` finds of a tenant in some of the segments where it has something.
    pub(super) fn least_of_tenant(
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

    /// Bytes of a segment that may be evicted for a put of a tenant, as far as they are needed
    /// beside the free ones.
    pub(super) fn room_of_tenants(
        &self,
        segment: u32,
        bytes: u64,
        free_bytes: u64,
        writer: TenantNumber,
    ) -> u64 {
        let mut room_bytes = 0;
        for lane in self.quotas.lanes(&self.stored.replicas, segment, writer) {
            let most_bytes =
                if lane.tenant == writer { u64::MAX } else { self.quotas.excess(lane.tenant) };
            let others = free_bytes + room_bytes;
            room_bytes += self.evictable_bytes(lane, bytes, others).min(most_bytes);
        }
        room_bytes
    }

    /// Bytes that go with a replica if it is evicted: its own, its object's if that lies in parts,
    /// or its group's on this shard, and those of copies that are being made of them.
    fn bytes_with(&self, replica: u32) -> u64 {
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

    /// What each tenant has on this shard, by its name: bytes of replicas in memory, and objects.
    /// Looks at all of them.
    pub fn tenant_holdings(&self) -> BTreeMap<String, (u64, u64)> {
        self.quotas.holdings(&self.stored)
    }
}
