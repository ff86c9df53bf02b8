//! What happened between two snapshots, as tables. Pure: two snapshots in, rows out.

mod links;

use super::pace::ReadingGap;
use super::table::{Table, TableCell, TableRow, View};
use links::{links, slow};
use perigee_agent::{DiskSeries, Distribution, NicSeries, Snapshot};

/// The tables of all views.
pub(super) fn table(view: View, newer: &Snapshot, older: &Snapshot) -> Table {
    let has_two = older.monotonic_ns > 0;
    let gap_ns = newer.monotonic_ns.saturating_sub(older.monotonic_ns);
    let seconds = if has_two { gap_ns as f64 / 1e9 } else { 0.0 };
    let pace = ReadingGap { seconds };
    let rows = match view {
        View::Nics => nics(newer, older, &pace),
        View::Links => links(newer, older, &pace),
        View::Flows => flows(newer, older, &pace),
        View::Slow => slow(newer),
        View::Tier => tier(newer, older, &pace),
        View::Disks => disks(newer, older, &pace),
        View::Shards => shards(newer, older, &pace),
        View::Probes => probes(newer, older, &pace),
    };
    Table { view, rows }
}

/// Values that came between two readings.
fn between(newer: &Distribution, older: Option<&Distribution>) -> Distribution {
    older.map_or_else(|| newer.clone(), |older| newer.since(older))
}

/// The value that this share of values lies below, as the agent's page and verdicts count it;
/// `None` without values.
fn quantile(distribution: &Distribution, share: f64) -> Option<f64> {
    let is_empty = distribution.buckets.iter().all(|count| *count == 0);
    (!is_empty).then(|| distribution.quantile(share) as f64)
}

fn latency(newer: &Distribution, older: Option<&Distribution>) -> [TableCell; 2] {
    let values = between(newer, older);
    [0.5, 0.99].map(|share| TableCell::time(quantile(&values, share)))
}

fn nics(newer: &Snapshot, older: &Snapshot, pace: &ReadingGap) -> Vec<TableRow> {
    let row = |nic: &NicSeries| {
        let same = |other: &&NicSeries| other.device == nic.device && other.port == nic.port;
        let before = older.nics.iter().find(same);
        let receive = pace.rate(nic.receive_bytes, before.map(|nic| nic.receive_bytes));
        let transmit = pace.rate(nic.transmit_bytes, before.map(|nic| nic.transmit_bytes));
        let share = nic.link_bytes_per_second.map(|link| receive.max(transmit) / link as f64);
        let [p50, p99] = device_latency(&nic.device, newer, older);
        let lost = nic.errors + nic.drops;
        let was = before.map(|nic| nic.errors + nic.drops);
        TableRow {
            key: format!("{}/{}", nic.device, nic.port),
            cells: vec![
                TableCell::text(&nic.device),
                TableCell::text(&nic.kind),
                TableCell::text(if nic.up { "up" } else { "DOWN" }),
                TableCell::bytes(receive),
                TableCell::bytes(transmit),
                TableCell::percent(share),
                p50,
                p99,
                TableCell::count(pace.rate(lost, was)),
            ],
            graph: [receive, transmit],
        }
    };
    newer.nics.iter().map(row).collect()
}

/// Latency of what the data plane moved over one device.
fn device_latency(device: &str, newer: &Snapshot, older: &Snapshot) -> [TableCell; 2] {
    let sum = |snapshot: &Snapshot| {
        let mut sum = Distribution::default();
        for flow in snapshot.flows.iter().filter(|flow| flow.device == device) {
            sum.merge(&flow.latency);
        }
        sum
    };
    latency(&sum(newer), Some(&sum(older)))
}

fn flows(newer: &Snapshot, older: &Snapshot, pace: &ReadingGap) -> Vec<TableRow> {
    let rows = newer.flows.iter().map(|flow| {
        let before = older.flows.iter().find(|other| {
            (&other.device, &other.route, &other.direction, &other.program, &other.shard)
                == (&flow.device, &flow.route, &flow.direction, &flow.program, &flow.shard)
        });
        let bytes = pace.rate(flow.bytes, before.map(|flow| flow.bytes));
        let operations = pace.rate(flow.operations, before.map(|flow| flow.operations));
        let [p50, p99] = latency(&flow.latency, before.map(|flow| &flow.latency));
        let device = if flow.device.is_empty() { "memory" } else { &flow.device };
        TableRow {
            key: format!(
                "{device} {} {} {} {}",
                flow.route, flow.direction, flow.program, flow.shard
            ),
            cells: vec![
                TableCell::text(device),
                TableCell::text(&flow.route),
                TableCell::text(&flow.direction),
                TableCell::text(&format!("{} {}", flow.program, flow.shard)),
                TableCell::bytes(bytes),
                TableCell::count(operations),
                p50,
                p99,
                TableCell::count(pace.rate(flow.errors, before.map(|flow| flow.errors))),
            ],
            graph: [bytes, 0.0],
        }
    });
    rows.collect()
}

