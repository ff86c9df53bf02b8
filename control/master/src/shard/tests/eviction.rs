//! Facts about eviction: order, pins, watermark.

use super::*;
use crate::policy::PolicyName;

fn pinned(soft_pin: SoftPin) -> PutConfig<'static> {
    PutConfig { soft_pin, ..PutConfig::default() }
}

#[test]
fn a_put_evicts_exactly_what_it_needs_in_order_of_age() {
    let mut stage = Stage::new(&[3]);
    for key in ["a", "b", "c", "d"] {
        assert_eq!(stage.put(key), 0);
    }
    assert!(!stage.holds("a"));
    assert!(stage.holds("b") && stage.holds("c") && stage.holds("d"));
    assert_eq!(stage.shard.counters().evicted_keys, 1);
    assert_eq!(stage.shard.counters().evicted_bytes, PAYLOAD_BYTES);
}

#[test]
fn the_keys_of_a_batch_evict_what_as_many_single_puts_do() {
    let lru = ShardSettings { policy: PolicyName::Lru, ..settings() };
    let stages = [8, 1].map(|batch| {
        let mut stage = Stage::with(lru.clone(), &[24]);
        let stored: Vec<String> = (0..24).map(|key| format!("stored {key}")).collect();
        stored.iter().for_each(|key| assert_eq!(stage.put(key), 0));
        // The order alternates between keys that were read, probed, and neither.
        for (at, key) in stored.iter().enumerate() {
            match at % 3 {
                0 => assert_eq!(stage.get(key), 0),
                1 => assert_eq!(stage.exist(key), 1),
                _ => {}
            }
        }
        stage.pass(LEASE_MS);
        let new: Vec<String> = (0..16).map(|key| format!("new {key}")).collect();
        for keys in new.chunks(batch) {
            stage.start_all(keys);
        }
        let kept = |key: &&String| stage.holds(key);
        stored.iter().filter(kept).cloned().collect::<Vec<_>>()
    });
    assert_eq!(stages[0].len(), 8);
    assert_eq!(stages[0], stages[1]);
}

#[test]
fn puts_take_the_place_of_what_was_probed_rather_than_of_each_other() {
    let mut stage = Stage::new(&[12]);
    let stored: Vec<String> = (0..12).map(|key| format!("stored {key}")).collect();
    stored.iter().for_each(|key| assert_eq!(stage.put(key), 0));
    stage.age();
    stored.iter().for_each(|key| assert_eq!(stage.exist(key), 1));
    let new: Vec<String> = (0..8).map(|key| format!("new {key}")).collect();
    new.iter().for_each(|key| assert_eq!(stage.put(key), 0));
    assert!(new.iter().all(|key| stage.holds(key)), "acknowledged a moment ago");
    assert!(stored[..8].iter().all(|key| !stage.holds(key)));
    assert!(stored[8..].iter().all(|key| stage.holds(key)));
}

#[test]
fn puts_leave_what_was_probed_while_something_older_may_go() {
    let mut stage = Stage::new(&[12]);
    let stored: Vec<String> = (0..12).map(|key| format!("stored {key}")).collect();
    stored.iter().for_each(|key| assert_eq!(stage.put(key), 0));
    stage.age();
    stored[..8].iter().for_each(|key| assert_eq!(stage.exist(key), 1));
    let new: Vec<String> = (0..4).map(|key| format!("new {key}")).collect();
    stage.start_all(&new);
    assert!(stored[..8].iter().all(|key| stage.holds(key)));
}

#[test]
fn a_large_put_evicts_until_a_hole_is_large_enough() {
    let mut stage = Stage::new(&[4]);
    for key in ["a", "b", "c", "d"] {
        stage.put(key);
    }
    let config = PutConfig::default();
    assert_eq!(stage.start_with("large", 3 * PAYLOAD_BYTES, &config, false), 0);
    assert!(!stage.holds("a") && stage.holds("d"));
}

#[test]
fn within_a_batch_the_first_key_is_evicted_last() {
    let mut stage = Stage::new(&[3]);
    let keys: [&[u8]; 3] = [b"root", b"middle", b"leaf"];
    for key in ["root", "middle", "leaf"] {
        stage.start(key);
    }
    let generations = ["root", "middle", "leaf"].map(|key| stage.generation(key));
    let puts = StartedPuts { client: WRITER, keys: &keys, generations: &generations, parts: &[] };
    stage.shard.put_end(stage.now_ms, &puts, &[1; 3], &mut stage.status);
    stage.put("x");
    assert!(!stage.holds("leaf"));
    stage.shard.get_replicas(stage.now_ms, &keys[..2], &mut stage.replicas);
    stage.pass(LEASE_MS);
    stage.put("y");
    stage.put("z");
    stage.put("w");
    assert!(!stage.holds("middle") || stage.holds("root"), "the root outlives its leaves");
}

