//! Settings of leader election, operation log and snapshots. Invariant: with all of them at their
//! defaults one master serves alone and keeps nothing across restarts.

use super::{PERIOD_MS_MAX, PERIOD_SECONDS_MAX};
use perigee_flags::{Flag, ValueKind};

const HA: &str = "high availability";
const OPLOG: &str = "operation log";
const SNAPSHOT: &str = "snapshots";

pub(super) const FLAGS: &[Flag] = &[
    Flag::new("enable_ha", ValueKind::Bool, "false", "Elect a leader among several masters")
        .guarantee(HA),
    Flag::new(
        "ha_backend_type",
        ValueKind::Text,
        "etcd",
        "Where the leader is recorded: etcd, redis or k8s",
    )
    .not_built(HA),
    Flag::new("ha_backend_connstring", ValueKind::Text, "", "How to reach that place")
        .not_built(HA),
    Flag::new("etcd_endpoints", ValueKind::Text, "", "etcd endpoints, separated by semicolons")
        .not_built(HA),
    Flag::new("enable_oplog", ValueKind::Bool, "false", "Send changes to standby masters")
        .guarantee(OPLOG),
    Flag::new(
        "oplog_poll_interval_ms",
        ValueKind::Int32,
        "1000",
        "Milliseconds between reads of a standby",
    )
    .within(0, PERIOD_MS_MAX)
    .not_built(OPLOG),
    Flag::new("oplog_batch_max_entries", ValueKind::Uint32, "1024", "Changes in one batch")
        .not_built(OPLOG),
    Flag::new(
        "batch_oplog_retry_timeout_sec",
        ValueKind::Uint32,
        "180",
        "Seconds a standby retries a failed read",
    )
    .not_built(OPLOG),
    Flag::new("enable_snapshot", ValueKind::Bool, "false", "Save the metadata periodically")
        .guarantee(SNAPSHOT),
    Flag::new(
        "enable_snapshot_restore",
        ValueKind::Bool,
        "false",
        "Start from the newest snapshot",
    )
    .guarantee(SNAPSHOT),
    Flag::new("snapshot_interval_seconds", ValueKind::Uint64, "600", "Seconds between snapshots")
        .within(0, PERIOD_SECONDS_MAX)
        .not_built(SNAPSHOT),
    Flag::new(
        "snapshot_child_timeout_seconds",
        ValueKind::Uint64,
        "300",
        "Seconds one snapshot may take",
    )
    .within(0, PERIOD_SECONDS_MAX)
    .not_built(SNAPSHOT),
    Flag::new("snapshot_retention_count", ValueKind::Uint32, "2", "Snapshots kept")
        .not_built(SNAPSHOT),
    Flag::new("snapshot_backup_dir", ValueKind::Text, "", "Directory of a further copy")
        .not_built(SNAPSHOT),
    Flag::new(
        "snapshot_object_store_type",
        ValueKind::Text,
        "",
        "Where snapshots are kept: local or s3",
    )
    .not_built(SNAPSHOT),
    Flag::new(
        "snapshot_payload_store_type",
        ValueKind::Text,
        "",
        "Older name of snapshot_object_store_type",
    )
    .not_built(SNAPSHOT),
    Flag::new(
        "snapshot_payload_backend_type",
        ValueKind::Text,
        "",
        "Older name of snapshot_object_store_type",
    )
    .not_built(SNAPSHOT),
    Flag::new(
        "snapshot_catalog_store_type",
        ValueKind::Text,
        "",
        "Where the list of snapshots is kept",
    )
    .not_built(SNAPSHOT),
    Flag::new(
        "snapshot_catalog_backend_type",
        ValueKind::Text,
        "",
        "Older name of snapshot_catalog_store_type",
    )
    .not_built(SNAPSHOT),
    Flag::new("snapshot_catalog_store_connstring", ValueKind::Text, "", "How to reach that list")
        .not_built(SNAPSHOT),
    Flag::new(
        "snapshot_catalog_backend_connstring",
        ValueKind::Text,
        "",
        "Older name of snapshot_catalog_store_connstring",
    )
    .not_built(SNAPSHOT),
];
