//! Settings of replicas: those that are lost, and those by heat. Invariant: the number of replicas
//! a writer asked for is never lowered by them.

use perigee_flags::{Flag, ValueKind};
use perigee_schemas::limits::REPLICAS_MAX;

/// Longest window of heat: one day.
const HEAT_WINDOW_SECONDS_MAX: i128 = 24 * 3600;

/// More reads per second than any key has.
const READS_PER_SECOND_MAX: f64 = 1e6;

pub(super) const FLAGS: &[Flag] = &[
    Flag::new(
        "replica_repair",
        ValueKind::Bool,
        "true",
        "Copy what lost one of several replicas with its node until it has as many again",
    ).own(),
    Flag::new(
        "dynamic_replication_mode",
        ValueKind::Text,
        "off",
        "More replicas in memory for keys that are read often: off, observe (measure only) or enforce",
    )
    .one_of(&["off", "observe", "enforce"]),
    Flag::new(
        "dynamic_replication_heat_window_seconds",
        ValueKind::Uint32,
        "10",
        "Seconds in which reads are counted",
    )
    .within(1, HEAT_WINDOW_SECONDS_MAX),
    Flag::new(
        "dynamic_replication_admission_qps_threshold",
        ValueKind::Double,
        "0.8",
        "Reads per second in that time that earn a replica",
    )
    .within_number(0.0, READS_PER_SECOND_MAX),
    Flag::new(
        "dynamic_replication_max_memory_replicas",
        ValueKind::Uint64,
        "2",
        "Most memory replicas of such a key",
    )
    .within(1, REPLICAS_MAX as i128),
];
