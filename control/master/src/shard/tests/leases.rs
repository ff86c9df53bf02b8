//! Facts about leases: who is protected from what, and until when.

use super::*;

#[test]
fn a_key_under_a_lease_is_not_removed_without_force() {
    let mut stage = Stage::new(&[4]);
    for key in ["probed", "read"] {
        stage.put(key);
    }
    assert_eq!(stage.exist("probed"), 1);
    assert_eq!(stage.get("read"), 0);
    stage.pass(LEASE_MS - 1);
    for key in ["probed", "read"] {
        assert_eq!(stage.remove(key, false), code(Status::ObjectHasLease));
    }
    stage.pass(1);
    for key in ["probed", "read"] {
        assert_eq!(stage.remove(key, false), 0);
    }
}

#[test]
fn a_finished_put_has_no_lease() {
    let mut stage = Stage::new(&[4]);
    stage.put("a");
    assert_eq!(stage.remove("a", false), 0);
}

#[test]
fn peeking_grants_no_lease() {
    let mut stage = Stage::new(&[4]);
    stage.put("a");
    assert!(stage.holds("a"));
    assert_eq!(stage.shard.size(b"a"), Ok(PAYLOAD_BYTES));
    assert_eq!(stage.remove("a", false), 0);
    assert_eq!(stage.shard.counters().total_gets, 0);
}

#[test]
fn space_under_a_read_lease_is_parked_when_the_removal_is_forced() {
    let mut stage = Stage::new(&[1]);
    stage.put("a");
    stage.get("a");
    assert_eq!(stage.remove("a", true), 0);
    assert_eq!(stage.get("a"), code(Status::ObjectNotFound));
    assert_eq!(stage.put("b"), code(Status::NoAvailableHandle));
    stage.pass(LEASE_MS);
    stage.tick();
    assert_eq!(stage.put("b"), 0);
}

#[test]
fn a_read_lease_is_never_broken_by_a_put() {
    let mut stage = Stage::new(&[2]);
    stage.put("a");
    stage.put("b");
    stage.get("a");
    stage.get("b");
    assert_eq!(stage.put("c"), code(Status::NoAvailableHandle));
    assert!(stage.holds("a") && stage.holds("b"));
    stage.pass(LEASE_MS);
    assert_eq!(stage.put("c"), 0);
}

#[test]
fn existence_probes_cannot_block_puts() {
    let mut stage = Stage::new(&[2]);
    stage.put("a");
    stage.put("b");
    for key in ["c", "d", "e"] {
        for probed in ["a", "b", "c", "d"] {
            stage.exist(probed);
        }
        assert_eq!(stage.put(key), 0, "{key}");
    }
}

#[test]
fn asking_where_keys_lie_cannot_block_puts_and_counts_as_a_use() {
    let mut stage = Stage::new(&[2]);
    stage.put("a");
    stage.put("b");
    assert_eq!(stage.locate_only("a"), 1, "one location");
    assert_eq!(stage.put("c"), 0);
    assert!(stage.holds("a") && !stage.holds("b"), "the older one was used later");
    for key in ["d", "e", "f"] {
        for asked in ["a", "c", "d", "e"] {
            stage.locate_only(asked);
        }
        assert_eq!(stage.put(key), 0, "{key}");
    }
}

#[test]
fn probes_cannot_extend_a_read_lease_against_puts() {
    let mut stage = Stage::new(&[1]);
    stage.put("a");
    stage.get("a");
    stage.pass(LEASE_MS - 1);
    stage.exist("a");
    assert_eq!(stage.put("b"), code(Status::NoAvailableHandle));
    stage.pass(1);
    stage.exist("a");
    assert_eq!(stage.put("b"), 0);
}

#[test]
fn a_probe_during_a_read_lease_does_not_hide_its_end() {
    let mut stage = Stage::new(&[2]);
    stage.put("a");
    stage.put("b");
    stage.get("a");
    stage.pass(LEASE_MS / 2);
    stage.get("b");
    stage.exist("a");
    stage.pass(LEASE_MS / 2);
    assert_eq!(stage.put("c"), 0);
    assert!(!stage.holds("a") && stage.holds("b"));
}

#[test]
fn a_put_takes_unprobed_objects_before_probed_ones() {
    let settings = ShardSettings { lease_ttl_ms: 2 * FRESH_MS, ..settings() };
    let mut stage = Stage::with(settings, &[2]);
    stage.put("older");
    stage.exist("older");
    stage.put("newer");
    stage.age();
    assert_eq!(stage.put("c"), 0);
    assert!(stage.holds("older") && !stage.holds("newer"));
}

