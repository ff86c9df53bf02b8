//! Tenants with quotas: what each may hold of the memory of all nodes, and holds.
//! Invariant: what is charged to a tenant are the bytes of its replicas in memory, and of those
//! that are about to be made. Copies on disks are charged to none.

mod account;
mod lane;
mod ledger;
mod scaling;
mod shard_accounts;
mod usage;

pub(crate) use account::{Account, ChargeRefusal};
pub(crate) use lane::{SHARED, TenantLane, TenantNumber};
pub use ledger::TenantLedger;
pub(crate) use shard_accounts::ShardAccounts;
pub use usage::{TenantTotals, TenantUsage};
