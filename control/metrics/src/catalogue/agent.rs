//! Families of the agent, along the path of a byte: NIC, flow, connection, disk, thread, batch,
//! probe.
//! Invariant: base units only; every label is bounded by what a host has.

use super::buckets::{LOG2_DURATIONS, QUARTER_DURATIONS};
use crate::family::Family;

const DISK: &[&str] = &["program", "pid", "path"];
const PORT: &[&str] = &["device", "port", "numa", "kind"];
const DEVICE: &[&str] = &["device"];
const DEVICE_DIRECTION: &[&str] = &["device", "direction"];
const FLOW: &[&str] = &["device", "route", "direction"];
const SHARD: &[&str] = &["program", "shard", "direction"];
const THREAD: &[&str] = &["program", "thread"];
const BATCH: &[&str] = &["device", "peer", "tenant", "route", "direction"];
const LINK: &[&str] = &["device", "peer"];
const PROBE_PROGRAM: &[&str] = &["probe", "program"];

const fn counter(name: &'static str, unit: &'static str, help: &'static str) -> Family {
    Family::counter(name, unit, help).ours().of_agent()
}

const fn gauge(name: &'static str, unit: &'static str, help: &'static str) -> Family {
    Family::gauge(name, unit, help).ours().of_agent()
}

const fn duration(name: &'static str, help: &'static str) -> Family {
    Family::histogram(name, "seconds", &LOG2_DURATIONS, help).ours().of_agent()
}

const fn finer_duration(name: &'static str, help: &'static str) -> Family {
    Family::histogram(name, "seconds", &QUARTER_DURATIONS, help).ours().of_agent()
}

