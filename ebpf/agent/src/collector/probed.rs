//! What the probes have counted, under the names of the host's devices.

use super::Collector;
use crate::histogram::Distribution;
use crate::host::OurProcess;
use crate::ledger::{self, CellSource, Ledger};
use crate::snapshot::{
    BlockSeries, DropSeries, NicSeries, ProbeSeries, Snapshot, TaskSeries, TcpSeries, UringSeries,
};
use perigee_probe_loader::value::{BlockOperation, DurationHistogram};
use perigee_probe_loader::{BlockReading, Feature, ProbeError, Probes};
use perigee_topology::Roots;
use std::collections::{BTreeMap, BTreeSet};

/// Device of what has none, and its slot.
const UNKNOWN: (u32, &str) = (0, "unknown");

impl Collector {
    pub(super) fn read_probes(
        &mut self,
        snapshot: &mut Snapshot,
        interfaces: &BTreeSet<(u32, String)>,
        processes: &[OurProcess],
    ) {
        let Some(probes) = &mut self.probes else {
            return;
        };
        let ledger = &mut self.ledger;
        let read = read_network(probes, ledger, snapshot, interfaces)
            .and_then(|()| read_blocks(probes, ledger, snapshot, &self.options.roots));
        if let Err(error) = read {
            tracing::warn!(%error, "The probes cannot be read");
        }
        read_tasks(probes, ledger, snapshot, processes);
        read_costs(probes, ledger, snapshot);
    }
}

fn cells(value: &DurationHistogram) -> Vec<u64> {
    Distribution::new(value.count, value.sum, &value.buckets).cells()
}

/// Counts a distribution with a source; returns the series' total.
fn distribution(
    ledger: &mut Ledger,
    series: &str,
    source: CellSource,
    value: &DurationHistogram,
) -> Distribution {
    ledger.count(series, source, &cells(value));
    Distribution::of_cells(ledger.read(series))
}

fn read_network(
    probes: &mut Probes,
    ledger: &mut Ledger,
    snapshot: &mut Snapshot,
    interfaces: &BTreeSet<(u32, String)>,
) -> Result<(), ProbeError> {
    let known = interfaces.iter().map(|(number, name)| (*number, name.as_str()));
    for (number, device) in known.chain([UNKNOWN]) {
        let nic = snapshot.nics.iter_mut().find(|nic| nic.device == device);
        if let Some(nic) = nic {
            read_nic(probes, ledger, number, nic)?;
        }
        if let Some(series) = read_tcp(probes, ledger, number, device)? {
            snapshot.tcp.push(series);
        }
    }
    if probes.works(Feature::Drops) {
        for reading in probes.drops()? {
            ledger.total(&ledger::name("drop", [&reading.reason]), [reading.packets]);
        }
        for [reason] in ledger.of_kind("drop") {
            let [packets] = ledger.numbers(&ledger::name("drop", [&reason]));
            snapshot.drops.push(DropSeries { reason, packets });
        }
    }
    Ok(())
}

fn read_nic(
    probes: &Probes,
    ledger: &mut Ledger,
    number: u32,
    nic: &mut NicSeries,
) -> Result<(), ProbeError> {
    let Some(reading) = probes.nic(number)? else {
        return Ok(());
    };
    if probes.works(Feature::Nics) {
        let totals = reading.totals;
        let cells = [
            totals.receive_bytes,
            totals.receive_packets,
            totals.transmit_bytes,
            totals.transmit_packets,
        ];
        let series = ledger::name("nic", [&nic.device]);
        ledger.count(&series, CellSource::Slot("nic", number), &cells);
        nic.probed = Some(ledger.numbers(&series));
    }
    if probes.works(Feature::Drops) {
        let series = ledger::name("nic_drops", [&nic.device]);
        let cells = [probes.nic_drops(number)?];
        ledger.count(&series, CellSource::Slot("nic_drops", number), &cells);
        let [drops] = ledger.numbers(&series);
        nic.probed_drops = Some(drops);
    }
    Ok(())
}

/// Connections behind an interface, if anything was ever seen of them.
fn read_tcp(
    probes: &mut Probes,
    ledger: &mut Ledger,
    number: u32,
    device: &str,
) -> Result<Option<TcpSeries>, ProbeError> {
    let Some(reading) = probes.tcp(number)? else {
        return Ok(None);
    };
    let totals = reading.totals;
    let series = ledger::name("tcp", [device]);
    let cells = [totals.retransmits, totals.resets_sent, totals.resets_received];
    ledger.count(&series, CellSource::Slot("tcp", number), &cells);
    let [retransmits, sent, received] = ledger.numbers(&series);
    let series = ledger::name("rtt", [device]);
    let source = CellSource::Slot("rtt", number);
    let read = TcpSeries {
        device: device.to_owned(),
        round_trip: distribution(ledger, &series, source, &totals.round_trip),
        shortest_ns: probes.take_shortest_round_trip(number)?,
        retransmits,
        resets: [sent, received],
    };
    let is_empty = read.round_trip.count == 0 && retransmits + sent + received == 0;
    Ok((!is_empty).then_some(read))
}

