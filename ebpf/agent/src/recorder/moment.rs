//! The part of a snapshot that the recorder keeps. Invariant: its size is bounded, whatever the
//! host has; counters stay as they are, so what happened between two records is their difference.

use crate::limits::{
    MOMENT_DISKS, MOMENT_FLOWS, MOMENT_LINKS, MOMENT_NICS, MOMENT_SLOW, MOMENT_THREADS,
};
use crate::snapshot::{FlowSeries, LinkSeries, NicSeries, Snapshot, TaskSeries};
use std::collections::BTreeMap;

/// What is kept of a snapshot; slow batches only if they ended after the last record.
pub(super) fn moment(snapshot: &Snapshot, last_ms: u64) -> Snapshot {
    let slow = snapshot.slow.iter().filter(|batch| batch.ended_ms > last_ms);
    Snapshot {
        schema: snapshot.schema,
        taken_ms: snapshot.taken_ms,
        monotonic_ns: snapshot.monotonic_ns,
        host: snapshot.host.clone(),
        version: snapshot.version.clone(),
        nics: snapshot.nics.iter().take(MOMENT_NICS).map(nic).collect(),
        flows: flows(&snapshot.flows),
        tcp: snapshot.tcp.iter().take(MOMENT_NICS).cloned().collect(),
        links: links(&snapshot.links),
        suspects: snapshot.suspects.clone(),
        blocks: snapshot.blocks.iter().take(MOMENT_DISKS).cloned().collect(),
        disks: snapshot.disks.iter().take(MOMENT_DISKS).cloned().collect(),
        tasks: tasks(&snapshot.tasks),
        slow: slow.take(MOMENT_SLOW).cloned().collect(),
        processes: snapshot.processes.iter().take(MOMENT_THREADS).cloned().collect(),
        collect_ns: snapshot.collect_ns,
        ..Snapshot::default()
    }
}

fn nic(nic: &NicSeries) -> NicSeries {
    NicSeries { hardware: BTreeMap::new(), ..nic.clone() }
}

/// Sums over programs and shards.
fn flows(flows: &[FlowSeries]) -> Vec<FlowSeries> {
    let mut sums: BTreeMap<[&str; 3], FlowSeries> = BTreeMap::new();
    for flow in flows {
        let key = [flow.device.as_str(), &flow.route, &flow.direction];
        let sum = sums.entry(key).or_insert_with(|| FlowSeries {
            device: flow.device.clone(),
            route: flow.route.clone(),
            direction: flow.direction.clone(),
            ..FlowSeries::default()
        });
        sum.add(flow);
        // Half of a record's room would be finer buckets.
        sum.latency = sum.latency.by_powers();
    }
    sums.into_values().take(MOMENT_FLOWS).collect()
}

/// Those that moved something lately, the busiest first.
fn links(links: &[LinkSeries]) -> Vec<LinkSeries> {
    let mut busiest: Vec<&LinkSeries> = links.iter().collect();
    busiest.sort_by_key(|link| std::cmp::Reverse((link.connections > 0, link.bytes)));
    busiest.into_iter().take(MOMENT_LINKS).cloned().collect()
}

/// Those that waited longest.
fn tasks(tasks: &[TaskSeries]) -> Vec<TaskSeries> {
    let mut longest: Vec<&TaskSeries> = tasks.iter().collect();
    longest.sort_by_key(|task| std::cmp::Reverse(task.run_queue.sum_ns));
    longest.into_iter().take(MOMENT_THREADS).cloned().collect()
}
