//! Settings of replicas: those that are lost, and those by heat. Invariant: the number of replicas
//! a writer asked for is never lowered by them.

use perigee_flags::{Flag, ValueKind};

const FEATURE: &str = "dynamic replication";

pub(super) const FLAGS: &[Flag] = &[
    Flag::new(
        "replica_repair",
        ValueKind::Bool,
        "true",
        "Copy what lost one of several replicas with its node until it has as many again",
    ),
    Flag::new(
        "dynamic_replication_mode",
        ValueKind::Text,
        "off",
        "off, observe (measure only) or enforce",
    )
    .one_of(&["off", "observe", "enforce"])
    .not_built(FEATURE),
    Flag::new(
        "dynamic_replication_heat_window_seconds",
        ValueKind::Uint32,
        "10",
        "Length of the window in which reads are counted",
    )
    .not_built(FEATURE),
    Flag::new(
        "dynamic_replication_admission_qps_threshold",
        ValueKind::Double,
        "0.8",
        "Reads per second that earn a replica",
    )
    .within_number(0.0, f64::MAX)
    .not_built(FEATURE),
    Flag::new(
        "dynamic_replication_max_memory_replicas",
        ValueKind::Uint64,
        "2",
        "Most memory replicas of one key",
    )
    .not_built(FEATURE),
];
