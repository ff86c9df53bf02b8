//! Settings of the SSD and shared-directory tiers. Invariant: none of them changes what is stored
//! in memory.

use super::PERIOD_SECONDS_MAX;
use perigee_flags::{Flag, ValueKind};

const FILES: &str = "a shared directory whose old objects stay when it is full";
const PACE: &str = "promotions are handed out as owners take them";
const NOF: &str = "NVMe-oF segments";

/// Most writes of a whole SSD within a day.
const DRIVE_WRITES_MAX: f64 = 1e6;
/// Less of a segment that may be on its way, and hardly an object ever is.
const CAP_RATIO_MIN: f64 = 0.001;
/// Longest offload queue.
const QUEUE_MAX: i128 = 100_000_000;

pub(super) const FLAGS: &[Flag] = &[
    Flag::new(
        "root_fs_dir",
        ValueKind::Text,
        "",
        "Directory that all hosts share: each client has a disk there",
    ),
    Flag::new(
        "global_file_segment_size",
        ValueKind::Int64,
        "9223372036854775807",
        "Most bytes of all that lies in that directory, at least 32 MiB; 0 means no bound",
    )
    .within(0, i64::MAX as i128),
    Flag::new("enable_disk_eviction", ValueKind::Bool, "true", "Clients delete files over quota")
        .not_built(FILES),
    Flag::new(
        "quota_bytes",
        ValueKind::Uint64,
        "0",
        "The same; the smaller one counts. 0 means 90 percent of what is free",
    ),
    Flag::new("enable_dfs", ValueKind::Bool, "false", "Replicas in a distributed file system")
        .own()
        .not_built("distributed file system tier"),
    Flag::new(
        "enable_offload",
        ValueKind::Bool,
        "false",
        "Copy objects to the SSDs of their owners",
    ),
    Flag::new(
        "offload_on_evict",
        ValueKind::Bool,
        "false",
        "Copy at eviction instead of after the write",
    ),
    Flag::new(
        "offload_force_evict",
        ValueKind::Bool,
        "true",
        "Puts take what no SSD has yet; with false they wait up to 2 s, then fail",
    ),
    Flag::new(
        "offloading_queue_limit",
        ValueKind::Uint64,
        "50000",
        "Objects on their way to SSDs at a time",
    )
    .within(1, QUEUE_MAX),
    Flag::new(
        "offload_cap_ratio",
        ValueKind::Double,
        "0.5",
        "Share of a segment's memory that may be on its way to an SSD",
    )
    .within_number(CAP_RATIO_MIN, 1.0),
    Flag::new(
        "offload_drive_writes_per_day",
        ValueKind::Double,
        "3",
        "Times that all of an SSD may be written within a day; 0 for no bound",
    )
    .own()
    .within_number(0.0, DRIVE_WRITES_MAX),
    Flag::new(
        "promotion_on_hit",
        ValueKind::Bool,
        "false",
        "Copy objects that are read often back to memory",
    ),
    Flag::new(
        "promotion_on_exist",
        ValueKind::Bool,
        "false",
        "Copy objects back to memory as soon as a client asks whether they exist",
    )
    .own(),
    Flag::new(
        "promotion_admission_threshold",
        ValueKind::Uint32,
        "2",
        "Reads before promotion, 1 to 255",
    ),
    Flag::new("promotion_queue_limit", ValueKind::Uint32, "50000", "Promotions in flight")
        .within(1, QUEUE_MAX),
    Flag::new(
        "promotion_max_per_heartbeat",
        ValueKind::Uint32,
        "1",
        "Promotions handed to a client per heartbeat",
    )
    .ignored(PACE),
    Flag::new(
        "nof_heartbeat_interval_sec",
        ValueKind::Int64,
        "10",
        "Seconds between probes of a segment",
    )
    .within(0, PERIOD_SECONDS_MAX)
    .not_built(NOF),
    Flag::new(
        "nof_heartbeat_probe_timeout_ms",
        ValueKind::Uint32,
        "1000",
        "Timeout of one probe in milliseconds",
    )
    .not_built(NOF),
    Flag::new(
        "nof_heartbeat_failures_threshold",
        ValueKind::Uint32,
        "3",
        "Failed probes that unmount a segment",
    )
    .not_built(NOF),
];
