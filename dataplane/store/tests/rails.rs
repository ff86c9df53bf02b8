//! A master, a node and a client whose protocol is `rdma`, on a software fabric in one process: objects go over rails, and
//! where they cannot, the same calls go well over TCP.
#![allow(clippy::unwrap_used, reason = "tests")]

use perigee_flags::Environment;
use perigee_metrics::{BuildInfo, Samples};
use perigee_schemas::Status;
use perigee_service::Cluster;
use perigee_service::config::{MasterConfig, Start};
use perigee_store::{
    GetRequest, Piece, PutRequest, ReplicateConfig, Store, StoreConfig, StoreEnvironment,
};
use perigee_transfer::GivenFabric;
use perigee_verbs::software::{Clock, DevicePlan, Network};
use std::sync::Arc;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);
const DEVICES: [&str; 2] = ["sw0", "sw1"];

fn master() -> Arc<Cluster> {
    let Start::Serve(config) = MasterConfig::load(&[], &Environment::of(&[])).unwrap() else {
        unreachable!("no text was asked for")
    };
    Arc::new(Cluster::start(&config, "127.0.0.1:0".parse().unwrap(), None).unwrap())
}

fn store(cluster: &Cluster, network: &Network, host: &str, segment_bytes: u64) -> Store {
    let config = StoreConfig {
        local_hostname: "127.0.0.1".to_owned(),
        metadata_server: "P2PHANDSHAKE".to_owned(),
        global_segment_bytes: segment_bytes,
        local_buffer_bytes: 1 << 20,
        protocol: "rdma".to_owned(),
        device_name: String::new(),
        master_server_address: cluster.address().to_string(),
        tenant_id: "default".to_owned(),
        http_port: None,
    };
    let variable = |name: &str| (name == "PERIGEE_SHARED_MEMORY").then(|| "0".to_owned());
    let mut environment = StoreEnvironment::from_variables(variable).unwrap();
    let plans = DEVICES.map(DevicePlan::new);
    environment.fabric = Some(GivenFabric(network.host(host, &plans).unwrap()));
    Store::open_with(config, &environment).unwrap()
}

fn pieces(bytes: &[u8]) -> [Piece; 1] {
    [Piece {
        address: bytes.as_ptr() as usize,
        bytes: bytes.len(),
    }]
}

fn put_and_get(store: &Store, key: &str, bytes: &[u8]) {
    let (source, back) = (pieces(bytes), vec![0u8; bytes.len()]);
    let request = PutRequest {
        key,
        pieces: &source,
        group: None,
    };
    let stored = store.put(&[request], &ReplicateConfig::default());
    assert_eq!(stored, [Status::Ok]);
    let target = pieces(&back);
    let request = GetRequest {
        key,
        pieces: &target,
    };
    assert_eq!(store.get(&[request]), [Ok(bytes.len() as u64)]);
    assert!(back == bytes);
}

fn moved(store: &Store, route: &str) -> u64 {
    let build = BuildInfo {
        version: "",
        commit: "",
    };
    let text = Samples::of_client([store.cells()], "real", build).render();
    let name = format!("perigee_transfer_bytes_total{{route=\"{route}\"");
    let lines = text.lines().filter(|line| line.starts_with(&name));
    let value = |line: &str| line.rsplit(' ').next()?.parse::<u64>().ok();
    lines.filter_map(value).sum()
}

fn until_moved(store: &Store, route: &str) {
    let (before, end) = (moved(store, route), Instant::now() + LONG);
    for round in 0u32.. {
        put_and_get(
            store,
            &format!("{route}-{before}-{round}"),
            &vec![round as u8; 3000],
        );
        if moved(store, route) > before {
            return;
        }
        assert!(Instant::now() < end, "nothing goes over {route}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

#[test]
fn a_client_and_a_node_that_ask_for_rdma_get_it() {
    let (cluster, network) = (master(), Network::new(Clock::Real).unwrap());
    let _node = store(&cluster, &network, "node", 256 << 20);
    let client = store(&cluster, &network, "client", 0);
    until_moved(&client, "rdma");
    let tcp = moved(&client, "tcp");
    let large: Vec<u8> = (0..20_000_000usize)
        .map(|index| (index % 251) as u8)
        .collect();
    let at = large.as_ptr() as usize;
    assert_eq!(client.register_buffer(at, large.len()), Status::Ok);
    for (number, bytes) in [1, 5000, 70_000, 3_000_000].into_iter().enumerate() {
        put_and_get(
            &client,
            &format!("key-{number}"),
            &large[number..number + bytes],
        );
    }
    assert_eq!(moved(&client, "tcp"), tcp, "all of it goes over rails");
    put_and_get(&client, "large", &large);
    assert_eq!(client.unregister_buffer(at), Status::Ok);
}

#[test]
fn without_a_usable_device_a_client_that_asks_for_rdma_works_over_tcp() {
    let (cluster, network) = (master(), Network::new(Clock::Real).unwrap());
    let _node = store(&cluster, &network, "node", 64 << 20);
    let config = StoreConfig {
        device_name: "no_such_device".to_owned(),
        ..store(&cluster, &network, "other", 0).config().clone()
    };
    let variable = |name: &str| (name == "PERIGEE_SHARED_MEMORY").then(|| "0".to_owned());
    let environment = StoreEnvironment::from_variables(variable).unwrap();
    let client = Store::open_with(config, &environment).unwrap();
    put_and_get(&client, "key", &[7; 100_000]);
    assert_eq!(moved(&client, "tcp"), 200_000);
}