/// Disks that keep objects.
fn tier(newer: &Snapshot, older: &Snapshot, pace: &ReadingGap) -> Vec<TableRow> {
    let rows = newer.disks.iter().map(|disk| {
        let same = |other: &&DiskSeries| (other.pid, &other.path) == (disk.pid, &disk.path);
        let before = older.disks.iter().find(same);
        let reads = pace.rate(disk.read_bytes, before.map(|disk| disk.read_bytes));
        let writes = pace.rate(disk.written_bytes, before.map(|disk| disk.written_bytes));
        let [_, p99] = latency(&disk.reads, before.map(|disk| &disk.reads));
        let full = disk.used_bytes as f64 / disk.capacity_bytes.max(1) as f64;
        let left_s = disk.retry_ms.saturating_sub(newer.taken_ms) / 1000;
        let why = match (disk.reason.as_str(), disk.retry_ms) {
            (reason, 0) => reason.to_owned(),
            (reason, _) => format!("in {left_s} s: {reason}"),
        };
        TableRow {
            key: format!("{} {}", disk.pid, disk.path),
            cells: vec![
                TableCell::text(&disk.path),
                TableCell::text(&format!("{} {}", disk.program, disk.pid)),
                TableCell::text(&disk.state),
                TableCell::percent(Some(full)),
                TableCell::bytes(reads),
                p99,
                TableCell::bytes(writes),
                TableCell::text(&why),
            ],
            graph: [reads, writes],
        }
    });
    rows.collect()
}

fn disks(newer: &Snapshot, older: &Snapshot, pace: &ReadingGap) -> Vec<TableRow> {
    let rows = newer.blocks.iter().map(|disk| {
        let before = older
            .blocks
            .iter()
            .find(|other| (&other.device, &other.direction) == (&disk.device, &disk.direction));
        let bytes = pace.rate(disk.bytes, before.map(|disk| disk.bytes));
        let requests = pace.rate(disk.device_time.count, before.map(|disk| disk.device_time.count));
        let [p50, p99] = latency(&disk.device_time, before.map(|disk| &disk.device_time));
        let [_, queued] = latency(&disk.queue, before.map(|disk| &disk.queue));
        TableRow {
            key: format!("{} {}", disk.device, disk.direction),
            cells: vec![
                TableCell::text(&disk.device),
                TableCell::text(&disk.direction),
                TableCell::bytes(bytes),
                TableCell::count(requests),
                TableCell::count(disk.depth as f64),
                p50,
                p99,
                queued,
            ],
            graph: [bytes, 0.0],
        }
    });
    rows.collect()
}

fn shards(newer: &Snapshot, older: &Snapshot, pace: &ReadingGap) -> Vec<TableRow> {
    let rows = newer.tasks.iter().map(|task| {
        let before = older
            .tasks
            .iter()
            .find(|other| (&other.program, &other.thread) == (&task.program, &task.thread));
        let waits = between(&task.run_queue, before.map(|task| &task.run_queue));
        let sleeps = pace.rate(task.off_cpu.count, before.map(|task| task.off_cpu.count));
        let share =
            waits.sum_ns as f64 / (pace.seconds.max(1e-9) * 1e9 * task.threads.max(1) as f64);
        TableRow {
            key: format!("{} {}", task.program, task.thread),
            cells: vec![
                TableCell::text(&task.program),
                TableCell::text(&task.thread),
                TableCell::count(task.threads as f64),
                TableCell::percent(Some(share)),
                TableCell::time(quantile(&waits, 0.5)),
                TableCell::time(quantile(&waits, 0.99)),
                TableCell::count(sleeps),
            ],
            graph: [share, 0.0],
        }
    });
    rows.collect()
}

fn probes(newer: &Snapshot, older: &Snapshot, pace: &ReadingGap) -> Vec<TableRow> {
    let rows = newer.sources.iter().map(|source| {
        let sum = |snapshot: &Snapshot| {
            let own = snapshot.probes.iter().filter(|probe| probe.probe == source.name);
            own.fold((0, 0), |sum, probe| (sum.0 + probe.runs, sum.1 + probe.run_ns))
        };
        let (now, before) = (sum(newer), sum(older));
        let (runs, run_ns) = (now.0.saturating_sub(before.0), now.1.saturating_sub(before.1));
        let each = (runs > 0).then(|| run_ns as f64 / runs as f64);
        let why = if source.reason.is_empty() { &source.source } else { &source.reason };
        TableRow {
            key: source.name.clone(),
            cells: vec![
                TableCell::text(&source.name),
                TableCell::text(&source.state),
                TableCell::count(pace.rate(now.0, Some(before.0))),
                TableCell::time(each),
                TableCell::text(why),
            ],
            graph: [pace.rate(now.0, Some(before.0)), 0.0],
        }
    });
    rows.collect()
}