#[test]
fn a_key_that_was_read_outlives_one_that_was_not() {
    let mut stage = Stage::new(&[3]);
    stage.put("read");
    stage.get("read");
    stage.pass(LEASE_MS);
    for key in ["b", "c", "d"] {
        stage.put(key);
    }
    assert!(stage.holds("read") && !stage.holds("b"));
}

#[test]
fn a_key_that_was_read_long_ago_goes_in_the_end() {
    let mut stage = Stage::new(&[3]);
    stage.put("read");
    stage.get("read");
    stage.pass(LEASE_MS);
    for key in 0..20 {
        stage.put(&format!("{key}"));
    }
    assert!(!stage.holds("read"));
}

#[test]
fn hard_pins_and_unfinished_puts_are_never_evicted() {
    let mut stage = Stage::new(&[2]);
    stage.put_with("pinned", &PutConfig { hard_pin: true, ..PutConfig::default() });
    stage.start("unfinished");
    assert_eq!(stage.put("c"), code(Status::NoAvailableHandle));
    assert_eq!(stage.shard.counters().alloc_failures, 1);
    assert_eq!(stage.end("unfinished"), 0);
    assert_eq!(stage.put("c"), 0);
    assert!(stage.holds("pinned"));
}

#[test]
fn soft_pins_go_last() {
    let mut stage = Stage::new(&[2]);
    stage.put_with("pinned", &pinned(SoftPin::Enable { ttl_ms: None }));
    stage.put("b");
    stage.put("c");
    assert!(stage.holds("pinned") && !stage.holds("b"));
    stage.get("c");
    assert_eq!(stage.put("d"), 0);
    assert!(!stage.holds("pinned"));
    assert_eq!(stage.shard.gauges().soft_pinned_keys, 0);
}

#[test]
fn soft_pins_stay_if_their_eviction_is_forbidden() {
    let settings = ShardSettings { evict_soft_pinned: false, ..settings() };
    let mut stage = Stage::with(settings, &[1]);
    stage.put_with("pinned", &pinned(SoftPin::Enable { ttl_ms: Some(500) }));
    assert_eq!(stage.put("b"), code(Status::NoAvailableHandle));
    stage.pass(500);
    stage.tick();
    assert_eq!(stage.put("b"), 0);
}

#[test]
fn a_soft_pin_is_counted_from_the_end_of_the_put_and_not_extended_by_reads() {
    let mut stage = Stage::new(&[2]);
    let config = pinned(SoftPin::Enable { ttl_ms: Some(500) });
    stage.start_with("a", PAYLOAD_BYTES, &config, false);
    stage.pass(300);
    stage.end("a");
    stage.pass(499);
    stage.get("a");
    stage.tick();
    assert_eq!(stage.shard.gauges().soft_pinned_keys, 1);
    stage.pass(1);
    stage.tick();
    assert_eq!(stage.shard.gauges().soft_pinned_keys, 0);
}

#[test]
fn a_replacement_preserves_or_drops_the_soft_pin() {
    let mut stage = Stage::new(&[3]);
    stage.put_with("a", &pinned(SoftPin::Enable { ttl_ms: None }));
    for (soft_pin, pins) in [(SoftPin::Preserve, 1), (SoftPin::Disable, 0), (SoftPin::Preserve, 0)]
    {
        stage.start_with("a", PAYLOAD_BYTES, &pinned(soft_pin), true);
        assert_eq!(stage.end("a"), 0);
        assert_eq!(stage.shard.gauges().soft_pinned_keys, pins, "{soft_pin:?}");
    }
}

#[test]
fn ticks_evict_to_just_below_the_watermark_of_each_segment() {
    let settings = ShardSettings { watermark_ratio: 0.5, ..settings() };
    let mut stage = Stage::with(settings, &[10]);
    for key in 0..10 {
        assert_eq!(stage.put(&format!("{key}")), 0);
    }
    stage.mount(spec(1, 10 * EXTENT_BYTES), 1);
    stage.age();
    stage.tick();
    let used: Vec<u64> =
        stage.shard.segment_gauges().map(|gauges| gauges.allocated_bytes).collect();
    assert_eq!(used, [5 * EXTENT_BYTES, 0]);
    assert!(!stage.holds("4") && stage.holds("5"));
}

