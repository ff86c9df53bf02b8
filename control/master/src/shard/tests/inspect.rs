//! Facts about what an operator is shown of a key.

use super::demotion::*;
use super::*;
use crate::departures::{Departure, DepartureCause, DiskOutcome};
use perigee_schemas::SegmentKind;

impl Stage {
    fn departures(&mut self, key: &str) -> Vec<Departure> {
        self.shard.inspect(self.now_ms, key.as_bytes()).departures
    }
}

#[test]
fn what_is_there_is_shown_with_its_places_and_without_a_lease() {
    let mut stage = Stage::with_disk(offload(), 1);
    stage.put_on_disk(&["k"]);
    stage.now_ms += 700;
    let inspected = stage.shard.inspect(stage.now_ms, b"k");
    let object = inspected.object.expect("it can be read");
    let places: Vec<_> = object.replicas.iter().map(|it| it.segment.kind).collect();
    assert_eq!(places, [SegmentKind::Memory, SegmentKind::Disk]);
    assert!(object.replicas[0].standing.starts_with("goes next"), "{:?}", object.replicas);
    assert_eq!((object.was_read, object.lease_ms, inspected.unfinished_puts), (false, 0, 0));
    assert_eq!(object.replicas[0].payload_bytes, PAYLOAD_BYTES);
    assert!(inspected.departures.is_empty() && inspected.reach_ms.is_none());
    stage.get("k");
    let object = stage.shard.inspect(stage.now_ms, b"k").object.expect("it can be read");
    assert!(object.was_read && object.lease_ms > 0);
}

#[test]
fn what_was_evicted_is_shown_with_why_and_how_long_it_lay_idle() {
    let mut stage = Stage::with(settings(), &[2]);
    stage.put("first");
    stage.now_ms += 5_000;
    stage.put("second");
    stage.put("third");
    stage.now_ms += 300;
    let [gone] = stage.departures("first")[..] else { panic!("one replica went") };
    assert_eq!((gone.cause, gone.ago_ms, gone.left), (DepartureCause::PutNeededRoom, 300, 0));
    assert!(!gone.was_read && gone.idle_ms <= 5_000 && gone.disk == DiskOutcome::Settled);
    assert!(stage.shard.inspect(stage.now_ms, b"first").object.is_none());
    assert!(stage.departures("second").is_empty());
}

#[test]
fn memory_that_goes_before_its_copy_is_shown_with_what_is_left() {
    let mut stage = Stage::with_disk(offload(), 1);
    stage.put_on_disk(&["k"]);
    stage.put("other");
    assert_eq!(stage.lies_in("k"), [DISK]);
    let [gone] = stage.departures("k")[..] else { panic!("one replica went") };
    assert_eq!((gone.cause, gone.left), (DepartureCause::PutNeededRoom, 1));
    assert!(!gone.was_on_disk && gone.disk == DiskOutcome::Settled);
}

#[test]
fn removals_and_lost_segments_have_causes_of_their_own() {
    let mut stage = Stage::with(settings(), &[4]);
    for key in ["by-key", "by-pattern", "lost"] {
        stage.put(key);
    }
    stage.remove("by-key", true);
    let pattern = Pattern::compile("by-pattern").expect("a pattern");
    let mut scan = stage.shard.scan();
    stage.shard.remove_step(stage.now_ms, &mut scan, &pattern, true);
    stage.apply(&SegmentEvent::Unmounted { index: 0 });
    stage.tick();
    let causes = ["by-key", "by-pattern", "lost"].map(|key| stage.departures(key)[0].cause);
    use DepartureCause::{Removed, RemovedByPattern, SegmentGone};
    assert_eq!(causes, [Removed, RemovedByPattern, SegmentGone]);
}
