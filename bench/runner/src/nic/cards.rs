//! Rows per network card. Invariant: their bytes are counted by the engine, the total's by the load.

use crate::limits::LAGGING_SHARE;
use crate::mover::CardCount;
use crate::report::{Cell, Rate, Row};
use crate::sample::Spread;

/// One row per card that moved something between two counts, `seconds` apart.
pub(super) fn rows(
    cell: &Cell<'_>,
    before: &[CardCount],
    after: &[CardCount],
    seconds: f64,
) -> Vec<Row> {
    let moved = after.iter().filter_map(|card| {
        let earlier = before.iter().find(|earlier| earlier.name == card.name);
        let bytes = card.bytes - earlier.map_or(0, |earlier| earlier.bytes.min(card.bytes));
        let earlier = earlier.map_or(0, |earlier| earlier.operations.min(card.operations));
        (bytes > 0).then_some((&card.name, bytes, card.operations - earlier))
    });
    let row = |(name, bytes, operations): (&String, u64, u64)| {
        let average = bytes as f64 / seconds;
        Row {
            operation: cell.operation.to_owned(),
            nic: name.clone(),
            bytes: cell.bytes,
            depth: cell.depth,
            threads: cell.threads,
            iterations: operations,
            seconds,
            operations_per_second: operations as f64 / seconds,
            rate: Rate {
                unit: cell.unit,
                peak: average,
                average,
                samples: Vec::new(),
            },
            latency: None,
            corrupt: 0,
        }
    };
    moved.map(row).collect()
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
mod tests {
    use super::*;
    use crate::report::RateUnit;

    fn card(name: &str, bytes: u64) -> CardCount {
        CardCount {
            name: name.to_owned(),
            bytes,
            operations: bytes / 100,
        }
    }

    fn moved(bytes: &[u64]) -> Vec<Row> {
        let cell = Cell {
            operation: "write",
            bytes: 100,
            depth: 1,
            threads: 1,
            unit: RateUnit::BytesPerSecond,
        };
        let cards = |start: u64| -> Vec<CardCount> {
            let named = bytes.iter().enumerate();
            named
                .map(|(at, bytes)| {
                    card(
                        &format!("mlx5_{at}"),
                        start + if start == 0 { 0 } else { *bytes },
                    )
                })
                .collect()
        };
        let before: Vec<CardCount> = bytes
            .iter()
            .enumerate()
            .map(|(at, _)| card(&format!("mlx5_{at}"), 1000))
            .collect();
        rows(&cell, &before, &cards(1000), 2.0)
    }

    #[test]
    fn a_row_is_what_was_moved_in_between() {
        let rows = moved(&[400, 600]);
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[1].rate.average, rows[1].iterations), (300.0, 6));
        assert_eq!(rows[0].operations_per_second, 2.0);
    }

    #[test]
    fn a_card_that_moved_nothing_has_no_row() {
        assert_eq!(moved(&[0, 600]).len(), 1);
    }

    #[test]
    fn only_a_card_below_half_of_the_median_is_warned_of() {
        let warnings = lagging(&moved(&[1000, 1000, 1000, 400]));
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].starts_with("mlx5_3 moved 0.40"), "{warnings:?}");
        assert!(lagging(&moved(&[1000, 1000, 600])).is_empty());
        assert!(lagging(&moved(&[1000])).is_empty());
    }
}
