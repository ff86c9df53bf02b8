//! Rows of cards whose counts are given.

use super::*;
use crate::latency::Recorder;
use crate::report::RateUnit;

const ALL: Counted = Counted {
    reads: true,
    writes: true,
};

/// A load of 2 seconds with operations of 100 bytes; `marks` has what each card had written, at equal times.
fn measured(marks: &[&[u64]]) -> Measured {
    let card = |(at, written): (usize, &u64)| CardCount {
        name: format!("mlx5_{at}"),
        read_bytes: 0,
        written_bytes: *written,
    };
    let step = Duration::from_secs(2) / (marks.len() as u32 - 1);
    let mark = |(at, counts): (usize, &&[u64])| Mark {
        at: step * at as u32,
        cards: counts.iter().enumerate().map(card).collect(),
    };
    Measured {
        seconds: 2.0,
        operations: 0,
        units: 0,
        corrupt: 0,
        latency: Recorder::default(),
        samples: Vec::new(),
        marks: marks.iter().enumerate().map(mark).collect(),
    }
}

fn rows_of(marks: &[&[u64]]) -> Vec<Row> {
    let cell = Cell {
        operation: "write",
        bytes: 100,
        depth: 1,
        threads: 1,
        unit: RateUnit::BytesPerSecond,
    };
    rows(&cell, ALL, &measured(marks))
}

/// Cards that had carried something before and moved so many bytes since.
fn moved(bytes: &[u64]) -> Vec<Row> {
    let before = vec![1000; bytes.len()];
    let after: Vec<u64> = bytes.iter().map(|bytes| 1000 + bytes).collect();
    rows_of(&[&before, &after])
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
fn the_peak_is_the_fastest_part() {
    let rows = rows_of(&[&[10], &[10], &[310], &[410], &[510]]);
    assert_eq!(rows[0].rate.samples, [0.0, 600.0, 200.0]);
    assert_eq!((rows[0].rate.peak, rows[0].rate.average), (600.0, 250.0));
}

#[test]
fn a_card_that_came_late_has_rates_from_the_beginning() {
    let rows = rows_of(&[&[], &[], &[200], &[200]]);
    assert_eq!(rows[0].iterations, 2);
    assert_eq!(rows[0].rate.samples.len(), 2);
}

#[test]
fn bytes_that_are_read_to_be_compared_belong_to_no_row() {
    let card = CardCount {
        name: "lo".to_owned(),
        read_bytes: 70,
        written_bytes: 30,
    };
    for (operation, verify, bytes) in [
        ("write", false, 30),
        ("write", true, 30),
        ("read", false, 70),
        ("read", true, 70),
        ("mixed", false, 100),
        // 30 were written, read back, and 40 read beside that.
        ("mixed", true, 70),
    ] {
        let counted = Counted::of(operation, verify);
        assert_eq!(counted.bytes(&card), bytes, "{operation} {verify}");
    }
}

#[test]
fn only_a_card_below_half_of_the_median_is_warned_of() {
    let warnings = lagging(&moved(&[1000, 1000, 1000, 400]));
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].starts_with("mlx5_3 moved 0.40"), "{warnings:?}");
    assert!(lagging(&moved(&[1000, 1000, 600])).is_empty());
    assert!(lagging(&moved(&[1000])).is_empty());
}
