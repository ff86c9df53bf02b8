//! Load under faults: no request fails that need not, every byte is right, each end is reported
//! once and typed.

use super::world::{Ends, HALF, Random, World, seeds};
use super::{LONG, Plan, assert_moved, plans, requests};
use crate::endpoint::{EndpointRole, WorkPurpose};
use crate::error::RailError;
use crate::slice::RailSlice;
use perigee_activity::Direction;
use std::sync::Arc;
use std::time::Duration;

const MIB: u64 = 1 << 20;

fn writes(count: u64, bytes: u64) -> Vec<Plan> {
    (0..count).map(|index| (Direction::Write, index * bytes, index * bytes, bytes)).collect()
}

#[test]
fn random_faults_on_one_rail_at_a_time_fail_no_request_and_no_byte() {
    for seed in seeds(12) {
        let mut random = Random::new(seed);
        let mut world = World::pair_by(2, [1, 4][seed as usize % 2]);
        let (peer, keys, ends) =
            (world.open("b"), world.keys("b", None), Arc::new(Ends::default()));
        let plans = plans(seed, 48);
        let mut left = requests(&world, &keys, &plans);
        while !left.is_empty() {
            let some = left.split_off(left.len().saturating_sub(8));
            world.submit("a", &peer, some, LONG, &ends);
            let rail = random.below(2) as usize;
            let host = if random.below(3) == 0 { "b" } else { "a" };
            let faults = world.faults(host, rail);
            match random.below(6) {
                0 => faults.drop_next(1 + random.below(3)),
                1 => faults.duplicate_next(1 + random.below(5)),
                2 => faults.flush_next(1),
                3 => faults.drop_attempts(2),
                4 => faults.refuse_queue_pairs(1),
                _ => faults.down(),
            }
            world.pass(Duration::from_millis(1 + random.below(400)));
            faults.up();
            world.pass(Duration::from_millis(random.below(3)));
        }
        world.until(LONG, |_| ends.count() == plans.len());
        ends.assert_all_well(plans.len() as u64);
        assert_moved(&mut world, &plans, seed);
    }
}

#[test]
fn a_rail_cut_during_load_fails_no_request_and_recovery_takes_less_than_a_second() {
    for (silent, queue_pairs) in [(true, 1), (false, 1), (true, 4), (false, 4)] {
        let mut world = World::pair_by(2, queue_pairs);
        let (peer, keys, ends) =
            (world.open("b"), world.keys("b", None), Arc::new(Ends::default()));
        let plans = writes(8, MIB);
        let all = requests(&world, &keys, &plans);
        world.submit("a", &peer, all, LONG, &ends);
        world.until(LONG, |_| ends.count() >= 2);
        if silent {
            world.faults("a", 0).drop_all(true);
        } else {
            world.faults("a", 0).down();
        }
        let took = world.until(LONG, |_| ends.count() == plans.len());
        assert!(took < Duration::from_secs(1), "recovery took {took:?}");
        ends.assert_all_well(8);
        assert_moved(&mut world, &plans, 0);
    }
}

/// Slices that are on their way again. None may be over the rails that failed it.
fn tried_again(world: &mut World) -> usize {
    let shard = &world.engine("a").shard;
    let mut again = 0;
    for (_, endpoint) in shard.endpoints.iter() {
        let EndpointRole::Lane { remote, .. } = endpoint.role else {
            continue;
        };
        for posted in endpoint.posted() {
            if let WorkPurpose::Slice(key) = posted.work
                && let Some(failed) = shard.slices.get(key).and_then(RailSlice::avoids)
            {
                assert_ne!(failed.rails, (endpoint.rail, remote));
                again += 1;
            }
        }
    }
    again
}

