//! Facts about where replicas go.

use super::*;

fn segments(stage: &Stage) -> Vec<u32> {
    stage.placements.locations.iter().map(|location| location.segment).collect()
}

#[test]
fn replicas_lie_in_distinct_segments() {
    let mut stage = Stage::new(&[4, 4, 4]);
    let config = PutConfig { replica_num: 3, ..PutConfig::default() };
    assert_eq!(stage.start_with("a", PAYLOAD_BYTES, &config, false), 0);
    let mut segments = segments(&stage);
    segments.sort_unstable();
    assert_eq!(segments, [0, 1, 2]);
}

/// Segments of so many objects each, on these hosts.
fn on_hosts(hosts: &[&str], objects: u64) -> Stage {
    let mut stage = Stage::new(&[]);
    for (index, host) in (0..).zip(hosts) {
        let host_id = (*host).to_owned();
        stage.mount(SegmentSpec { host_id, ..spec(index, objects * EXTENT_BYTES) }, index);
    }
    stage
}

#[test]
fn replicas_lie_on_different_hosts_if_there_are_two() {
    let twice = PutConfig { replica_num: 2, ..PutConfig::default() };
    let mut stage = on_hosts(&["a", "a", "a", "b"], 30);
    for key in 0..30 {
        assert_eq!(stage.start_with(&key.to_string(), PAYLOAD_BYTES, &twice, false), 0);
        assert!(segments(&stage).contains(&3), "{key}: {:?}", segments(&stage));
    }
    // The other host has nothing to spare and nothing to evict.
    assert_eq!(stage.start_with("last", PAYLOAD_BYTES, &twice, false), 0);
    assert_eq!(segments(&stage).len(), 2, "two on one host are better than one");
}

#[test]
fn a_replica_evicts_on_another_host_before_it_joins_the_first_one() {
    let twice = PutConfig { replica_num: 2, ..PutConfig::default() };
    let mut stage = on_hosts(&["a", "a", "b"], 4);
    for key in 0..20 {
        assert_eq!(stage.put_with(&key.to_string(), &twice), 0);
        let places: Vec<u32> =
            stage.peek(&key.to_string()).iter().map(|place| place.segment).collect();
        assert!(places.len() == 2 && places.contains(&2), "{key}: {places:?}");
    }
}

#[test]
fn fewer_replicas_than_asked_for_are_a_success() {
    let mut stage = Stage::new(&[4, 4]);
    let config = PutConfig { replica_num: 5, ..PutConfig::default() };
    assert_eq!(stage.put_with("a", &config), 0);
    assert_eq!(stage.peek("a").len(), 2);
    assert_eq!(stage.shard.counters().partial_allocations, 1);
}

#[test]
fn preferred_segments_are_tried_in_order() {
    let mut stage = Stage::new(&[4, 1, 4]);
    let preferred_segments = &["nowhere:1", "host-1:1", "host-2:1"];
    let config = PutConfig { preferred_segments, ..PutConfig::default() };
    for (key, segment) in [("a", 1), ("b", 2), ("c", 2)] {
        assert_eq!(stage.start_with(key, PAYLOAD_BYTES, &config, false), 0);
        assert_eq!(segments(&stage), [segment]);
    }
}

#[test]
fn a_batch_sticks_to_the_segment_of_its_first_key() {
    let mut stage = Stage::new(&[20; 8]);
    let config = PutConfig { prefer_alloc_in_same_node: true, ..PutConfig::default() };
    let names: Vec<String> = (0..20).map(|key| format!("{key}")).collect();
    let keys: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
    let batch = PutStart {
        client: WRITER,
        keys: &keys,
        payload_bytes: &[PAYLOAD_BYTES; 20],
        positions: &[],
        batch_keys: 0,
        groups: &[],
        config: &config,
        upsert: false,
        effort: Effort::Last,
    };
    stage.shard.put_start(0, &batch, &mut stage.placements);
    let segments = segments(&stage);
    assert_eq!(segments.len(), 20);
    assert!(segments.iter().all(|segment| *segment == segments[0]), "{segments:?}");
}

#[test]
fn random_placement_uses_all_segments() {
    let mut stage = Stage::new(&[100; 4]);
    for key in 0..100 {
        stage.put(&format!("{key}"));
    }
    assert!(stage.shard.segment_gauges().all(|gauges| gauges.replicas > 10));
}

