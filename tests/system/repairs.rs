//! Objects with two replicas while nodes are killed.
//! Invariant: each is back at two replicas after a while, so the node that had the other one may
//! die next.

use perigee_schemas::Status;
use perigee_store::ReplicateConfig;
use perigee_tests::cluster::{Master, Node};
use perigee_tests::content::fill;
use perigee_tests::deadline::wait_until;
use perigee_tests::objects::{Objects, key_name};
use std::time::Duration;

const KEYS: u64 = 48;
const OBJECT_BYTES: usize = 512 << 10;
const POOL_BYTES: u64 = 64 << 20;
/// A client that expires, and all copies.
const REPAIR_DEADLINE: Duration = Duration::from_secs(90);
/// Beside that, the time in which a master waits for owners to come back.
const AFTER_A_RESTART: Duration = Duration::from_secs(150);
/// A node that was killed is gone soon.
const SHORT_LIFE: &str = "--client_ttl=3";

fn put_twice(objects: &Objects, nodes: [&Node; 2]) {
    let config = ReplicateConfig {
        replica_num: 2,
        preferred_segments: nodes.map(|node| node.name.clone()).to_vec(),
        ..ReplicateConfig::default()
    };
    for key in 0..KEYS {
        let mut value = vec![0; OBJECT_BYTES];
        fill(key, 1, &mut value);
        assert_eq!(objects.put_with(&key_name(key), &value, &config), Status::Ok, "key {key}");
    }
}

fn places(objects: &Objects, key: u64) -> Vec<String> {
    let replicas = objects.store.replicas(&[&key_name(key)]).remove(0);
    let replicas = replicas.unwrap_or_default().into_iter();
    let mut places: Vec<String> = replicas.map(|replica| replica.transport_endpoint).collect();
    places.sort_unstable();
    places
}

fn assert_all_intact(objects: &Objects) {
    for key in 0..KEYS {
        assert_eq!(objects.get_object(key, OBJECT_BYTES), Ok(1), "key {key}");
    }
}

/// The second node is killed; when all objects have two replicas again, the first is.
fn survives_one_node_after_the_other(flags: &[&str]) {
    let master = Master::start(flags);
    let mut nodes = [(); 3].map(|()| Node::start(&master, POOL_BYTES));
    let objects = Objects::open(&master.address());
    put_twice(&objects, [&nodes[0], &nodes[1]]);
    nodes[1].program.kill();
    let mut wanted = [nodes[0].name.clone(), nodes[2].name.clone()];
    wanted.sort_unstable();
    wait_until("all objects have two replicas again", REPAIR_DEADLINE, || {
        (0..KEYS).all(|key| places(&objects, key) == wanted)
    });
    nodes[0].program.kill();
    assert_all_intact(&objects);
    let repaired = master.metric(r#"perigee_repairs_total{result="repaired"}"#);
    assert_eq!(repaired, Some(KEYS as f64));
}

#[test]
fn an_object_with_two_replicas_survives_one_node_after_the_other() {
    survives_one_node_after_the_other(&[SHORT_LIFE]);
}

#[test]
fn an_object_with_two_replicas_survives_them_on_several_shards() {
    survives_one_node_after_the_other(&[SHORT_LIFE, "--rpc_shards=4"]);
}

#[test]
fn an_object_has_two_replicas_again_after_a_node_and_the_master_went_together() {
    let mut master = Master::start(&[SHORT_LIFE]);
    let mut nodes = [(); 3].map(|()| Node::start(&master, POOL_BYTES));
    let objects = Objects::open(&master.address());
    put_twice(&objects, [&nodes[0], &nodes[1]]);
    master.program.kill();
    nodes[1].program.kill();
    master.start_again();
    let mut wanted = [nodes[0].name.clone(), nodes[2].name.clone()];
    wanted.sort_unstable();
    wait_until("the next life of the master repairs", AFTER_A_RESTART, || {
        (0..KEYS).all(|key| places(&objects, key) == wanted)
    });
    nodes[0].program.kill();
    assert_all_intact(&objects);
}

#[test]
fn what_finds_no_other_node_is_repaired_when_one_comes() {
    let master = Master::start(&[SHORT_LIFE]);
    let mut nodes = [(); 2].map(|()| Node::start(&master, POOL_BYTES));
    let objects = Objects::open(&master.address());
    put_twice(&objects, nodes.each_ref());
    nodes[1].program.kill();
    let pending = || master.metric("perigee_repairs_pending");
    wait_until("the loss is noticed", REPAIR_DEADLINE, || pending() == Some(KEYS as f64));
    let _third = Node::start(&master, POOL_BYTES);
    wait_until("nothing is left to repair", REPAIR_DEADLINE, || pending() == Some(0.0));
    nodes[0].program.kill();
    assert_all_intact(&objects);
}

#[test]
fn without_repairs_what_is_left_is_left_alone() {
    let master = Master::start(&[SHORT_LIFE, "--replica_repair=false"]);
    let mut nodes = [(); 3].map(|()| Node::start(&master, POOL_BYTES));
    let objects = Objects::open(&master.address());
    put_twice(&objects, [&nodes[0], &nodes[1]]);
    nodes[1].program.kill();
    master.wait_for_segments(2);
    wait_until("the loss is noticed", REPAIR_DEADLINE, || {
        (0..KEYS).all(|key| places(&objects, key) == [nodes[0].name.clone()])
    });
    assert_eq!(master.metric("perigee_repairs_pending"), Some(0.0));
    assert_all_intact(&objects);
}