#[test]
fn slices_of_a_queue_pair_that_fails_leave_all_others_over_its_rails() {
    // Of the four queue pairs the third one is over the first rail too, beside the first one, which
    // goes on.
    for lane in [0, 2] {
        let mut world = World::pair_by(2, 4);
        let (peer, keys, ends) =
            (world.open("b"), world.keys("b", None), Arc::new(Ends::default()));
        let plans = writes(8, MIB);
        let all = requests(&world, &keys, &plans);
        world.submit("a", &peer, all.clone(), LONG, &ends);
        world.until(LONG, |_| ends.count() == 8);
        // A choice by speed alone takes the first rail.
        world.faults("a", 1).bits_per_second(500_000_000);
        world.submit("a", &peer, all, LONG, &ends);
        let victim = |world: &mut World| {
            let endpoints = world.engine("a").shard.endpoints.iter();
            let of_lane = |role: &EndpointRole| match role {
                EndpointRole::Lane { lane: found, .. } => *found == lane,
                EndpointRole::Accepted(_) => false,
            };
            let mut busy =
                endpoints.filter(|(_, own)| of_lane(&own.role) && own.posted().len() > 1);
            busy.next().map(|(_, endpoint)| endpoint.number())
        };
        world.until(LONG, |world| victim(world).is_some());
        let queue_pair = victim(&mut world).unwrap();
        world.faults("a", 0).fail_queue_pair(queue_pair);
        let mut again = 0;
        world.until(LONG, |world| {
            again += tried_again(world);
            ends.count() == 16
        });
        assert!(again > 0, "lane {lane}: nothing was sent again");
        assert!(ends.reported().iter().all(|(_, outcome)| outcome.is_ok()));
        assert_moved(&mut world, &plans, 0);
    }
}

#[test]
fn a_rail_that_comes_back_is_proven_and_carries_load_again() {
    let mut world = World::pair(2);
    let (peer, keys, ends) = (world.open("b"), world.keys("b", None), Arc::new(Ends::default()));
    let plans = writes(8, MIB);
    let all = requests(&world, &keys, &plans);
    world.submit("a", &peer, all.clone(), LONG, &ends);
    world.until(LONG, |_| ends.count() == 8);
    world.faults("a", 0).drop_all(true);
    world.submit("a", &peer, all.clone(), LONG, &ends);
    world.until(LONG, |_| ends.count() == 16);
    assert_eq!(world.engine("a").report(0).pairs_up, 0);
    world.faults("a", 0).drop_all(false);
    world.until(LONG, |world| world.engine("a").report(0).pairs_up == 1);
    let before = world.engine("a").report(0).written_bytes;
    world.submit("a", &peer, all, LONG, &ends);
    world.until(LONG, |_| ends.count() == 24);
    assert!(world.engine("a").report(0).written_bytes > before);
}

#[test]
fn completions_that_come_twice_are_counted_and_change_nothing() {
    let mut world = World::pair(1);
    let (peer, keys, ends) = (world.open("b"), world.keys("b", None), Arc::new(Ends::default()));
    let plans = plans(9, 20);
    let all = requests(&world, &keys, &plans);
    world.submit("a", &peer, all, LONG, &ends);
    world.until(LONG, |world| world.engine("a").report(0).pairs_up == 1);
    world.faults("a", 0).duplicate_next(1000);
    world.until(LONG, |_| ends.count() == plans.len());
    world.pass(Duration::from_millis(10));
    ends.assert_all_well(plans.len() as u64);
    assert_moved(&mut world, &plans, 9);
    assert!(world.engine("a").report(0).stray > 0);
}

#[test]
fn a_wrong_key_fails_its_request_with_peer_and_rail_named_and_no_other() {
    let mut world = World::pair(1);
    let (peer, keys, ends) = (world.open("b"), world.keys("b", None), Arc::new(Ends::default()));
    let plans = writes(16, 64 << 10);
    let all = requests(&world, &keys, &plans);
    world.submit("a", &peer, all[..1].to_vec(), LONG, &ends);
    world.until(LONG, |_| ends.count() == 1);
    world.faults("a", 0).corrupt_keys(1);
    world.submit("a", &peer, all[1..].to_vec(), LONG, &ends);
    world.until(LONG, |_| ends.count() == 16);
    let failed: Vec<_> =
        ends.reported().into_iter().filter(|(_, outcome)| outcome.is_err()).collect();
    let [(_, Err(error @ RailError::Refused { peer, rail, .. }))] = failed.as_slice() else {
        panic!("{failed:?}");
    };
    assert_eq!((peer.as_str(), rail.as_str()), ("b", "sw0"));
    assert!(error.to_string().starts_with("Peer b refused access"), "{error}");
}

