//! Rows of cards whose counts are given.

use super::*;
use crate::load::latency::Recorder;
use crate::report::RateUnit;

const ALL: LoadDirections = LoadDirections { reads: true, writes: true };

/// A load of 2 seconds with operations of 100 bytes; `marks` has what each card had written, at
/// equal times.
fn measured(marks: &[&[u64]]) -> Measured {
    let card = |(at, written): (usize, &u64)| CardCount {
        name: format!("mlx5_{at}"),
        is_rdma: true,
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
        overdue: 0,
        latency: Recorder::default(),
        samples: Vec::new(),
        marks: marks.iter().enumerate().map(mark).collect(),
    }
}

fn rows_of(marks: &[&[u64]]) -> Vec<Row> {
    rows_with(&measured(marks), &[])
}

fn rows_with(measured: &Measured, named: &[String]) -> Vec<Row> {
    let cell = Cell { operation: "write", bytes: 100, depth: 1, threads: 1, unit: RateUnit::Bytes };
    rows(&cell, ALL, measured, named)
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
fn an_rdma_device_that_moved_nothing_beside_others_has_a_row_and_a_warning() {
    let rows = moved(&[0, 600]);
    assert_eq!((rows.len(), rows[0].rate.average), (2, 0.0));
    let warnings = lagging(&rows);
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].starts_with("mlx5_0 carried nothing (write, 100 bytes), all went over mlx5_1"),
        "{warnings:?}"
    );
    assert!(moved(&[0, 0]).is_empty());
    let still = rows_with(&measured(&[&[5], &[5]]), &["mlx5_0".to_owned()]);
    assert!(still.len() == 1 && lagging(&still).is_empty());
}

#[test]
fn cards_of_sockets_that_moved_nothing_have_a_row_only_if_they_were_named() {
    let mut measured = measured(&[&[5, 5], &[5, 605]]);
    for card in measured.marks.iter_mut().flat_map(|mark| &mut mark.cards) {
        card.is_rdma = false;
    }
    let names = |named: &[&str]| {
        let named: Vec<String> = named.iter().map(|name| (*name).to_owned()).collect();
        let rows = rows_with(&measured, &named);
        assert_eq!(lagging(&rows).len(), rows.len() - 1);
        rows.into_iter().map(|row| row.nic).collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["mlx5_1"]);
    assert_eq!(names(&["mlx5_0"]), ["mlx5_0", "mlx5_1"]);
    assert_eq!(names(&["mlx5_1", "eth7", "eth8"]), ["mlx5_1", "eth7", "eth8"]);
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
    let card =
        CardCount { name: "lo".to_owned(), is_rdma: false, read_bytes: 70, written_bytes: 30 };
    for (operation, verify, bytes) in [
        ("write", false, 30),
        ("write", true, 30),
        ("read", false, 70),
        ("read", true, 70),
        ("mixed", false, 100),
        // 30 were written, read back, and 40 read beside that.
        ("mixed", true, 70),
    ] {
        let counted = LoadDirections::of(operation, verify);
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