fn read_blocks(
    probes: &Probes,
    ledger: &mut Ledger,
    snapshot: &mut Snapshot,
    roots: &Roots,
) -> Result<(), ProbeError> {
    let mut depths = BTreeMap::new();
    for reading in probes.blocks()? {
        let (labels, depth) = count_block(ledger, &reading, roots);
        depths.insert(labels, depth);
    }
    // Also what only earlier agents saw busy, as long as it is there.
    for labels in ledger.of_kind("block") {
        let under_way = depths.get(&labels).copied();
        let is_there = || roots.sys().has(&format!("class/block/{}", labels[0]));
        if under_way.is_none() && !is_there() {
            continue;
        }
        let part = |kind: &str| ledger::name(kind, [&labels[0], &labels[1]]);
        let [bytes] = ledger.numbers(&part("block"));
        let (queue, device_time) = (part("block_queue"), part("block_device"));
        let [device, direction] = labels;
        snapshot.blocks.push(BlockSeries {
            device,
            direction,
            bytes,
            depth: under_way.unwrap_or(0),
            queue: Distribution::of_cells(ledger.read(&queue)),
            device_time: Distribution::of_cells(ledger.read(&device_time)),
        });
    }
    Ok(())
}

/// Device and direction of what was counted, and how many requests are under way.
fn count_block(ledger: &mut Ledger, reading: &BlockReading, roots: &Roots) -> ([String; 2], u64) {
    let key = reading.key;
    let folder = format!("dev/block/{}:{}", key.major, key.minor);
    let disk = roots.sys().resolve(&folder);
    let name = disk.and_then(|disk| Some(disk.file_name()?.to_string_lossy().into_owned()));
    let device = name.unwrap_or_else(|| format!("{}:{}", key.major, key.minor));
    let operation = BlockOperation::ALL.get(key.operation as usize);
    let direction = operation.map_or("other", |operation| operation.label());
    let totals = reading.totals;
    let labels = [device.as_str(), direction];
    for (kind, cells) in [
        ("block", vec![totals.bytes]),
        ("block_queue", cells(&totals.queue)),
        ("block_device", cells(&totals.device)),
    ] {
        let place = format!("{kind}/{}:{}/{}", key.major, key.minor, key.operation);
        ledger.count(&ledger::name(kind, labels), CellSource::Place(place), &cells);
    }
    let counted = totals.issued.saturating_sub(totals.device.count);
    let in_flight = roots.sys().text(&format!("{folder}/inflight"));
    let depth = depth(counted, direction, in_flight.as_deref());
    (labels.map(str::to_owned), depth)
}

/// Requests under way: what the probes count, but no more than the kernel knows of. A request that
/// was given to the device twice, or that ended while no probe was attached, would stay under way
/// forever.
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
    let mut tasks: BTreeMap<[&str; 2], u64> = BTreeMap::new();
    let mut urings: BTreeSet<&str> = BTreeSet::new();
    for process in processes {
        for (thread, name) in &process.threads {
            if let Some(totals) = probes.task(*thread) {
                let labels = [process.program.as_str(), name];
                *tasks.entry(labels).or_default() += 1;
                for (kind, value) in
                    [("run_queue", &totals.run_queue), ("off_cpu", &totals.off_cpu)]
                {
                    let series = ledger::name(kind, labels);
                    ledger.count(&series, CellSource::Life(kind, *thread), &cells(value));
                }
            }
        }
        if let Some(latency) = probes.uring(process.pid) {
            urings.insert(&process.program);
            let series = ledger::name("uring", [&process.program]);
            ledger.count(&series, CellSource::Life("uring", process.pid), &cells(&latency));
        }
    }
    let total = |name: String| Distribution::of_cells(ledger.read(&name));
    for (labels, threads) in tasks {
        snapshot.tasks.push(TaskSeries {
            run_queue: total(ledger::name("run_queue", labels)),
            off_cpu: total(ledger::name("off_cpu", labels)),
            program: labels[0].to_owned(),
            thread: labels[1].to_owned(),
            threads,
        });
    }
    for program in urings {
        snapshot.urings.push(UringSeries {
            latency: total(ledger::name("uring", [program])),
            program: program.to_owned(),
        });
    }
}

fn read_costs(probes: &Probes, ledger: &mut Ledger, snapshot: &mut Snapshot) {
    for (feature, cost) in probes.costs() {
        let series = ledger::name("cost", [cost.program]);
        let [runs, run_ns] = ledger.total(&series, [cost.runs, cost.run_ns]);
        snapshot.probes.push(ProbeSeries {
            probe: feature.label().to_owned(),
            program: cost.program.to_owned(),
            runs,
            run_ns,
        });
    }
    for (loss, count) in probes.losses().unwrap_or_default() {
        let [total] = ledger.total(&ledger::name("lost", [loss.label()]), [count]);
        snapshot.lost.insert(loss.label().to_owned(), total);
    }
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
