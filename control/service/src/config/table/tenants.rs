//! Settings of tenants, quotas and copy or move tasks. Invariant: with tenants off, a tenant id is
//! only a name space.

use super::PERIOD_SECONDS_MAX;
use perigee_flags::{Flag, ValueKind};

pub(super) const FLAGS: &[Flag] = &[
    Flag::new(
        "enable_multi_tenants",
        ValueKind::Bool,
        "false",
        "Only tenants with a quota may put, and none holds more than its quota",
    ),
    Flag::new(
        "tenant_quota_connector_type",
        ValueKind::Text,
        "file",
        "Where quotas come from: file; etcd is refused",
    )
    .one_of(&["file", "etcd"]),
    Flag::new(
        "tenant_quota_connector_uri",
        ValueKind::Text,
        "",
        "Path of the YAML file with the quotas of the tenants",
    ),
    Flag::new(
        "max_total_finished_tasks",
        ValueKind::Uint32,
        "10000",
        "Copy and move tasks remembered after their end",
    ),
    Flag::new(
        "max_total_pending_tasks",
        ValueKind::Uint32,
        "10000",
        "Tasks waiting for a client; more are refused with -1401",
    ),
    Flag::new(
        "max_total_processing_tasks",
        ValueKind::Uint32,
        "10000",
        "Tasks that clients carry out at the same time",
    )
    .within(1, u32::MAX as i128),
    Flag::new(
        "pending_task_timeout_sec",
        ValueKind::Uint64,
        "300",
        "Seconds a task may wait; 0 for ever",
    )
    .within(0, PERIOD_SECONDS_MAX),
    Flag::new(
        "processing_task_timeout_sec",
        ValueKind::Uint64,
        "300",
        "Seconds a task may run; 0 for ever",
    )
    .within(0, PERIOD_SECONDS_MAX),
    Flag::new(
        "max_retry_attempts",
        ValueKind::Uint32,
        "10",
        "Times that a failed copy of a task is tried again",
    ),
];
