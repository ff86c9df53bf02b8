//! What a client library or node daemon counts. Invariant: one [`ClientCells`] belongs to one
//! client, whose calls come from any thread, so additions are atomic.

use crate::catalogue::buckets::{CLIENT_LATENCY_US, QUARTER_DURATIONS};
use crate::cell::{Counter, Histogram, HistogramTotals};
use crate::exemplar::Exemplar;
use crate::exposition::Samples;
use crate::family::MetricSource;
use crate::master::BuildInfo;
use crate::rpc_kind::RpcKind;
use crate::traffic::TrafficTotals;
use perigee_schemas::{Direction, Route};

/// A call of the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientCall {
    /// One object read.
    Get,
    /// Several objects read.
    BatchGet,
    /// One object written.
    Put,
    /// Several objects written.
    BatchPut,
}

impl ClientCall {
    const ALL: [Self; 4] = [Self::Get, Self::BatchGet, Self::Put, Self::BatchPut];

    /// Label value.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::BatchGet => "batch_get",
            Self::Put => "put",
            Self::BatchPut => "batch_put",
        }
    }

    fn direction(self) -> Direction {
        match self {
            Self::Get | Self::BatchGet => Direction::Read,
            Self::Put | Self::BatchPut => Direction::Write,
        }
    }
}

/// Numbers of one client. Any of its threads may count.
#[derive(Debug)]
#[repr(align(128))]
pub struct ClientCells {
    transfers: Vec<TransferCells>,
    operations: Vec<TimedCells>,
    calls: Vec<TimedCells>,
    checksum_failures: [Counter; Route::ALL.len()],
    /// Transfers tried again.
    pub retries: Counter,
    /// Reads refused because the lease had ended.
    pub leases_expired: Counter,
    /// Transfers whose segment's owner could not be reached.
    pub unreachable_owners: Counter,
}

#[derive(Debug)]
struct TransferCells {
    bytes: Counter,
    failures: Counter,
    duration_ns: Histogram,
}

#[derive(Debug)]
struct TimedCells {
    count: Counter,
    bytes: Counter,
    latency_us: Histogram,
}

impl TimedCells {
    fn new() -> Self {
        let latency_us = Histogram::new(&CLIENT_LATENCY_US);
        Self { count: Counter::default(), bytes: Counter::default(), latency_us }
    }

    fn record(&self, bytes: u64, elapsed_ns: u64) {
        self.count.add_shared(1);
        self.bytes.add_shared(bytes);
        self.latency_us.observe_shared(elapsed_ns / 1000);
    }
}

impl Default for ClientCells {
    fn default() -> Self {
        let transfer = |_| TransferCells {
            bytes: Counter::default(),
            failures: Counter::default(),
            duration_ns: Histogram::new(&QUARTER_DURATIONS),
        };
        Self {
            transfers: (0..Route::ALL.len() * Direction::ALL.len()).map(transfer).collect(),
            operations: ClientCall::ALL.iter().map(|_| TimedCells::new()).collect(),
            calls: RpcKind::ALL.iter().map(|_| TimedCells::new()).collect(),
            checksum_failures: Default::default(),
            retries: Counter::default(),
            leases_expired: Counter::default(),
            unreachable_owners: Counter::default(),
        }
    }
}

impl ClientCells {
    fn transfer(&self, route: Route, direction: Direction) -> &TransferCells {
        &self.transfers[route as usize * Direction::ALL.len() + direction as usize]
    }

    /// Counts one finished transfer of payload bytes.
    pub fn record_transfer(&self, route: Route, direction: Direction, bytes: u64, elapsed_ns: u64) {
        let cells = self.transfer(route, direction);
        cells.bytes.add_shared(bytes);
        cells.duration_ns.observe_shared(elapsed_ns);
    }

    /// Shows a transfer of a request that was kept.
    pub fn show_transfer(&self, route: Route, direction: Direction, trace: u128, elapsed_ns: u64) {
        let shown = Exemplar::now(trace, elapsed_ns);
        self.transfer(route, direction).duration_ns.show(shown);
    }

    /// Shows a call of the application that was kept.
    pub fn show_operation(&self, operation: ClientCall, trace: u128, elapsed_ns: u64) {
        let shown = Exemplar::now(trace, elapsed_ns / 1000);
        self.operations[operation as usize].latency_us.show(shown);
    }