#[test]
fn no_segment_is_filled_above_the_watermark_while_another_has_room_below_it() {
    let settings = ShardSettings { watermark_ratio: 0.5, ..settings() };
    let mut stage = Stage::with(settings, &[4, 20]);
    let small = PutConfig { preferred_segments: &["host-0:1"], ..PutConfig::default() };
    for key in 0..12 {
        assert_eq!(stage.put_with(&format!("{key}"), &small), 0);
    }
    let replicas = |stage: &Stage| -> Vec<u64> {
        stage.shard.segment_gauges().map(|gauges| gauges.replicas).collect()
    };
    assert_eq!(replicas(&stage), [2, 10]);
    stage.age();
    stage.tick();
    assert_eq!(replicas(&stage), [2, 10], "nothing has to go");
    assert_eq!(stage.put_with("more", &small), 0);
    assert_eq!(replicas(&stage), [3, 10], "above the watermark comes before eviction");
}

#[test]
fn the_emptiest_segments_are_filled_first_with_free_ratio_first() {
    let settings = ShardSettings { strategy: Strategy::FreeRatioFirst, ..settings() };
    let mut stage = Stage::with(settings, &[20, 20, 20]);
    for key in 0..30 {
        stage.put(&format!("{key}"));
    }
    assert!(stage.shard.segment_gauges().all(|gauges| gauges.replicas == 10));
}

#[test]
fn the_writers_host_is_filled_first_with_local_first() {
    let settings = ShardSettings { strategy: Strategy::LocalFirst, ..settings() };
    let mut stage = Stage::with(settings, &[2, 2, 2]);
    let by_name = PutConfig { host_name: "host-1", ..PutConfig::default() };
    let by_id = PutConfig { host_id: "id-2", ..PutConfig::default() };
    for (key, config, segment) in [("a", by_name, 1), ("b", by_id, 2), ("c", by_id, 2)] {
        assert_eq!(stage.start_with(key, PAYLOAD_BYTES, &config, false), 0);
        assert_eq!(segments(&stage), [segment], "{key}");
    }
    assert_eq!(stage.start_with("d", PAYLOAD_BYTES, &by_id, false), 0);
    assert_ne!(segments(&stage), [2], "a full local segment is passed over");
}

#[test]
fn a_loopback_host_name_is_no_host() {
    let settings = ShardSettings { strategy: Strategy::LocalFirst, ..settings() };
    let mut stage = Stage::with(settings, &[20]);
    let loopback = SegmentSpec { name: "127.0.0.1:9".to_owned(), ..spec(1, 20 * EXTENT_BYTES) };
    stage.mount(loopback, 1);
    let config = PutConfig { host_name: "127.0.0.1", ..PutConfig::default() };
    let mut used = std::collections::BTreeSet::new();
    for key in 0..20 {
        stage.start_with(&format!("{key}"), PAYLOAD_BYTES, &config, false);
        used.extend(segments(&stage));
    }
    assert_eq!(used.len(), 2);
}

#[test]
fn without_a_segment_there_is_no_space() {
    let mut stage = Stage::new(&[]);
    assert_eq!(stage.start("a"), code(Status::NoAvailableHandle));
}

#[test]
fn shards_share_a_segment_without_overlap() {
    let mut taken = Vec::new();
    for index in 0..4 {
        let mut stage = Stage::with(ShardSettings { index, count: 4, ..settings() }, &[]);
        stage.mount(spec(0, 1 << 20), 0);
        let (start, end) = crate::share::share_range(1 << 20, index, 4);
        for key in 0..200 {
            stage.start(&format!("{key}"));
            taken.extend(stage.placements.locations.iter().map(|location| location.offset));
        }
        assert!(taken[200 * index..].iter().all(|offset| (start..end).contains(offset)));
    }
    taken.sort_unstable();
    assert!(taken.windows(2).all(|pair| pair[1] - pair[0] >= EXTENT_BYTES));
}

#[test]
fn an_excluded_segment_is_used_only_without_another_choice() {
    let mut stage = Stage::new(&[1, 1]);
    let excluded = [spec(0, 0).id];
    let config = PutConfig {
        excluded: &excluded,
        preferred_segments: &["host-0:1"],
        ..PutConfig::default()
    };
    assert_eq!(stage.put_with("a", &config), 0);
    assert_eq!(stage.put_with("b", &config), 0, "evicts the first key");
    assert_eq!(stage.peek("b")[0].segment, 1);
    assert!(!stage.holds("a"));
    let hard = PutConfig { hard_pin: true, ..config };
    assert_eq!(stage.put_with("c", &hard), 0);
    assert_eq!(stage.put_with("d", &config), 0);
    assert_eq!(stage.peek("d")[0].segment, 0);
}
