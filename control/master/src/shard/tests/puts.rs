//! Facts about starting, ending, revoking and replacing.

use super::*;

#[test]
fn a_put_becomes_visible_at_its_end() {
    let mut stage = Stage::new(&[4]);
    assert_eq!(stage.start("a"), 0);
    assert_eq!(stage.get("a"), code(Status::ReplicaIsNotReady));
    assert_eq!(stage.exist("a"), 0);
    assert_eq!(stage.end_as(WRITER, "a", 99), 0);
    assert_eq!(stage.get("a"), 0);
    assert_eq!((stage.replicas.checksum[0], stage.replicas.payload_bytes[0]), (99, PAYLOAD_BYTES));
    assert_eq!(stage.replicas.location_count, [1]);
    assert_eq!(stage.shard.size(b"a"), Ok(PAYLOAD_BYTES));
}

#[test]
fn bad_arguments_are_refused_one_key_at_a_time() {
    let mut stage = Stage::new(&[4]);
    let long = vec![b'k'; 8193];
    let config = PutConfig::default();
    let batch = PutStart {
        client: WRITER,
        keys: &[b"", &long, b"zero", b"huge", b"good"],
        payload_bytes: &[1, 1, 0, u64::MAX, 1],
        positions: &[],
        batch_keys: 0,
        groups: &[],
        config: &config,
        upsert: false,
        effort: Effort::Last,
    };
    stage.shard.put_start(0, &batch, &mut stage.placements);
    assert_eq!(stage.placements.status, [-600, -400, -600, -200, 0]);
    assert_eq!(stage.placements.location_count, [0, 0, 0, 0, 1]);
}

#[test]
fn bad_settings_refuse_the_whole_batch() {
    let mut stage = Stage::new(&[4]);
    for replica_num in [0, 17] {
        let config = PutConfig { replica_num, ..PutConfig::default() };
        assert_eq!(stage.start_with("a", 1, &config, false), code(Status::InvalidParams));
    }
    let soft_pin = SoftPin::Enable { ttl_ms: Some(settings().soft_pin_ttl_max_ms + 1) };
    let config = PutConfig { soft_pin, ..PutConfig::default() };
    assert_eq!(stage.start_with("a", 1, &config, false), code(Status::InvalidParams));
    assert_eq!(stage.shard.gauges().keys, 0);
}

#[test]
fn a_group_column_of_the_wrong_length_is_refused() {
    let mut stage = Stage::new(&[4]);
    let config = PutConfig::default();
    let batch = PutStart {
        client: WRITER,
        keys: &[b"a", b"b"],
        payload_bytes: &[1, 1],
        positions: &[],
        batch_keys: 0,
        groups: &["g"],
        config: &config,
        upsert: false,
        effort: Effort::Last,
    };
    stage.shard.put_start(0, &batch, &mut stage.placements);
    assert_eq!(stage.placements.status, [-600, -600]);
}

#[test]
fn an_existing_or_young_key_is_not_overwritten() {
    let mut stage = Stage::new(&[4]);
    assert_eq!(stage.start("a"), 0);
    assert_eq!(stage.start("a"), code(Status::ObjectAlreadyExists));
    assert_eq!(stage.end("a"), 0);
    assert_eq!(stage.start("a"), code(Status::ObjectAlreadyExists));
}

#[test]
fn only_the_writer_ends_or_revokes_its_put() {
    let mut stage = Stage::new(&[4]);
    stage.start("a");
    assert_eq!(stage.end_as(8, "a", 1), code(Status::IllegalClient));
    assert_eq!(stage.revoke(8, "a"), code(Status::IllegalClient));
    assert_eq!(stage.end("a"), 0);
    assert_eq!(stage.end("a"), 0, "ending again is fine");
    assert_eq!(stage.end_as(8, "a", 1), code(Status::IllegalClient));
    assert_eq!(stage.revoke(WRITER, "a"), code(Status::InvalidWrite));
    assert_eq!(stage.end("b"), code(Status::ObjectNotFound));
    assert_eq!(stage.revoke(WRITER, "b"), code(Status::ObjectNotFound));
}

