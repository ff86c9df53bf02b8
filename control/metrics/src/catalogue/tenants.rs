//! Mooncake's families of tenants' quotas. Invariant: without quotas none has a sample.

use crate::family::Family;

const TENANT: &[&str] = &["tenant_id"];

pub(super) const QUOTAS: &[Family] = &[
    Family::gauge(
        "mooncake_tenant_quota_requested_bytes",
        "bytes",
        "Quota of a tenant as it was set",
    )
    .labelled(TENANT),
    Family::gauge(
        "mooncake_tenant_quota_effective_bytes",
        "bytes",
        "Quota of a tenant that is in force: less than it asks for if all ask for more than there is",
    )
    .labelled(TENANT),
    Family::gauge(
        "mooncake_tenant_quota_charged_bytes",
        "bytes",
        "Bytes of a tenant's replicas in memory, unfinished ones and footers included",
    )
    .labelled(TENANT),
    Family::gauge(
        "mooncake_tenant_quota_admission_closed",
        "1",
        "1 if the tenant has no quota and may put nothing",
    )
    .labelled(TENANT),
    Family::gauge(
        "mooncake_tenant_quota_over_quota",
        "1",
        "1 if the tenant holds more than its quota in force",
    )
    .labelled(TENANT),
    Family::gauge(
        "mooncake_tenant_quota_explicit_policy",
        "1",
        "1 if the tenant has a quota",
    )
    .labelled(TENANT),
    Family::counter(
        "mooncake_tenant_quota_reject_total",
        "keys",
        "Puts refused: quota_exceeded, or tenant_not_registered (all such tenants under _none)",
    )
    .labelled(&["tenant_id", "reason"]),
    Family::counter(
        "mooncake_tenant_evict_bytes_total",
        "bytes",
        "Payload bytes evicted of a tenant",
    )
    .labelled(TENANT),
    Family::gauge(
        "mooncake_tenant_quota_allocatable_capacity_bytes",
        "bytes",
        "Memory that the quotas are parts of",
    ),
    Family::gauge(
        "mooncake_tenant_quota_requested_bytes_sum",
        "bytes",
        "Quotas of all tenants as they were set",
    ),
    Family::gauge(
        "mooncake_tenant_quota_effective_bytes_sum",
        "bytes",
        "Quotas of all tenants that are in force",
    ),
];
