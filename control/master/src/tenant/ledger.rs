//! The accounts of all tenants of one master. Shards look an account up once and charge it without
//! the ledger; quotas are changed under its lock.
//! Invariant: the quotas in force are together no more than the capacity.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use perigee_schemas::Status;

use super::account::Account;
use super::lane::{SHARED, TenantNumber};
use super::scaling;
use super::usage::{TenantTotals, TenantUsage};

/// The accounts of all tenants of one master; copies name the same ones.
#[derive(Debug, Clone)]
pub struct TenantLedger(Arc<LockedBooks>);

#[derive(Debug)]
struct LockedBooks {
    guaranteed_ratio: f64,
    /// Puts that were refused because their tenants have no quota.
    strangers: AtomicU64,
    books: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    accounts: BTreeMap<Box<str>, Arc<Account>>,
    capacity_bytes: u64,
    /// Segments of the master's earlier life are still missing, so the capacity says nothing yet.
    is_partial: bool,
}

impl TenantLedger {
    /// No tenants. A ratio of each quota is guaranteed: what is above may go for other tenants.
    pub fn new(guaranteed_ratio: f64) -> Self {
        let (strangers, books) = (AtomicU64::default(), Mutex::default());
        Self(Arc::new(LockedBooks { guaranteed_ratio, strangers, books }))
    }

    /// Gives a tenant a quota, or another one.
    ///
    /// # Errors
    /// `InvalidParams` for a quota of nothing; `InternalError` when numbers of tenants have run
    /// out.
    pub fn set_quota(&self, name: &str, bytes: u64) -> Result<TenantUsage, Status> {
        if bytes == 0 || bytes > i64::MAX as u64 {
            return Err(Status::InvalidParams);
        }
        let mut books = self.books();
        let account = books.account(name).ok_or(Status::InternalError)?;
        account.request(bytes);
        books.scale(self.0.guaranteed_ratio);
        Ok(account.usage())
    }

    /// Takes a tenant's quota away, if it has neither bytes nor objects; returns what it was.
    ///
    /// # Errors
    /// `ObjectNotFound` for a tenant without a quota, `TenantNotEmpty`.
    pub fn remove_quota(&self, name: &str) -> Result<u64, Status> {
        let mut books = self.books();
        let account = books.accounts.get(name).cloned();
        let account = account.filter(|account| account.requested() > 0);
        let account = account.ok_or(Status::ObjectNotFound)?;
        account.close();
        let requested = account.requested();
        let is_empty = account.is_empty();
        if is_empty {
            account.forget_quota();
        }
        // Opens it again if it keeps its quota.
        books.scale(self.0.guaranteed_ratio);
        if is_empty { Ok(requested) } else { Err(Status::TenantNotEmpty) }
    }

    /// Notes how much memory there is, and whether more of what was there before is to come.
    pub fn set_capacity(&self, capacity_bytes: u64, is_partial: bool) {
        let mut books = self.books();
        if (books.capacity_bytes, books.is_partial) != (capacity_bytes, is_partial) {
            (books.capacity_bytes, books.is_partial) = (capacity_bytes, is_partial);
            books.scale(self.0.guaranteed_ratio);
        }
    }

    /// The tenants that have a quota or bytes or objects, in the order of their names.
    pub fn usages(&self) -> Vec<TenantUsage> {
        let books = self.books();
        let usages = books.accounts.values().map(|account| account.usage());
        usages.filter(TenantUsage::is_shown).collect()
    }

    /// One of those.
    pub fn usage(&self, name: &str) -> Option<TenantUsage> {
        let books = self.books();
        books.accounts.get(name).map(|it| it.usage()).filter(TenantUsage::is_shown)
    }

    /// All tenants together.
    pub fn totals(&self) -> TenantTotals {
        let capacity_bytes = self.books().capacity_bytes;
        TenantTotals { capacity_bytes, strangers: self.0.strangers.load(Ordering::Relaxed) }
    }