#[test]
fn a_lease_is_never_shortened_by_time_going_back() {
    let mut stage = Stage::new(&[1]);
    stage.put("a");
    stage.get("a");
    stage.now_ms -= 5_000;
    stage.get("a");
    stage.now_ms += 5_000 + LEASE_MS - 1;
    assert_eq!(stage.remove("a", false), code(Status::ObjectHasLease));
}

#[test]
fn existence_checks_are_counted_with_their_hits() {
    let mut stage = Stage::new(&[2]);
    stage.put("a");
    let checks = ["a", "b", "a"].map(|key| stage.exist(key));
    assert_eq!(checks, [1, 0, 1]);
    let counters = stage.shard.counters();
    assert_eq!((counters.total_checks, counters.valid_checks), (3, 2));
    assert_eq!(counters.total_gets, 0);
}

#[test]
fn reads_are_counted_with_their_hits() {
    let mut stage = Stage::new(&[2]);
    stage.put("a");
    stage.get("a");
    stage.get("b");
    let counters = stage.shard.counters();
    assert_eq!((counters.total_gets, counters.valid_gets, counters.cache_hits), (2, 1, 1));
    assert_eq!(counters.cache_hit_bytes, PAYLOAD_BYTES);
}

#[test]
fn a_lease_ends_when_its_reader_gives_it_back() {
    let mut stage = Stage::new(&[1]);
    stage.put("a");
    stage.read("a");
    assert_eq!(stage.put("b"), 0);
    stage.read("b");
    assert_eq!(stage.remove("b", false), 0);
    assert_eq!(stage.shard.gauges().allocated_bytes, 0);
}

#[test]
fn one_reader_does_not_end_the_lease_of_another() {
    let mut stage = Stage::new(&[1]);
    stage.put("a");
    stage.get("a");
    let first = stage.given_back();
    stage.get("a");
    let second = stage.given_back();
    stage.shard.give_back(stage.now_ms, &[first]);
    assert_eq!(stage.put("b"), code(Status::NoAvailableHandle));
    assert_eq!(stage.remove("a", false), code(Status::ObjectHasLease));
    stage.shard.give_back(stage.now_ms, &[second]);
    assert_eq!(stage.put("b"), 0);
}

#[test]
fn one_key_that_is_replaced_and_read_in_a_loop_takes_the_space_of_two() {
    let mut stage = Stage::new(&[2]);
    stage.put("a");
    for _ in 0..100 {
        let config = PutConfig::default();
        assert_eq!(stage.start_with("a", PAYLOAD_BYTES, &config, true), 0);
        assert_eq!(stage.end("a"), 0);
        assert_eq!(stage.read("a"), 0);
    }
    assert_eq!(stage.put("b"), 0);
    assert_eq!(stage.shard.gauges().parked_bytes, 0);
}

#[test]
fn replaced_bytes_are_free_when_their_last_reader_has_finished() {
    let mut stage = Stage::new(&[2, 2]);
    let config = PutConfig { replica_num: 2, ..PutConfig::default() };
    stage.put_with("a", &config);
    stage.get("a");
    let first = stage.given_back();
    stage.get("a");
    let second = stage.given_back();
    stage.start_with("a", PAYLOAD_BYTES, &config, true);
    stage.end("a");
    stage.get("a");
    assert_eq!(stage.shard.gauges().parked_bytes, 2 * EXTENT_BYTES);
    stage.shard.give_back(stage.now_ms, &[first]);
    assert_eq!(stage.shard.gauges().parked_bytes, 2 * EXTENT_BYTES);
    stage.shard.give_back(stage.now_ms, &[second]);
    assert_eq!(stage.shard.gauges().parked_bytes, 0, "both readers have finished");
    stage.shard.check();
    assert_eq!(stage.remove("a", false), code(Status::ObjectHasLease), "the new bytes are read");
}

#[test]
fn a_lease_that_is_given_back_late_ends_no_later_one() {
    let mut stage = Stage::new(&[1]);
    stage.put("a");
    stage.get("a");
    let late = stage.given_back();
    stage.pass(LEASE_MS);
    stage.get("a");
    stage.shard.give_back(stage.now_ms, &[late]);
    assert_eq!(stage.put("b"), code(Status::NoAvailableHandle));
}

#[test]
fn a_lease_of_an_earlier_life_of_the_master_ends_no_later_one() {
    let [mut before, mut stage] =
        [7, 8].map(|seed| Stage::with(ShardSettings { seed, ..settings() }, &[1]));
    for stage in [&mut before, &mut stage] {
        stage.put("a");
        stage.get("a");
    }
    let (late, own) = (before.given_back(), stage.given_back());
    assert_eq!(late.generation, own.generation, "only the life differs");
    stage.shard.give_back(stage.now_ms, &[late]);
    assert_eq!(stage.remove("a", false), code(Status::ObjectHasLease));
    stage.shard.give_back(stage.now_ms, &[own]);
    assert_eq!(stage.remove("a", false), 0);
}

