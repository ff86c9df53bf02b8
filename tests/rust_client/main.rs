//! The crate for Rust programs: against a real cluster, real peers and an async runtime; its
//! examples as users run them.
#![expect(unsafe_code, reason = "it exposes memory, and takes over some")]

mod cancellation;
mod engines;
mod examples;
mod objects;

use perigee_client::{ObjectStore, StoreConfig};
use perigee_tests::cluster::{Master, Node};

/// Bytes that the node of a test lends.
const LENT: u64 = 64 << 20;

/// A master, a node, and a client that lends nothing.
fn cluster() -> (Master, Node, ObjectStore) {
    let master = Master::start(&[]);
    let node = Node::start(&master, LENT);
    let store = open(&master);
    (master, node, store)
}

fn open(master: &Master) -> ObjectStore {
    let config = StoreConfig {
        local_hostname: "127.0.0.1".into(),
        master_server_address: master.address(),
        ..StoreConfig::default()
    };
    ObjectStore::open(config).expect("the master answers")
}