#[test]
fn a_revoked_put_leaves_nothing_behind() {
    let mut stage = Stage::new(&[1]);
    stage.start("a");
    assert_eq!(stage.revoke(WRITER, "a"), 0);
    assert_eq!(stage.shard.gauges().allocated_bytes, 0);
    assert_eq!(stage.put("b"), 0);
}

#[test]
fn an_abandoned_put_is_preempted_and_its_space_parked() {
    let mut stage = Stage::new(&[2]);
    stage.start("a");
    let abandoned = stage.placements.locations[0];
    stage.pass(DISCARD_MS - 1);
    assert_eq!(stage.start("a"), code(Status::ObjectAlreadyExists));
    stage.pass(1);
    assert_eq!(stage.start("a"), 0);
    assert_ne!(stage.placements.locations[0].offset, abandoned.offset);
    assert_eq!(stage.shard.gauges().staging_bytes, EXTENT_BYTES);
    assert_eq!(stage.end("a"), 0);
    assert_eq!(stage.put("b"), 0, "evicts the first key rather than using quarantined space");
    assert!(!stage.holds("a"));
    stage.pass(RELEASE_MS - DISCARD_MS);
    stage.tick();
    assert_eq!(stage.shard.gauges().parked_bytes, 0);
    assert_eq!(stage.shard.counters().discard_released, 1);
    assert_eq!(stage.put("c"), 0);
    assert!(stage.holds("b"));
}

#[test]
fn ticks_discard_abandoned_puts() {
    let mut stage = Stage::new(&[2]);
    stage.start("a");
    stage.pass(DISCARD_MS);
    stage.tick();
    assert_eq!(stage.end("a"), code(Status::ObjectNotFound));
    assert_eq!(stage.shard.gauges().keys, 0);
    assert_eq!(stage.shard.counters().discarded_puts, 1);
}

#[test]
fn a_replaced_object_stays_readable_until_the_new_one_is_complete() {
    let mut stage = Stage::new(&[3]);
    stage.start("a");
    stage.end_as(WRITER, "a", 1);
    let old = stage.peek("a");
    assert_eq!(stage.start_with("a", 500, &PutConfig::default(), true), 0);
    assert_eq!(stage.peek("a"), old);
    assert_eq!(stage.get("a"), 0);
    assert_eq!(stage.end_as(8, "a", 2), code(Status::IllegalClient));
    assert_eq!(stage.end_as(WRITER, "a", 2), 0);
    assert_eq!(stage.shard.size(b"a"), Ok(500));
    assert_eq!(stage.shard.gauges().parked_bytes, EXTENT_BYTES, "a reader may hold the old one");
    stage.pass(LEASE_MS);
    stage.tick();
    assert_eq!(stage.shard.gauges().parked_bytes, 0);
}

#[test]
fn an_upsert_that_a_later_one_replaced_gets_that_status_and_its_space_is_free() {
    let mut stage = Stage::new(&[4]);
    stage.put("a");
    let config = PutConfig::default();
    stage.start_with("a", PAYLOAD_BYTES, &config, true);
    let first = stage.generation("a");
    stage.start_with("a", PAYLOAD_BYTES, &config, true);
    let second = stage.generation("a");
    assert_eq!(stage.end_of(WRITER, "a", second, 2), 0);
    let ended = stage.end_of(WRITER, "a", first, 3);
    assert_eq!(ended, code(Status::ObjectAlreadyExists));
    assert_eq!(stage.peek("a")[0].generation, second);
    assert_eq!(stage.shard.gauges().parked_bytes, 0);
}

#[test]
fn a_discarded_replacement_cannot_be_ended() {
    let mut stage = Stage::new(&[3]);
    stage.put("a");
    stage.start_with("a", PAYLOAD_BYTES, &PutConfig::default(), true);
    stage.pass(DISCARD_MS);
    stage.tick();
    assert_eq!(stage.end_as(WRITER, "a", 2), code(Status::InvalidWrite));
    assert!(stage.holds("a"));
}

#[test]
fn a_revoked_replacement_leaves_the_old_object() {
    let mut stage = Stage::new(&[3]);
    stage.put("a");
    let old = stage.peek("a");
    stage.start_with("a", PAYLOAD_BYTES, &PutConfig::default(), true);
    assert_eq!(stage.revoke(WRITER, "a"), 0);
    assert_eq!(stage.peek("a"), old);
}

