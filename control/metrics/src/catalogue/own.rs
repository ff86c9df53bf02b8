//! Our own families of the master. Invariant: base units only (bytes, seconds), counters end in
//! `_total`.

use super::buckets::QUARTER_DURATIONS;
use crate::family::Family;

const RPC: &[&str] = &["rpc"];
const SEGMENT: &[&str] = &["segment"];
const SHARD: &[&str] = &["shard"];

pub(super) const FAMILIES: &[Family] = &[
    Family::gauge(
        "perigee_build_info",
        "1",
        "Always 1; the labels say what runs, and on which reactor (io_uring, epoll or mixed)",
    )
    .labelled(&["version", "commit", "reactor"])
    .ours(),
    Family::gauge(
        "perigee_uptime_seconds",
        "seconds",
        "Time since the master started",
    )
    .ours(),
    Family::gauge("perigee_ready", "1", "1 when the master serves calls").ours(),
    Family::counter(
        "perigee_kv_events_published_total",
        "events",
        "Stored and removed keys that were published; 0 while KV events are off",
    )
    .ours(),
    Family::counter(
        "perigee_kv_events_dropped_total",
        "events",
        "Events that had no room while the publisher was busy",
    )
    .ours(),
    Family::gauge(
        "perigee_kv_events_subscribers",
        "1",
        "Connected subscribers of KV events",
    )
    .ours(),
    Family::gauge(
        "perigee_cluster_agents",
        "1",
        "Agents that have reported to this master lately (`perigee agent --report_to`)",
    )
    .ours(),
    Family::gauge(
        "perigee_cluster_silent_agent_seconds",
        "seconds",
        "Time since the last report of an agent that reports no more, for an hour",
    )
    .labelled(&["host"])
    .ours(),
    Family::gauge(
        "perigee_cluster_culprit",
        "1",
        "1 for each that the agents name together: kind is path, nic, host, switch, disk or shard",
    )
    .labelled(&["kind", "name"])
    .ours(),
    Family::counter("perigee_rpc_requests_total", "requests", "Calls answered")
        .labelled(RPC)
        .ours(),
    Family::counter(
        "perigee_rpc_failures_total",
        "requests",
        "Calls without one good item",
    )
    .labelled(RPC)
    .ours(),
    Family::counter("perigee_rpc_items_total", "items", "Items of calls")
        .labelled(RPC)
        .ours(),
    Family::counter(
        "perigee_rpc_failed_items_total",
        "items",
        "Items of calls that failed",
    )
    .labelled(RPC)
    .ours(),
    Family::histogram(
        "perigee_rpc_duration_seconds",
        "seconds",
        &QUARTER_DURATIONS,
        "Time from a decoded call to its encoded answer",
    )
    .labelled(RPC)
    .ours(),
    Family::gauge("perigee_segments", "segments", "Mounted segments").ours(),
    Family::gauge(
        "perigee_segment_used_ratio",
        "ratio",
        "Share of a segment that is allocated, 0 to 1",
    )
    .labelled(SEGMENT)
    .ours(),
    Family::gauge(
        "perigee_segment_largest_free_bytes",
        "bytes",
        "Largest object that still fits without eviction",
    )
    .labelled(SEGMENT)
    .ours(),
    Family::gauge(
        "perigee_parked_bytes",
        "bytes",
        "Freed space that waits for leases or late writers",
    )
    .ours(),
    Family::counter(
        "perigee_lookups_total",
        "keys",
        "Keys asked for, by call (exist, get) and result (hit, miss)",
    )
    .labelled(&["call", "result"])
    .ours(),
    Family::counter(
        "perigee_lease_grants_total",
        "leases",
        "Leases granted: read for data, probe for existence",
    )
    .labelled(&["kind"])
    .ours(),
    Family::counter(
        "perigee_lease_probe_breaks_total",
        "leases",
        "Probe leases broken to make room for a write",
    )
    .ours(),
    Family::counter(
        "perigee_evicted_objects_total",
        "objects",
        "Objects evicted: for the watermark, or for a write",
    )
    .labelled(&["reason"])
    .ours(),
    Family::gauge(
        "perigee_moves_active",
        "replicas",
        "Replicas on their way to another segment",
    )
    .ours(),
    Family::counter(
        "perigee_moves_total",
        "replicas",
        "Replicas moved to another segment, and moves that failed",
    )
    .labelled(&["result"])
    .ours(),
    Family::counter(
        "perigee_moved_bytes_total",
        "bytes",
        "Payload bytes of moved replicas",
    )
    .ours(),
    Family::gauge(
        "perigee_repairs_pending",
        "objects",
        "Objects that lost a replica with its node and wait for another one",
    )
    .ours(),
    Family::counter(
        "perigee_repairs_total",
        "replicas",
        "Lost replicas: made again, copies that failed, and those given up because too many waited",
    )
    .labelled(&["result"])
    .ours(),
    Family::gauge(
        "perigee_hot_replicas",
        "replicas",
        "Replicas in memory that there are because their keys were read often",
    )
    .ours(),
    Family::counter(
        "perigee_hot_replicas_total",
        "replicas",
        "Replicas for keys that were read often: made, copies that failed, and those evicted",
    )
    .labelled(&["result"])
    .ours(),
    Family::counter(
        "perigee_hot_keys_total",
        "keys",
        "Times a key was found to be read often, by what is done; to observe does nothing",
    )
    .labelled(&["decision"])
    .ours(),
    Family::gauge(
        "perigee_demotions_active",
        "objects",
        "Objects on their way from memory to an SSD of their owner",
    )
    .ours(),
    Family::counter(
        "perigee_demotions_total",
        "objects",
        "Objects written from memory to an SSD, and those that were not",
    )
    .labelled(&["result"])
    .ours(),
    Family::counter(
        "perigee_demoted_bytes_total",
        "bytes",
        "Payload bytes written from memory to SSDs",
    )
    .ours(),
    Family::counter(
        "perigee_unsaved_keys_total",
        "keys",
        "Keys evicted from memory before an SSD had a copy of them",
    )
    .ours(),
    Family::counter(
        "perigee_demotions_refused_total",
        "keys",
        "Keys evicted from memory without a copy for the write budget of their SSD, by what it took at that time: heads_too (what was read or came back, and begins of prefixes), hits, nothing",
    )
    .labelled(&["admitted"])
    .ours(),
    Family::gauge(
        "perigee_write_budget_bytes",
        "bytes",
        "Bytes that may be written to SSDs at once; 0 without a bound",
    )
    .ours(),
    Family::gauge(
        "perigee_write_budget_bytes_per_day",
        "bytes",
        "Bytes that may be written to SSDs within a day; 0 without a bound",
    )
    .ours(),
    Family::gauge(
        "perigee_disks",
        "disks",
        "Disks of clients by state, as their owners report them: healthy, slow, hung, full, read_only, failed, withdrawn",
    )
    .labelled(&["state"])
    .ours(),
    Family::counter(
        "perigee_disk_copies_recycled_total",
        "copies",
        "Copies on SSD that are gone because newer ones took their room",
    )
    .ours(),
    Family::counter(
        "perigee_promotions_on_exist_total",
        "objects",
        "Copies from SSD to memory that were begun because a client asked whether the key exists",
    )
    .ours(),
    Family::counter(
        "perigee_disk_copies_unreadable_total",
        "copies",
        "Copies on SSD that were forgotten because a reader found nothing or wrong bytes there: torn or damaged",
    )
    .ours(),
    Family::gauge(
        "perigee_disk_tombstones",
        "copies",
        "Void copies on SSD that their owners have not erased for good yet",
    )
    .ours(),
    Family::counter(
        "perigee_clients_expired_total",
        "clients",
        "Clients that stopped pinging",
    )
    .ours(),
    Family::gauge("perigee_connections", "connections", "Open RPC connections")
        .labelled(SHARD)
        .ours(),
    Family::counter(
        "perigee_connections_total",
        "connections",
        "RPC connections accepted",
    )
    .labelled(SHARD)
    .ours(),
    Family::counter(
        "perigee_connections_refused_total",
        "connections",
        "RPC connections refused: limit or protocol version",
    )
    .labelled(SHARD)
    .ours(),
    Family::counter(
        "perigee_protocol_errors_total",
        "frames",
        "Frames that could not be understood",
    )
    .labelled(SHARD)
    .ours(),
    Family::counter(
        "perigee_adopted_objects_total",
        "objects",
        "Objects that owners announced after a restart of the master and that were taken over",
    )
    .labelled(SHARD)
    .ours(),
    Family::gauge(
        "perigee_awaited_segments",
        "segments",
        "Segments and disks that were mounted in the last 2 s and whose owners still announce what lies there: calls about unknown keys wait",
    )
    .labelled(SHARD)
    .ours(),
    Family::gauge(
        "perigee_rebuild_seconds",
        "seconds",
        "How long after its start the master took over the last object that an owner announced; 0 if it took over none",
    )
    .labelled(SHARD)
    .ours(),
    Family::counter(
        "perigee_followers_cut_total",
        "connections",
        "Owners of segments that took records too slowly: their connections were closed, and they began again",
    )
    .labelled(SHARD)
    .ours(),
    Family::counter(
        "perigee_log_lines_left_out_total",
        "lines",
        "Log lines about segments and clients that were left out because their peer caused too many",
    )
    .labelled(SHARD)
    .ours(),
    Family::counter(
        "perigee_rpc_received_bytes_total",
        "bytes",
        "Bytes of calls received",
    )
    .labelled(SHARD)
    .ours(),
    Family::counter(
        "perigee_rpc_sent_bytes_total",
        "bytes",
        "Bytes of answers sent",
    )
    .labelled(SHARD)
    .ours(),
    Family::counter(
        "perigee_shard_busy_seconds_total",
        "seconds",
        "Time a shard spent on work",
    )
    .labelled(SHARD)
    .ours(),
    Family::counter(
        "perigee_shard_poll_seconds_total",
        "seconds",
        "Time a shard spent polling without work",
    )
    .labelled(SHARD)
    .ours(),
];
