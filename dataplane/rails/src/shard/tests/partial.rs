//! Memory that only some rails know: it waits for those rails alone, and nothing else waits for it.

use super::world::{Ends, World};
use super::{LONG, Plan, assert_moved};
use crate::active_request::RailRequest;
use crate::error::RailError;
use crate::keys::RemoteKeys;
use perigee_activity::Direction;
use std::sync::Arc;
use std::time::Duration;

const BYTES: u64 = 64 << 10;

/// The memory of `b` as `a` may use it over one rail alone.
fn keys_of_rail(world: &World, rail: usize) -> Arc<RemoteKeys> {
    let mut descriptor = world.engines["b"].memory.descriptor(1, None);
    for (index, keys) in descriptor.remote_keys.iter_mut().enumerate() {
        if index != rail {
            keys.clear();
        }
    }
    Arc::new(RemoteKeys::new(&descriptor, world.now()).unwrap())
}

fn plan(index: u64) -> Plan {
    (Direction::Write, index * BYTES, index * BYTES, BYTES)
}

/// Requests with tags from `from` on.
fn writes(world: &World, keys: &Arc<RemoteKeys>, tags: std::ops::Range<u64>) -> Vec<RailRequest> {
    tags.map(|tag| world.request("a", keys, "b", plan(tag), tag)).collect()
}

/// A world of two rails whose lanes are up.
fn two_rails() -> (World, Arc<crate::peer::PeerRecord>) {
    let mut world = World::pair(2);
    let (peer, keys) = (world.open("b"), world.keys("b", None));
    let ends = Arc::new(Ends::default());
    let all = writes(&world, &keys, 0..8);
    world.submit("a", &peer, all, LONG, &ends);
    world.until(LONG, |world| {
        let mut up = |rail| world.engine("a").report(rail).pairs_up == 1;
        ends.count() == 8 && up(0) && up(1)
    });
    (world, peer)
}

#[test]
fn work_for_a_rail_being_remade_arrives_and_delays_no_other() {
    let (mut world, peer) = two_rails();
    let (partial, all) = (keys_of_rail(&world, 0), world.keys("b", None));
    world.faults("a", 0).flush_next(1);
    // So the first lane stays down for as long as its handshake does not come through.
    world.handshakes = false;
    let (first, others) = (Arc::new(Ends::default()), Arc::new(Ends::default()));
    let behind = 600;
    let of_rail =
        (0..behind).map(|index| world.request("a", &partial, "b", plan(index % 8), index));
    let of_rail = of_rail.collect();
    world.submit("a", &peer, of_rail, LONG, &first);
    world.until(LONG, |world| world.engine("a").report(0).pairs_up == 0);
    let more = writes(&world, &all, 0..16);
    world.submit("a", &peer, more, LONG, &others);
    let took = world.until(LONG, |_| others.count() == 16);
    assert!(took < Duration::from_millis(100), "{took:?}");
    others.assert_all_well(16);
    assert!(first.count() < behind as usize);
    world.handshakes = true;
    world.until(LONG, |_| first.count() == behind as usize);
    first.assert_all_well(behind);
    assert_moved(&mut world, &(0..16).map(plan).collect::<Vec<_>>(), 0);
}

#[test]
fn a_request_for_a_lost_rail_ends_early_and_blocks_no_other() {
    // Whether a slice of it has failed before, or its first one waits.
    for is_tried in [true, false] {
        let (mut world, peer) = two_rails();
        let (partial, all) = (keys_of_rail(&world, 0), world.keys("b", None));
        let (stuck, others) = (Arc::new(Ends::default()), Arc::new(Ends::default()));
        let of_rail = writes(&world, &partial, 0..4);
        if is_tried {
            world.faults("a", 0).delay(Duration::from_millis(5));
            world.submit("a", &peer, of_rail.clone(), LONG, &stuck);
            world.step();
            world.faults("a", 0).lose();
        } else {
            world.faults("a", 0).lose();
            world.submit("a", &peer, of_rail, LONG, &stuck);
        }
        let more = writes(&world, &all, 4..20);
        world.submit("a", &peer, more, LONG, &others);
        let took = world.until(LONG, |_| stuck.count() == 4 && others.count() == 16);
        assert!(took < LONG / 2, "{took:?}");
        let no_route = |outcome: &Result<(), RailError>| matches!(outcome, Err(RailError::NoRoute { peer, .. }) if peer == "b");
        assert!(
            stuck.reported().iter().all(|(_, outcome)| no_route(outcome)),
            "{:?}",
            stuck.reported()
        );
        assert!(others.reported().iter().all(|(_, outcome)| outcome.is_ok()));
        // The peer goes on.
        let again = Arc::new(Ends::default());
        let more = writes(&world, &all, 0..16);
        world.submit("a", &peer, more, LONG, &again);
        world.until(LONG, |_| again.count() == 16);
        again.assert_all_well(16);
    }
}
