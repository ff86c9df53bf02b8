//! Facts about removing and listing.

use super::*;
use crate::limits::{PATTERN_BYTES_MAX, SCAN_STEP_OBJECTS};

#[test]
fn removal_reports_unknown_and_unfinished_keys() {
    let mut stage = Stage::new(&[4]);
    stage.start("unfinished");
    assert_eq!(stage.remove("unknown", true), code(Status::ObjectNotFound));
    assert_eq!(stage.remove("unfinished", false), code(Status::ReplicaIsNotReady));
    assert_eq!(stage.remove("unfinished", true), code(Status::ReplicaIsNotReady));
}

#[test]
fn a_forced_removal_also_ends_a_running_replacement() {
    let mut stage = Stage::new(&[4]);
    stage.put("a");
    stage.start_with("a", PAYLOAD_BYTES, &PutConfig::default(), true);
    assert_eq!(stage.remove("a", false), code(Status::ReplicaIsNotReady));
    assert_eq!(stage.remove("a", true), 0);
    assert_eq!(stage.shard.gauges().staging_bytes, EXTENT_BYTES);
    assert_eq!(stage.end("a"), code(Status::ObjectNotFound));
    assert_eq!(stage.shard.gauges().staging_bytes, 0);
}

#[test]
fn a_pattern_removes_what_it_is_found_in() {
    let mut stage = Stage::new(&[8]);
    for key in ["model-a/1", "model-a/2", "model-b/1", "x"] {
        stage.put(key);
    }
    stage.get("model-a/2");
    assert!(Pattern::compile("(").is_err());
    assert!(Pattern::compile(&"x".repeat(PATTERN_BYTES_MAX + 1)).is_err());
    let pattern = |text| Pattern::compile(text).unwrap();
    assert_eq!(stage.remove_matching(&pattern("a/[0-9]"), false), 1);
    assert_eq!(stage.remove_matching(&pattern("^model"), true), 2);
    assert_eq!(stage.remove_matching(&Pattern::any(), false), 1);
    stage.shard.check();
    assert_eq!(stage.shard.gauges().keys, 0);
}

#[test]
fn classes_of_a_pattern_mean_ascii() {
    let mut stage = Stage::new(&[8]);
    for key in ["word_1", "w\u{f6}rd", "\u{663}", "3"] {
        stage.put(key);
    }
    let pattern = |text| Pattern::compile(text).unwrap();
    assert_eq!(stage.remove_matching(&pattern(r"^\d$"), false), 1);
    assert_eq!(stage.remove_matching(&pattern(r"^\w+$"), false), 1);
    assert_eq!(stage.remove_matching(&pattern("w\u{f6}"), false), 1);
}

#[test]
fn a_pattern_that_compiles_to_too_much_is_refused() {
    for text in [r".{1001}", r"(x.{120})+Q", r"[a-z]*x[a-z]{199}[0-9]"] {
        assert!(Pattern::compile(text).is_ok(), "{text}");
    }
    for text in [r"(a{900}){900}", r"((\w{50}){50}){50}"] {
        assert!(Pattern::compile(text).is_err(), "{text}");
    }
}

#[test]
fn a_step_over_long_keys_ends_early_and_the_walk_meets_all_of_them() {
    let keys = 200;
    let mut stage = Stage::new(&[keys]);
    for key in 0..keys {
        stage.put(&format!("{key:08000}"));
    }
    let pattern = Pattern::compile("(x.{120})+Q|0").unwrap();
    let mut scan = stage.shard.scan();
    let (mut steps, mut removed) = (0, 0);
    while !scan.has_ended() {
        let step = stage.shard.remove_step(stage.now_ms, &mut scan, &pattern, false);
        assert!(step > 0, "each step looks at one key at least");
        (steps, removed) = (steps + 1, removed + step);
    }
    assert_eq!(removed, keys);
    assert!(steps > 10, "{steps}");
}

#[test]
fn removing_all_leaves_leased_keys_unless_forced() {
    let mut stage = Stage::new(&[8]);
    stage.put("a");
    stage.put("b");
    stage.get("a");
    assert_eq!(stage.remove_matching(&Pattern::any(), false), 1);
    assert_eq!(stage.remove_matching(&Pattern::any(), true), 1);
}

#[test]
fn clearing_drops_own_replicas_of_one_segment() {
    let mut stage = Stage::new(&[4, 4]);
    let config = PutConfig { replica_num: 2, ..PutConfig::default() };
    stage.put_with("a", &config);
    let keys: [&[u8]; 2] = [b"a", b"unknown"];
    let clear = |stage: &mut Stage, client, segment| {
        stage.shard.replica_clear(stage.now_ms, client, &keys, segment, &mut stage.status);
        stage.shard.check();
        stage.status.clone()
    };
    assert_eq!(clear(&mut stage, 8, ""), [-601, -704]);
    assert_eq!(clear(&mut stage, WRITER, "host-1:1"), [0, -704]);
    assert_eq!(stage.peek("a").len(), 1);
    assert_eq!(clear(&mut stage, WRITER, "host-1:1"), [-710, -704]);
    stage.exist("a");
    assert_eq!(clear(&mut stage, WRITER, ""), [-706, -704]);
    stage.pass(LEASE_MS);
    assert_eq!(clear(&mut stage, WRITER, ""), [0, -704]);
    assert!(!stage.holds("a"));
}

#[test]
fn a_listing_meets_all_readable_keys() {
    let mut stage = Stage::new(&[20]);
    for key in 0..10 {
        stage.put(&format!("{key}"));
    }
    stage.start("unfinished");
    stage.remove("3", false);
    assert_eq!(list(&stage, &Pattern::any()).len(), 9);
    assert_eq!(list(&stage, &Pattern::compile("[12]").unwrap()).len(), 2);
}

fn list(stage: &Stage, pattern: &Pattern) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    let mut scan = stage.shard.scan();
    while !scan.has_ended() {
        let collect = |listed: ListedKey<'_>| {
            keys.push(listed.key.to_vec());
            true
        };
        stage.shard.list_step(&mut scan, pattern, collect);
    }
    keys
}

#[test]
fn one_step_of_a_walk_looks_at_a_bounded_number_of_keys() {
    let keys = SCAN_STEP_OBJECTS as usize + 10;
    let mut stage = Stage::new(&[keys as u64]);
    for key in 0..keys {
        stage.put(&format!("{key}"));
    }
    let mut scan = stage.shard.scan();
    let now_ms = stage.now_ms;
    let mut step =
        |stage: &mut Stage| stage.shard.remove_step(now_ms, &mut scan, &Pattern::any(), false);
    assert_eq!(step(&mut stage), u64::from(SCAN_STEP_OBJECTS));
    // Objects put between two steps may be met, and do not prolong a walk.
    stage.put("late");
    assert!((10..=11).contains(&step(&mut stage)));
    assert!(scan.has_ended());
    stage.shard.check();
}
