//! What tenants may hold, as one shard charges it; all that fits where there are no quotas.
//! Invariant: what is charged to a tenant are the bytes of its replicas in memory, and of those
//! that are about to be made.

use std::collections::BTreeMap;

use perigee_schemas::Status;

use crate::moving::Purpose;
use crate::replica::Replica;
use crate::replicas::Replicas;
use crate::settings::ShardSettings;
use crate::share::SegmentShare;
use crate::space::Space;
use crate::stored::StoredObjects;
use crate::tenant::{
    Account, SHARED, ShardAccounts, TenantLane, TenantLedger, TenantNumber, TenantUsage,
};

#[derive(Debug)]
pub(crate) struct ShardQuotas {
    accounts: Option<Box<ShardAccounts>>,
    /// The shard that tells the ledger of all how much memory there is.
    is_first: bool,
    /// The only shard, which charges all that is charged.
    is_alone: bool,
}

impl ShardQuotas {
    /// None yet.
    pub(crate) fn new(settings: &ShardSettings) -> Self {
        Self { accounts: None, is_first: settings.index == 0, is_alone: settings.count == 1 }
    }

    /// From now on tenants need a quota.
    pub(crate) fn open(&mut self, ledger: &TenantLedger) {
        self.accounts = Some(Box::new(ShardAccounts::new(ledger.clone())));
    }

    /// Whether tenants need a quota.
    pub(crate) fn are_needed(&self) -> bool {
        self.accounts.is_some()
    }

    /// The tenants with quotas, bytes or objects on any shard; `None` where there are no quotas.
    pub(crate) fn usages(&self) -> Option<Vec<TenantUsage>> {
        Some(self.accounts.as_ref()?.ledger().usages())
    }

    /// The account of a tenant; none where there are no quotas.
    pub(crate) fn account(&self, tenant: TenantNumber) -> Option<&Account> {
        self.accounts.as_ref()?.get(tenant)
    }

    /// The account of the tenant of a key.
    pub(crate) fn account_of(&mut self, key: &[u8]) -> Option<&Account> {
        let accounts = self.accounts.as_mut()?;
        let tenant = accounts.find(key).unwrap_or(SHARED);
        accounts.get(tenant)
    }

    /// Who pays for a put of a key.
    pub(crate) fn payer(&mut self, key: &[u8]) -> Result<TenantNumber, Status> {
        let Some(accounts) = &mut self.accounts else {
            return Ok(SHARED);
        };
        let payer = accounts.find(key);
        let is_open =
            |number: &TenantNumber| accounts.get(*number).is_some_and(|it| !it.is_closed());
        payer.filter(is_open).ok_or_else(|| {
            accounts.ledger().count_stranger();
            Status::TenantNotRegistered
        })
    }

    /// Who pays for an object with this key.
    pub(crate) fn payer_of(&self, key: &[u8]) -> TenantNumber {
        self.accounts.as_ref().map_or(SHARED, |accounts| accounts.known(key))
    }

    /// Gives a charge back.
    pub(crate) fn refund(&self, payer: TenantNumber, bytes: u64) {
        if payer != SHARED
            && let Some(account) = self.account(payer)
        {
            account.refund(bytes);
        }
    }