#[test]
fn leases_of_unknown_name_are_ignored() {
    let mut stage = Stage::new(&[1]);
    stage.put("a");
    stage.get("a");
    let GivenBack { lease, generation } = stage.given_back();
    for lease in [0, lease + 1, u64::MAX] {
        let wrong = GivenBack { lease, generation };
        stage.shard.give_back(stage.now_ms, &[wrong]);
    }
    let other = GivenBack { lease, generation: generation + 1 };
    stage.shard.give_back(stage.now_ms, &[other]);
    assert_eq!(stage.put("b"), code(Status::NoAvailableHandle));
}

#[test]
fn a_reader_that_never_gives_back_delays_only_its_own_lease() {
    let mut stage = Stage::new(&[1]);
    stage.put("a");
    stage.get("a");
    stage.pass(LEASE_MS);
    assert_eq!(stage.read("a"), 0);
    assert_eq!(stage.put("b"), 0, "the later reader has finished");
}

#[test]
fn the_lease_of_a_group_ends_when_every_reader_of_every_member_has_finished() {
    let mut stage = Stage::new(&[2]);
    stage.put_in_group("a", "group");
    stage.put_in_group("b", "group");
    stage.get("a");
    let first = stage.given_back();
    stage.get("b");
    let second = stage.given_back();
    stage.shard.give_back(stage.now_ms, &[first]);
    stage.shard.check();
    assert_eq!(stage.put("c"), code(Status::NoAvailableHandle));
    assert_eq!(stage.remove("a", false), code(Status::ObjectHasLease));
    stage.shard.give_back(stage.now_ms, &[second]);
    stage.shard.check();
    assert_eq!(stage.put("c"), 0);
}

#[test]
fn a_batch_that_reads_many_members_holds_the_group_until_all_are_read() {
    let mut stage = Stage::new(&[3]);
    let keys = ["a", "b", "c"];
    for key in keys {
        stage.put_in_group(key, "group");
    }
    let names = keys.map(str::as_bytes);
    stage.shard.get_replicas(stage.now_ms, &names, &mut stage.replicas);
    let leases: Vec<GivenBack> = (0..keys.len())
        .map(|at| GivenBack {
            lease: stage.replicas.lease[at],
            generation: stage.replicas.locations[at].generation,
        })
        .collect();
    for lease in leases {
        assert_eq!(stage.put("d"), code(Status::NoAvailableHandle));
        stage.shard.give_back(stage.now_ms, &[lease]);
    }
    assert_eq!(stage.put("d"), 0);
}

#[test]
fn a_key_of_a_group_that_is_replaced_and_read_in_a_loop_takes_the_space_of_two() {
    let mut stage = Stage::new(&[3]);
    stage.put_in_group("a", "group");
    stage.put_in_group("b", "group");
    let config = PutConfig::default();
    for _ in 0..100 {
        let started = stage.start_in_group("a", PAYLOAD_BYTES, &config, true, "group", WRITER);
        assert_eq!(started, 0);
        assert_eq!(stage.end("a"), 0);
        assert_eq!(stage.read("a"), 0);
    }
    assert!(stage.holds("b"));
    assert_eq!(stage.shard.gauges().parked_bytes, 0);
}

#[test]
fn replaced_bytes_of_a_member_wait_for_their_own_readers_only() {
    let mut stage = Stage::new(&[4]);
    stage.put_in_group("a", "group");
    stage.put_in_group("b", "group");
    stage.get("b");
    let config = PutConfig::default();
    stage.start_in_group("a", PAYLOAD_BYTES, &config, true, "group", WRITER);
    assert_eq!(stage.end("a"), 0);
    assert_eq!(stage.shard.gauges().parked_bytes, 0, "they have no reader");
    stage.get("a");
    let reader = stage.given_back();
    stage.start_in_group("a", PAYLOAD_BYTES, &config, true, "group", WRITER);
    assert_eq!(stage.end("a"), 0);
    assert_eq!(stage.shard.gauges().parked_bytes, EXTENT_BYTES);
    stage.shard.give_back(stage.now_ms, &[reader]);
    stage.shard.check();
    assert_eq!(stage.shard.gauges().parked_bytes, 0);
    assert_eq!(stage.remove("b", false), code(Status::ObjectHasLease), "the other member is read");
}

#[test]
fn a_reader_that_never_gives_back_keeps_its_group_for_one_lease() {
    let mut stage = Stage::new(&[2]);
    stage.put_in_group("a", "group");
    stage.put_in_group("b", "group");
    stage.get("a");
    stage.pass(LEASE_MS);
    assert_eq!(stage.read("b"), 0);
    assert_eq!(stage.put("c"), 0);
}
