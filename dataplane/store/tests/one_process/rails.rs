//! A master, a node and a client whose protocol is `rdma`, on a software fabric in one process:
//! objects go over rails, and where they cannot, the same calls go well over TCP.

use crate::cluster::{ANY, LONG, config, data, environment, get, master, moved, put};
use crate::devices::{Card, get_pieces, on_card, put_pieces};
use perigee_device::GivenDevices;
use perigee_rdma::GivenFabric;
use perigee_schemas::Status;
use perigee_service::Cluster;
use perigee_settings::ForcedTransport;
use perigee_store::{ReplicateConfig, Store, StoreConfig, StoreEnvironment};
use perigee_verbs::software::{Clock, DevicePlan, SoftwareNetwork};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) const DEVICES: [&str; 2] = ["sw0", "sw1"];

/// How a client that asks for RDMA joins.
pub(crate) fn wishing_rails(cluster: &Cluster, segment_bytes: u64) -> StoreConfig {
    StoreConfig { protocol: "rdma".to_owned(), ..config(cluster, ANY, segment_bytes) }
}

fn store(cluster: &Cluster, network: &SoftwareNetwork, host: &str, segment_bytes: u64) -> Store {
    open_on(network, host, wishing_rails(cluster, segment_bytes))
}

/// A client on a host of the fabric.
pub(crate) fn open_on(network: &SoftwareNetwork, host: &str, config: StoreConfig) -> Store {
    let mut environment = environment(false);
    let plans = DEVICES.map(DevicePlan::new);
    environment.fabric = Some(GivenFabric(network.host(host, &plans).unwrap()));
    Store::open_with(config, &environment).unwrap()
}

/// A client of rails that works with a device's memory.
fn store_of(card: &Arc<Card>, cluster: &Cluster, network: &SoftwareNetwork) -> Store {
    let mut environment = environment(false);
    let plans = DEVICES.map(DevicePlan::new);
    environment.fabric = Some(GivenFabric(network.host("client", &plans).unwrap()));
    environment.accelerators = Some(GivenDevices(card.clone()));
    Store::open_with(wishing_rails(cluster, 0), &environment).unwrap()
}

fn put_and_get(store: &Store, key: &str, bytes: &[u8]) {
    let stored = put(store, key, bytes, &ReplicateConfig::default());
    assert_eq!(stored, Status::Ok);
    assert!(get(store, key).unwrap() == bytes);
}

fn until_moved(store: &Store, route: &str) {
    let (before, end) = (moved(store, route), Instant::now() + LONG);
    for round in 0u32.. {
        put_and_get(store, &format!("{route}-{before}-{round}"), &vec![round as u8; 3000]);
        if moved(store, route) > before {
            return;
        }
        assert!(Instant::now() < end, "nothing goes over {route}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

#[test]
fn a_client_and_a_node_that_ask_for_rdma_get_it() {
    let (cluster, network) = (master(&[]), SoftwareNetwork::new(Clock::Real).unwrap());
    let _node = store(&cluster, &network, "node", 256 << 20);
    let client = store(&cluster, &network, "client", 0);
    until_moved(&client, "rdma");
    let tcp = moved(&client, "tcp");
    let large = data(1, 20_000_000);
    let at = large.as_ptr() as usize;
    assert_eq!(client.register_buffer(at, large.len()), Status::Ok);
    for (number, bytes) in [1, 5000, 70_000, 3_000_000].into_iter().enumerate() {
        put_and_get(&client, &format!("key-{number}"), &large[number..number + bytes]);
    }
    assert_eq!(moved(&client, "tcp"), tcp, "all of it goes over rails");
    put_and_get(&client, "large", &large);
    assert_eq!(client.unregister_buffer(at), Status::Ok);
}

#[test]
fn objects_of_a_device_go_over_rails_however_large_they_are() {
    let (cluster, network) = (master(&[]), SoftwareNetwork::new(Clock::Real).unwrap());
    let _node = store(&cluster, &network, "node", 256 << 20);
    let card = Card::new();
    let client = store_of(&card, &cluster, &network);
    until_moved(&client, "rdma");
    let tcp = moved(&client, "tcp");
    for (number, bytes) in [3000, 70_000, 20_000_000].into_iter().enumerate() {
        let (key, value) = (format!("key-{number}"), data(number, bytes));
        card.fill(0, &value);
        assert_eq!(put_pieces(&client, &key, &[on_card(0, bytes)]), Status::Ok);
        assert_eq!(get_pieces(&client, &key, &[on_card(bytes, bytes)]), Ok(bytes as u64));
        assert!(card.holds_at(bytes, &value));
    }
    assert_eq!(moved(&client, "tcp"), tcp, "the stage is memory that rails know");
}

#[test]
fn variables_of_mooncake_reach_a_clients_queue_pairs() {
    let (cluster, network) = (master(&[]), SoftwareNetwork::new(Clock::Real).unwrap());
    let _node = store(&cluster, &network, "node", 64 << 20);
    let variable = |name: &str| match name {
        "MC_IB_TC" => Some("106".to_owned()),
        "MC_IB_SL" => Some("3".to_owned()),
        "MC_FORCE_HCA" => Some("1".to_owned()),
        _ => None,
    };
    let read = StoreEnvironment::from_variables(variable).unwrap();
    let fabric = network.host("client", &DEVICES.map(DevicePlan::new)).unwrap();
    let environment = StoreEnvironment {
        rails: read.rails,
        forced: read.forced,
        fabric: Some(GivenFabric(fabric)),
        ..environment(false)
    };
    let config = StoreConfig { protocol: "tcp".to_owned(), ..config(&cluster, ANY, 0) };
    let client = Store::open_with(config, &environment).unwrap();
    until_moved(&client, "rdma");
    let connections = network.connections("client", DEVICES[0]).unwrap();
    assert!(!connections.is_empty());
    for end in connections {
        assert_eq!((end.connected.traffic_class, end.connected.service_level), (106, 3));
    }
}

#[test]
fn a_forced_transport_without_a_device_is_an_error() {
    let (cluster, network) = (master(&[]), SoftwareNetwork::new(Clock::Real).unwrap());
    let environment = StoreEnvironment {
        forced: Some(ForcedTransport::Rdma),
        fabric: Some(GivenFabric(network.host("client", &[]).unwrap())),
        ..environment(false)
    };
    let error = Store::open_with(config(&cluster, ANY, 0), &environment).err().unwrap();
    assert!(error.to_string().contains("MC_FORCE_HCA"), "{error}");
}

#[test]
fn without_a_usable_device_a_client_that_asks_for_rdma_works_over_tcp() {
    let (cluster, network) = (master(&[]), SoftwareNetwork::new(Clock::Real).unwrap());
    let _node = store(&cluster, &network, "node", 64 << 20);
    let config =
        StoreConfig { device_name: "no_such_device".to_owned(), ..wishing_rails(&cluster, 0) };
    let client = Store::open_with(config, &environment(false)).unwrap();
    put_and_get(&client, "key", &[7; 100_000]);
    assert_eq!(moved(&client, "tcp"), 200_000);
}
