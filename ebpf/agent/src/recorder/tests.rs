//! Records of made-up hosts.

use super::*;
use crate::snapshot::{LinkSeries, NicSeries, SlowBatchEntry};
use serde_json::Value;

const BEGIN: u64 = 1_700_000_000_000;

fn snapshot(at_ms: u64, bytes: u64) -> Snapshot {
    let nic = NicSeries { device: "eth0".to_owned(), receive_bytes: bytes, ..NicSeries::default() };
    Snapshot { taken_ms: at_ms, nics: vec![nic], ..Snapshot::default() }
}

fn record(recorder: &mut Recorder, seconds: std::ops::Range<u64>) {
    for second in seconds {
        recorder.put(&snapshot(BEGIN + 1000 * second, second));
    }
}

fn seconds(window: &HistoryWindow) -> Vec<u64> {
    let value: Value = serde_json::from_slice(&window.json().unwrap()).unwrap();
    assert_eq!(value["schema"], Snapshot::SCHEMA);
    let snapshots = value["snapshots"].as_array().unwrap().iter();
    snapshots.map(|one| one["nics"][0]["receive_bytes"].as_u64().unwrap()).collect()
}

#[test]
fn the_last_minutes_are_kept_by_the_second_and_the_rest_by_tens() {
    let mut recorder = Recorder::open(None);
    record(&mut recorder, 0..2000);
    let fine = recorder.window(BEGIN + 1_990_000, u64::MAX);
    assert_eq!(seconds(&fine), (1990..2000).collect::<Vec<_>>());
    assert_eq!((fine.first_ms, fine.last_ms), (BEGIN, BEGIN + 1_999_000));
    assert_eq!(fine.step_ms, 1000);
    let coarse = recorder.window(BEGIN + 100_000, BEGIN + 140_000);
    assert_eq!((seconds(&coarse), coarse.step_ms), (vec![100, 110, 120, 130, 140], 10_000));
}

#[test]
fn a_long_window_is_thinned_and_ends_with_the_newest() {
    let mut recorder = Recorder::open(None);
    record(&mut recorder, 0..800);
    let all = recorder.window(0, u64::MAX);
    let found = seconds(&all);
    assert!(found.len() <= HISTORY_POINTS_MAX, "{}", found.len());
    assert_eq!(found.last(), Some(&799));
    assert_eq!(all.step_ms, 1000 * (found[1] - found[0]));
}

#[test]
fn no_more_than_a_day_is_kept() {
    let mut track = Track::open(None, &COARSE);
    let packed: Arc<[u8]> = Arc::from(&b"x"[..]);
    for ten in 0..9000u64 {
        track.put(BEGIN + 10_000 * ten, &packed);
    }
    assert_eq!(track.last_ms() - track.first_ms(), COARSE.length_ms);
}

#[test]
fn what_is_kept_is_bounded_in_bytes_as_well() {
    let mut track = Track::open(None, &FINE);
    let packed: Arc<[u8]> = vec![7; FINE.record_bytes()].into();
    for second in 0..900u64 {
        track.put(BEGIN + 1000 * second, &packed);
    }
    let kept = track.between(0, u64::MAX).len();
    assert_eq!(kept, FINE.bytes / packed.len());
    assert_eq!(track.last_ms(), BEGIN + 899_000);
    assert!(FINE.file_bytes() + COARSE.file_bytes() + FINE.record_bytes() <= 64 << 20);
}

#[test]
fn the_next_agent_goes_on_and_of_the_time_between_nothing_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::open(Some(folder.path()));
    record(&mut recorder, 0..30);
    // As after kill -9: the first one was not closed.
    let mut next = Recorder::open(Some(folder.path()));
    record(&mut next, 100..110);
    let found = next.window(0, u64::MAX);
    let expected: Vec<u64> = (0..30).chain(100..110).collect();
    assert_eq!(seconds(&found), expected);
    drop(next);
    let third = Recorder::open(Some(folder.path()));
    assert_eq!(seconds(&third.window(0, u64::MAX)), expected);
}

