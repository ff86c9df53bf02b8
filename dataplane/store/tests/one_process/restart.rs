//! Facts about a master that ends and another one that begins at the same port, while nodes and
//! clients live on.

use crate::cluster::{ANY, LONG, get, master, put, store, until};
use perigee_flags::ProcessEnvironment;
use perigee_schemas::Status;
use perigee_service::Cluster;
use perigee_service::config::{MasterConfig, MasterStart};
use perigee_store::{ReplicateConfig, Store};
use std::sync::Arc;
use std::time::Instant;

const KEYS: usize = 500;

fn value(number: usize, version: usize) -> Vec<u8> {
    let bytes = 3000 + 17 * (number % 50);
    (0..bytes).map(|at| (at * 7 + number * 31 + version * 101) as u8).collect()
}

fn name(number: usize) -> String {
    format!("key-{number}")
}

/// Calls again while the master cannot be reached: a client that has just missed it fails for a
/// moment more.
fn reached<T>(mut call: impl FnMut() -> T, is_missed: impl Fn(&T) -> bool) -> T {
    until("the client reaches the master", || Some(call()).filter(|result| !is_missed(result)))
}

fn put_new(store: &Store, key: &str, bytes: &[u8]) -> Status {
    reached(
        || put(store, key, bytes, &ReplicateConfig::default()),
        |status| *status == Status::RpcFail,
    )
}

fn read(store: &Store, key: &str) -> Result<Vec<u8>, Status> {
    reached(|| get(store, key), |found| *found == Err(Status::RpcFail))
}

/// Ends a master and begins another one at its address.
pub(crate) fn restart(before: &Cluster, flags: &[&str]) -> Arc<Cluster> {
    let address = before.address();
    before.stop();
    let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
    let loaded = MasterConfig::load(&flags, &ProcessEnvironment::of(&[])).unwrap();
    let MasterStart::Serve(config) = loaded else { unreachable!("no text was asked for") };
    let end = Instant::now() + LONG;
    loop {
        match Cluster::start(&config, address, None) {
            Ok(cluster) => return Arc::new(cluster),
            Err(error) => assert!(Instant::now() < end, "the port is not free again: {error}"),
        }
    }
}

fn survive(flags: &[&str], flags_after: &[&str]) {
    let cluster = master(flags);
    let node = store(&cluster, ANY, 64 << 20, false);
    let client = store(&cluster, ANY, 0, false);
    for number in 0..KEYS {
        assert_eq!(put_new(&client, &name(number), &value(number, 0)), Status::Ok);
    }
    let removed = |number: usize| number.is_multiple_of(10);
    for number in (0..KEYS).filter(|number| removed(*number)) {
        assert_eq!(client.remove(&[&name(number)], true), [Status::Ok]);
    }
    let mut cluster = cluster;
    for life in 1..=3 {
        cluster = restart(&cluster, flags_after);
        // Owners may be late where many tests run.
        until("the owner", || get(&client, &name(1)).ok());
        for number in 0..KEYS {
            let found = read(&client, &name(number));
            if removed(number) {
                assert!(found.is_err(), "{number} was removed and is back in life {life}");
            } else {
                assert_eq!(found, Ok(value(number, 0)), "{number} in life {life}");
            }
        }
        for number in 0..KEYS {
            let new = format!("new-{life}-{number}");
            assert_eq!(put_new(&client, &new, &value(number, life)), Status::Ok, "{new}");
        }
        for earlier in 1..=life {
            for number in 0..KEYS {
                let found = read(&client, &format!("new-{earlier}-{number}"));
                assert_eq!(found, Ok(value(number, earlier)), "no space is lent twice");
            }
        }
    }
    client.close();
    node.close();
    cluster.stop();
}

#[test]
fn objects_outlive_their_master() {
    survive(&["--rpc_shards=1"], &["--rpc_shards=1"]);
}

#[test]
fn objects_outlive_a_master_of_several_shards_and_their_number() {
    survive(&["--rpc_shards=3"], &["--rpc_shards=2"]);
}

#[test]
fn a_segment_is_whole_again_after_all_its_objects_are_removed() {
    let cluster = master(&["--rpc_shards=2"]);
    let node = store(&cluster, ANY, 16 << 20, false);
    for number in 0..KEYS {
        assert_eq!(put_new(&node, &name(number), &value(number, 0)), Status::Ok);
    }
    let cluster = restart(&cluster, &["--rpc_shards=2"]);
    until("the last object", || get(&node, &name(KEYS - 1)).ok());
    assert!(node.remove_all(true).is_ok());
    let large = vec![5; 15 << 20];
    until("room for one large object", || {
        (put_new(&node, "large", &large) == Status::Ok).then_some(())
    });
    node.close();
    cluster.stop();
}
