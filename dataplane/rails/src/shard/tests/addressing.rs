//! Addresses that change while engines run: lanes go over to what there is now, without a restart.

use super::world::{Ends, World, plan};
use super::{LONG, Plan, requests};
use crate::descriptor::PairAnswer;
use crate::endpoint::{Endpoint, EndpointRole};
use crate::error::RailError;
use crate::keys::RemoteKeys;
use crate::peer::PeerRecord;
use perigee_activity::Direction;
use perigee_verbs::gid::{GidKind, PortGid};
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

const COUNT: usize = 16;

fn send(world: &mut World, peer: &Arc<PeerRecord>, keys: &Arc<RemoteKeys>) -> Arc<Ends> {
    let bytes = 64 << 10;
    let write = |index| (Direction::Write, index * bytes, index * bytes, bytes);
    let plans: Vec<Plan> = (0..COUNT as u64).map(write).collect();
    let (all, ends) = (requests(world, keys, &plans), Arc::new(Ends::default()));
    world.submit("a", peer, all, LONG, &ends);
    ends
}

fn send_all(world: &mut World, peer: &Arc<PeerRecord>, keys: &Arc<RemoteKeys>) {
    let ends = send(world, peer, keys);
    world.until(LONG, |_| ends.count() == COUNT);
    ends.assert_all_well(COUNT as u64);
}

fn gids(world: &World, host: &str, rail: usize) -> Vec<PortGid> {
    let device = world.engines[host].fabric().open(&format!("sw{rail}"));
    device.unwrap().gids().unwrap()
}

/// The addresses of a host's queue pairs of one kind over a rail, and where they stand in its
/// table.
fn spoken_from(world: &World, host: &str, rail: usize, accepted: bool) -> Vec<(u32, [u8; 16])> {
    let is_meant = |own: &&Endpoint| {
        own.rail == rail && matches!(own.role, EndpointRole::Accepted(_)) == accepted
    };
    let endpoints = world.engines[host].shard.endpoints.iter();
    let meant = endpoints.map(|(_, own)| own).filter(is_meant);
    meant.map(|own| (own.gid_index, own.address())).collect()
}

#[test]
fn lanes_over_an_address_that_changed_are_made_again_over_its_successor() {
    for is_moved in [false, true] {
        let mut world = World::pair(2);
        let (peer, keys) = (world.open("b"), world.keys("b", None));
        send_all(&mut world, &peer, &keys);
        let mut table = gids(&world, "a", 0);
        if is_moved {
            table[0].index = 3;
        } else {
            table[0].address[15] ^= 0x40;
        }
        world.faults("a", 0).change_gids(&table);
        let new = (table[0].index, table[0].address);
        let took = world.until(LONG, |world| {
            let ends = send(world, &peer, &keys);
            world.until(LONG, |_| ends.count() == COUNT);
            ends.assert_all_well(COUNT as u64);
            spoken_from(world, "a", 0, false) == [new]
        });
        assert!(took < Duration::from_secs(1), "{took:?}");
        world.until(LONG, |world| world.engine("a").report(0).pairs_up == 1);
        assert_eq!(world.engine("a").report(0).errors, 0, "the rail is not to blame");
        let explained = world.engine("a").shard.explain(Duration::ZERO).join("\n");
        let text = table[0].text();
        assert!(explained.contains(&text), "{text} in {explained}");
    }
}

#[test]
fn a_peer_that_read_an_earlier_table_is_joined_from_the_present_one() {
    let mut world = World::pair(1);
    let (peer, keys) = (world.open("b"), world.keys("b", None));
    send_all(&mut world, &peer, &keys);
    let mut table = gids(&world, "b", 0);
    (table[0].index, table[0].address[15]) = (5, table[0].address[15] ^ 0x40);
    world.faults("b", 0).change_gids(&table);
    world.pass(Duration::from_secs(2));
    send_all(&mut world, &peer, &keys);
    let joined = spoken_from(&world, "b", 0, true);
    assert_eq!(joined, [(5, table[0].address)]);
}

