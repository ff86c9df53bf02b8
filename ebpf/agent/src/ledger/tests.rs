//! Lives of sources, agents that are started again, and hosts whose interfaces come and go.

use super::*;

/// One reading of these sources, all under one series.
fn turn(ledger: &mut Ledger, series: &str, sources: &[(CellSource, &[u64])]) {
    ledger.begin();
    for (source, cells) in sources {
        ledger.count(series, source.clone(), cells);
    }
    ledger.end();
}

#[test]
fn a_restarted_agent_goes_on_where_the_last_one_was() {
    let folder = tempfile::tempdir().unwrap();
    let keep = StateFolder::new(Some(folder.path()), "boot");
    let mut first = Ledger::open(&keep);
    assert_eq!(first.total("a", [5, 1]), [5, 1]);
    first.total("gone", [3]);
    first.save(&keep).unwrap();
    let mut second = Ledger::open(&keep);
    assert_eq!(second.total("a", [2, 0]), [7, 1]);
    second.save(&keep).unwrap();
    let mut third = Ledger::open(&keep);
    assert_eq!(third.total("gone", [0]), [3]);
    assert_eq!(third.total("a", [0, 0]), [7, 1]);
}

#[test]
fn a_thread_that_ended_and_one_that_follows_it_are_both_counted_in_full() {
    let mut ledger = Ledger::default();
    let thread = |number| CellSource::Life("task", number);
    turn(&mut ledger, "t", &[(thread(7), &[10, 100]), (thread(8), &[1, 1])]);
    turn(&mut ledger, "t", &[(thread(8), &[2, 2])]);
    assert_eq!(ledger.read("t"), [12, 102], "what it had counted stays");
    // The same number for another thread, which has counted more already than the first one ever
    // did.
    turn(&mut ledger, "t", &[(thread(7), &[11, 110]), (thread(8), &[2, 2])]);
    assert_eq!(ledger.read("t"), [23, 212]);
}

#[test]
fn a_source_that_falls_has_restarted() {
    let mut ledger = Ledger::default();
    assert_eq!(ledger.total("a", [5, 1]), [5, 1]);
    assert_eq!(ledger.total("a", [4, 2]), [9, 3]);
    assert_eq!(ledger.total("a", [6, 2]), [11, 3]);
}

#[test]
fn the_cells_of_a_distribution_stay_consistent_over_lives() {
    let mut ledger = Ledger::default();
    // Count, sum and two buckets; the second life has fewer values but a larger bucket.
    turn(&mut ledger, "d", &[(CellSource::Life("task", 1), &[10, 50, 8, 2])]);
    turn(&mut ledger, "d", &[(CellSource::Life("task", 2), &[6, 90, 1, 5])]);
    let [count, sum, short, long] = ledger.numbers("d");
    assert_eq!((count, sum), (16, 140));
    assert_eq!(short + long, count);
}

#[test]
fn a_nic_made_again_under_its_name_goes_on_and_a_slot_is_never_counted_twice() {
    let mut ledger = Ledger::default();
    let slot = |number| CellSource::Slot("nic", number);
    turn(&mut ledger, "nic", &[(slot(4), &[300])]);
    turn(&mut ledger, "nic", &[]);
    turn(&mut ledger, "nic", &[(slot(9), &[100])]);
    assert_eq!(ledger.read("nic"), [400]);
    // The first one is back from another namespace with its number, and its slot still has what it
    // had.
    turn(&mut ledger, "nic", &[(slot(4), &[310]), (slot(9), &[100])]);
    assert_eq!(ledger.read("nic"), [410]);
    turn(&mut ledger, "renamed", &[(slot(4), &[311])]);
    assert_eq!(ledger.read("renamed"), [1]);
}

#[test]
fn interfaces_that_come_and_go_leave_no_more_series_than_there_is_room_for() {
    let mut ledger = Ledger::default();
    for number in 0..3 * GONE_SERIES_MAX {
        ledger.begin();
        for kind in ["nic", "drops", "tcp"] {
            let series = name(kind, [&format!("veth{number}")]);
            let slot = u32::try_from(number).unwrap();
            let cells = [u64::from(kind != "tcp")];
            ledger.count(&series, CellSource::Slot(kind, slot), &cells);
        }
        ledger.count("nic eth0", CellSource::Slot("nic", u32::MAX), &[1]);
        ledger.end();
    }
    assert!(ledger.series.len() <= GONE_SERIES_MAX + 3, "{}", ledger.series.len());
    assert_eq!(ledger.read("nic eth0"), [1], "what is there stays");
    let latest = format!("veth{}", 3 * GONE_SERIES_MAX - 2);
    assert_eq!(ledger.read(&name("nic", [&latest])), [1], "the latest stay");
    assert!(ledger.read(&name("nic", ["veth0"])).is_empty());
}

#[test]
fn labels_are_read_back_whatever_is_in_them() {
    let series = name("batch", ["mlx5/0", "10.0.0.1", "a\u{1f}b"]);
    assert_eq!(labels("batch", &series), Some(["mlx5/0", "10.0.0.1", "ab"]));
    assert_eq!(labels::<2>("batch", &series), None);
    assert_eq!(labels::<3>("other", &series), None);
    let mut ledger = Ledger::default();
    ledger.total(&series, [1]);
    assert_eq!(ledger.of_kind::<3>("batch"), [["mlx5/0", "10.0.0.1", "ab"]]);
}