#[test]
fn a_replacement_overtakes_an_unfinished_one_and_keeps_the_hard_pin() {
    let mut stage = Stage::new(&[3]);
    let pinned = PutConfig { hard_pin: true, ..PutConfig::default() };
    stage.put_with("a", &pinned);
    let config = PutConfig::default();
    assert_eq!(stage.start_in_group("a", 500, &config, true, "", 8), 0);
    assert_eq!(stage.start_with("a", 600, &config, true), 0);
    assert_eq!(stage.end_as(8, "a", 2), code(Status::IllegalClient));
    assert_eq!(stage.end("a"), 0);
    for key in ["b", "c", "d", "e"] {
        stage.put(key);
    }
    assert_eq!(stage.shard.size(b"a"), Ok(600));
}

#[test]
fn a_replacement_may_evict_what_it_replaces() {
    let mut stage = Stage::new(&[1]);
    stage.put("a");
    assert_eq!(stage.start_with("a", PAYLOAD_BYTES, &PutConfig::default(), true), 0);
    assert_eq!(stage.get("a"), code(Status::ReplicaIsNotReady));
    assert_eq!(stage.end("a"), 0);
    assert_eq!(stage.get("a"), 0);
}

#[test]
fn a_replacement_of_an_unknown_key_is_a_put() {
    let mut stage = Stage::new(&[1]);
    assert_eq!(stage.start_with("a", PAYLOAD_BYTES, &PutConfig::default(), true), 0);
    assert_eq!(stage.end("a"), 0);
}

#[test]
fn generations_are_unique_over_shards_and_allocations() {
    let mut seen = std::collections::BTreeSet::new();
    for index in 0..3 {
        let settings = ShardSettings { index, count: 3, generation_base: 1_000, ..settings() };
        let mut stage = Stage::with(settings, &[100]);
        for key in 0..10 {
            assert_eq!(stage.start(&format!("{key}")), 0);
            assert!(seen.insert(stage.placements.locations[0].generation));
        }
    }
}

#[test]
fn value_sizes_are_counted_at_the_end_of_a_put() {
    let mut stage = Stage::new(&[4]);
    stage.put("a");
    stage.start("b");
    assert_eq!(stage.shard.counters().puts_ended, 1);
    assert_eq!(stage.shard.counters().value_bytes_sum, PAYLOAD_BYTES);
}

#[test]
fn a_late_message_touches_only_its_own_put() {
    let mut stage = Stage::new(&[4]);
    let config = PutConfig::default();
    stage.start_with("a", PAYLOAD_BYTES, &config, true);
    let first = stage.generation("a");
    stage.start_with("a", PAYLOAD_BYTES, &config, true);
    let second = stage.generation("a");
    assert_eq!(stage.revoke_of(WRITER, "a", first, true), 0);
    assert_eq!(stage.shard.gauges().staging_bytes, EXTENT_BYTES);
    assert_eq!(stage.end_of(WRITER, "a", first, 1), code(Status::InvalidWrite));
    assert!(!stage.holds("a"), "the second put is still unfinished");
    assert_eq!(stage.end_of(WRITER, "a", second, 2), 0);
    assert_eq!(stage.peek("a")[0].generation, second);
}

#[test]
fn an_upsert_is_seen_at_its_end_though_a_later_one_has_begun() {
    let mut stage = Stage::new(&[4]);
    stage.put("a");
    let config = PutConfig::default();
    stage.start_with("a", PAYLOAD_BYTES, &config, true);
    let first = stage.generation("a");
    stage.start_in_group("a", PAYLOAD_BYTES, &config, true, "", 8);
    let second = stage.generation("a");
    assert_eq!(stage.end_of(WRITER, "a", first, 2), 0);
    assert_eq!(stage.peek("a")[0].generation, first);
    assert_eq!(stage.end_of(8, "a", second, 3), 0);
    assert_eq!(stage.peek("a")[0].generation, second);
    assert_eq!(stage.shard.gauges().parked_bytes, 0);
}

