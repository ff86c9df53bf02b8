//! Rows per network card. Invariant: their bytes are counted by the engine between the same two moments as the total's by
//! the load, so they sum up to it.

use std::time::Duration;

use crate::drive::{Mark, Measured};
use crate::limits::LAGGING_SHARE;
use crate::mover::CardCount;
use crate::report::{Cell, Rate, Row};
use crate::sample::Spread;

/// Which of a card's bytes belong to a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counted {
    reads: bool,
    writes: bool,
}

impl Counted {
    /// For an operation. If bytes are compared, each write is read back: beside writes that is no load at all, and of a
    /// mixed load it is as many bytes as were written.
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
}

/// One row per card that moved something of the load.
pub(super) fn rows(cell: &Cell<'_>, counted: Counted, measured: &Measured) -> Vec<Row> {
    let [first, parts @ .., last] = &measured.marks[..] else {
        return Vec::new();
    };
    let row = |card: &CardCount| {
        let at = |mark: &Mark| counted.at(mark, &card.name);
        let bytes = at(last).saturating_sub(at(first));
        (bytes > 0).then(|| {
            let average = bytes as f64 / measured.seconds;
            let mut samples = rates(first, parts, at);
            if samples.is_empty() {
                samples.push(average);
            }
            row(cell, &card.name, bytes, measured.seconds, samples)
        })
    };
    last.cards.iter().filter_map(row).collect()
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
    }
}

/// Bytes per second in each part of the time.
fn rates(first: &Mark, parts: &[Mark], bytes: impl Fn(&Mark) -> u64) -> Vec<f64> {
    let earlier = std::iter::once(first).chain(parts);
    let rate = |(before, after): (&Mark, &Mark)| {
        let time = after
            .at
            .saturating_sub(before.at)
            .max(Duration::from_nanos(1));
        bytes(after).saturating_sub(bytes(before)) as f64 / time.as_secs_f64()
    };
    earlier.zip(parts).map(rate).collect()
}

/// A warning for each card that is far behind the others.
pub(super) fn lagging(rows: &[Row]) -> Vec<String> {
    let rates: Vec<f64> = rows.iter().map(|row| row.rate.average).collect();
    let median = Spread::of(&rates).median;
    let is_slow = |row: &&Row| rows.len() > 1 && row.rate.average < median * LAGGING_SHARE;
    let text = |row: &Row| {
        format!(
            "{} moved {:.2} of the median of the network cards ({}, {} bytes); look at its link, its \
             slot and the NUMA node of the buffers",
            row.nic,
            row.rate.average / median,
            row.operation,
            row.bytes
        )
    };
    rows.iter().filter(is_slow).map(text).collect()
}

#[cfg(test)]
mod tests;
