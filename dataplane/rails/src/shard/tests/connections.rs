//! Queue pairs over time: bounded, reclaimed, proven; peers that die, restart or take over an
//! address leak none.

use super::world::{Ends, World};
use super::{LONG, requests};
use crate::error::RailError;
use crate::limits::{IDLE_MAX, KEEP_ALIVE, PROOF_DEADLINE};
use perigee_activity::Direction;
use perigee_verbs::LinkOptions;
use std::sync::Arc;
use std::time::Duration;

/// One write of 64 KiB from `a` to `to`.
fn write_once(world: &mut World, to: &str) -> Result<(), RailError> {
    let (peer, keys, ends) = (world.open(to), world.keys(to, None), Arc::new(Ends::default()));
    let request = world.request("a", &keys, to, (Direction::Write, 0, 0, 64 << 10), 0);
    world.submit("a", &peer, vec![request], LONG, &ends);
    world.until(LONG, |_| ends.count() == 1);
    ends.reported().remove(0).1
}

#[test]
fn idle_queue_pairs_are_closed_and_their_other_ends_are_found_dead() {
    let mut world = World::pair(2);
    write_once(&mut world, "b").unwrap();
    assert_eq!(world.engine("a").shard.queue_pairs(), (2, 0));
    assert_eq!(world.engine("b").shard.queue_pairs(), (0, 2));
    world.pass(IDLE_MAX + Duration::from_secs(2));
    assert_eq!(world.engine("a").shard.queue_pairs(), (0, 0));
    world.pass(KEEP_ALIVE + PROOF_DEADLINE + Duration::from_secs(2));
    assert_eq!(world.engine("b").shard.queue_pairs(), (0, 0));
    write_once(&mut world, "b").unwrap();
}

#[test]
fn the_only_rail_of_a_peer_is_driven_through_several_queue_pairs() {
    let mut world = World::pair_by(1, 4);
    let (peer, keys, ends) = (world.open("b"), world.keys("b", None), Arc::new(Ends::default()));
    let write = |world: &World| requests(world, &keys, &[(Direction::Write, 0, 0, 1 << 20)]);
    world.submit("a", &peer, write(&world), LONG, &ends);
    world.until(LONG, |world| world.engine("a").report(0).pairs_up == 4);
    world.submit("a", &peer, write(&world), LONG, &ends);
    let mut most = 0;
    world.until(LONG, |world| {
        let endpoints = world.engine("a").shard.endpoints.iter();
        let busy = endpoints.filter(|(_, endpoint)| endpoint.bandwidth.in_flight() > 0);
        most = most.max(busy.count());
        ends.count() == 2
    });
    assert!(ends.reported().iter().all(|(_, outcome)| outcome.is_ok()));
    assert_eq!(most, 4, "one request is spread over all of them");
}

#[test]
fn a_little_work_opens_one_queue_pair_for_each_rail() {
    let mut world = World::pair_by(1, 4);
    for _ in 0..3 {
        write_once(&mut world, "b").unwrap();
    }
    world.pass(Duration::from_secs(1));
    assert_eq!(world.engine("b").shard.queue_pairs(), (0, 1));
}

#[test]
fn a_bound_on_queue_pairs_over_the_same_rails_holds_whatever_waits() {
    for (bound, expected) in [(1, 1), (2, 2), (6, 6)] {
        let mut world = World::new();
        world.queue_pairs_per_peer = 4;
        world.host("b", 1, 16);
        world.queue_pairs_per_rail = Some(bound);
        world.host("a", 1, 16);
        let (peer, keys, ends) =
            (world.open("b"), world.keys("b", None), Arc::new(Ends::default()));
        for round in 1..=4 {
            let all = requests(&world, &keys, &[(Direction::Write, 0, 0, 4 << 20)]);
            world.submit("a", &peer, all, LONG, &ends);
            world.until(LONG, |_| ends.count() == round);
        }
        assert!(ends.reported().iter().all(|(_, outcome)| outcome.is_ok()));
        assert_eq!(world.engine("b").shard.queue_pairs(), (0, expected));
    }
}

