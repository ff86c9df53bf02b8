//! Facts about removing and listing.

use super::*;

#[test]
fn removal_reports_unknown_and_unfinished_keys() {
    let mut stage = Stage::new(&[4]);
    stage.start("unfinished");
    assert_eq!(stage.remove("unknown", true), code(Status::ObjectNotFound));
    assert_eq!(
        stage.remove("unfinished", false),
        code(Status::ReplicaIsNotReady)
    );
    assert_eq!(
        stage.remove("unfinished", true),
        code(Status::ReplicaIsNotReady)
    );
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
    let now_ms = stage.now_ms;
    assert_eq!(
        stage.shard.remove_by_regex(now_ms, "(", false),
        Err(Status::InvalidParams)
    );
    assert_eq!(stage.shard.remove_by_regex(now_ms, "a/[0-9]", false), Ok(1));
    assert_eq!(stage.shard.remove_by_regex(now_ms, "^model", true), Ok(2));
    assert_eq!(stage.shard.remove_all(now_ms, false), 1);
    stage.shard.check();
    assert_eq!(stage.shard.gauges().keys, 0);
}

#[test]
fn removing_all_leaves_leased_keys_unless_forced() {
    let mut stage = Stage::new(&[8]);
    stage.put("a");
    stage.put("b");
    stage.get("a");
    assert_eq!(stage.shard.remove_all(stage.now_ms, false), 1);
    assert_eq!(stage.shard.remove_all(stage.now_ms, true), 1);
}

#[test]
fn clearing_drops_own_replicas_of_one_segment() {
    let mut stage = Stage::new(&[4, 4]);
    let config = PutConfig {
        replica_num: 2,
        ..PutConfig::default()
    };
    stage.put_with("a", &config);
    let keys: [&[u8]; 2] = [b"a", b"unknown"];
    let clear = |stage: &mut Stage, client, segment| {
        stage
            .shard
            .replica_clear(stage.now_ms, client, &keys, segment, &mut stage.status);
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
fn listing_pages_through_all_readable_keys() {
    let mut stage = Stage::new(&[20]);
    for key in 0..10 {
        stage.put(&format!("{key}"));
    }
    stage.start("unfinished");
    stage.remove("3", false);
    let mut keys = Vec::new();
    let mut cursor = Some(0);
    while let Some(at) = cursor {
        cursor = stage.shard.list_keys(at, 4, |key| keys.push(key.to_vec()));
    }
    assert_eq!(keys.len(), 9);
    let mut matching = 0;
    assert_eq!(
        stage.shard.list_by_regex("[12]", 10, |_| matching += 1),
        Ok(())
    );
    assert_eq!(matching, 2);
}
