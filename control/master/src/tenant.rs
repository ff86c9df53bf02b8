//! Tenants with quotas: what each may hold of the memory of all nodes, and holds.
//! Invariant: what is charged to a tenant are the bytes of its replicas in memory, and of those that
//! are about to be made.

mod account;
mod ledger;
mod scaling;
mod shard_accounts;

pub(crate) use account::{Account, ChargeRefusal};
pub use ledger::{TenantLedger, TenantTotals, TenantUsage};
pub(crate) use shard_accounts::ShardAccounts;

/// A tenant by its number in the ledger.
pub(crate) type TenantNumber = u16;

/// The number of what belongs to no tenant that is told apart: copies on disks, and everything of a
/// master without quotas.
pub(crate) const SHARED: TenantNumber = 0;

/// One tenant's part of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lane {
    pub(crate) segment: u32,
    pub(crate) tenant: TenantNumber,
}

impl Lane {
    /// The part of a segment that belongs to no tenant that is told apart.
    pub(crate) fn shared(segment: u32) -> Self {
        Self { segment, tenant: SHARED }
    }
}