    /// Counts one failed transfer.
    pub fn record_transfer_failure(&self, route: Route, direction: Direction) {
        self.transfer(route, direction).failures.add_shared(1);
    }

    /// Counts an object whose bytes did not match its checksum.
    pub fn record_checksum_failure(&self, route: Route) {
        self.checksum_failures[route as usize].add_shared(1);
    }

    /// Counts one call of the application with the payload bytes it moved.
    pub fn record_operation(&self, operation: ClientCall, bytes: u64, elapsed_ns: u64) {
        self.operations[operation as usize].record(bytes, elapsed_ns);
    }

    /// What calls of the application have read and written, in this order.
    pub fn traffic(&self) -> [TrafficTotals; 2] {
        Direction::ALL.map(|direction| {
            let mut totals = TrafficTotals::default();
            for call in ClientCall::ALL.into_iter().filter(|call| call.direction() == direction) {
                let cells = &self.operations[call as usize];
                totals.bytes += cells.bytes.get();
                cells.latency_us.add_to(&mut totals.latency_us);
            }
            totals
        })
    }

    /// Shows a call to the master of a request that was kept.
    pub fn show_call(&self, kind: RpcKind, trace: u128, elapsed_ns: u64) {
        let shown = Exemplar::now(trace, elapsed_ns / 1000);
        self.calls[kind as usize].latency_us.show(shown);
    }

    /// Counts one call to the master.
    pub fn record_call(&self, kind: RpcKind, elapsed_ns: u64) {
        self.calls[kind as usize].record(0, elapsed_ns);
    }

    /// Counts a transfer whose segment's owner could not be reached.
    pub fn record_unreachable_owner(&self) {
        self.unreachable_owners.add_shared(1);
    }

    /// Counts transfers that are tried again.
    pub fn record_retries(&self, count: u64) {
        self.retries.add_shared(count);
    }
}

impl Samples {
    /// Samples of a client: `mode` is `real` for one that owns memory, `dummy` for one that
    /// forwards.
    #[must_use]
    pub fn of_client<'a>(
        shards: impl IntoIterator<Item = &'a ClientCells>,
        mode: &str,
        build: BuildInfo,
    ) -> Self {
        let shards: Vec<&ClientCells> = shards.into_iter().collect();
        let mut samples = Self::new(MetricSource::Client);
        let labels = [build.version, build.commit, build.reactor];
        samples.value("perigee_client_build_info", &labels, 1);
        add_transfers(&mut samples, &shards, mode);
        add_operations(&mut samples, &shards, mode);
        add_calls(&mut samples, &shards, mode);
        samples
    }
}

fn sum<'a>(shards: &[&'a ClientCells], cell: impl Fn(&'a ClientCells) -> &'a Counter) -> u64 {
    shards.iter().map(|shard| cell(shard).get()).sum()
}