#[rustfmt::skip]
pub(super) const FAMILIES: &[Family] = &[
    gauge("perigee_agent_info", "none", "Version of the agent and name of its host")
        .labelled(&["version", "host"]),
    gauge("perigee_agent_processes", "processes", "Processes of ours that are seen on the host"),
    gauge("perigee_agent_collect_seconds", "seconds", "Time of the last reading of the host"),
    gauge("perigee_agent_suspect", "none",
        "1 for a NIC, shard, disk or peer that is slower or loses more than its peers and than its own baseline, with the cause: core, copy, disk, still, wire, loss, queue, damage, discard, link")
        .labelled(&["kind", "name", "cause"]),
    counter("perigee_process_calls_total", "calls",
        "Calls of store clients and batches of engines that ended, of all processes of a program; source: activity pages")
        .labelled(&["program"]),
    counter("perigee_process_checksum_failures_total", "objects",
        "Objects whose bytes did not match their checksum, as readers found; also of clients that serve no metrics; source: activity pages")
        .labelled(&["program"]),
    counter("perigee_process_unreachable_owners_total", "transfers",
        "Transfers that failed because nothing answers at the endpoint of the segment's owner; also of clients that serve no metrics; source: activity pages")
        .labelled(&["program"]),
    gauge("perigee_agent_disk_state", "none",
        "1 for the state of a disk that keeps objects: healthy, slow, hung, full, read_only, failed, withdrawn; source: activity pages")
        .labelled(&["program", "pid", "path", "state"]),
    gauge("perigee_agent_disk_capacity_bytes", "bytes", "Most bytes of the log of such a disk").labelled(DISK),
    gauge("perigee_agent_disk_used_bytes", "bytes", "Bytes of that log that can be read").labelled(DISK),
    counter("perigee_agent_disk_read_bytes_total", "bytes", "Bytes read from such a disk since it was opened").labelled(DISK),
    counter("perigee_agent_disk_written_bytes_total", "bytes", "Bytes written to it").labelled(DISK),
    counter("perigee_agent_disk_errors_total", "operations", "Operations on it that failed").labelled(DISK),
    counter("perigee_agent_exported_spans_total", "spans",
        "Spans for a collector of OpenTelemetry: sent, refused by it, or dropped because it was away for too long")
        .labelled(&["result"]),
    counter("perigee_nic_receive_bytes_total", "bytes",
        "Bytes received; source: interface statistics, port counters of RDMA devices").labelled(PORT),
    counter("perigee_nic_transmit_bytes_total", "bytes",
        "Bytes sent; source: interface statistics, port counters of RDMA devices").labelled(PORT),
    counter("perigee_nic_receive_packets_total", "packets",
        "Packets received; source: interface statistics, port counters of RDMA devices").labelled(PORT),
    counter("perigee_nic_transmit_packets_total", "packets",
        "Packets sent; source: interface statistics, port counters of RDMA devices").labelled(PORT),
    counter("perigee_nic_errors_total", "packets",
        "Packets with errors, both directions; source: interface statistics, port counters").labelled(PORT),
    counter("perigee_nic_drops_total", "packets",
        "Packets the NIC or its driver dropped; source: interface statistics, port counters").labelled(PORT),
    gauge("perigee_nic_up", "none", "1 if the link carries data; source: sysfs").labelled(PORT),
    gauge("perigee_nic_enabled", "none",
        "1 unless the administrator has turned the NIC off; source: interface flags, physical state of RDMA ports")
        .labelled(PORT),
    gauge("perigee_nic_link_bytes_per_second", "bytes_per_second",
        "What the link can carry in one direction; source: sysfs").labelled(PORT),
    counter("perigee_nic_hardware_events_total", "events",
        "Congestion, loss, damage and retries as a port counts them; source: hw_counters and counters of RDMA ports, statistics of Ethernet cards")
        .labelled(&["device", "port", "event"]),
    counter("perigee_probed_bytes_total", "bytes",
        "Bytes of an interface with the headers of every packet; source: eBPF tcx, with --packets").labelled(DEVICE_DIRECTION),
    counter("perigee_probed_packets_total", "packets",
        "Packets of an interface; source: eBPF tcx, with --packets").labelled(DEVICE_DIRECTION),
    counter("perigee_probed_drops_total", "packets",
        "Packets dropped on an interface; source: eBPF kfree_skb").labelled(DEVICE),
    counter("perigee_flow_operations_total", "operations",
        "Operations of the data plane by NIC, route and direction; source: activity pages").labelled(FLOW),
    counter("perigee_flow_bytes_total", "bytes",
        "Payload bytes of the data plane; source: activity pages").labelled(FLOW),
    counter("perigee_flow_errors_total", "operations",
        "Failed operations of the data plane; source: activity pages").labelled(FLOW),
    counter("perigee_flow_retries_total", "operations",
        "Repeated operations of the data plane; source: activity pages").labelled(FLOW),
    counter("perigee_flow_queue_seconds_total", "seconds",
        "Time operations waited before they were on their way; source: activity pages").labelled(FLOW),
    gauge("perigee_flow_depth", "operations",
        "Operations under way; source: activity pages").labelled(FLOW),
    finer_duration("perigee_flow_latency_seconds",
        "Operations of the data plane on the wire or disk; source: activity pages").labelled(FLOW),
    counter("perigee_flow_stage_seconds_total", "seconds",
        "Time of operations after the queue: on the wire, and what peers say of theirs, \
         without a core (peer_wait), with the bytes (peer_copy), at disks (peer_disk); source: activity pages")
        .labelled(&["device", "route", "direction", "stage"]),
    counter("perigee_shard_operations_total", "operations",
        "Operations by shard; source: activity pages").labelled(SHARD),
    counter("perigee_shard_bytes_total", "bytes",
        "Payload bytes by shard; source: activity pages").labelled(SHARD),
    gauge("perigee_shard_depth", "operations",
        "Operations under way by shard; source: activity pages").labelled(SHARD),
    duration("perigee_tcp_round_trip_seconds",
        "Round trips, at most eight per tick and CPU, of connections opened since the agent started, in the control groups of our processes \
         (of the whole host if one is in the root group), but for answers of one segment, \
         which peers may acknowledge late; \
         source: eBPF sock_ops").labelled(DEVICE),
    counter("perigee_tcp_retransmits_total", "segments",
        "Segments sent again, all connections of the host; source: eBPF tcp_retransmit_skb").labelled(DEVICE),
    gauge("perigee_link_round_trip_seconds", "seconds",
        "Best smoothed round trip of our busy connections between a NIC and a peer on which this end asks; the other end's has the pauses of who asks; source: TCP_INFO").labelled(LINK),
    gauge("perigee_link_connections", "connections",
        "Our busy connections between a NIC and a peer; source: activity pages").labelled(LINK),
    counter("perigee_link_retransmits_total", "segments",
        "Segments sent again by our connections; source: TCP_INFO").labelled(LINK),
    gauge("perigee_link_delivery_bytes_per_second", "bytes_per_second",
        "What our busy connections delivered when they last had data to send; source: TCP_INFO").labelled(LINK),
    counter("perigee_link_peer_seconds_total", "seconds",
        "Time of our exchanges that round trips and arriving payload do not explain; source: activity pages, TCP_INFO")
        .labelled(LINK),
    counter("perigee_link_sent_segments_total", "segments",
        "Data segments that our connections sent, repeated ones included; source: TCP_INFO").labelled(LINK),
    counter("perigee_link_received_segments_total", "segments",
        "Data segments that our connections received; source: TCP_INFO").labelled(LINK),
    counter("perigee_link_out_of_order_segments_total", "segments",
        "Segments that came before an earlier one, as after loss on the way here; source: TCP_INFO").labelled(LINK),
    counter("perigee_link_needless_segments_total", "segments",
        "Segments sent again that the peer had already; source: TCP_INFO").labelled(LINK),
    counter("perigee_link_marked_segments_total", "segments",
        "Segments that met a queue in the network, as it marked them (ECN); source: TCP_INFO").labelled(LINK),
    counter("perigee_link_timeouts_total", "timeouts",
        "Times that our connections sent again after a timeout; source: TCP_INFO since Linux 6.8").labelled(LINK),
    counter("perigee_link_sent_bytes_total", "bytes",
        "Payload bytes that our connections sent, repeated ones included; source: TCP_INFO").labelled(LINK),
    counter("perigee_link_retransmitted_bytes_total", "bytes",
        "Payload bytes that our connections sent again; source: TCP_INFO").labelled(LINK),
    counter("perigee_link_busy_seconds_total", "seconds",
        "Time in which our connections had data under way; source: TCP_INFO").labelled(LINK),
    counter("perigee_link_limited_seconds_total", "seconds",
        "Time of that in which the peer's window or this side's buffer was full; source: TCP_INFO")
        .labelled(&["device", "peer", "limit"]),
    counter("perigee_tcp_resets_total", "segments",
        "Resets, all connections of the host; source: eBPF tcp_send_reset, tcp_receive_reset")
        .labelled(DEVICE_DIRECTION),
    counter("perigee_packet_drops_total", "packets",
        "Packets the host dropped, by the kernel's reason; other for those of subsystems; source: eBPF kfree_skb").labelled(&["reason"]),
    duration("perigee_block_queue_seconds",
        "Requests of a disk before the device got them; source: eBPF block_rq_issue")
        .labelled(DEVICE_DIRECTION),
    duration("perigee_block_device_seconds",
        "Requests of a disk inside the device; source: eBPF block_rq_complete").labelled(DEVICE_DIRECTION),
    counter("perigee_block_bytes_total", "bytes",
        "Bytes of a disk; source: eBPF block_rq_complete").labelled(DEVICE_DIRECTION),
    gauge("perigee_block_depth", "requests",
        "Requests inside a disk; source: eBPF block_rq_issue").labelled(DEVICE_DIRECTION),
    duration("perigee_uring_latency_seconds",
        "io_uring requests of our programs, one in 32 of one second in eight; source: eBPF io_uring_complete").labelled(&["program"]),
    duration("perigee_task_run_queue_seconds",
        "Our threads ready but without a core; source: eBPF sched_switch").labelled(THREAD),
    duration("perigee_task_off_cpu_seconds",
        "Our threads asleep; source: eBPF sched_switch").labelled(THREAD),
    gauge("perigee_task_threads", "threads", "Threads of ours that are watched").labelled(THREAD),
    duration("perigee_batch_latency_seconds",
        "Batches by NIC, peer and tenant; those that are seen stand for the others; source: activity pages").labelled(BATCH),
    counter("perigee_batch_bytes_total", "bytes",
        "Payload bytes of batches; those that are seen stand for the others; source: activity pages").labelled(BATCH),
    gauge("perigee_probe_on", "none",
        "1 if a source of numbers works on this host, also if it shows a part only; those that are not wanted are left out").labelled(&["probe"]),
    counter("perigee_probe_runs_total", "runs",
        "Runs of a probe while costs are measured; source: the kernel's BPF statistics").labelled(PROBE_PROGRAM),
    counter("perigee_probe_run_seconds_total", "seconds",
        "Run time of a probe while costs are measured; source: the kernel's BPF statistics")
        .labelled(PROBE_PROGRAM),
    counter("perigee_probe_lost_total", "events",
        "Events that a probe could not count, by reason").labelled(&["reason"]),
];