#[test]
fn a_record_that_was_cut_off_is_left_out_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::open(Some(folder.path()));
    record(&mut recorder, 0..5);
    let path = folder.path().join(FINE.file);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
    let next = Recorder::open(Some(folder.path()));
    assert_eq!(next.fine.between(0, u64::MAX).len(), 4);
    assert!(!path.with_extension("damaged").exists());
}

#[test]
fn a_damaged_file_is_set_aside_and_what_lies_before_the_damage_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::open(Some(folder.path()));
    record(&mut recorder, 0..5);
    let path = folder.path().join(FINE.file);
    let mut bytes = std::fs::read(&path).unwrap();
    // In the middle of the second record.
    let first = u32::from_le_bytes(bytes[16..20].try_into().unwrap()) as usize;
    bytes[8 + 16 + first + 16 + 20] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let mut next = Recorder::open(Some(folder.path()));
    let left = next.fine.between(0, u64::MAX).len();
    assert_eq!(left, 1);
    assert_eq!(std::fs::read(path.with_extension("damaged")).unwrap(), bytes);
    record(&mut next, 6..8);
    let third = Recorder::open(Some(folder.path()));
    assert_eq!(third.fine.between(0, u64::MAX).len(), left + 2);
    std::fs::write(&path, b"PERIHIS\x09 of the future").unwrap();
    assert_eq!(Recorder::open(Some(folder.path())).fine.first_ms(), 0);
    assert!(!path.exists());
}

#[test]
fn a_folder_that_cannot_be_written_costs_the_file_only() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut recorder = Recorder::open(Some(&file.path().join("below")));
    record(&mut recorder, 0..3);
    assert_eq!(seconds(&recorder.window(0, u64::MAX)), [0, 1, 2]);
}

#[test]
fn a_clock_that_is_set_back_leaves_records_in_order() {
    let mut recorder = Recorder::open(None);
    record(&mut recorder, 0..100);
    record(&mut recorder, 50..52);
    assert_eq!(seconds(&recorder.window(BEGIN + 48_000, u64::MAX)), [48, 49, 50, 51]);
}

#[test]
fn what_a_clock_that_is_set_back_leaves_ahead_of_it_stays_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::open(Some(folder.path()));
    record(&mut recorder, 0..100);
    // A moment is not worth a file.
    record(&mut recorder, 98..200);
    let [fine, coarse] = [&FINE, &COARSE].map(|limits| folder.path().join(limits.file));
    assert!(!fine.with_extension("ahead").exists());
    record(&mut recorder, 50..60);
    drop(recorder);
    let next = Recorder::open(Some(folder.path()));
    assert_eq!(seconds(&next.window(0, u64::MAX)), (0..60).collect::<Vec<_>>());
    drop(next);
    for path in [fine, coarse] {
        std::fs::rename(path.with_extension("ahead"), path).unwrap();
    }
    let before = Recorder::open(Some(folder.path()));
    let found = seconds(&before.window(BEGIN + 90_000, u64::MAX));
    assert_eq!(found, (90..200).collect::<Vec<_>>());
}

#[test]
fn a_slow_batch_lies_in_one_record_and_a_crowd_of_links_is_cut() {
    let mut recorder = Recorder::open(None);
    let mut crowd = snapshot(BEGIN, 0);
    let batch = SlowBatchEntry { ended_ms: BEGIN - 5, ..SlowBatchEntry::default() };
    crowd.slow.push(batch);
    let link = |number: u64| LinkSeries {
        peer: number.to_string(),
        connections: 1,
        bytes: number,
        ..LinkSeries::default()
    };
    crowd.links = (0..1000).map(link).collect();
    recorder.put(&crowd);
    crowd.taken_ms += 1000;
    recorder.put(&crowd);
    let text = recorder.window(0, u64::MAX).json().unwrap();
    let value: Value = serde_json::from_slice(&text).unwrap();
    let slow = |number: usize| value["snapshots"][number]["slow"].as_array().unwrap().len();
    assert_eq!((slow(0), slow(1)), (1, 0));
    let links = value["snapshots"][1]["links"].as_array().unwrap();
    assert_eq!((links.len(), links[0]["peer"].as_str()), (32, Some("999")));
}