    /// Charges a copy of an object before it is placed. What takes the place of another replica is
    /// charged beside it until that goes, even beyond the quota; other copies need room in it.
    pub(crate) fn charge_copy(&self, payer: TenantNumber, purpose: Purpose, bytes: u64) -> bool {
        let Some(account) = self.account(payer) else {
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
    pub(crate) fn charge_announced(&mut self, key: &[u8], bytes: u64) -> TenantNumber {
        let Some(accounts) = &mut self.accounts else {
            return SHARED;
        };
        let payer = accounts.open(key);
        if let Some(account) = accounts.get(payer) {
            account.charge(bytes);
        }
        payer
    }

    /// One more object of a key's tenant.
    pub(crate) fn count_object(&mut self, key: &[u8]) {
        if let Some(accounts) = &mut self.accounts {
            let owner = accounts.open(key);
            accounts.get(owner).into_iter().for_each(|account| account.count_object());
        }
    }

    /// One less.
    pub(crate) fn forget_object(&self, key: &[u8]) {
        if let Some(accounts) = &self.accounts {
            let owner = accounts.known(key);
            accounts.get(owner).into_iter().for_each(|account| account.forget_object());
        }
    }

    /// A replica of a tenant was evicted.
    pub(crate) fn count_evicted(&self, replica: &Replica) {
        if let Some(account) = self.account(replica.tenant) {
            account.count_evicted(replica.payload_bytes);
        }
    }

    /// Bytes of a tenant above what is guaranteed to it.
    pub(crate) fn excess(&self, tenant: TenantNumber) -> u64 {
        self.account(tenant).map_or(0, |account| account.excess())
    }

    /// Whether a tenant may lose so many bytes for a put of another one, or of its own.
    pub(crate) fn can_spare(&self, tenant: TenantNumber, bytes: u64, writer: TenantNumber) -> bool {
        tenant == writer || self.excess(tenant) >= bytes
    }

    /// The tenants with replicas in a segment that may lose some: those above what is guaranteed
    /// to them, and the writer.
    pub(crate) fn lanes(
        &self,
        replicas: &Replicas,
        segment: u32,
        writer: TenantNumber,
    ) -> Vec<TenantLane> {
        let tenants = replicas.tenants_in(segment);
        let some = tenants.filter(|tenant| *tenant == writer || self.excess(*tenant) > 0);
        some.map(|tenant| TenantLane { segment, tenant }).collect()
    }

    /// Tenants that have all of their quotas but so much, and by how many bytes they are beyond
    /// that.
    pub(crate) fn near_quota(&self, margin_ratio: f64) -> Vec<(TenantNumber, u64)> {
        let accounts = self.accounts.iter().flat_map(|accounts| accounts.iter());
        let beyond = accounts.map(|it| (it.number(), it.above(1.0 - margin_ratio)));
        beyond.filter(|(_, bytes)| *bytes > 0).collect()
    }

    /// Lets quotas follow the memory that there is. One shard does it for all; the capacity says
    /// nothing while calls wait for segments of an earlier life of the master.
    pub(crate) fn weigh(&self, space: &Space, now_ms: u64) {
        let Some(accounts) = self.accounts.as_ref().filter(|_| self.is_first) else {
            return;
        };
        let shares = || space.iter().map(|(_, share)| share);
        let memory = shares().filter(|share| share.is_memory());
        let capacity_bytes = memory.map(|share| share.spec.bytes).sum();
        let is_awaited = |share: &SegmentShare| share.is_awaited(now_ms);
        accounts.ledger().set_capacity(capacity_bytes, shares().any(is_awaited));
    }

    /// What each tenant has on this shard, by its name: bytes of replicas in memory, and objects.
    /// Looks at all of them.
    pub(crate) fn holdings(&self, stored: &StoredObjects) -> BTreeMap<String, (u64, u64)> {
        let mut holdings: BTreeMap<TenantNumber, (u64, u64)> = BTreeMap::new();
        for (_, replica) in stored.replicas.iter() {
            holdings.entry(replica.tenant).or_default().0 += replica.extent().bytes;
        }
        let objects = stored.keys.iter().map(|(_, object)| object.key());
        let packed = stored.keys.packed().iter().map(|(_, record)| record.key());
        for key in objects.chain(packed) {
            holdings.entry(self.payer_of(key)).or_default().1 += 1;
        }
        let accounts = self.accounts.iter().flat_map(|accounts| accounts.iter());
        let named = accounts.filter_map(|it| Some((it.usage().name, *holdings.get(&it.number())?)));
        named.collect()
    }

    /// Panics unless a master's only shard has charged exactly what it has.
    pub(crate) fn check(&self, stored: &StoredObjects) {
        let Some(accounts) = &self.accounts else {
            assert!(stored.replicas.iter().all(|(_, it)| it.tenant == SHARED));
            return;
        };
        if !self.is_alone {
            return;
        }
        let holdings = self.holdings(stored);
        for account in accounts.iter() {
            let usage = account.usage();
            let held = holdings.get(&usage.name).copied().unwrap_or_default();
            assert_eq!((usage.charged_bytes, usage.objects), held, "{account:?}");
        }
        for (id, replica) in stored.replicas.iter().filter(|(_, it)| !it.is_on_disk()) {
            let payer = self.payer_of(stored.keys[replica.object].key());
            assert_eq!(replica.tenant, payer, "payer of replica {id}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored::tests::{PAYLOAD_BYTES, add, stored};

    #[test]
    fn without_quotas_all_are_one_tenant_that_pays_nothing() {
        let mut quotas = ShardQuotas::new(&ShardSettings::default());
        assert_eq!((quotas.payer(b"t/a"), quotas.payer_of(b"t/a")), (Ok(SHARED), SHARED));
        assert!(quotas.charge_copy(SHARED, Purpose::Copy, u64::MAX));
        let mut stored = stored();
        add(&mut stored, "a", "");
        quotas.check(&stored);
        assert!(quotas.usages().is_none() && quotas.holdings(&stored).is_empty());
    }

    #[test]
    fn what_is_announced_is_charged_whatever_the_quota() {
        let mut quotas = ShardQuotas::new(&ShardSettings::default());
        quotas.open(&TenantLedger::new(0.5));
        assert!(quotas.payer(b"a").is_err(), "a put needs a quota");
        let payer = quotas.charge_announced(b"a", PAYLOAD_BYTES);
        quotas.count_object(b"a");
        let charged = |quotas: &ShardQuotas| {
            let usages = quotas.usages().unwrap();
            usages.iter().map(|it| (it.charged_bytes, it.objects)).collect::<Vec<_>>()
        };
        assert_eq!(charged(&quotas), [(PAYLOAD_BYTES, 1)]);
        quotas.refund(payer, PAYLOAD_BYTES);
        quotas.forget_object(b"a");
        assert!(charged(&quotas).iter().all(|it| *it == (0, 0)));
    }
}
