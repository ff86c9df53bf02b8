//! Batches of the data plane, as its mark tells them. Names come from other processes.

use crate::histogram::Distribution;
use crate::host::foreign_name;
use crate::ledger::{self, Ledger};
use crate::limits::BATCH_SERIES_MAX;
use crate::snapshot::{BatchSeries, SlowBatchEntry, Snapshot};
use perigee_activity::{Route, text};
use perigee_probe_loader::value::SlowBatch;
use perigee_probe_loader::{BatchReading, Feature, ProbeError, Probes};
use std::collections::{BTreeMap, BTreeSet};

const KIND: &str = "batch";
/// Numbers before the distribution in the cells of a series.
const NUMBERS: usize = 4;

/// NIC, peer, tenant, route, direction.
type Labels = [String; 5];

/// Sums of all batches that were seen, also by earlier agents.
pub(super) fn read(
    probes: &Probes,
    ledger: &mut Ledger,
    snapshot: &mut Snapshot,
) -> Result<(), ProbeError> {
    if !probes.works(Feature::Batches) {
        return Ok(());
    }
    let mut named: BTreeSet<Labels> = ledger.of_kind(KIND).into_iter().collect();
    let mut readings = probes.batches()?;
    // Who comes first keeps its name, so that no series falls because another one appears; of one
    // turn, the busiest do.
    readings.sort_by_key(|reading| std::cmp::Reverse(reading.totals.bytes));
    let mut sums: BTreeMap<Labels, BatchReading> = BTreeMap::new();
    for reading in readings {
        let labels = admit(&mut named, labels(&reading));
        match sums.get_mut(&labels) {
            Some(sum) => add(sum, &reading),
            None => drop(sums.insert(labels, reading)),
        }
    }
    for (labels, BatchReading { totals, .. }) in sums {
        let latency = totals.latency;
        let latency = Distribution::new(latency.count, latency.sum, &latency.buckets).cells();
        let numbers = [totals.operations, totals.bytes, totals.queue_ns, totals.wire_ns];
        let series = name(&labels);
        let source = ledger::CellSource::Place(series.clone());
        ledger.count(&series, source, &[&numbers[..], &latency].concat());
    }
    let all = ledger.of_kind(KIND).into_iter();
    snapshot.batches = all.map(|labels| series(ledger, labels)).collect();
    Ok(())
}

fn name(labels: &Labels) -> String {
    ledger::name(KIND, labels.each_ref().map(String::as_str))
}

/// The labels if there is room for them, else those of the rest.
fn admit(named: &mut BTreeSet<Labels>, labels: Labels) -> Labels {
    if named.len() < BATCH_SERIES_MAX {
        named.insert(labels.clone());
    }
    if named.contains(&labels) {
        return labels;
    }
    let [_, _, _, route, direction] = labels;
    let other = || "other".to_owned();
    [other(), other(), other(), route, direction]
}

fn add(sum: &mut BatchReading, more: &BatchReading) {
    sum.totals.latency.merge(&more.totals.latency);
    sum.totals.operations += more.totals.operations;
    sum.totals.bytes += more.totals.bytes;
    sum.totals.queue_ns += more.totals.queue_ns;
    sum.totals.wire_ns += more.totals.wire_ns;
}

fn series(ledger: &Ledger, labels: Labels) -> BatchSeries {
    let cells = ledger.read(&name(&labels));
    let number = |index: usize| cells.get(index).copied().unwrap_or(0);
    let [device, peer, tenant, route, direction] = labels;
    BatchSeries {
        latency: Distribution::of_cells(cells.get(NUMBERS..).unwrap_or(&[])),
        operations: number(0),
        bytes: number(1),
        queue_ns: number(2),
        wire_ns: number(3),
        device,
        peer,
        tenant,
        route,
        direction,
    }
}

fn labels(reading: &BatchReading) -> Labels {
    let key = reading.key;
    // A port number changes with every connection; a host does not.
    let peer = text(&key.peer);
    let host = peer.rsplit_once(':').map_or(peer.as_str(), |(host, _)| host);
    [
        nic(&key.nic, key.route, key.is_foreign),
        host.to_owned(),
        text(&key.tenant),
        route(key.route),
        direction(key.direction),
    ]
}

pub(in crate::collector) fn slow_entry(batch: &SlowBatch) -> SlowBatchEntry {
    let mark = batch.mark;
    SlowBatchEntry {
        ended_ns: batch.ended_ns,
        pid: batch.pid,
        device: nic(&mark.nic, mark.route, batch.is_foreign),
        peer: text(&mark.peer),
        tenant: text(&mark.tenant),
        route: route(mark.route),
        direction: direction(mark.direction),
        operations: mark.operations,
        bytes: mark.bytes,
        status: mark.status,
        queue_ns: mark.queue_ns,
        wire_ns: mark.wire_ns.saturating_sub(mark.peer_ns),
        disk_ns: mark.disk_ns,
        peer_ns: mark.peer_ns,
    }
}

/// Name of a NIC, which the pages of that process call the same.
fn nic(name: &[u8], route: u32, is_foreign: u32) -> String {
    match text(name) {
        name if is_foreign != 0 && route == Route::Tcp as u32 => foreign_name(&name),
        name => name,
    }
}

fn route(number: u32) -> String {
    let known = Route::ALL.get(number as usize);
    known.map_or("unknown", |route| route.label()).to_owned()
}

fn direction(number: u32) -> String {
    if number == 0 { "read" } else { "write" }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels_of(tenant: usize) -> Labels {
        let tenant = tenant.to_string();
        ["eth0", "10.0.0.1", &tenant, "tcp", "read"].map(str::to_owned)
    }

    #[test]
    fn who_came_first_keeps_its_name_and_the_rest_shares_one() {
        let mut named = BTreeSet::new();
        for tenant in 0..BATCH_SERIES_MAX {
            assert_eq!(admit(&mut named, labels_of(tenant))[2], tenant.to_string());
        }
        assert_eq!(admit(&mut named, labels_of(BATCH_SERIES_MAX))[2], "other");
        assert_eq!(admit(&mut named, labels_of(0))[2], "0");
    }

    #[test]
    fn sockets_nics_of_another_network_namespace_are_marked_and_rdma_devices_are_the_hosts() {
        let (tcp, rdma) = (Route::Tcp as u32, Route::Rdma as u32);
        assert_eq!(nic(b"eth0\0", tcp, 0), "eth0");
        assert_eq!(nic(b"eth0\0", tcp, 1), "netns:eth0");
        assert_eq!(nic(b"mlx5_0\0", rdma, 1), "mlx5_0");
    }

    #[test]
    fn names_of_other_processes_are_made_harmless() {
        assert_eq!(text(b"eth\x1f0\0rest"), "eth\u{fffd}0");
        assert_eq!(text(&[0xff, 0]), "\u{fffd}");
    }
}
