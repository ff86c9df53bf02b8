//! Quotas of tenants: what goes when one of them is used up.
//! Invariant: only a tenant's own puts take what is guaranteed to it.

use std::collections::BTreeMap;

use crate::departures::DepartureCause;
use crate::limits::{EVICTION_WASTE_BYTES, EVICTION_WASTE_FACTOR};
use crate::tenant::{TenantLedger, TenantNumber, TenantUsage};

use super::KeyShard;

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
    pub(super) fn evict_own(&mut self, payer: TenantNumber, bytes: u64) -> u64 {
        let most_bytes = bytes.min(EVICTION_WASTE_BYTES * EVICTION_WASTE_FACTOR);
        self.counters.evictions_attempted += 1;
        let mut evicted_bytes = 0;
        while evicted_bytes < most_bytes
            && let Some(victim) = self.victims().of_tenant_at_all_costs(payer)
        {
            evicted_bytes += self.victims().bytes_with(victim.replica);
            self.evict(victim.replica, DepartureCause::TenantQuota);
        }
        self.counters.evictions_successful += u64::from(evicted_bytes > 0);
        evicted_bytes
    }

    /// What each tenant has on this shard, by its name: bytes of replicas in memory, and objects.
    /// Looks at all of them.
    pub fn tenant_holdings(&self) -> BTreeMap<String, (u64, u64)> {
        self.quotas.holdings(&self.stored)
    }
}