#[test]
fn revoked_memory_is_not_written_and_its_request_is_refused() {
    let mut world = World::pair(2);
    let (peer, keys, ends) = (world.open("b"), world.keys("b", None), Arc::new(Ends::default()));
    let plans = writes(8, MIB);
    let all = requests(&world, &keys, &plans);
    world.submit("a", &peer, all, LONG, &ends);
    world.until(LONG, |_| ends.count() >= 1);
    world.engine("b").memory.revoke().unwrap();
    let before = world.engine("b").bytes(HALF, HALF);
    world.until(LONG, |_| ends.count() == 8);
    assert!(world.engine("b").bytes(HALF, HALF) == before, "nothing lands after the revocation");
    let refused =
        |outcome: &Result<(), RailError>| matches!(outcome, Err(RailError::Refused { .. }));
    let reported = ends.reported();
    assert!(
        reported.iter().all(|(_, outcome)| outcome.is_ok() || refused(outcome)),
        "{reported:?}"
    );
    assert!(reported.iter().any(|(_, outcome)| refused(outcome)));
}

#[test]
fn a_canceled_batch_is_reported_once_and_its_memory_is_let_go() {
    for seed in seeds(6) {
        let mut world = World::pair(2);
        let (peer, keys, ends) =
            (world.open("b"), world.keys("b", None), Arc::new(Ends::default()));
        let stuck = seed % 2 == 0;
        let plans = if stuck { writes(8, MIB) } else { plans(seed, 24) };
        let all = requests(&world, &keys, &plans);
        world.submit("a", &peer, all, LONG, &ends);
        if stuck {
            world.until(LONG, |world| world.engine("a").report(0).pairs_up == 1);
            world.faults("a", 0).drop_all(true);
            world.faults("a", 1).drop_all(true);
            world.pass(Duration::from_millis(1));
        } else {
            world.until(LONG, |_| ends.count() >= 3);
        }
        let now = world.now();
        world.engine("a").shard.cancel(7, now);
        let took = world.until(LONG, |_| ends.count() == plans.len());
        assert!(took < Duration::from_millis(500), "{took:?}");
        let before = world.engine("a").bytes(HALF, HALF);
        world.faults("a", 0).drop_all(false);
        world.faults("a", 1).drop_all(false);
        world.pass(Duration::from_secs(1));
        assert!(world.engine("a").bytes(HALF, HALF) == before, "seed {seed}");
        let reported = ends.reported();
        assert_eq!(reported.len(), plans.len());
        let ok =
            |outcome: &Result<(), RailError>| matches!(outcome, Ok(()) | Err(RailError::Canceled));
        assert!(reported.iter().all(|(_, outcome)| ok(outcome)), "{reported:?}");
        assert!(!stuck || reported.iter().any(|(_, outcome)| outcome.is_err()));
    }
}

#[test]
fn a_deadline_ends_requests_on_rails_that_are_all_dead_and_names_the_fault() {
    let mut world = World::pair(2);
    let (peer, keys, ends) = (world.open("b"), world.keys("b", None), Arc::new(Ends::default()));
    let plans = writes(8, MIB);
    let all = requests(&world, &keys, &plans);
    world.submit("a", &peer, all, Duration::from_millis(600), &ends);
    world.until(LONG, |_| ends.count() >= 1);
    for rail in 0..2 {
        world.faults("a", rail).drop_all(true);
    }
    let took = world.until(LONG, |_| ends.count() == 8);
    assert!(took < Duration::from_millis(1200), "{took:?}");
    let reported = ends.reported();
    let late = reported.iter().filter_map(|(_, outcome)| match outcome {
        Err(RailError::Deadline { peer, last_fault }) => Some((peer.as_str(), last_fault.as_str())),
        _ => None,
    });
    let late: Vec<_> = late.collect();
    assert!(
        late.iter().any(|(peer, fault)| *peer == "b" && fault.contains("no answer")),
        "{reported:?}"
    );
}

