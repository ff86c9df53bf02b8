//! What the probes have counted, under the names of the host's devices.

use super::Collector;
use crate::histogram::Distribution;
use crate::host::OurProcess;
use crate::ledger::Ledger;
use crate::limits::BATCH_SERIES_MAX;
use crate::snapshot::{
    BatchSeries, BlockSeries, DropSeries, ProbeSeries, SlowBatchEntry, Snapshot, TaskSeries,
    TcpSeries, UringSeries,
};
use perigee_activity::Route;
use perigee_probe_loader::value::{BlockOperation, Histogram, SlowBatch};
use perigee_probe_loader::{BatchReading, Feature, ProbeError, Probes};
use std::collections::{BTreeMap, BTreeSet};

impl Collector {
    pub(super) fn read_probes(
        &mut self,
        snapshot: &mut Snapshot,
        interfaces: &BTreeSet<(u32, String)>,
        processes: &[OurProcess],
    ) {
        self.take_slow_batches();
        let Some(probes) = &mut self.probes else {
            return;
        };
        let ledger = &mut self.ledger;
        let read = read_network(probes, ledger, snapshot, interfaces)
            .and_then(|()| read_blocks(probes, ledger, snapshot, &self.options.roots))
            .and_then(|()| read_batches(probes, ledger, snapshot));
        if let Err(error) = read {
            tracing::warn!(%error, "The probes cannot be read");
        }
        read_tasks(probes, ledger, snapshot, processes);
        read_costs(probes, ledger, snapshot);
    }
}

fn distribution(ledger: &mut Ledger, name: &str, value: &Histogram) -> Distribution {
    let raw = Distribution::new(value.count, value.sum, &value.buckets);
    Distribution::of_cells(&ledger.total(name, &raw.cells()))
}

fn read_network(
    probes: &mut Probes,
    ledger: &mut Ledger,
    snapshot: &mut Snapshot,
    interfaces: &BTreeSet<(u32, String)>,
) -> Result<(), ProbeError> {
    let unknown = (0, String::from("unknown"));
    for (number, device) in interfaces.iter().chain([&unknown]) {
        let nic = snapshot.nics.iter_mut().find(|nic| nic.device == *device);
        if let (Some(nic), Some(reading)) = (nic, probes.nic(*number)?) {
            if probes.works(Feature::Nics) {
                let totals = reading.totals;
                let cells = [
                    totals.receive_bytes,
                    totals.receive_packets,
                    totals.transmit_bytes,
                    totals.transmit_packets,
                ];
                let total = ledger.total(&format!("nic/{device}"), &cells);
                nic.probed = total.try_into().ok();
            }
            if probes.works(Feature::Drops) {
                let drops = ledger.total(
                    &format!("nic_drops/{device}"),
                    &[probes.nic_drops(*number)?],
                );
                nic.probed_drops = drops.first().copied();
            }
        }
        if let Some(reading) = probes.tcp(*number)? {
            let totals = reading.totals;
            let events = [
                totals.retransmits,
                totals.resets_sent,
                totals.resets_received,
            ];
            let events = ledger.total(&format!("tcp/{device}"), &events);
            let series = TcpSeries {
                device: device.clone(),
                round_trip: distribution(ledger, &format!("rtt/{device}"), &totals.round_trip),
                shortest_ns: probes.take_shortest_round_trip(*number)?,
                retransmits: events[0],
                resets: [events[1], events[2]],
            };
            if series.round_trip.count > 0 || events.iter().any(|count| *count > 0) {
                snapshot.tcp.push(series);
            }
        }
    }
    if probes.works(Feature::Drops) {
        for reading in probes.drops()? {
            let packets = ledger.total(&format!("drop/{}", reading.reason), &[reading.packets]);
            snapshot.drops.push(DropSeries {
                reason: reading.reason,
                packets: packets[0],
            });
        }
    }
    Ok(())
}

fn read_blocks(
    probes: &Probes,
    ledger: &mut Ledger,
    snapshot: &mut Snapshot,
    roots: &perigee_topology::Roots,
) -> Result<(), ProbeError> {
    for reading in probes.blocks()? {
        let key = reading.key;
        let folder = format!("dev/block/{}:{}", key.major, key.minor);
        let disk = roots.sys().resolve(&folder);
        let name = disk.and_then(|disk| Some(disk.file_name()?.to_string_lossy().into_owned()));
        let device = name.unwrap_or_else(|| format!("{}:{}", key.major, key.minor));
        let operation = BlockOperation::ALL.get(key.operation as usize);
        let direction = operation.map_or("other", |operation| operation.label());
        let name = format!("block/{device}/{direction}");
        let totals = reading.totals;
        let counted = totals.issued.saturating_sub(totals.device.count);
        let in_flight = roots.sys().text(&format!("{folder}/inflight"));
        let bytes = ledger.total(&name, &[totals.bytes]);
        snapshot.blocks.push(BlockSeries {
            queue: distribution(ledger, &format!("{name}/queue"), &totals.queue),
            device_time: distribution(ledger, &format!("{name}/device"), &totals.device),
            depth: depth(counted, direction, in_flight.as_deref()),
            bytes: bytes[0],
            direction: direction.to_owned(),
            device,
        });
    }
    Ok(())
}

/// Requests under way: what the probes count, but no more than the kernel knows of. A request that was given to the device
/// twice, or that ended while nobody looked, would stay under way for ever.
fn depth(counted: u64, direction: &str, in_flight: Option<&str>) -> u64 {
    let mut known = in_flight
        .unwrap_or_default()
        .split_whitespace()
        .map_while(|number| number.parse::<u64>().ok());
    match (known.next(), known.next()) {
        (Some(reads), Some(_)) if direction == "read" => counted.min(reads),
        (Some(_), Some(writes)) => counted.min(writes),
        _ => counted,
    }
}

