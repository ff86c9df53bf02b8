//! The account of one tenant, which all shards of a master charge.
//! Invariant: a charge is admitted only while the account is open, and never beyond its quota; what
//! is charged without being asked for are copies of what the tenant has already.

use std::sync::atomic::{AtomicU64, Ordering};

use super::lane::TenantNumber;
use super::usage::TenantUsage;

/// Set in the charge while none is admitted.
const CLOSED: u64 = 1 << 63;

/// Why a charge is not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChargeRefusal {
    /// The tenant has no quota.
    Closed,
    /// So many bytes of the tenant have to go first.
    Short(u64),
}

/// One tenant's account. No shard shares a cache line of it with another tenant's.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Account {
    /// Charged bytes, and whether it is closed.
    charged: AtomicU64,
    /// The quota that is in force.
    effective: AtomicU64,
    /// What stays for others' sake, whatever they need.
    guaranteed: AtomicU64,
    /// The quota that was asked for; 0 if none was.
    requested: AtomicU64,
    objects: AtomicU64,
    refused: AtomicU64,
    evicted_bytes: AtomicU64,
    number: TenantNumber,
    name: Box<str>,
}

impl Account {
    /// The account of a tenant without a quota.
    pub(super) fn closed(name: &str, number: TenantNumber) -> Self {
        Self { charged: AtomicU64::new(CLOSED), name: name.into(), number, ..Self::default() }
    }

    pub(crate) fn number(&self) -> TenantNumber {
        self.number
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.charged.load(Ordering::Acquire) & CLOSED != 0
    }

    pub(crate) fn charged(&self) -> u64 {
        self.charged.load(Ordering::Acquire) & !CLOSED
    }

    /// Charges bytes if the quota has room for them.
    pub(crate) fn try_charge(&self, bytes: u64) -> Result<(), ChargeRefusal> {
        let mut before = self.charged.load(Ordering::Acquire);
        loop {
            if before & CLOSED != 0 {
                return Err(ChargeRefusal::Closed);
            }
            let wanted = before.saturating_add(bytes);
            let effective = self.effective.load(Ordering::Acquire);
            if wanted > effective {
                return Err(ChargeRefusal::Short(wanted - effective));
            }
            let order = (Ordering::AcqRel, Ordering::Acquire);
            match self.charged.compare_exchange_weak(before, wanted, order.0, order.1) {
                Ok(_) => return Ok(()),
                Err(now) => before = now,
            }
        }
    }

    /// Charges bytes that are there, or about to take the place of others.
    pub(crate) fn charge(&self, bytes: u64) {
        self.charged.fetch_add(bytes, Ordering::AcqRel);
    }

    pub(crate) fn refund(&self, bytes: u64) {
        let before = self.charged.fetch_sub(bytes, Ordering::AcqRel);
        debug_assert!(before & !CLOSED >= bytes, "no more than was charged");
    }

    /// Bytes above what is guaranteed: so much may go for others.
    pub(crate) fn excess(&self) -> u64 {
        self.charged().saturating_sub(self.guaranteed.load(Ordering::Acquire))
    }

    /// Whether the quota has room for so many bytes if nothing else is charged.
    pub(crate) fn can_ever_hold(&self, bytes: u64) -> bool {
        bytes <= self.effective.load(Ordering::Acquire)
    }

    /// How much has to go until the quota has room for so many bytes, or for as many as it can
    /// hold.
    pub(crate) fn short_of(&self, bytes: u64) -> u64 {
        let effective = self.effective.load(Ordering::Acquire);
        (self.charged() + bytes.min(effective)).saturating_sub(effective)
    }

    /// Bytes that are charged beyond a ratio of the quota.
    pub(crate) fn above(&self, ratio: f64) -> u64 {
        let most = (self.effective.load(Ordering::Acquire) as f64 * ratio) as u64;
        self.charged().saturating_sub(most)
    }

    pub(crate) fn objects(&self) -> u64 {
        self.objects.load(Ordering::Acquire)
    }

    pub(crate) fn count_object(&self) {
        self.objects.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn forget_object(&self) {
        let before = self.objects.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before > 0, "it was counted");
    }

    pub(crate) fn count_refusal(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_evicted(&self, bytes: u64) {
        self.evicted_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether the tenant has neither bytes nor objects.
    pub(super) fn is_empty(&self) -> bool {
        self.charged() == 0 && self.objects() == 0
    }

    pub(super) fn requested(&self) -> u64 {
        self.requested.load(Ordering::Acquire)
    }

    /// Notes the quota that the tenant is to have.
    pub(super) fn request(&self, bytes: u64) {
        self.requested.store(bytes, Ordering::Release);
    }

    /// From now on charges are admitted within a quota, of which a ratio is guaranteed.
    pub(super) fn open(&self, effective: u64, guaranteed_ratio: f64) {
        let guaranteed = (effective as f64 * guaranteed_ratio) as u64;
        self.effective.store(effective, Ordering::Release);
        self.guaranteed.store(guaranteed.min(effective), Ordering::Release);
        self.charged.fetch_and(!CLOSED, Ordering::AcqRel);
    }

    /// From now on none are.
    pub(super) fn close(&self) {
        self.charged.fetch_or(CLOSED, Ordering::AcqRel);
    }

    /// Takes the quota of a closed account away.
    pub(super) fn forget_quota(&self) {
        debug_assert!(self.is_closed(), "nothing is charged in between");
        for field in [&self.requested, &self.effective, &self.guaranteed] {
            field.store(0, Ordering::Release);
        }
    }

    pub(crate) fn usage(&self) -> TenantUsage {
        TenantUsage {
            name: self.name.clone().into(),
            requested_bytes: self.requested(),
            effective_bytes: self.effective.load(Ordering::Acquire),
            guaranteed_bytes: self.guaranteed.load(Ordering::Acquire),
            charged_bytes: self.charged(),
            objects: self.objects(),
            is_closed: self.is_closed(),
            refused: self.refused.load(Ordering::Relaxed),
            evicted_bytes: self.evicted_bytes.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_is_admitted_up_to_the_quota_and_only_while_the_account_is_open() {
        let account = Account::closed("red", 1);
        assert_eq!(account.try_charge(1), Err(ChargeRefusal::Closed));
        account.open(80, 0.5);
        assert_eq!(account.try_charge(50), Ok(()));
        assert_eq!((account.charged(), account.excess()), (50, 10));
        assert_eq!((account.above(0.5), account.above(0.9)), (10, 0));
        assert_eq!(account.try_charge(31), Err(ChargeRefusal::Short(1)));
        assert_eq!(account.try_charge(30), Ok(()));
        account.charge(20);
        assert_eq!(account.try_charge(5), Err(ChargeRefusal::Short(25)));
        account.close();
        assert_eq!(account.try_charge(0), Err(ChargeRefusal::Closed));
        account.refund(100);
        assert!(account.is_empty() && account.is_closed());
    }

    #[test]
    fn shards_that_charge_at_the_same_time_stay_within_the_quota() {
        let account = Account::closed("red", 1);
        account.open(1_000, 1.0);
        let admitted: u64 = std::thread::scope(|scope| {
            let charge = || (0..1_000).filter(|_| account.try_charge(3).is_ok()).count() as u64;
            let shards: Vec<_> = (0..4).map(|_| scope.spawn(charge)).collect();
            shards.into_iter().map(|shard| shard.join().unwrap()).sum()
        });
        assert_eq!((admitted, account.charged()), (333, 999));
    }
}