#[test]
fn requests_to_a_peer_that_no_rail_reaches_fail_before_their_deadline() {
    let mut world = World::pair(2);
    let (peer, keys, ends) = (world.open("b"), world.keys("b", None), Arc::new(Ends::default()));
    for rail in 0..2 {
        world.faults("a", rail).drop_all(true);
    }
    let all = requests(&world, &keys, &writes(4, MIB));
    world.submit("a", &peer, all, LONG, &ends);
    let took = world.until(LONG, |_| ends.count() == 4);
    assert!(took < LONG / 2, "{took:?}");
    assert!(matches!(&ends.reported()[0].1, Err(RailError::NoRoute { peer, .. }) if peer == "b"));
    for rail in 0..2 {
        world.faults("a", rail).drop_all(false);
    }
    world.pass(Duration::from_secs(31));
    let again = Arc::new(Ends::default());
    let all = requests(&world, &keys, &writes(4, MIB));
    world.submit("a", &peer, all, LONG, &again);
    world.until(LONG, |_| again.count() == 4);
    again.assert_all_well(4);
}

#[test]
fn requests_fail_at_once_only_while_all_our_ports_are_down() {
    // Whether the lanes were up before, or the peer is met while the ports are down.
    for is_known in [true, false] {
        let mut world = World::pair(2);
        let (peer, keys) = (world.open("b"), world.keys("b", None));
        let batch = |world: &mut World| {
            let ends = Arc::new(Ends::default());
            let all = requests(world, &keys, &writes(4, MIB));
            world.submit("a", &peer, all, LONG, &ends);
            let took = world.until(LONG, |_| ends.count() == 4);
            (ends.reported(), took)
        };
        if is_known {
            batch(&mut world);
        }
        for rail in 0..2 {
            world.faults("a", rail).down();
        }
        for _ in 0..2 {
            let (reported, took) = batch(&mut world);
            assert!(took < Duration::from_secs(1), "{took:?}");
            let down = |error: &RailError| error.to_string().contains("port of sw");
            let is_down = |outcome: &Result<(), RailError>| outcome.as_ref().is_err_and(down);
            assert!(reported.iter().all(|(_, outcome)| is_down(outcome)), "{reported:?}");
        }
        for rail in 0..2 {
            world.faults("a", rail).up();
        }
        world.pass(Duration::from_secs(1));
        let before = world.engine("a").report(1).written_bytes;
        let (reported, _) = batch(&mut world);
        assert!(reported.iter().all(|(_, outcome)| outcome.is_ok()), "{reported:?}");
        assert!(world.engine("a").report(1).written_bytes > before);
    }
}

#[test]
fn keys_whose_lease_has_run_out_are_not_used() {
    let mut world = World::pair(1);
    let (peer, ends) = (world.open("b"), Arc::new(Ends::default()));
    let keys = world.keys("b", Some(Duration::from_secs(5)));
    let all = requests(&world, &keys, &writes(8, MIB));
    world.submit("a", &peer, all[..1].to_vec(), LONG, &ends);
    world.until(LONG, |_| ends.count() == 1);
    world.pass(Duration::from_secs(5));
    world.submit("a", &peer, all[1..].to_vec(), LONG, &ends);
    world.until(LONG, |_| ends.count() == 8);
    let reported = ends.reported();
    let expired =
        |outcome: &Result<(), RailError>| matches!(outcome, Err(RailError::Expired { .. }));
    assert!(
        reported[0].1.is_ok() && reported[1..].iter().all(|(_, outcome)| expired(outcome)),
        "{reported:?}"
    );
}

#[test]
fn a_lost_device_leaves_the_other_rail_working() {
    let mut world = World::pair(2);
    let (peer, keys, ends) = (world.open("b"), world.keys("b", None), Arc::new(Ends::default()));
    let plans = writes(8, MIB);
    let all = requests(&world, &keys, &plans);
    world.submit("a", &peer, all, LONG, &ends);
    world.until(LONG, |_| ends.count() >= 1);
    world.faults("a", 1).lose();
    world.until(LONG, |_| ends.count() == 8);
    ends.assert_all_well(8);
    assert_moved(&mut world, &plans, 0);
}
