//! Families of client libraries and node daemons. Invariant: Mooncake's client families keep their
//! microsecond units, ours are seconds.

use super::buckets::{CLIENT_LATENCY_US, QUARTER_DURATIONS};
use crate::family::Family;

const MODE: &[&str] = &["client_mode"];
const MODE_RPC: &[&str] = &["client_mode", "rpc_name"];
const MODE_OPERATION: &[&str] = &["client_mode", "op_name"];
const ROUTE: &[&str] = &["route"];
const ROUTE_DIRECTION: &[&str] = &["route", "direction"];

pub(super) const MOONCAKE: &[Family] = &[
    Family::counter("mooncake_transfer_read_bytes", "bytes", "Payload bytes read")
        .labelled(MODE)
        .of_client(),
    Family::counter("mooncake_transfer_write_bytes", "bytes", "Payload bytes written")
        .labelled(MODE)
        .of_client(),
    Family::histogram(
        "mooncake_transfer_get_latency",
        "microseconds",
        &CLIENT_LATENCY_US,
        "Transfers of single reads",
    )
    .labelled(MODE)
    .of_client(),
    Family::histogram(
        "mooncake_transfer_put_latency",
        "microseconds",
        &CLIENT_LATENCY_US,
        "Transfers of single writes",
    )
    .labelled(MODE)
    .of_client(),
    Family::histogram(
        "mooncake_transfer_batch_get_latency",
        "microseconds",
        &CLIENT_LATENCY_US,
        "Transfers of batch reads",
    )
    .labelled(MODE)
    .of_client(),
    Family::histogram(
        "mooncake_transfer_batch_put_latency",
        "microseconds",
        &CLIENT_LATENCY_US,
        "Transfers of batch writes",
    )
    .labelled(MODE)
    .of_client(),
    Family::counter("mooncake_client_rpc_count", "requests", "Calls made to the master")
        .labelled(MODE_RPC)
        .of_client(),
    Family::histogram(
        "mooncake_client_rpc_latency",
        "microseconds",
        &CLIENT_LATENCY_US,
        "Round trips to the master",
    )
    .labelled(MODE_RPC)
    .of_client(),
    Family::counter(
        "mooncake_transfer_read_operation_count",
        "requests",
        "Read calls of the application",
    )
    .labelled(MODE_OPERATION)
    .of_client(),
    Family::counter(
        "mooncake_transfer_read_operation_bytes",
        "bytes",
        "Payload bytes of read calls",
    )
    .labelled(MODE_OPERATION)
    .of_client(),
    Family::histogram(
        "mooncake_transfer_read_operation_latency",
        "microseconds",
        &CLIENT_LATENCY_US,
        "Read calls of the application",
    )
    .labelled(MODE_OPERATION)
    .of_client(),
    Family::counter(
        "mooncake_transfer_write_operation_count",
        "requests",
        "Write calls of the application",
    )
    .labelled(MODE_OPERATION)
    .of_client(),
    Family::counter(
        "mooncake_transfer_write_operation_bytes",
        "bytes",
        "Payload bytes of write calls",
    )
    .labelled(MODE_OPERATION)
    .of_client(),
    Family::histogram(
        "mooncake_transfer_write_operation_latency",
        "microseconds",
        &CLIENT_LATENCY_US,
        "Write calls of the application",
    )
    .labelled(MODE_OPERATION)
    .of_client(),
    Family::counter("mooncake_ssd_read_ops_total", "requests", "SSD reads").of_client(),
    Family::counter("mooncake_ssd_write_ops_total", "requests", "SSD writes").of_client(),
    Family::counter("mooncake_ssd_total_ops_total", "requests", "SSD reads and writes").of_client(),
    Family::counter("mooncake_ssd_read_bytes_total", "bytes", "Bytes read from SSD").of_client(),
    Family::counter("mooncake_ssd_write_bytes_total", "bytes", "Bytes written to SSD").of_client(),
    Family::counter("mooncake_ssd_total_bytes_total", "bytes", "Bytes moved to and from SSD")
        .of_client(),
    Family::histogram(
        "mooncake_ssd_read_latency_us",
        "microseconds",
        &CLIENT_LATENCY_US,
        "SSD reads",
    )
    .of_client(),
    Family::histogram(
        "mooncake_ssd_write_latency_us",
        "microseconds",
        &CLIENT_LATENCY_US,
        "SSD writes",
    )
    .of_client(),
    Family::histogram(
        "mooncake_ssd_total_latency_us",
        "microseconds",
        &CLIENT_LATENCY_US,
        "SSD reads and writes",
    )
    .of_client(),
    Family::summary(
        "mooncake_ssd_read_latency_summary_us",
        "microseconds",
        "Quantiles of SSD reads since the start",
    )
    .of_client(),
    Family::summary(
        "mooncake_ssd_write_latency_summary_us",
        "microseconds",
        "Quantiles of SSD writes since the start",
    )
    .of_client(),
    Family::summary(
        "mooncake_ssd_total_latency_summary_us",
        "microseconds",
        "Quantiles of SSD reads and writes since the start",
    )
    .of_client(),
];

pub(super) const OWN: &[Family] = &[
    Family::gauge(
        "perigee_client_build_info",
        "1",
        "Always 1; the labels say what runs, and on which reactor (io_uring, epoll or mixed)",
    )
    .labelled(&["version", "commit", "reactor"])
    .ours()
    .of_client(),
    Family::counter("perigee_transfer_bytes_total", "bytes", "Payload bytes moved")
        .labelled(ROUTE_DIRECTION)
        .ours()
        .of_client(),
    Family::histogram(
        "perigee_transfer_seconds",
        "seconds",
        &QUARTER_DURATIONS,
        "Time of one transfer",
    )
    .labelled(ROUTE_DIRECTION)
    .ours()
    .of_client(),
    Family::counter("perigee_transfer_failures_total", "transfers", "Transfers that failed")
        .labelled(ROUTE_DIRECTION)
        .ours()
        .of_client(),
    Family::counter(
        "perigee_checksum_failures_total",
        "objects",
        "Objects whose bytes did not match their checksum",
    )
    .labelled(ROUTE)
    .ours()
    .of_client(),
    Family::counter(
        "perigee_retries_total",
        "transfers",
        "Transfers tried again, on this or another replica",
    )
    .ours()
    .of_client(),
    Family::counter(
        "perigee_unreachable_owners_total",
        "transfers",
        "Transfers that failed because nothing answers at the endpoint of the segment's owner",
    )
    .ours()
    .of_client(),
    Family::counter(
        "perigee_lease_expired_total",
        "objects",
        "Reads refused because the lease had ended",
    )
    .ours()
    .of_client(),
];
