//! Facts about segments that come and go under a shard.

use perigee_allocator::Extent;

use super::*;

#[test]
fn replicas_of_an_unmounted_segment_vanish_at_once() {
    let mut stage = Stage::new(&[4]);
    stage.put("a");
    stage.start("unfinished");
    stage.shard.apply(stage.now_ms, &SegmentEvent::Unmounted { index: 0 });
    stage.shard.check();
    assert_eq!(stage.exist("a"), 0);
    assert_eq!(stage.get("a"), code(Status::ObjectNotFound));
    assert_eq!(stage.remove("a", false), code(Status::ObjectNotFound));
    assert_eq!(stage.end("unfinished"), code(Status::ObjectNotFound));
    assert_eq!(stage.start("b"), code(Status::NoAvailableHandle));
}

#[test]
fn ticks_forget_the_replicas_of_an_unmounted_segment_step_by_step() {
    let mut stage = Stage::new(&[100]);
    for key in 0..100 {
        stage.put(&format!("{key}"));
    }
    stage.shard.apply(stage.now_ms, &SegmentEvent::Unmounted { index: 0 });
    for left in [70, 40, 10, 0] {
        assert_eq!(stage.shard.tick(stage.now_ms, 30), left > 0);
        stage.shard.check();
        assert_eq!(stage.shard.gauges().keys, left);
    }
}

#[test]
fn a_segment_whose_owner_lacks_memory_is_used_as_if_it_were_smaller() {
    let mut stage = Stage::new(&[4]);
    let bytes = stage.shard.segment(0).map_or(0, |spec| spec.bytes);
    let usable = |stage: &mut Stage, bytes| {
        let event = SegmentEvent::Usable { index: 0, bytes };
        stage.shard.apply(stage.now_ms, &event);
    };
    usable(&mut stage, bytes / 2);
    assert_eq!(stage.shard.gauges().capacity_bytes, bytes / 2);
    let fits = stage.shard.segment_gauge(0).map(|gauges| gauges.largest_free_bytes);
    assert_eq!(fits, Some(bytes / 2), "no object fits where the owner has no memory");
    for key in ["a", "b", "c"] {
        stage.put(key);
    }
    stage.shard.check();
    assert_eq!((stage.exist("a"), stage.exist("c")), (0, 1));
    usable(&mut stage, bytes);
    stage.put("d");
    stage.put("e");
    assert_eq!(stage.shard.gauges().keys, 4);
}

#[test]
fn a_range_that_the_owner_has_no_memory_for_is_not_given_out() {
    let mut stage = Stage::new(&[8]);
    let lacks = |stage: &mut Stage, from: u64, to: u64| {
        let range = Extent::new(from * EXTENT_BYTES, (to - from) * EXTENT_BYTES);
        let ranges = if from < to { [range].into() } else { Arc::default() };
        stage.shard.apply(stage.now_ms, &SegmentEvent::Unbacked { index: 0, ranges });
        stage.shard.check();
    };
    ["a", "b", "c"].into_iter().for_each(|key| assert_eq!(stage.put(key), 0));
    // Of "c" the pages are made.
    lacks(&mut stage, 3, 6);
    assert_eq!(stage.shard.gauges().capacity_bytes, 5 * EXTENT_BYTES);
    for key in ["d", "e", "f", "g"] {
        assert_eq!(stage.put(key), 0, "{key}");
        let place = stage.placements.locations[0].offset / EXTENT_BYTES;
        assert!(!(3..6).contains(&place), "{key} lies at {place}");
        stage.shard.check();
    }
    assert_eq!(stage.shard.gauges().keys, 5, "the oldest went for the last two");
    // What was given out before the owner has said so comes back, and stays back.
    lacks(&mut stage, 0, 0);
    assert_eq!(stage.start("late"), 0);
    let place = stage.placements.locations[0].offset / EXTENT_BYTES;
    lacks(&mut stage, place, place + 1);
    assert_eq!(stage.revoke(WRITER, "late"), 0);
    for key in ["h", "i", "j"] {
        assert_eq!(stage.put(key), 0, "{key}");
        assert_ne!(stage.placements.locations[0].offset / EXTENT_BYTES, place);
    }
    lacks(&mut stage, 0, 0);
    assert_eq!(stage.shard.gauges().capacity_bytes, 8 * EXTENT_BYTES);
}

#[test]
fn a_key_with_a_replica_elsewhere_survives_an_unmount() {
    let mut stage = Stage::new(&[4, 4]);
    stage.put_with("a", &PutConfig { replica_num: 2, ..PutConfig::default() });
    stage.shard.apply(stage.now_ms, &SegmentEvent::Unmounted { index: 0 });
    assert_eq!(stage.get("a"), 0);
    assert_eq!(stage.replicas.locations[0].segment, 1);
    stage.tick();
    assert_eq!(stage.get("a"), 0);
}

#[test]
fn a_key_whose_segment_is_gone_can_be_put_again() {
    let mut stage = Stage::new(&[4]);
    stage.put("a");
    stage.shard.apply(stage.now_ms, &SegmentEvent::Unmounted { index: 0 });
    stage.mount(spec(1, 4 * EXTENT_BYTES), 1);
    assert_eq!(stage.put("a"), 0);
    stage.tick();
    assert_eq!(stage.peek("a")[0].segment, 1);
}

#[test]
fn a_draining_segment_is_readable_but_takes_nothing_new() {
    let mut stage = Stage::new(&[4]);
    stage.put("a");
    stage.shard.apply(stage.now_ms, &SegmentEvent::Draining { index: 0 });
    assert_eq!(stage.get("a"), 0);
    assert_eq!(stage.start("b"), code(Status::NoAvailableHandle));
    stage.shard.apply(stage.now_ms, &SegmentEvent::Unmounted { index: 0 });
    assert_eq!(stage.get("a"), code(Status::ObjectNotFound));
}

#[test]
fn parked_space_of_an_unmounted_segment_is_forgotten() {
    let mut stage = Stage::new(&[4]);
    stage.put("a");
    stage.get("a");
    stage.remove("a", true);
    stage.shard.apply(stage.now_ms, &SegmentEvent::Unmounted { index: 0 });
    stage.pass(LEASE_MS);
    stage.tick();
    assert_eq!(stage.shard.gauges().parked_bytes, 0);
}

#[test]
fn the_announcement_of_a_mounted_segment_can_be_looked_up() {
    let mut stage = Stage::new(&[4]);
    assert_eq!(stage.shard.segment(0).map(|spec| spec.id), Some(1));
    assert_eq!(stage.shard.segment(1), None);
    stage.shard.apply(stage.now_ms, &SegmentEvent::Unmounted { index: 0 });
    assert_eq!(stage.shard.segment(0), None);
}
