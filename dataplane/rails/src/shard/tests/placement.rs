//! Memory with a place: its preferred rails come first, on whichever side they are, and the others
//! when those fail.

use super::world::{Ends, World};
use super::{LONG, Plan, requests};
use crate::preference::Preference;
use perigee_activity::Direction;
use std::sync::Arc;
use std::time::Duration;

const RAILS: usize = 3;

/// Two engines whose memory prefers rail 1, then 2; rail 0 is not meant for it.
fn world(is_strict: bool) -> World {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let mut world = World::new();
    world.preference =
        Preference { preferred: names(&["sw1"]), others: names(&["sw2"]), is_strict };
    world.host("a", RAILS, 16);
    world.host("b", RAILS, 16);
    world
}

/// Writes and reads back and forth; returns what each rail of each side carried for it.
fn carried(world: &mut World, cut_preferred: bool) -> [Vec<u64>; 2] {
    let (peer, keys, ends) = (world.open("b"), world.keys("b", None), Arc::new(Ends::default()));
    let bytes = 256 << 10;
    let way = [Direction::Write, Direction::Read];
    let plan =
        |index: u64| -> Plan { (way[index as usize % 2], index * bytes, index * bytes, bytes) };
    let plans: Vec<Plan> = (0..16).map(plan).collect();
    let all = requests(world, &keys, &plans);
    world.submit("a", &peer, all, LONG, &ends);
    if cut_preferred {
        world.pass(Duration::from_millis(1));
        world.faults("a", 1).down();
    }
    world.until(LONG, |_| ends.count() == plans.len());
    ends.assert_all_well(plans.len() as u64);
    ["a", "b"].map(|host| {
        let report = |rail| {
            let report = world.engines[host].report(rail);
            report.written_bytes + report.read_bytes
        };
        (0..RAILS).map(report).collect()
    })
}

#[test]
fn memory_of_a_gpu_goes_over_its_preferred_rail_alone_while_that_works() {
    let [carried, _] = carried(&mut world(true), false);
    assert_eq!((carried[0], carried[2]), (0, 0), "{carried:?}");
}

#[test]
fn when_the_preferred_rail_fails_only_listed_ones_take_over() {
    let [carried, _] = carried(&mut world(true), true);
    assert!(carried[0] == 0 && carried[2] > 0, "{carried:?}");
}

#[test]
fn ends_that_list_different_rails_reach_each_other_all_the_same() {
    let mut world = World::new();
    for (host, rail) in [("a", "sw0"), ("b", "sw1")] {
        world.preference = Preference { preferred: vec![rail.to_owned()], ..Preference::default() };
        world.host(host, RAILS, 16);
    }
    let [carried, _] = carried(&mut world, false);
    assert!(carried.iter().sum::<u64>() > 0, "{carried:?}");
}

#[test]
fn memory_of_the_host_uses_the_others_too_when_the_preferred_rail_is_busy() {
    let [carried, _] = carried(&mut world(false), false);
    assert!(carried[1] >= carried[2] && carried[2] > 0, "{carried:?}");
    assert_eq!(carried[0], 0);
}