    pub(crate) fn count_stranger(&self) {
        self.0.strangers.fetch_add(1, Ordering::Relaxed);
    }

    /// The account of a tenant that has or had a quota, or objects.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Account>> {
        self.books().accounts.get(name).cloned()
    }

    /// As `find`, and if there is none, a closed one; `None` if numbers of tenants have run out.
    pub(crate) fn open(&self, name: &str) -> Option<Arc<Account>> {
        self.books().account(name)
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Books {
    fn account(&mut self, name: &str) -> Option<Arc<Account>> {
        if let Some(known) = self.accounts.get(name) {
            return Some(known.clone());
        }
        let number = TenantNumber::try_from(self.accounts.len() + 1).ok()?;
        debug_assert_ne!(number, SHARED);
        let account = Arc::new(Account::closed(name, number));
        self.accounts.insert(name.into(), account.clone());
        Some(account)
    }

    /// Puts the quotas in force that the capacity allows.
    fn scale(&mut self, guaranteed_ratio: f64) {
        let with_quota = || self.accounts.values().filter(|account| account.requested() > 0);
        let requested: Vec<u64> = with_quota().map(|account| account.requested()).collect();
        let effective = match self.is_partial {
            true => requested,
            false => scaling::effective(&requested, self.capacity_bytes),
        };
        for (account, effective) in with_quota().zip(effective) {
            account.open(effective, guaranteed_ratio);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effective(ledger: &TenantLedger) -> Vec<(String, u64)> {
        let usages = ledger.usages().into_iter();
        usages.map(|usage| (usage.name, usage.effective_bytes)).collect()
    }

    #[test]
    fn quotas_follow_the_capacity_unless_segments_are_still_to_come_back() {
        let ledger = TenantLedger::new(0.5);
        ledger.set_quota("blue", 300).unwrap();
        ledger.set_quota("red", 100).unwrap();
        assert_eq!(effective(&ledger), [("blue".into(), 0), ("red".into(), 0)]);
        ledger.set_capacity(200, false);
        assert_eq!(effective(&ledger), [("blue".into(), 150), ("red".into(), 50)]);
        assert_eq!(ledger.usage("blue").unwrap().guaranteed_bytes, 75);
        ledger.set_capacity(200, true);
        assert_eq!(effective(&ledger), [("blue".into(), 300), ("red".into(), 100)]);
        ledger.set_capacity(1_000, false);
        let usage = ledger.set_quota("red", 200).unwrap();
        assert_eq!((usage.requested_bytes, usage.effective_bytes), (200, 200));
        assert_eq!(ledger.totals().capacity_bytes, 1_000);
    }

    #[test]
    fn a_quota_goes_only_with_nothing_left_of_its_tenant() {
        let ledger = TenantLedger::new(1.0);
        ledger.set_capacity(100, false);
        assert_eq!(ledger.set_quota("red", 0), Err(Status::InvalidParams));
        ledger.set_quota("red", 100).unwrap();
        let account = ledger.find("red").unwrap();
        account.try_charge(7).unwrap();
        assert_eq!(ledger.remove_quota("red"), Err(Status::TenantNotEmpty));
        assert_eq!(account.try_charge(1), Ok(()), "it is open again");
        account.refund(8);
        account.count_object();
        assert_eq!(ledger.remove_quota("red"), Err(Status::TenantNotEmpty));
        account.forget_object();
        assert_eq!(ledger.remove_quota("red"), Ok(100));
        assert!(account.is_closed() && ledger.usages().is_empty());
        assert_eq!(ledger.remove_quota("red"), Err(Status::ObjectNotFound));
        assert_eq!(ledger.remove_quota("blue"), Err(Status::ObjectNotFound));
        account.charge(3);
        let orphan = ledger.usage("red").unwrap();
        assert!(orphan.is_closed && orphan.is_over() && !orphan.has_quota());
    }
}