#[test]
fn an_owner_without_room_refuses_further_queue_pairs_and_the_first_one_carries_on() {
    let mut world = World::new();
    world.host("b", 1, 1);
    world.queue_pairs_per_peer = 4;
    world.host("a", 1, 16);
    let (peer, keys, ends) = (world.open("b"), world.keys("b", None), Arc::new(Ends::default()));
    for round in 1..=4 {
        let all = requests(&world, &keys, &[(Direction::Write, 0, 0, 4 << 20)]);
        world.submit("a", &peer, all, LONG, &ends);
        world.until(LONG, |_| ends.count() == round);
    }
    assert!(ends.reported().iter().all(|(_, outcome)| outcome.is_ok()));
    let report = world.engine("a").report(0);
    assert_eq!((report.pairs_up, report.errors, report.retries), (1, 0, 0));
    assert_eq!(world.engine("b").shard.queue_pairs(), (0, 1));
}

#[test]
fn queue_pairs_of_a_peer_that_died_are_taken_down() {
    let mut world = World::pair(2);
    write_once(&mut world, "b").unwrap();
    world.engines.remove("a");
    world.network.restart("a");
    world.pass(KEEP_ALIVE + PROOF_DEADLINE + Duration::from_secs(2));
    assert_eq!(world.engine("b").shard.queue_pairs(), (0, 0));
}

#[test]
fn a_peer_that_lives_keeps_its_queue_pairs() {
    let mut world = World::pair(2);
    let (peer, keys) = (world.open("b"), world.keys("b", None));
    for round in 0..6 {
        let ends = Arc::new(Ends::default());
        let all = requests(&world, &keys, &[(Direction::Write, 0, 0, 4096 + round)]);
        world.submit("a", &peer, all, LONG, &ends);
        world.until(LONG, |_| ends.count() == 1);
        world.pass(KEEP_ALIVE);
    }
    assert_eq!(world.engine("b").shard.queue_pairs(), (0, 2));
}

#[test]
fn an_engine_that_takes_over_a_name_replaces_the_queue_pairs_of_the_one_before() {
    let mut world = World::pair(2);
    for _ in 0..5 {
        write_once(&mut world, "b").unwrap();
        world.start("a", 2, 16);
    }
    write_once(&mut world, "b").unwrap();
    assert_eq!(world.engine("b").shard.queue_pairs(), (0, 2));
}

#[test]
fn requests_to_a_restarted_peer_fail_as_such_and_work_once_it_is_opened_again() {
    let mut world = World::pair(2);
    let (peer, keys, ends) = (world.open("b"), world.keys("b", None), Arc::new(Ends::default()));
    write_once(&mut world, "b").unwrap();
    let all = requests(&world, &keys, &[(Direction::Write, 0, 0, 1 << 20)]);
    world.engines.remove("b");
    world.network.restart("b");
    world.start("b", 2, 16);
    world.submit("a", &peer, all, LONG, &ends);
    world.until(LONG, |_| ends.count() == 1);
    let expected = RailError::PeerRestarted { peer: "b".into() };
    assert_eq!(ends.reported(), [(0, Err(expected))]);
    write_once(&mut world, "b").unwrap();
    assert_eq!(world.engine("b").shard.queue_pairs(), (0, 2));
}

#[test]
fn a_peer_whose_handshake_fails_is_unreachable_and_others_are_not_held_up() {
    let mut world = World::pair(1);
    world.host("c", 1, 16);
    let (gone, keys, ends) = (world.open("c"), world.keys("c", None), Arc::new(Ends::default()));
    let request = world.request("a", &keys, "c", (Direction::Write, 0, 0, 4096), 0);
    let dead = world.engines.remove("c");
    world.submit("a", &gone, vec![request], LONG, &ends);
    write_once(&mut world, "b").unwrap();
    world.until(LONG / 4, |_| ends.count() == 1);
    let reported = ends.reported();
    let Err(error @ RailError::Unreachable { .. }) = &reported[0].1 else {
        panic!("{reported:?}");
    };
    assert_eq!(error.to_string(), "Peer c cannot be reached: connection refused");
    drop(dead);
}

#[test]
fn the_pool_never_holds_more_queue_pairs_than_its_bound_and_every_peer_is_served() {
    for queue_pairs_per_peer in [1, 4] {
        let mut world = World::new();
        world.queue_pairs_per_peer = queue_pairs_per_peer;
        serve_more_peers_than_queue_pairs(&mut world);
    }
}

