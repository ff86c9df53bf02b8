//! Mooncake's families about space, cached objects and eviction. Invariant: byte gauges count the
//! whole allocation of an object, not only its payload.

use super::buckets::VALUE_SIZES;
use crate::family::Family;

const SEGMENT: &[&str] = &["segment"];

pub(super) const CAPACITY: &[Family] = &[
    Family::gauge("master_allocated_bytes", "bytes", "Memory allocated in all segments"),
    Family::gauge("master_total_capacity_bytes", "bytes", "Memory of all mounted segments"),
    Family::gauge("segment_allocated_bytes", "bytes", "Memory allocated in a segment")
        .labelled(SEGMENT),
    Family::gauge("segment_total_capacity_bytes", "bytes", "Memory of a mounted segment")
        .labelled(SEGMENT),
    Family::gauge("master_nof_allocated_bytes", "bytes", "Bytes allocated in NVMe-oF segments")
        .zero(),
    Family::gauge("master_total_nof_capacity_bytes", "bytes", "Bytes of all NVMe-oF segments")
        .zero(),
    Family::gauge(
        "master_allocated_file_size_bytes",
        "bytes",
        "Payload bytes of the copies on SSD",
    ),
    Family::gauge("master_total_file_capacity_bytes", "bytes", "Room for copies on SSD"),
    Family::gauge("master_key_count", "keys", "Keys known to the master"),
    Family::gauge("master_soft_pin_key_count", "keys", "Keys under a soft pin"),
    Family::gauge("master_active_clients", "clients", "Clients that are alive"),
    Family::histogram("master_value_size_bytes", "bytes", &VALUE_SIZES, "Sizes of objects written"),
    Family::counter(
        "master_put_start_alloc_failures_total",
        "requests",
        "PutStart calls refused for lack of space",
    ),
    Family::counter(
        "master_put_start_partial_allocations_total",
        "requests",
        "PutStart calls that got fewer replicas than asked",
    ),
];

pub(super) const CACHE: &[Family] = &[
    Family::counter("mem_cache_hit_nums_", "reads", "GetReplicaList answers from memory"),
    Family::counter("file_cache_hit_nums_", "reads", "GetReplicaList answers from SSD"),
    Family::counter("mem_cache_hit_bytes_total", "bytes", "Payload bytes of answers from memory"),
    Family::counter("file_cache_hit_bytes_total", "bytes", "Payload bytes of answers from SSD"),
    Family::gauge("mem_cache_nums_", "replicas", "Complete replicas in memory"),
    Family::gauge("file_cache_nums_", "replicas", "Complete replicas on SSD"),
    Family::gauge("master_promotion_in_flight", "tasks", "Promotions from SSD in progress"),
    Family::counter("master_promotion_admitted_total", "tasks", "Promotions handed to owners"),
    Family::counter("master_promotion_completed_total", "tasks", "Promotions finished"),
    Family::counter("master_promotion_completed_bytes_total", "bytes", "Bytes promoted"),
    Family::counter("master_promotion_failed_total", "tasks", "Promotions that came to nothing"),
    Family::counter(
        "master_promotion_rejected_frequency_total",
        "reads",
        "Reads of objects on SSD without a promotion: too seldom read",
    ),
    Family::counter(
        "master_promotion_rejected_watermark_total",
        "reads",
        "Reads of objects on SSD without a promotion: memory too full",
    ),
    Family::counter(
        "master_promotion_rejected_cap_total",
        "reads",
        "Reads of objects on SSD without a promotion: too many in progress",
    ),
    Family::counter(
        "valid_get_nums_",
        "reads",
        "GetReplicaList look-ups that found a complete replica",
    ),
    Family::counter("total_get_nums_", "reads", "GetReplicaList look-ups"),
];

pub(super) const EVICTION: &[Family] = &[
    Family::counter(
        "master_successful_evictions_total",
        "rounds",
        "Eviction rounds that freed space",
    ),
    Family::counter("master_attempted_evictions_total", "rounds", "Eviction rounds"),
    Family::counter("master_evicted_key_count", "keys", "Keys evicted"),
    Family::counter("master_evicted_size_bytes", "bytes", "Bytes freed by eviction"),
    Family::counter(
        "master_successful_evictions_mem",
        "rounds",
        "Eviction rounds that freed memory",
    ),
    Family::counter("master_attempted_evictions_mem", "rounds", "Eviction rounds in memory"),
    Family::counter("master_evicted_key_count_mem", "keys", "Keys evicted from memory"),
    Family::counter("master_evicted_size_bytes_mem", "bytes", "Bytes of memory freed by eviction"),
    Family::counter("master_put_start_discard_cnt", "writes", "Unfinished writes discarded"),
    Family::counter(
        "master_put_start_release_cnt",
        "writes",
        "Discarded writes whose space is free again",
    ),
    Family::gauge(
        "master_put_start_discarded_staging_size",
        "bytes",
        "Space of discarded writes still parked",
    ),
];
