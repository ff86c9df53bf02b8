//! The shard driver on the software fabric with faults, in simulated time. Every run follows from
//! its seed.

use self::world::{Ends, HALF, Random, World};
use crate::active_request::RailRequest;
use crate::error::RailError;
use crate::keys::RemoteKeys;
use perigee_activity::Direction;
use std::sync::Arc;
use std::time::Duration;

mod addressing;
mod connections;
mod faults;
mod fencing;
mod partial;
mod placement;
mod refusals;
mod tuning;
mod world;

const LONG: Duration = Duration::from_secs(60);

/// A request of a test's plan: direction, source, target, bytes.
type Plan = (Direction, u64, u64, u64);

/// Requests of all sizes with targets that do not overlap.
fn plans(seed: u64, count: usize) -> Vec<Plan> {
    let mut random = Random::new(seed);
    let share = HALF / count as u64;
    let plan = |index| {
        let bytes = match random.below(4) {
            0 => 1 + random.below(200),
            1 => 4096,
            2 => 1 + random.below(share.min(100_000)),
            _ => share - random.below(share / 4),
        };
        let direction = if random.below(2) == 0 { Direction::Read } else { Direction::Write };
        let source = random.below(HALF - bytes);
        (direction, source, index * share, bytes)
    };
    (0..count as u64).map(plan).collect()
}

fn requests(world: &World, keys: &Arc<RemoteKeys>, plans: &[Plan]) -> Vec<RailRequest> {
    let request = |(tag, plan): (usize, &Plan)| world.request("a", keys, "b", *plan, tag as u64);
    plans.iter().enumerate().map(request).collect()
}

/// Asserts that every byte of the plan is where it belongs.
fn assert_moved(world: &mut World, plans: &[Plan], seed: u64) {
    for (direction, source, target, bytes) in plans {
        let (from, to) = match direction {
            Direction::Write => ("a", "b"),
            Direction::Read => ("b", "a"),
        };
        let expected = world.engine(from).bytes(*source, *bytes);
        let found = world.engine(to).bytes(HALF + target, *bytes);
        assert!(expected == found, "seed {seed}: {direction:?} of {bytes} bytes at {target}");
    }
}

#[test]
fn reads_and_writes_of_all_sizes_arrive_over_all_rails() {
    for seed in 1..=6 {
        let rails = 1 + seed as usize % 4;
        let mut world = World::pair(rails);
        let (peer, keys, ends) =
            (world.open("b"), world.keys("b", None), Arc::new(Ends::default()));
        let plans = plans(seed, 40);
        let requests = requests(&world, &keys, &plans);
        world.submit("a", &peer, requests, LONG, &ends);
        world.until(LONG, |_| ends.count() == plans.len());
        ends.assert_all_well(plans.len() as u64);
        assert_moved(&mut world, &plans, seed);
        for rail in 0..rails {
            let report = world.engine("a").report(rail);
            assert!(report.reads + report.writes > 0, "seed {seed}: rail {rail} is used");
            assert_eq!((report.errors, report.retries, report.stray), (0, 0, 0));
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut world = World::pair(2);
        let (peer, keys, ends) =
            (world.open("b"), world.keys("b", None), Arc::new(Ends::default()));
        world.faults("a", 0).drop_next(2);
        let plans = plans(seed, 30);
        let requests = requests(&world, &keys, &plans);
        world.submit("a", &peer, requests, LONG, &ends);
        world.until(LONG, |_| ends.count() == plans.len());
        (world.trace, ends.reported())
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3).0, run(4).0);
}

#[test]
fn a_request_of_no_bytes_ends_at_once_and_ranges_are_checked() {
    let mut world = World::pair(1);
    let (peer, keys, ends) = (world.open("b"), world.keys("b", None), Arc::new(Ends::default()));
    let empty = world.request("a", &keys, "b", (Direction::Write, 0, 0, 0), 0);
    let mut outside = world.request("a", &keys, "b", (Direction::Write, 0, 0, 100), 1);
    outside.remote_address += HALF;
    let mut local = world.request("a", &keys, "b", (Direction::Write, 0, 0, 100), 2);
    local.local_address -= 1;
    world.submit("a", &peer, vec![empty, outside, local], LONG, &ends);
    let reported = ends.reported();
    assert_eq!(reported[0], (0, Ok(())));
    for (_, outcome) in &reported[1..] {
        assert!(matches!(outcome, Err(RailError::OutOfBounds { bytes: 100, .. })));
    }
}

#[test]
fn a_rail_throttled_to_a_quarter_does_not_pull_the_sum_below_what_the_rails_give_alone() {
    let mut world = World::pair(2);
    let (peer, keys) = (world.open("b"), world.keys("b", None));
    let ends = Arc::new(Ends::default());
    let block: Vec<Plan> =
        (0..8).map(|index| (Direction::Write, 0, index << 20, 1 << 20)).collect();
    let run = |world: &mut World, rounds: u64| {
        let start = world.now();
        for _ in 0..rounds {
            // Eight requests of 1 MiB are in flight all the time.
            let requests = requests(world, &keys, &block);
            let expected = ends.count() + block.len();
            world.submit("a", &peer, requests, LONG, &ends);
            world.until(LONG, |_| ends.count() + 4 >= expected);
        }
        (rounds * (8 << 20)) as f64 / (world.now() - start).as_secs_f64()
    };
    run(&mut world, 20);
    world.faults("a", 1).bits_per_second(2_000_000_000);
    let sum = run(&mut world, 60);
    let alone = 1.25e9;
    assert!(sum >= 0.85 * alone, "{:.2} of what the rails give alone", sum / alone);
}