fn serve_more_peers_than_queue_pairs(world: &mut World) {
    world.host("a", 1, 2);
    let names: Vec<String> = (0..6).map(|index| format!("p{index}")).collect();
    for name in &names {
        world.host(name, 1, 16);
    }
    let ends = Arc::new(Ends::default());
    for round in 0..4u64 {
        for (index, name) in names.iter().enumerate() {
            let (peer, keys) = (world.open(name), world.keys(name, None));
            let tag = round * names.len() as u64 + index as u64;
            let request = world.request("a", &keys, name, (Direction::Write, 0, 0, 1 << 20), tag);
            world.submit("a", &peer, vec![request], LONG, &ends);
        }
    }
    world.until(LONG, |world| {
        assert!(world.engine("a").shard.queue_pairs().0 <= 2);
        ends.count() == 24
    });
    ends.assert_all_well(24);
}

#[test]
fn a_fenced_engine_writes_nothing_until_it_connects_again() {
    let mut world = World::pair(1);
    write_once(&mut world, "b").unwrap();
    let (now, epoch) = (world.now(), world.engine("a").descriptor.epoch);
    world.engine("b").shard.fence(epoch, now);
    assert_eq!(world.engine("b").shard.queue_pairs(), (0, 0));
    world.handshakes = false;
    let (peer, keys, ends) = (world.open("b"), world.keys("b", None), Arc::new(Ends::default()));
    world.engine("b").fill(super::HALF, 1 << 20, 77);
    let before = world.engine("b").bytes(super::HALF, 1 << 20);
    let all = requests(&world, &keys, &[(Direction::Write, 0, 0, 1 << 20)]);
    world.submit("a", &peer, all, LONG, &ends);
    world.until(LONG, |_| ends.count() == 1);
    assert!(ends.reported()[0].1.is_err());
    assert!(world.engine("b").bytes(super::HALF, 1 << 20) == before);
}

#[test]
fn exhausted_devices_are_typed_errors_and_pass() {
    let mut world = World::pair(1);
    for host in ["a", "b"] {
        world.faults(host, 0).refuse_queue_pairs(2);
    }
    write_once(&mut world, "b").unwrap();
    world.faults("a", 0).refuse_registrations(1);
    let fabric = world.engine("a").fabric().clone();
    let rails = crate::rail::open_rails(fabric.as_ref(), &[], &LinkOptions::default()).unwrap();
    let base = world.engine("a").base();
    // SAFETY: the buffer outlives the registration, which is refused or dropped at once.
    let refused = unsafe {
        crate::registration::Registration::new(
            &rails,
            1,
            (base, 4096),
            perigee_verbs::RegionAccess::ALL,
            &crate::preference::Preference::default(),
        )
    };
    let error = refused.err().unwrap();
    assert!(error.to_string().contains("free memory"), "{error}");
}

#[test]
fn closing_ends_every_request_and_drops_every_queue_pair() {
    let mut world = World::pair(2);
    let (peer, keys, ends) = (world.open("b"), world.keys("b", None), Arc::new(Ends::default()));
    let all = requests(&world, &keys, &super::plans(1, 20));
    world.submit("a", &peer, all, LONG, &ends);
    world.until(LONG, |_| ends.count() >= 2);
    let now = world.now();
    world.engine("a").shard.close(now);
    assert_eq!(ends.count(), 20);
    assert_eq!(world.engine("a").shard.queue_pairs(), (0, 0));
    let before = world.engine("b").bytes(super::HALF, super::HALF);
    world.pass(Duration::from_secs(1));
    assert!(world.engine("b").bytes(super::HALF, super::HALF) == before);
}

#[test]
fn the_explanation_names_each_pair_and_why_it_is_not_used() {
    let mut world = World::pair(2);
    world.faults("a", 1).drop_all(true);
    write_once(&mut world, "b").unwrap();
    world.pass(Duration::from_millis(500));
    let now = world.now();
    let lines = world.engine("a").shard.explain(now);
    let text = lines.join("\n");
    assert!(
        text.contains("b shard 0 lane 0: sw0")
            && text.contains("-> sw0")
            && text.contains("proven"),
        "{text}"
    );
    assert!(text.contains("no answer from the peer"), "{text}");
}
