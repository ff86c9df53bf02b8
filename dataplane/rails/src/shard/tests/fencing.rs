//! Packets that are held up in the network: none of them changes memory after its request was
//! reported, or its client declared dead.

use super::world::{Ends, HALF, World};
use super::{LONG, assert_moved, requests};
use crate::error::RailError;
use perigee_activity::Direction;
use std::sync::Arc;
use std::time::Duration;

const MIB: u64 = 1 << 20;
const LATE: Duration = Duration::from_secs(5);

/// Two engines whose rail 0 is up when its packets begin to be held up, and eight writes of 1 MiB.
fn stranded(ends: &Arc<Ends>, limit: Duration) -> (World, Vec<super::Plan>) {
    let mut world = World::pair(2);
    let (peer, keys) = (world.open("b"), world.keys("b", None));
    let plans: Vec<super::Plan> =
        (0..8).map(|index| (Direction::Write, index * MIB, index * MIB, MIB)).collect();
    let first = Arc::new(Ends::default());
    let one = requests(&world, &keys, &plans[..1]);
    world.submit("a", &peer, one, LONG, &first);
    world.until(LONG, |world| {
        first.count() == 1 && (0..2).all(|rail| world.engine("a").report(rail).pairs_up == 1)
    });
    world.faults("a", 0).strand(Some(LATE));
    let all = requests(&world, &keys, &plans);
    world.submit("a", &peer, all, limit, ends);
    (world, plans)
}

/// Puts other bytes into the target's memory, and says whether anything changed them while the late
/// packets arrived.
fn is_overwritten(world: &mut World) -> bool {
    world.engine("b").fill(HALF, HALF, 99);
    let before = world.engine("b").bytes(HALF, HALF);
    world.pass(2 * LATE);
    world.engine("b").bytes(HALF, HALF) != before
}

#[test]
fn packets_of_a_failed_rail_do_not_land_after_the_request_ended() {
    let ends = Arc::new(Ends::default());
    let (mut world, plans) = stranded(&ends, LONG);
    let took = world.until(LATE, |_| ends.count() == plans.len());
    assert!(took < Duration::from_secs(1), "recovery took {took:?}");
    ends.assert_all_well(plans.len() as u64);
    assert_moved(&mut world, &plans, 0);
    assert!(world.engine("a").report(0).retries > 0);
    assert!(!is_overwritten(&mut world));
}

#[test]
fn a_request_whose_broken_queue_pair_is_not_confirmed_as_gone_fails_within_its_time() {
    let ends = Arc::new(Ends::default());
    let (mut world, plans) = stranded(&ends, Duration::from_secs(2));
    world.handshakes = false;
    world.until(LATE, |_| ends.count() == plans.len());
    let reported = ends.reported();
    let unfenced = |outcome: &Result<(), RailError>| matches!(outcome, Err(RailError::Unfenced { peer, .. }) if peer == "b");
    assert!(reported.iter().any(|(_, outcome)| unfenced(outcome)), "{reported:?}");
    let others = reported.iter().filter(|(_, outcome)| !unfenced(outcome));
    assert!(others.clone().all(|(_, outcome)| outcome.is_ok()), "{reported:?}");
    // The danger is real: this is what the error warns of.
    assert!(is_overwritten(&mut world));
}

#[test]
fn requests_wait_for_the_confirmation_and_no_longer() {
    let ends = Arc::new(Ends::default());
    let (mut world, plans) = stranded(&ends, LONG);
    world.handshakes = false;
    world.pass(Duration::from_secs(1));
    assert!(ends.count() < plans.len());
    assert_moved(&mut world, &plans, 0);
    world.handshakes = true;
    let took = world.until(LONG, |_| ends.count() == plans.len());
    assert!(took < Duration::from_millis(500), "{took:?}");
    ends.assert_all_well(plans.len() as u64);
    assert!(!is_overwritten(&mut world));
}

#[test]
fn a_peer_that_was_restarted_needs_no_confirmation() {
    let ends = Arc::new(Ends::default());
    let (mut world, plans) = stranded(&ends, LONG);
    world.pass(Duration::from_millis(5));
    world.network.restart("b");
    world.start("b", 2, 16);
    let took = world.until(LATE, |_| ends.count() == plans.len());
    assert!(took < Duration::from_secs(3), "{took:?}");
    let restarted = Err(RailError::PeerRestarted { peer: "b".into() });
    let reported = ends.reported();
    assert!(reported.iter().any(|(_, outcome)| *outcome == restarted), "{reported:?}");
    assert!(!is_overwritten(&mut world));
}

#[test]
fn a_forgotten_peer_confirms_before_its_requests_are_reported() {
    let ends = Arc::new(Ends::default());
    let (mut world, plans) = stranded(&ends, LONG);
    world.pass(Duration::from_millis(5));
    let now = world.now();
    let number = world.engine("a").shard.peer_numbers()[0];
    world.engine("a").shard.forget(number, now);
    world.until(LATE, |_| ends.count() == plans.len());
    assert!(!is_overwritten(&mut world));
    assert!(world.engine("a").shard.peer_numbers().is_empty());
}

#[test]
fn no_write_of_a_dead_client_lands_after_fencing_or_revocation() {
    for precaution in ["none", "fence", "revoke"] {
        let ends = Arc::new(Ends::default());
        let (mut world, _) = stranded(&ends, LONG);
        world.until(LONG, |_| ends.count() >= 1);
        let epoch = world.engine("a").descriptor.epoch;
        world.engines.remove("a");
        world.network.restart("a");
        let now = world.now();
        match precaution {
            "fence" => world.engine("b").shard.fence(epoch, now),
            "revoke" => world.engine("b").memory.revoke().unwrap(),
            _ => {}
        }
        assert_eq!(is_overwritten(&mut world), precaution == "none", "{precaution}");
    }
}