fn read_tasks(
    probes: &Probes,
    ledger: &mut Ledger,
    snapshot: &mut Snapshot,
    processes: &[OurProcess],
) {
    let mut tasks: BTreeMap<(String, String), (u64, Histogram, Histogram)> = BTreeMap::new();
    let mut urings: BTreeMap<String, Histogram> = BTreeMap::new();
    for process in processes {
        for (thread, name) in &process.threads {
            if let Some(totals) = probes.task(*thread) {
                let entry = tasks
                    .entry((process.program.clone(), name.clone()))
                    .or_default();
                entry.0 += 1;
                entry.1.merge(&totals.run_queue);
                entry.2.merge(&totals.off_cpu);
            }
        }
        if let Some(latency) = probes.uring(process.pid) {
            urings
                .entry(process.program.clone())
                .or_default()
                .merge(&latency);
        }
    }
    for ((program, thread), (threads, run_queue, off_cpu)) in tasks {
        let name = format!("task/{program}/{thread}");
        snapshot.tasks.push(TaskSeries {
            run_queue: distribution(ledger, &format!("{name}/run_queue"), &run_queue),
            off_cpu: distribution(ledger, &format!("{name}/off_cpu"), &off_cpu),
            program,
            thread,
            threads,
        });
    }
    for (program, latency) in urings {
        let latency = distribution(ledger, &format!("uring/{program}"), &latency);
        snapshot.urings.push(UringSeries { program, latency });
    }
}

fn read_batches(
    probes: &Probes,
    ledger: &mut Ledger,
    snapshot: &mut Snapshot,
) -> Result<(), ProbeError> {
    let mut readings = probes.batches()?;
    // The busiest keep their names; which those are is decided by the bytes of their whole life, so it rarely changes.
    readings.sort_by_key(|reading| std::cmp::Reverse(reading.totals.bytes));
    let mut series: BTreeMap<[String; 5], BatchReading> = BTreeMap::new();
    for (rank, reading) in readings.into_iter().enumerate() {
        let labels = labels(&reading, rank >= BATCH_SERIES_MAX);
        match series.get_mut(&labels) {
            Some(sum) => {
                sum.totals.latency.merge(&reading.totals.latency);
                sum.totals.operations += reading.totals.operations;
                sum.totals.bytes += reading.totals.bytes;
                sum.totals.queue_ns += reading.totals.queue_ns;
                sum.totals.wire_ns += reading.totals.wire_ns;
            }
            None => drop(series.insert(labels, reading)),
        }
    }
    for (labels, reading) in series {
        let totals = reading.totals;
        let name = format!("batch/{}", labels.join("/"));
        let cells = [
            totals.operations,
            totals.bytes,
            totals.queue_ns,
            totals.wire_ns,
        ];
        let numbers = ledger.total(&name, &cells);
        let [device, peer, tenant, route, direction] = labels;
        snapshot.batches.push(BatchSeries {
            latency: distribution(ledger, &format!("{name}/latency"), &totals.latency),
            operations: numbers[0],
            bytes: numbers[1],
            queue_ns: numbers[2],
            wire_ns: numbers[3],
            device,
            peer,
            tenant,
            route,
            direction,
        });
    }
    Ok(())
}

/// NIC, peer, tenant, route, direction.
fn labels(reading: &BatchReading, is_rest: bool) -> [String; 5] {
    let key = reading.key;
    let named = |bytes: &[u8]| {
        if is_rest {
            "other".to_owned()
        } else {
            text(bytes)
        }
    };
    // A port number changes with every connection; a host does not.
    let peer = named(&key.peer);
    let host = peer
        .rsplit_once(':')
        .map_or(peer.as_str(), |(host, _)| host);
    [
        named(&key.nic),
        host.to_owned(),
        named(&key.tenant),
        route(key.route),
        direction(key.direction),
    ]
}

fn read_costs(probes: &Probes, ledger: &mut Ledger, snapshot: &mut Snapshot) {
    for (feature, cost) in probes.costs() {
        let total = ledger.total(&format!("cost/{}", cost.program), &[cost.runs, cost.run_ns]);
        snapshot.probes.push(ProbeSeries {
            probe: feature.label().to_owned(),
            program: cost.program.to_owned(),
            runs: total[0],
            run_ns: total[1],
        });
    }
    for (loss, count) in probes.losses().unwrap_or_default() {
        let total = ledger.total(&format!("lost/{}", loss.label()), &[count]);
        snapshot.lost.insert(loss.label().to_owned(), total[0]);
    }
}

pub(super) fn slow_entry(batch: &SlowBatch) -> SlowBatchEntry {
    let mark = batch.mark;
    SlowBatchEntry {
        ended_ns: batch.ended_ns,
        pid: batch.pid,
        device: text(&mark.nic),
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

/// A name up to its first zero. It comes from another process: what is no text is replaced.
fn text(bytes: &[u8]) -> String {
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
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
    use super::depth;

    #[test]
    fn no_more_requests_are_under_way_than_the_kernel_knows_of() {
        assert_eq!(depth(3, "read", Some("       1        7\n")), 1);
        assert_eq!(depth(3, "write", Some("       1        7\n")), 3);
        assert_eq!(depth(1, "read", Some("       0        0\n")), 0);
        assert_eq!(depth(2, "read", Some("nonsense")), 2);
        assert_eq!(depth(2, "write", None), 2);
    }
}
