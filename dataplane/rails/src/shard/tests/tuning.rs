//! What an operator sets is what devices get and what slices do.

use super::world::{Ends, World};
use super::{LONG, requests};
use crate::error::RailError;
use crate::rail::{RailDevice, open_rails};
use crate::tuning::RailTuning;
use perigee_activity::Direction;
use perigee_verbs::LinkOptions;
use perigee_verbs::software::SoftwareConnection;
use std::sync::Arc;

const MIB: u64 = 1 << 20;

/// A world where `a` has these settings and `b` has none.
fn world_of(tuning: RailTuning) -> World {
    let mut world = World::pair(1);
    world.tuning = tuning;
    world.start("a", 1, 16);
    world
}

/// Writes 1 MiB from `a` to `b`; true if it arrived.
fn write(world: &mut World) -> bool {
    let (peer, keys, ends) = (world.open("b"), world.keys("b", None), Arc::new(Ends::default()));
    let plans = [(Direction::Write, 0, 0, MIB)];
    let requests = requests(world, &keys, &plans);
    world.submit("a", &peer, requests, LONG, &ends);
    world.until(LONG, |_| ends.count() == 1);
    ends.reported()[0].1.is_ok()
}

fn connection(world: &World, host: &str) -> SoftwareConnection {
    let all = world.network.connections(host, "sw0").unwrap();
    *all.first().expect("a queue pair is connected")
}

#[test]
fn each_end_sends_with_its_own_class_and_both_with_the_smaller_packets() {
    let link = LinkOptions {
        port: Some(1),
        partition_index: 3,
        traffic_class: 106,
        service_level: 5,
        mtu_bytes: 1024,
    };
    let mut world = world_of(RailTuning { link, ..RailTuning::default() });
    assert!(write(&mut world));
    let (ours, theirs) = (connection(&world, "a"), connection(&world, "b"));
    assert_eq!((ours.connected.traffic_class, ours.connected.service_level), (106, 5));
    assert_eq!((ours.made.partition_index, ours.made.mtu_bytes), (3, 1024));
    assert_eq!((theirs.connected.traffic_class, theirs.connected.service_level), (0, 0));
    assert_eq!(theirs.remote.mtu_bytes, 1024, "the other end hears of it");
}

#[test]
fn a_partition_or_port_that_a_device_does_not_have_is_named() {
    let world = World::pair(1);
    let fabric = world.network.host("a", &[]).unwrap();
    let devices = [RailDevice { name: "sw0".to_owned(), node: None }];
    let usual = LinkOptions::default();
    for (link, part) in [
        (LinkOptions { partition_index: 4, ..usual }, "Partition key index"),
        (LinkOptions { port: Some(2), ..usual }, "not 2"),
    ] {
        let error = open_rails(fabric.as_ref(), &devices, &link).unwrap_err();
        let RailError::NoRail { reason } = &error else { panic!("{error}") };
        assert!(reason.contains(part), "{reason}");
    }
}

#[test]
fn slices_have_the_length_that_is_set() {
    let slices = |slice_bytes| {
        let mut world = world_of(RailTuning { slice_bytes, ..RailTuning::default() });
        assert!(write(&mut world));
        world.engine("a").report(0).writes
    };
    assert_eq!(slices(Some(16 << 10)), 64);
    assert_eq!(slices(None), 1);
}

#[test]
fn a_slice_is_tried_as_often_as_is_set() {
    let arrives = |slice_tries| {
        let mut world = world_of(RailTuning { slice_tries, ..RailTuning::default() });
        let (peer, keys) = (world.open("b"), world.keys("b", None));
        let write = |world: &mut World| {
            let ends = Arc::new(Ends::default());
            let requests = requests(world, &keys, &[(Direction::Write, 0, 0, MIB)]);
            world.submit("a", &peer, requests, LONG, &ends);
            world.until(LONG, |_| ends.count() == 1);
            ends.reported()[0].1.is_ok()
        };
        assert!(write(&mut world), "the queue pair is proven");
        world.faults("a", 0).drop_next(1);
        write(&mut world)
    };
    assert!(!arrives(1));
    assert!(arrives(2));
}
