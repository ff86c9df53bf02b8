//! The accounts that one shard charges, found by the keys of their tenants.
//! Invariant: what this shard has charged are the bytes of its own replicas.

use std::sync::Arc;

use hashbrown::HashMap;
use perigee_schemas::TenantId;

use super::account::Account;
use super::lane::{SHARED, TenantNumber};
use super::ledger::TenantLedger;

#[derive(Debug)]
pub(crate) struct ShardAccounts {
    ledger: TenantLedger,
    numbers: HashMap<Box<[u8]>, TenantNumber>,
    /// By number, as far as they are known here.
    accounts: Vec<Option<Arc<Account>>>,
}

impl ShardAccounts {
    pub(crate) fn new(ledger: TenantLedger) -> Self {
        Self { ledger, numbers: HashMap::new(), accounts: Vec::new() }
    }

    pub(crate) fn ledger(&self) -> &TenantLedger {
        &self.ledger
    }

    /// The number of the tenant of a key, if it has or had a quota, or objects.
    pub(crate) fn find(&mut self, key: &[u8]) -> Option<TenantNumber> {
        let (tenant, _) = TenantId::split(key);
        if let Some(number) = self.numbers.get(tenant) {
            return Some(*number);
        }
        let account = self.ledger.find(std::str::from_utf8(tenant).ok()?)?;
        Some(self.learn(tenant, account))
    }

    /// As `find`, for a tenant that is known here.
    pub(crate) fn known(&self, key: &[u8]) -> TenantNumber {
        self.numbers.get(TenantId::split(key).0).copied().unwrap_or(SHARED)
    }

    /// As `find`, for objects that are there already: their tenants need no quota.
    pub(crate) fn open(&mut self, key: &[u8]) -> TenantNumber {
        let (tenant, _) = TenantId::split(key);
        if let Some(number) = self.numbers.get(tenant) {
            return *number;
        }
        let account = std::str::from_utf8(tenant).ok().and_then(|name| self.ledger.open(name));
        account.map_or(SHARED, |account| self.learn(tenant, account))
    }

    /// The account of a number that was found here.
    pub(crate) fn get(&self, number: TenantNumber) -> Option<&Account> {
        self.accounts.get(usize::from(number))?.as_deref()
    }

    /// The accounts that are known here.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Account> {
        self.accounts.iter().flatten().map(|account| &**account)
    }

    fn learn(&mut self, tenant: &[u8], account: Arc<Account>) -> TenantNumber {
        let number = account.number();
        let slot = usize::from(number);
        if self.accounts.len() <= slot {
            self.accounts.resize(slot + 1, None);
        }
        self.accounts[slot] = Some(account);
        self.numbers.insert(tenant.into(), number);
        number
    }
}
