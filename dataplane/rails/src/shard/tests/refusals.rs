//! Devices that refuse what is posted: their queue pairs are left, and no turn lasts forever.

use super::world::{Ends, World};
use super::{LONG, Plan, requests};
use crate::endpoint::EndpointRole;
use crate::keys::RemoteKeys;
use crate::peer::PeerRecord;
use perigee_activity::Direction;
use std::sync::Arc;
use std::time::Duration;

const COUNT: usize = 32;

/// A world of so many rails whose queue pairs to `b` are up and have nothing to do.
fn idle(rails: usize) -> (World, Arc<PeerRecord>, Arc<RemoteKeys>) {
    let mut world = World::pair(rails);
    let (peer, keys) = (world.open("b"), world.keys("b", None));
    let ends = Arc::new(Ends::default());
    submit(&mut world, &peer, &keys, &ends);
    world.until(LONG, |world| {
        let up = |rail| world.engine("a").report(rail).pairs_up == 1;
        ends.count() == COUNT && (0..rails).all(up)
    });
    (world, peer, keys)
}

fn submit(world: &mut World, peer: &Arc<PeerRecord>, keys: &Arc<RemoteKeys>, ends: &Arc<Ends>) {
    let write = |index| (Direction::Write, index * 4096, index * 4096, 4096);
    let plans: Vec<Plan> = (0..COUNT as u64).map(write).collect();
    let all = requests(world, keys, &plans);
    world.submit("a", peer, all, LONG, ends);
}

/// Number of the queue pair of `a` over its first rail.
fn first_lane(world: &mut World) -> u32 {
    let of_lane = |role: &EndpointRole| matches!(role, EndpointRole::Lane { lane: 0, .. });
    let mut endpoints = world.engine("a").shard.endpoints.iter();
    let found = endpoints.find(|(_, endpoint)| of_lane(&endpoint.role));
    found.map(|(_, endpoint)| endpoint.number()).unwrap()
}

#[test]
fn a_queue_pair_that_failed_while_idle_is_made_again_and_its_work_arrives() {
    for rails in [1, 2] {
        let (mut world, peer, keys) = idle(rails);
        let number = first_lane(&mut world);
        world.faults("a", 0).fail_queue_pair(number);
        let ends = Arc::new(Ends::default());
        submit(&mut world, &peer, &keys, &ends);
        world.until(LONG, |_| ends.count() == COUNT);
        ends.assert_all_well(COUNT as u64);
        world.until(LONG, |world| world.engine("a").report(0).pairs_up == 1);
        assert_eq!(world.engine("a").report(0).errors, 1);
    }
}

#[test]
fn a_device_that_refuses_every_post_is_left_to_the_other_rail() {
    let (mut world, peer, keys) = idle(2);
    world.faults("a", 0).refuse_posts(u64::MAX);
    let ends = Arc::new(Ends::default());
    submit(&mut world, &peer, &keys, &ends);
    world.until(LONG, |_| ends.count() == COUNT);
    ends.assert_all_well(COUNT as u64);
    assert_eq!(world.engine("a").report(0).pairs_up, 0);
}

#[test]
fn a_device_that_refuses_every_post_ends_requests_if_it_is_the_only_one() {
    for is_full in [false, true] {
        let (mut world, peer, keys) = idle(1);
        let faults = world.faults("a", 0);
        if is_full {
            faults.report_full(u64::MAX);
        } else {
            faults.refuse_posts(u64::MAX);
        }
        let ends = Arc::new(Ends::default());
        submit(&mut world, &peer, &keys, &ends);
        let took = world.until(LONG, |_| ends.count() == COUNT);
        assert!(took < LONG / 2, "{took:?}");
        assert!(ends.reported().iter().all(|(_, outcome)| outcome.is_err()));
    }
}

/// Whether any work request of `a` is on its way.
fn is_busy(world: &mut World) -> bool {
    let mut endpoints = world.engine("a").shard.endpoints.iter();
    endpoints.any(|(_, endpoint)| !endpoint.posted().is_empty())
}

#[test]
fn a_full_queue_waits_for_its_completions_and_stays_up() {
    let (mut world, peer, keys) = idle(1);
    world.faults("a", 0).delay(Duration::from_millis(1));
    let ends = Arc::new(Ends::default());
    submit(&mut world, &peer, &keys, &ends);
    world.until(LONG, is_busy);
    world.faults("a", 0).report_full(20);
    submit(&mut world, &peer, &keys, &ends);
    world.until(LONG, |_| ends.count() == 2 * COUNT);
    assert!(ends.reported().iter().all(|(_, outcome)| outcome.is_ok()));
    let report = world.engine("a").report(0);
    assert_eq!((report.errors, report.retries), (0, 0));
}
