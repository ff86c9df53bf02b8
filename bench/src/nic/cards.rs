//! Rows per network card. Invariant: their bytes are counted by the engine between the same two
//! moments as the total's by the load, so they sum up to it.

use std::time::Duration;

use crate::ends::mover::CardCount;
use crate::limits::LAGGING_SHARE;
use crate::load::drive::{Mark, Measured};
use crate::report::{Cell, Rate, Row};
use crate::sample::Spread;

/// Which of a card's bytes belong to a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LoadDirections {
    reads: bool,
    writes: bool,
}

impl LoadDirections {
    /// For an operation. If bytes are compared, each write is read back: beside writes that is no
    /// load at all, and of a mixed load it is as many bytes as were written.
    pub(super) fn of(operation: &str, verify: bool) -> Self {
        Self {
            reads: operation != "write",
            writes: operation == "write" || (operation == "mixed" && !verify),
        }
    }

    fn bytes(self, card: &CardCount) -> u64 {
        let part = |counts: bool, bytes: u64| if counts { bytes } else { 0 };
        part(self.reads, card.read_bytes) + part(self.writes, card.written_bytes)
    }

    /// What a card had carried of the load at some time.
    fn at(self, mark: &Mark, name: &str) -> u64 {
        let card = mark.cards.iter().find(|card| card.name == name);
        card.map_or(0, |card| self.bytes(card))
    }

    /// What a card carried of the load between two times.
    fn between(self, first: &Mark, last: &Mark, name: &str) -> u64 {
        self.at(last, name).saturating_sub(self.at(first, name))
    }
}

/// One row per card that moved something of the load or should have: those that were named, and
/// with one RDMA device all of them.
pub(super) fn rows(
    cell: &Cell<'_>,
    counted: LoadDirections,
    measured: &Measured,
    named: &[String],
) -> Vec<Row> {
    let [first, parts @ .., last] = &measured.marks[..] else {
        return Vec::new();
    };
    let row = |name: &str| {
        let bytes = counted.between(first, last, name);
        let mut samples = rates(first, parts, |mark| counted.at(mark, name));
        if samples.is_empty() {
            samples.push(bytes as f64 / measured.seconds);
        }
        row(cell, name, bytes, measured.seconds, samples)
    };
    let moved = |card: &CardCount| counted.between(first, last, &card.name) > 0;
    let uses_rdma = last.cards.iter().any(|card| card.is_rdma && moved(card));
    let is_wanted = |card: &&CardCount| {
        moved(card) || named.contains(&card.name) || (card.is_rdma && uses_rdma)
    };
    let known = last.cards.iter().filter(is_wanted).map(|card| &card.name);
    let is_unknown = |name: &&String| last.cards.iter().all(|card| card.name != **name);
    let unknown = named.iter().filter(is_unknown);
    known.chain(unknown).map(|name| row(name)).collect()
}

fn row(cell: &Cell<'_>, name: &str, bytes: u64, seconds: f64, samples: Vec<f64>) -> Row {
    // An operation may be split over several cards: each has its part of it.
    let operations = bytes as f64 / cell.bytes.max(1) as f64;
    let average = bytes as f64 / seconds;
    Row {
        operation: cell.operation.to_owned(),
        nic: name.to_owned(),
        bytes: cell.bytes,
        depth: cell.depth,
        threads: cell.threads,
        iterations: operations.round() as u64,
        seconds,
        operations_per_second: operations / seconds,
        rate: Rate {
            unit: cell.unit,
            peak: samples.iter().copied().fold(average, f64::max),
            average,
            samples,
        },
        latency: None,
        corrupt: 0,
        baselines: Vec::new(),
    }
}

/// Bytes per second in each part of the time.
fn rates(first: &Mark, parts: &[Mark], bytes: impl Fn(&Mark) -> u64) -> Vec<f64> {
    let earlier = std::iter::once(first).chain(parts);
    let rate = |(before, after): (&Mark, &Mark)| {
        let time = after.at.saturating_sub(before.at).max(Duration::from_nanos(1));
        bytes(after).saturating_sub(bytes(before)) as f64 / time.as_secs_f64()
    };
    earlier.zip(parts).map(rate).collect()
}

/// A warning for each card that is far behind the others.
pub(super) fn lagging(rows: &[Row]) -> Vec<String> {
    if rows.iter().all(is_idle) {
        return Vec::new();
    }
    let rates: Vec<f64> = rows.iter().map(|row| row.rate.average).collect();
    let median = Spread::of(&rates).median;
    let is_slow = |row: &&Row| is_idle(row) || row.rate.average < median * LAGGING_SHARE;
    let text = |row: &Row| match is_idle(row) {
        true => idle(row, rows),
        false => format!(
            "{} moved {:.2} of the median of the network cards ({}, {} bytes); look at its link, its \
             slot and the NUMA node of the buffers",
            row.nic,
            row.rate.average / median,
            row.operation,
            row.bytes
        ),
    };
    rows.iter().filter(is_slow).map(text).collect()
}

fn is_idle(row: &Row) -> bool {
    row.rate.average <= 0.0
}

/// Says where the bytes went that a card did not carry.
fn idle(row: &Row, rows: &[Row]) -> String {
    let busy = rows.iter().filter(|row| !is_idle(row));
    let busy: Vec<&str> = busy.map(|row| row.nic.as_str()).collect();
    format!(
        "{} carried nothing ({}, {} bytes), all went over {}; look at its link, its address and the \
         routes to the target",
        row.nic,
        row.operation,
        row.bytes,
        busy.join(", ")
    )
}

#[cfg(test)]
mod tests;
