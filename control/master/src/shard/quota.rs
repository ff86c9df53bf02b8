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
use crate::moving::Purpose;
use crate::share::SegmentShare;
use crate::tenant::{
    ChargeRefusal, SHARED, ShardAccounts, TenantLane, TenantLedger, TenantNumber, TenantUsage,
};
use crate::victim::{EvictionReason, Victim};

use super::KeyShard;
use super::place::PlaceRequest;

impl KeyShard {
    /// From now on tenants need a quota, and what they hold is charged to it. For a shard that has
    /// no objects yet.
    pub fn charge_to(&mut self, ledger: &TenantLedger) {
        debug_assert_eq!(self.stored.keys.len(), 0, "nothing is left uncharged");
        self.quotas = Some(Box::new(ShardAccounts::new(ledger.clone())));
    }

    /// The tenants with quotas, bytes or objects on any shard; `None` where there are no quotas.
    pub fn tenants(&self) -> Option<Vec<TenantUsage>> {
        Some(self.quotas.as_ref()?.ledger().usages())
    }

    /// Who pays for a put of a key.
    pub(super) fn payer(&mut self, key: &[u8]) -> Result<TenantNumber, Status> {
        let Some(quotas) = &mut self.quotas else {
            return Ok(SHARED);
        };
        let payer = quotas.find(key);
        let is_open = |number: &TenantNumber| quotas.get(*number).is_some_and(|it| !it.is_closed());
        payer.filter(is_open).ok_or_else(|| {
            quotas.ledger().count_stranger();
            Status::TenantNotRegistered
        })
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
            let Some(account) = self.quotas.as_ref().and_then(|quotas| quotas.get(payer)) else {
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

    /// Gives a charge back.
    pub(super) fn refund(&self, payer: TenantNumber, bytes: u64) {
        if payer != SHARED
            && let Some(account) = self.quotas.as_ref().and_then(|quotas| quotas.get(payer))
        {
            account.refund(bytes);
        }
    }

    /// Charges a copy of an object before it is placed. What takes the place of another replica is
    /// charged beside it until that goes, even beyond the quota; other copies need room in it.
    pub(super) fn charge_copy(&self, payer: TenantNumber, purpose: Purpose, bytes: u64) -> bool {
        let Some(account) = self.quotas.as_ref().and_then(|quotas| quotas.get(payer)) else {
            return true;
        };
        match purpose {
            Purpose::Drain | Purpose::Move => {
                account.charge(bytes);
                true
            }
            Purpose::Copy | Purpose::Promotion | Purpose::Repair | Purpose::Heat => {
                account.try_charge(bytes).is_ok()
            }
        }
    }

    /// Charges what an owner has announced to the tenant of its key.
    pub(super) fn charge_announced(&mut self, key: &[u8], bytes: u64) -> TenantNumber {
        let Some(quotas) = &mut self.quotas else {
            return SHARED;
        };
        let payer = quotas.open(key);
        if let Some(account) = quotas.get(payer) {
            account.charge(bytes);
        }
        payer
    }

    /// Who pays for an object.
    pub(super) fn payer_of(&self, object: u32) -> TenantNumber {
        self.quotas.as_ref().map_or(SHARED, |quotas| quotas.known(self.stored.keys[object].key()))
    }

    /// One more object of a key's tenant.
    pub(super) fn count_object(&mut self, key: &[u8]) {
        if let Some(quotas) = &mut self.quotas {
            let owner = quotas.open(key);
            quotas.get(owner).into_iter().for_each(|account| account.count_object());
        }
    }

    /// One less.
    pub(super) fn forget_object(&mut self, object: u32) {
        if let Some(quotas) = &self.quotas {
            let owner = quotas.known(self.stored.keys[object].key());
            quotas.get(owner).into_iter().for_each(|account| account.forget_object());
        }
    }

    /// What was evicted of a tenant.
    pub(super) fn count_evicted(&self, replica: u32) {
        let payer = self.stored.replicas[replica].tenant;
        if let Some(account) = self.quotas.as_ref().and_then(|quotas| quotas.get(payer)) {
            account.count_evicted(self.stored.replicas[replica].payload_bytes);
        }
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
        let Some(quotas) = &mut self.quotas else {
            return;
        };
        let payer = quotas.find(key).unwrap_or(SHARED);
        let Some(account) = quotas.get(payer).filter(|it| it.can_ever_hold(longest_bytes)) else {
            return;
        };
        let short_bytes = account.short_of(bytes).div_ceil(parts.max(1));
        if short_bytes > 0 {
            self.evict_own(payer, short_bytes);
        }
    }

    /// A put of a key was refused for good, because the quota of its tenant is used up.
    pub fn count_refused(&mut self, key: &[u8]) {
        if let Some(quotas) = &mut self.quotas {
            let payer = quotas.find(key).unwrap_or(SHARED);
            quotas.get(payer).into_iter().for_each(|account| account.count_refusal());
        }
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
        let lanes = self.lanes(segment, need.writer());
        let found = lanes.into_iter().filter_map(|lane| {
            let victim = find(self, lane, need)?;
            let bytes = self.bytes_with(victim.replica);
            self.can_spare(lane.tenant, bytes, need.writer()).then_some(victim)
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
        for lane in self.lanes(segment, writer) {
            let most_bytes =
                if lane.tenant == writer { u64::MAX } else { self.excess(lane.tenant) };
            let others = free_bytes + room_bytes;
            room_bytes += self.evictable_bytes(lane, bytes, others).min(most_bytes);
        }
        room_bytes
    }

    /// The tenants with replicas in a segment that may lose some: those above what is guaranteed
    /// to them, and the writer.
    fn lanes(&self, segment: u32, writer: TenantNumber) -> Vec<TenantLane> {
        let tenants = self.stored.replicas.tenants_in(segment);
        let some = tenants.filter(|tenant| *tenant == writer || self.excess(*tenant) > 0);
        some.map(|tenant| TenantLane { segment, tenant }).collect()
    }

    fn can_spare(&self, tenant: TenantNumber, bytes: u64, writer: TenantNumber) -> bool {
        tenant == writer || self.excess(tenant) >= bytes
    }

    fn excess(&self, tenant: TenantNumber) -> u64 {
        let account = self.quotas.as_ref().and_then(|quotas| quotas.get(tenant));
        account.map_or(0, |account| account.excess())
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

    /// Lets quotas follow the memory that there is. One shard does it for all; the capacity says
    /// nothing while calls wait for segments of an earlier life of the master.
    pub(super) fn weigh_quotas(&self) {
        let Some(quotas) = self.quotas.as_ref().filter(|_| self.settings.index == 0) else {
            return;
        };
        let shares = || self.space.iter().map(|(_, share)| share);
        let memory = shares().filter(|share| share.is_memory());
        let capacity_bytes = memory.map(|share| share.spec.bytes).sum();
        let is_awaited = |share: &SegmentShare| share.is_awaited(self.stored.clock.now_ms());
        quotas.ledger().set_capacity(capacity_bytes, shares().any(is_awaited));
    }

    /// What each tenant has on this shard, by its name: bytes of replicas in memory, and objects.
    /// Looks at all of them.
    pub fn tenant_holdings(&self) -> BTreeMap<String, (u64, u64)> {
        let mut holdings: BTreeMap<TenantNumber, (u64, u64)> = BTreeMap::new();
        for (_, replica) in self.stored.replicas.iter() {
            holdings.entry(replica.tenant).or_default().0 += replica.extent().bytes;
        }
        for (object, _) in self.stored.keys.iter() {
            holdings.entry(self.payer_of(object)).or_default().1 += 1;
        }
        for (_, record) in self.stored.keys.packed().iter() {
            let owner = self.quotas.as_ref().map_or(SHARED, |quotas| quotas.known(record.key()));
            holdings.entry(owner).or_default().1 += 1;
        }
        let accounts = self.quotas.iter().flat_map(|quotas| quotas.iter());
        let named = accounts.filter_map(|it| Some((it.usage().name, *holdings.get(&it.number())?)));
        named.collect()
    }

    /// Panics unless a master's only shard has charged exactly what it has.
    pub(super) fn check_quotas(&self) {
        let Some(quotas) = self.quotas.as_ref().filter(|_| self.settings.count == 1) else {
            assert!(
                self.quotas.is_some()
                    || self.stored.replicas.iter().all(|(_, it)| it.tenant == SHARED)
            );
            return;
        };
        let holdings = self.tenant_holdings();
        for account in quotas.iter() {
            let usage = account.usage();
            let held = holdings.get(&usage.name).copied().unwrap_or_default();
            assert_eq!((usage.charged_bytes, usage.objects), held, "{account:?}");
        }
        for (id, replica) in self.stored.replicas.iter().filter(|(_, it)| !it.is_on_disk()) {
            assert_eq!(replica.tenant, self.payer_of(replica.object), "payer of replica {id}");
        }
    }
}