#[test]
fn one_tick_evicts_at_most_the_eviction_ratio_and_the_budget() {
    let settings = ShardSettings { watermark_ratio: 0.0, eviction_ratio: 0.19, ..settings() };
    let mut stage = Stage::with(settings, &[10]);
    for key in 0..10 {
        stage.put(&format!("{key}"));
    }
    stage.age();
    stage.tick();
    assert_eq!(stage.shard.gauges().keys, 8);
    assert!(stage.shard.tick(stage.now_ms, 1), "the budget was used up");
    assert_eq!(stage.shard.gauges().keys, 7);
}

#[test]
fn the_watermark_breaks_no_probe_lease() {
    let settings = ShardSettings { watermark_ratio: 0.0, lease_ttl_ms: 2 * FRESH_MS, ..settings() };
    let mut stage = Stage::with(settings, &[2]);
    stage.put("a");
    stage.exist("a");
    stage.age();
    stage.tick();
    assert!(stage.holds("a"));
    stage.pass(FRESH_MS);
    stage.tick();
    assert!(!stage.holds("a"));
}

#[test]
fn the_watermark_takes_nothing_that_is_newer_than_what_readers_hold() {
    let settings = ShardSettings { watermark_ratio: 0.5, lease_ttl_ms: 3 * FRESH_MS, ..settings() };
    let mut stage = Stage::with(settings, &[10]);
    stage.put("old");
    for key in 0..6 {
        stage.put(&format!("read-{key}"));
        stage.get(&format!("read-{key}"));
    }
    stage.put("new");
    stage.age();
    stage.tick();
    assert!(!stage.holds("old"), "it would have been the next anyway");
    assert!(stage.holds("new"), "what readers hold would have gone first");
    assert_eq!(stage.shard.counters().evicted_keys, 1);
    stage.pass(2 * FRESH_MS);
    stage.tick();
    assert_eq!(stage.shard.gauges().allocated_bytes, 5 * EXTENT_BYTES);
}

#[test]
fn the_watermark_takes_nothing_that_was_touched_a_moment_ago() {
    let settings = ShardSettings { watermark_ratio: 0.0, ..settings() };
    let mut stage = Stage::with(settings, &[10]);
    stage.put("a");
    stage.age();
    stage.put("b");
    stage.tick();
    assert!(!stage.holds("a") && stage.holds("b"));
    for key in 0..12 {
        assert_eq!(stage.put(&format!("{key}")), 0, "a put may take it");
    }
    assert!(!stage.holds("b"));
}

#[test]
fn a_put_that_cannot_get_its_space_evicts_nothing() {
    let mut stage = Stage::new(&[4]);
    let hard = PutConfig { hard_pin: true, ..PutConfig::default() };
    stage.put_with("pinned", &hard);
    for key in ["a", "b", "c"] {
        stage.put(key);
    }
    let config = PutConfig::default();
    let large = stage.start_with("large", 4 * PAYLOAD_BYTES, &config, false);
    assert_eq!(large, code(Status::NoAvailableHandle));
    assert_eq!(stage.shard.counters().evicted_keys, 0);
    stage.get("a");
    let large = stage.start_with("large", 3 * PAYLOAD_BYTES, &config, false);
    assert_eq!(large, code(Status::NoAvailableHandle));
    assert!(stage.holds("b") && stage.holds("c"));
}

#[test]
fn a_put_that_fails_evicts_a_bounded_number() {
    const LARGE_BYTES: u64 = 8 << 20;
    let mut stage = Stage::new(&[]);
    stage.mount(spec(0, 40 * extent_bytes(LARGE_BYTES)), 0);
    let hard = PutConfig { hard_pin: true, ..PutConfig::default() };
    let plain = PutConfig::default();
    for key in 0..40 {
        let config = if key % 2 == 0 { &hard } else { &plain };
        assert_eq!(stage.start_with(&format!("{key}"), LARGE_BYTES, config, false), 0);
        assert_eq!(stage.end(&format!("{key}")), 0);
    }
    let large = stage.start_with("large", 2 * LARGE_BYTES, &plain, false);
    assert_eq!(large, code(Status::NoAvailableHandle));
    assert_eq!(stage.shard.counters().evicted_keys, 9, "64 MiB and the one that passes it");
}

#[test]
fn parked_space_is_no_reason_to_evict() {
    let settings = ShardSettings { watermark_ratio: 0.5, ..settings() };
    let mut stage = Stage::with(settings, &[10]);
    for key in 0..5 {
        stage.put(&format!("{key}"));
        stage.get(&format!("{key}"));
    }
    stage.remove_matching(&Pattern::any(), true);
    for key in 5..9 {
        stage.put(&format!("{key}"));
    }
    assert_eq!(stage.shard.gauges().parked_bytes, 5 * EXTENT_BYTES);
    stage.tick();
    assert_eq!(stage.shard.gauges().keys, 4);
}
