//! Numbers of tenants with quotas, and their samples. Invariant: one row per tenant in each family.

use super::numbers::MasterNumbers;
use crate::exposition::Samples;

/// Stands for all tenants without a quota: no tenant's name begins so.
const NONE: &str = "_none";

/// Numbers of one tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TenantNumbers {
    /// Its name.
    pub name: String,
    /// Its quota as it was set, in bytes; 0 if it has none.
    pub requested_bytes: u64,
    /// Its quota that is in force.
    pub effective_bytes: u64,
    /// What stays, whatever other tenants need.
    pub guaranteed_bytes: u64,
    /// Bytes of its replicas in memory.
    pub charged_bytes: u64,
    /// Its objects.
    pub objects: u64,
    /// Nothing of it may be put.
    pub is_closed: bool,
    /// Puts that were refused for its quota.
    pub refused: u64,
    /// Payload bytes evicted of it.
    pub evicted_bytes: u64,
}

impl TenantNumbers {
    /// Whether it holds more than its quota in force.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.charged_bytes > self.effective_bytes
    }
}

impl Samples {
    /// Adds samples of all tenants.
    pub fn add_tenants(&mut self, tenants: &[TenantNumbers], numbers: &MasterNumbers) {
        for tenant in tenants {
            for (part, value) in [
                ("quota_requested_bytes", tenant.requested_bytes),
                ("quota_effective_bytes", tenant.effective_bytes),
                ("quota_charged_bytes", tenant.charged_bytes),
                ("quota_admission_closed", tenant.is_closed.into()),
                ("quota_over_quota", tenant.is_over().into()),
                ("quota_explicit_policy", u64::from(tenant.requested_bytes > 0)),
                ("evict_bytes_total", tenant.evicted_bytes),
            ] {
                self.value(&format!("mooncake_tenant_{part}"), &[&tenant.name], value);
            }
            let refused = [&tenant.name, "quota_exceeded"];
            self.value("mooncake_tenant_quota_reject_total", &refused, tenant.refused);
        }
        let strangers = [NONE, "tenant_not_registered"];
        self.value("mooncake_tenant_quota_reject_total", &strangers, numbers.strangers);
        let sum = |bytes: fn(&TenantNumbers) -> u64| tenants.iter().map(bytes).sum::<u64>();
        for (part, value) in [
            ("allocatable_capacity_bytes", numbers.quota_capacity_bytes),
            ("requested_bytes_sum", sum(|tenant| tenant.requested_bytes)),
            ("effective_bytes_sum", sum(|tenant| tenant.effective_bytes)),
        ] {
            self.value(&format!("mooncake_tenant_quota_{part}"), &[], value);
        }
    }
}
