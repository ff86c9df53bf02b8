//! Rows of links between a NIC and a peer, and of slow batches, with the peer's part.

use crate::top::pace::ReadingGap;
use crate::top::table::{TableCell, TableRow};
use perigee_agent::{LinkSeries, SlowBatchEntry, Snapshot};

/// A row for each NIC and peer.
pub(super) fn links(newer: &Snapshot, older: &Snapshot, pace: &ReadingGap) -> Vec<TableRow> {
    let row = |link: &LinkSeries| {
        let same = |other: &&LinkSeries| (&other.device, &other.peer) == (&link.device, &link.peer);
        let before = older.links.iter().find(same);
        let grown = |field: fn(&LinkSeries) -> u64| {
            before.map_or(0, |before| field(link).saturating_sub(field(before)))
        };
        let operations = grown(|link| link.operations);
        let each =
            |nanoseconds: u64| (operations > 0).then(|| nanoseconds as f64 / operations as f64);
        let bytes = pace.rate(link.bytes, before.map(|link| link.bytes));
        let peers = grown(|link| link.waited_ns)
            .saturating_add(grown(|link| link.copied_ns))
            .saturating_add(grown(|link| link.disk_ns));
        TableRow {
            key: format!("{} {}", link.device, link.peer),
            cells: vec![
                TableCell::text(&link.device),
                TableCell::text(&link.peer),
                TableCell::bytes(bytes),
                TableCell::count(pace.rate(link.operations, before.map(|link| link.operations))),
                TableCell::time(each(grown(|link| link.wire_ns))),
                TableCell::time(each(peers)),
                TableCell::time(link.asked_round_trip_ns.map(|time| time as f64)),
                TableCell::count(pace.rate(link.retransmits, before.map(|link| link.retransmits))),
            ],
            graph: [bytes, 0.0],
        }
    };
    newer.links.iter().map(row).collect()
}

/// A row for each slow batch that the agent remembers.
pub(super) fn slow(newer: &Snapshot) -> Vec<TableRow> {
    let row = |(number, batch): (usize, &SlowBatchEntry)| {
        let stages = [batch.queue_ns, batch.wire_ns, batch.peer_ns, batch.disk_ns];
        let took = stages.into_iter().fold(0, u64::saturating_add);
        let time = |nanoseconds: u64| TableCell::time(Some(nanoseconds as f64));
        let SlowBatchEntry { ended_ms, pid, device, peer, .. } = batch;
        let place = if device.is_empty() { "memory" } else { device };
        TableRow {
            key: format!("{place} {peer} {ended_ms} {pid} {number}"),
            cells: vec![
                TableCell::ago(newer.taken_ms.saturating_sub(*ended_ms)),
                time(took),
                time(batch.queue_ns),
                time(batch.wire_ns),
                time(batch.peer_ns),
                time(batch.disk_ns),
                TableCell::bytes(batch.bytes as f64),
                TableCell::text(&batch.direction),
                TableCell::text(place),
                TableCell::text(peer),
            ],
            graph: [took as f64, 0.0],
        }
    };
    // The number goes from the oldest, so that a row keeps its key when others come.
    let count = newer.slow.len();
    newer.slow.iter().enumerate().map(|(at, batch)| row((count - at, batch))).collect()
}