#[test]
fn an_upsert_stays_when_a_later_one_is_given_up() {
    let mut stage = Stage::new(&[4]);
    stage.put("a");
    let config = PutConfig::default();
    stage.start_with("a", PAYLOAD_BYTES, &config, true);
    let first = stage.generation("a");
    stage.pass(DISCARD_MS / 2);
    stage.start_in_group("a", PAYLOAD_BYTES, &config, true, "", 8);
    assert_eq!(stage.end_of(WRITER, "a", first, 2), 0);
    stage.pass(DISCARD_MS);
    stage.tick();
    assert_eq!(stage.shard.gauges().pending_puts, 0);
    assert_eq!(stage.peek("a")[0].generation, first);
}

#[test]
fn of_overlapping_upserts_the_later_one_inherits_the_pins_of_the_one_it_replaces() {
    let mut stage = Stage::new(&[4]);
    let pinned = PutConfig { hard_pin: true, ..PutConfig::default() };
    stage.start_with("a", PAYLOAD_BYTES, &pinned, true);
    let first = stage.generation("a");
    stage.start_with("a", PAYLOAD_BYTES, &PutConfig::default(), true);
    assert_eq!(stage.end_of(WRITER, "a", first, 1), 0);
    assert_eq!(stage.end("a"), 0);
    for key in ["b", "c", "d", "e"] {
        stage.put(key);
    }
    assert!(stage.holds("a"));
}

#[test]
fn of_overlapping_first_puts_in_different_groups_the_later_one_stays() {
    let mut stage = Stage::new(&[4]);
    let config = PutConfig::default();
    stage.start_in_group("a", PAYLOAD_BYTES, &config, true, "one", WRITER);
    let first = stage.generation("a");
    assert_eq!(stage.start_in_group("a", PAYLOAD_BYTES, &config, true, "two", WRITER), 0);
    assert_eq!(stage.end_of(WRITER, "a", first, 1), code(Status::InvalidWrite));
    assert_eq!(stage.end("a"), 0);
}

#[test]
fn a_preempted_writer_that_reports_back_frees_its_space() {
    let mut stage = Stage::new(&[4]);
    let config = PutConfig::default();
    for _ in 0..20 {
        assert_eq!(stage.start_with("a", PAYLOAD_BYTES, &config, true), 0);
        let preempted = stage.generation("a");
        assert_eq!(stage.start_with("a", PAYLOAD_BYTES, &config, true), 0);
        assert_eq!(stage.end("a"), 0);
        assert_eq!(stage.revoke_of(8, "a", preempted, false), 0);
        assert_eq!(
            stage.shard.gauges().staging_bytes,
            EXTENT_BYTES,
            "another client's message frees nothing"
        );
        assert_eq!(stage.revoke_of(WRITER, "a", preempted, false), 0);
        assert_eq!(stage.shard.gauges().parked_bytes, 0);
    }
}

#[test]
fn the_space_of_a_put_revoked_in_flight_is_parked() {
    let mut stage = Stage::new(&[2]);
    stage.start("a");
    let generation = stage.generation("a");
    assert_eq!(stage.revoke_of(WRITER, "a", generation, true), 0);
    assert_eq!(stage.shard.gauges().staging_bytes, EXTENT_BYTES);
    assert_eq!(stage.put("b"), 0);
    assert_eq!(stage.put("c"), 0, "evicts rather than using quarantined space");
    assert!(!stage.holds("b"));
    stage.pass(RELEASE_MS);
    stage.tick();
    assert_eq!(stage.shard.gauges().parked_bytes, 0);
}

#[test]
fn puts_named_by_too_few_generations_are_refused() {
    let mut stage = Stage::new(&[2]);
    stage.start("a");
    let puts = StartedPuts { client: WRITER, keys: &[b"a"], generations: &[], parts: &[] };
    stage.shard.put_end(0, &puts, &[1], &mut stage.status);
    assert_eq!(stage.status, [-600]);
    stage.shard.put_revoke(0, &puts, false, &mut stage.status);
    assert_eq!(stage.status, [-600]);
    assert_eq!(stage.end("a"), 0);
}
