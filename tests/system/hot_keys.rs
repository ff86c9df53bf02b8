//! Keys that are read often while nodes live and die.
//! Invariant: a hot key gets one more replica, which readers use.

use perigee_schemas::Status;
use perigee_store::ReplicateConfig;
use perigee_tests::cluster::{Master, Node};
use perigee_tests::content::fill;
use perigee_tests::deadline::wait_until;
use perigee_tests::objects::{Objects, key_name};
use std::time::Duration;

const OBJECT_BYTES: usize = 512 << 10;
const POOL_BYTES: u64 = 64 << 20;
const HOT: u64 = 1;
const COLD: u64 = 2;
/// A heartbeat that says so, and the copy.
const COPY_DEADLINE: Duration = Duration::from_secs(60);

fn put(objects: &Objects, node: &Node, key: u64) {
    let preferred_segments = vec![node.name.clone()];
    let config = ReplicateConfig { preferred_segments, ..ReplicateConfig::default() };
    let mut value = vec![0; OBJECT_BYTES];
    fill(key, 1, &mut value);
    assert_eq!(objects.put_with(&key_name(key), &value, &config), Status::Ok);
}

fn replicas(objects: &Objects, key: u64) -> usize {
    let replicas = objects.store.replicas(&[&key_name(key)]).remove(0);
    replicas.unwrap_or_default().len()
}

fn read(objects: &Objects, times: usize) {
    for _ in 0..times {
        assert_eq!(objects.get_object(HOT, OBJECT_BYTES), Ok(1));
    }
}

fn with_mode(mode: &str) -> (Master, [Node; 2], Objects) {
    let mode = format!("--dynamic_replication_mode={mode}");
    let master = Master::start(&[&mode, "--dynamic_replication_admission_qps_threshold=2"]);
    let nodes = [(); 2].map(|()| Node::start(&master, POOL_BYTES));
    let objects = Objects::open_over_tcp(&master.address());
    for key in [HOT, COLD] {
        put(&objects, &nodes[0], key);
    }
    (master, nodes, objects)
}

#[test]
fn a_hot_key_gets_one_more_replica_and_survives_its_first_node() {
    let (master, mut nodes, objects) = with_mode("enforce");
    wait_until("the hot key has two replicas", COPY_DEADLINE, || {
        read(&objects, 5);
        replicas(&objects, HOT) == 2
    });
    assert_eq!(replicas(&objects, COLD), 1);
    assert_eq!(master.metric("perigee_hot_replicas"), Some(1.0));
    assert_eq!(master.metric(r#"perigee_hot_replicas_total{result="made"}"#), Some(1.0));
    read(&objects, 20);
    nodes[0].program.kill();
    read(&objects, 20);
}

#[test]
fn to_observe_makes_no_replica_and_counts_the_key() {
    let (master, _nodes, objects) = with_mode("observe");
    let wanted = || master.metric(r#"perigee_hot_keys_total{decision="replicate"}"#);
    wait_until("the key is found to be hot", COPY_DEADLINE, || {
        read(&objects, 5);
        wanted() == Some(1.0)
    });
    assert_eq!(replicas(&objects, HOT), 1);
    assert_eq!(master.metric("perigee_hot_replicas"), Some(0.0));
}