#[test]
fn an_offer_that_is_refused_because_the_address_has_changed_costs_nothing() {
    let mut world = World::pair(1);
    let (peer, keys) = (world.open("b"), world.keys("b", None));
    send(&mut world, &peer, &keys);
    let now = world.now();
    world.engine("a").shard.turn(now);
    let offers = world.engine("a").shard.take_offers();
    let made = world.engine("b").shard.make(&offers[0].offer).unwrap();
    let mut table = gids(&world, "b", 0);
    (table[0].index, table[0].address[15]) = (5, table[0].address[15] ^ 0x40);
    world.faults("b", 0).change_gids(&table);
    let now = now + Duration::from_secs(2);
    let shard = &mut world.engine("b").shard;
    shard.turn(now);
    let answer = shard.adopt(&offers[0].offer, made, now).unwrap();
    assert!(matches!(answer.pairs[..], [PairAnswer::Refused { .. }]), "{answer:?}");
    shard.check();
}

#[test]
fn a_rail_whose_address_comes_late_carries_load_from_then_on() {
    let loopback = PortGid {
        index: 0,
        address: Ipv6Addr::LOCALHOST.octets(),
        kind: GidKind::RoceV2,
        interface: None,
    };
    let mut world = World::new();
    let late = [plan(0), plan(1).gids(&[loopback])];
    world.network.host("a", &late).unwrap();
    world.start("a", 2, 16);
    world.host("b", 2, 16);
    let (peer, keys) = (world.open("b"), world.keys("b", None));
    send_all(&mut world, &peer, &keys);
    assert_eq!(world.engine("a").report(1).written_bytes, 0);
    let mut table = gids(&world, "a", 0);
    table[0].address[15] ^= 0x40;
    world.faults("a", 1).change_gids(&table);
    world.until(LONG, |world| {
        send_all(world, &peer, &keys);
        world.engine("a").report(1).written_bytes > 0
    });
}

#[test]
fn a_peer_that_describes_its_rails_again_is_the_same_one_with_other_lanes() {
    let mut world = World::pair(2);
    let (peer, keys) = (world.open("b"), world.keys("b", None));
    let rails = peer.rails();
    let mut one = rails.to_vec();
    one[1].gids.clear();
    peer.describe(&one);
    send_all(&mut world, &peer, &keys);
    let second = |world: &World| spoken_from(world, "b", 1, true).len();
    assert_eq!(second(&world), 0);
    peer.describe(&rails);
    world.until(LONG, |world| {
        send_all(world, &peer, &keys);
        second(world) > 0
    });
    assert_eq!(world.engine("a").shard.peer_numbers(), [peer.number]);
}

#[test]
fn requests_fail_at_once_only_while_no_rail_has_an_address() {
    let mut world = World::pair(2);
    let (peer, keys) = (world.open("b"), world.keys("b", None));
    send_all(&mut world, &peer, &keys);
    let tables = [0, 1].map(|rail| gids(&world, "a", rail));
    for rail in 0..2 {
        world.faults("a", rail).change_gids(&[]);
    }
    world.pass(Duration::from_secs(2));
    let ends = send(&mut world, &peer, &keys);
    let took = world.until(LONG, |_| ends.count() == COUNT);
    assert!(took < Duration::from_secs(1), "{took:?}");
    let no_route =
        |outcome: &Result<(), RailError>| matches!(outcome, Err(RailError::NoRoute { .. }));
    assert!(ends.reported().iter().all(|(_, outcome)| no_route(outcome)));
    for (rail, table) in tables.iter().enumerate() {
        world.faults("a", rail).change_gids(table);
    }
    world.pass(Duration::from_secs(2));
    send_all(&mut world, &peer, &keys);
}

#[test]
fn addresses_that_come_and_go_under_load_fail_no_request() {
    let mut world = World::pair_by(2, 4);
    let (peer, keys) = (world.open("b"), world.keys("b", None));
    let table = gids(&world, "a", 0);
    for round in 0..10 {
        let ends = send(&mut world, &peer, &keys);
        let gone = round % 2 == 0;
        let now = if gone { &[][..] } else { &table };
        world.faults("a", 0).change_gids(now);
        world.pass(Duration::from_millis(60));
        world.until(LONG, |_| ends.count() == COUNT);
        ends.assert_all_well(COUNT as u64);
    }
    world.until(LONG, |world| {
        send_all(world, &peer, &keys);
        world.engine("a").report(0).pairs_up > 0
    });
}
