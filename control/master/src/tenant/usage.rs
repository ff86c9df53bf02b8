//! What tenants may hold and hold, as it is shown. Invariant: a copy, which changes nothing.

/// What one tenant may hold, and holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TenantUsage {
    /// Its name.
    pub name: String,
    /// The quota that was asked for in bytes; 0 if none was.
    pub requested_bytes: u64,
    /// The quota that is in force.
    pub effective_bytes: u64,
    /// What stays, whatever other tenants need.
    pub guaranteed_bytes: u64,
    /// Bytes of its replicas in memory, footers and unfinished ones included.
    pub charged_bytes: u64,
    /// Its objects, unfinished ones and those on disks alone included.
    pub objects: u64,
    /// Nothing of it may be put.
    pub is_closed: bool,
    /// Puts that were refused for its quota.
    pub refused: u64,
    /// Bytes of what was evicted of it.
    pub evicted_bytes: u64,
}

/// All tenants together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TenantTotals {
    /// Memory that there is for objects.
    pub capacity_bytes: u64,
    /// Puts that were refused because their tenants have no quota.
    pub strangers: u64,
}

impl TenantUsage {
    /// Whether it has a quota.
    pub fn has_quota(&self) -> bool {
        self.requested_bytes > 0
    }

    /// Whether it holds more than its quota, because that was lowered or memory went.
    pub fn is_over(&self) -> bool {
        self.charged_bytes > self.effective_bytes
    }

    /// Whether it has anything.
    pub(super) fn is_shown(&self) -> bool {
        self.has_quota() || self.charged_bytes > 0 || self.objects > 0
    }
}
