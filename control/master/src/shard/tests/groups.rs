//! Facts about groups: one lease, evicted together.

use super::*;

#[test]
fn a_lease_on_one_member_protects_all() {
    let mut stage = Stage::new(&[4]);
    stage.put_in_group("a", "g");
    stage.put_in_group("b", "g");
    stage.put("c");
    stage.get("a");
    assert_eq!(stage.remove("b", false), code(Status::ObjectHasLease));
    assert_eq!(stage.remove("c", false), 0);
}

#[test]
fn a_member_that_joins_later_gets_the_running_lease() {
    let mut stage = Stage::new(&[4]);
    stage.put_in_group("a", "g");
    stage.get("a");
    stage.put_in_group("b", "g");
    assert_eq!(stage.remove("b", false), code(Status::ObjectHasLease));
}

#[test]
fn members_are_evicted_together() {
    let mut stage = Stage::new(&[3]);
    stage.put_in_group("a", "g");
    stage.put_in_group("b", "g");
    stage.put("other");
    assert_eq!(stage.put("x"), 0);
    assert!(!stage.holds("a") && !stage.holds("b") && stage.holds("other"));
    assert_eq!(stage.shard.counters().evicted_keys, 2);
}

#[test]
fn a_new_member_makes_its_whole_group_the_newest() {
    let mut stage = Stage::new(&[3]);
    stage.put_in_group("a", "g");
    stage.put("other");
    stage.put_in_group("b", "g");
    assert_eq!(stage.put("x"), 0);
    assert!(stage.holds("a") && stage.holds("b") && !stage.holds("other"));
}

#[test]
fn an_unfinished_or_pinned_member_keeps_its_group() {
    let mut stage = Stage::new(&[2]);
    stage.put_in_group("a", "g");
    let pinned = PutConfig { hard_pin: true, ..PutConfig::default() };
    stage.start_in_group("b", PAYLOAD_BYTES, &pinned, false, "g", WRITER);
    assert_eq!(stage.put("x"), code(Status::NoAvailableHandle));
    assert_eq!(stage.end("b"), 0);
    assert_eq!(stage.put("x"), code(Status::NoAvailableHandle));
    assert_eq!(stage.remove("b", false), 0);
    assert_eq!(stage.put("x"), 0);
    assert_eq!(stage.put("y"), 0);
    assert!(!stage.holds("a"));
}

#[test]
fn one_soft_pinned_member_keeps_its_group_until_the_end() {
    let mut stage = Stage::new(&[3]);
    stage.put_in_group("a", "g");
    let pinned =
        PutConfig { soft_pin: SoftPin::Enable { ttl_ms: Some(500) }, ..PutConfig::default() };
    stage.start_in_group("b", PAYLOAD_BYTES, &pinned, false, "g", WRITER);
    stage.end("b");
    stage.put("c");
    stage.put("d");
    assert!(stage.holds("a") && stage.holds("b") && !stage.holds("c"));
    stage.pass(500);
    stage.tick();
    stage.put("e");
    assert!(!stage.holds("d") || !stage.holds("a"));
}

#[test]
fn a_key_without_a_group_joins_none_also_one_that_has_no_members_yet() {
    let mut stage = Stage::new(&[4]);
    stage.put("a");
    let config = PutConfig::default();
    let refused = stage.start_in_group("a", PAYLOAD_BYTES, &config, true, "new", WRITER);
    assert_eq!(refused, code(Status::InvalidParams));
}

#[test]
fn a_key_cannot_change_its_group() {
    let mut stage = Stage::new(&[4]);
    stage.put_in_group("a", "g");
    let config = PutConfig::default();
    let change = |stage: &mut Stage, group| {
        stage.start_in_group("a", PAYLOAD_BYTES, &config, true, group, WRITER)
    };
    assert_eq!(change(&mut stage, "h"), code(Status::InvalidParams));
    assert_eq!(change(&mut stage, "g"), 0);
    assert_eq!(stage.end("a"), 0);
}

#[test]
fn a_group_ends_with_its_last_member() {
    let mut stage = Stage::new(&[4]);
    stage.put_in_group("a", "g");
    stage.get("a");
    stage.remove("a", true);
    stage.put_in_group("b", "g");
    assert_eq!(stage.remove("b", false), 0, "the lease of the old group is gone");
}
