//! Settings of leases, pins, eviction, unfinished writes and allocation. Invariant: every ratio is
//! a share of capacity from 0 to 1.

use super::{PERIOD_MS_MAX, PERIOD_SECONDS_MAX};
use perigee_flags::{Flag, ValueKind};

const NOF: &str = "NVMe-oF segments";
const CXL: &str = "CXL memory";

pub(super) const FLAGS: &[Flag] = &[
    Flag::new(
        "default_kv_lease_ttl",
        ValueKind::DurationMs,
        "10000",
        "Read lease: milliseconds, or with suffix ms, s, m, h",
    )
    .within(1, PERIOD_MS_MAX),
    Flag::new(
        "default_kv_soft_pin_ttl",
        ValueKind::DurationMs,
        "1800000",
        "Soft pin when a request names none",
    )
    .within(0, PERIOD_MS_MAX),
    Flag::new(
        "max_kv_soft_pin_ttl",
        ValueKind::DurationMs,
        "86400000",
        "Longest soft pin a request may ask for",
    )
    .within(0, PERIOD_MS_MAX),
    Flag::new(
        "allow_evict_soft_pinned_objects",
        ValueKind::Bool,
        "true",
        "Evict soft-pinned objects when nothing else is left",
    ),
    Flag::new(
        "eviction_ratio",
        ValueKind::Double,
        "0.05",
        "Share of capacity freed by one eviction round",
    )
    .within_number(0.0, 1.0),
    Flag::new(
        "eviction_high_watermark_ratio",
        ValueKind::Double,
        "0.9",
        "Share of capacity in use above which eviction runs",
    )
    .within_number(0.0, 1.0),
    Flag::new(
        "eviction_policy",
        ValueKind::Text,
        "adaptive",
        "What goes first: lru, or adaptive, which learns what is worth keeping",
    )
    .own()
    .one_of(&["adaptive", "lru"]),
    Flag::new(
        "nof_eviction_ratio",
        ValueKind::Double,
        "0.05",
        "eviction_ratio of NVMe-oF segments",
    )
    .within_number(0.0, 1.0)
    .not_built(NOF),
    Flag::new(
        "nof_eviction_high_watermark_ratio",
        ValueKind::Double,
        "0.9",
        "Watermark of NVMe-oF segments",
    )
    .within_number(0.0, 1.0)
    .not_built(NOF),
    Flag::new(
        "put_start_discard_timeout_sec",
        ValueKind::Uint64,
        "30",
        "Age in seconds at which an unfinished write may be taken over",
    )
    .within(0, PERIOD_SECONDS_MAX),
    Flag::new(
        "put_start_release_timeout_sec",
        ValueKind::Uint64,
        "600",
        "Seconds the space of a discarded write stays parked",
    )
    .within(0, PERIOD_SECONDS_MAX),
    Flag::new(
        "client_ttl",
        ValueKind::Int64,
        "10",
        "Seconds without a ping after which a client is expired",
    )
    .within(1, PERIOD_SECONDS_MAX)
    .aliases(&["client_live_ttl_sec"]),
    Flag::new("memory_allocator", ValueKind::Text, "offset", "Allocator of segments")
        .one_of(&["offset", "cachelib"]),
    Flag::new(
        "allocation_strategy",
        ValueKind::Text,
        "random",
        "How segments are chosen: random, free_ratio_first, local_first",
    )
    .one_of(&["random", "free_ratio_first", "local_first", "ssd_free_ratio_first", "cxl"]),
    Flag::new("enable_cxl", ValueKind::Bool, "false", "Use a CXL segment").not_built(CXL),
    Flag::new("cxl_path", ValueKind::Text, "/dev/dax0.0", "CXL device").not_built(CXL),
    Flag::new("cxl_size", ValueKind::Uint64, "8589934592", "Bytes mapped from the CXL device")
        .not_built(CXL),
];