fn totals<'a>(
    shards: &[&'a ClientCells],
    cell: impl Fn(&'a ClientCells) -> &'a Histogram,
) -> HistogramTotals {
    let mut totals = HistogramTotals::default();
    shards.iter().for_each(|shard| cell(shard).add_to(&mut totals));
    totals
}

fn add_transfers(samples: &mut Samples, shards: &[&ClientCells], mode: &str) {
    for direction in Direction::ALL {
        let mut moved = 0;
        for route in Route::ALL {
            let labels = [route.label(), direction.label()];
            let bytes = sum(shards, |shard| &shard.transfer(route, direction).bytes);
            let failures = sum(shards, |shard| &shard.transfer(route, direction).failures);
            let time = totals(shards, |shard| &shard.transfer(route, direction).duration_ns);
            moved += bytes;
            samples.value("perigee_transfer_bytes_total", &labels, bytes);
            samples.value("perigee_transfer_failures_total", &labels, failures);
            samples.histogram("perigee_transfer_seconds", &labels, &time);
        }
        samples.value(&format!("mooncake_transfer_{}_bytes", direction.label()), &[mode], moved);
    }
    for route in Route::ALL {
        let failures = sum(shards, |shard| &shard.checksum_failures[route as usize]);
        samples.value("perigee_checksum_failures_total", &[route.label()], failures);
    }
    samples.value("perigee_retries_total", &[], sum(shards, |shard| &shard.retries));
    samples.value(
        "perigee_unreachable_owners_total",
        &[],
        sum(shards, |shard| &shard.unreachable_owners),
    );
    samples.value("perigee_lease_expired_total", &[], sum(shards, |shard| &shard.leases_expired));
}

fn add_operations(samples: &mut Samples, shards: &[&ClientCells], mode: &str) {
    for operation in ClientCall::ALL {
        let index = operation as usize;
        let latency = totals(shards, |shard| &shard.operations[index].latency_us);
        let family = format!("mooncake_transfer_{}_operation", operation.direction().label());
        let labels = [mode, operation.label()];
        let count = sum(shards, |shard| &shard.operations[index].count);
        let bytes = sum(shards, |shard| &shard.operations[index].bytes);
        samples.value(&format!("{family}_count"), &labels, count);
        samples.value(&format!("{family}_bytes"), &labels, bytes);
        samples.histogram(&format!("{family}_latency"), &labels, &latency);
        let whole = format!("mooncake_transfer_{}_latency", operation.label());
        samples.histogram(&whole, &[mode], &latency);
    }
}

fn add_calls(samples: &mut Samples, shards: &[&ClientCells], mode: &str) {
    for kind in RpcKind::ALL {
        let index = *kind as usize;
        let labels = [mode, kind.label()];
        let count = sum(shards, |shard| &shard.calls[index].count);
        if count > 0 {
            let latency = totals(shards, |shard| &shard.calls[index].latency_us);
            samples.value("mooncake_client_rpc_count", &labels, count);
            samples.histogram("mooncake_client_rpc_latency", &labels, &latency);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILD: BuildInfo = BuildInfo { version: "1", commit: "c", reactor: "epoll" };

    #[test]
    fn every_name_a_client_writes_is_in_the_catalogue() {
        let cells = ClientCells::default();
        RpcKind::ALL.iter().for_each(|kind| cells.record_call(*kind, 1));
        let samples = Samples::of_client([&cells], "real", BUILD);
        assert_eq!(samples.refused(), Vec::<String>::new());
    }

    #[test]
    fn transfers_are_summed_over_shards_and_routes() {
        let (first, second) = (ClientCells::default(), ClientCells::default());
        first.record_transfer(Route::Tcp, Direction::Read, 100, 2_000);
        second.record_transfer(Route::SharedMemory, Direction::Read, 11, 2_000);
        second.record_checksum_failure(Route::Tcp);
        second.record_operation(ClientCall::Get, 111, 60_000);
        let text = Samples::of_client([&first, &second], "real", BUILD).render();
        for line in [
            "mooncake_transfer_read_bytes{client_mode=\"real\"} 111",
            "perigee_transfer_bytes_total{route=\"tcp\",direction=\"read\"} 100",
            "perigee_checksum_failures_total{route=\"tcp\"} 1",
            "mooncake_transfer_get_latency_bucket{client_mode=\"real\",le=\"75.000000\"} 1",
            "mooncake_transfer_read_operation_bytes{client_mode=\"real\",op_name=\"get\"} 111",
        ] {
            assert!(text.contains(&format!("\n{line}\n")), "{line}");
        }
    }

    #[test]
    fn a_call_to_the_master_of_a_kept_request_stands_behind_its_bucket() {
        let cells = ClientCells::default();
        let kind = RpcKind::of_number(RpcKind::GetReplicaList.number()).unwrap();
        cells.record_call(kind, 60_000);
        cells.show_call(kind, 0xabc, 60_000);
        let text = Samples::of_client([&cells], "real", BUILD).render_openmetrics();
        let shown = text.lines().find(|line| line.contains("trace_id")).unwrap();
        assert!(shown.starts_with("mooncake_client_rpc_latency_bucket{client_mode=\"real\","));
        assert!(shown.contains("GetReplicaList") && shown.contains("le=\"75.000000\"} 1 # "));
        assert_eq!((RpcKind::of_number(0), RpcKind::of_number(u16::MAX)), (None, None));
    }

    #[test]
    fn calls_never_made_are_left_out() {
        let text = Samples::of_client([&ClientCells::default()], "real", BUILD).render();
        assert!(!text.contains("mooncake_client_rpc_count{"));
    }
}
