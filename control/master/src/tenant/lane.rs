//! Tenants by number, and their parts of segments.
//! Invariant: number 0 is no tenant's.

/// A tenant by its number in the ledger.
pub(crate) type TenantNumber = u16;

/// The number of what is charged to no tenant: copies on disks, and everything of a master without
/// quotas.
pub(crate) const SHARED: TenantNumber = 0;

/// One tenant's part of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TenantLane {
    pub(crate) segment: u32,
    pub(crate) tenant: TenantNumber,
}

impl TenantLane {
    /// The part of a segment that is charged to no tenant.
    pub(crate) fn shared(segment: u32) -> Self {
        Self { segment, tenant: SHARED }
    }
}
