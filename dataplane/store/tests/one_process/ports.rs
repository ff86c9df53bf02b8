//! Clients whose ports come from a range that is set.
//! Invariant: each has a port of its own in the range, also when its shards share it.

use crate::cluster::{ANY, config, data, get, master, on, put};
use perigee_admin::ControlPlane;
use perigee_schemas::Status;
use perigee_service::Cluster;
use perigee_store::{Store, StoreEnvironment, StoreError};
use std::net::TcpListener;

const SEGMENT_BYTES: u64 = 16 << 20;

/// Opens a client over TCP whose port is one of a range.
fn open(cluster: &Cluster, bytes: u64, range: [u16; 2]) -> Result<Store, StoreError> {
    let environment = StoreEnvironment::from_variables(|name| match name {
        "MC_STORE_CLIENT_MIN_PORT" => Some(range[0].to_string()),
        "MC_STORE_CLIENT_MAX_PORT" => Some(range[1].to_string()),
        "PERIGEE_SHARED_MEMORY" => Some("0".to_owned()),
        "PERIGEE_DATA_SHARDS" => Some("2".to_owned()),
        _ => None,
    });
    Store::open_with(config(cluster, ANY, bytes), &environment?)
}

/// Two ports that follow each other and were free a moment ago.
fn free_pair() -> [u16; 2] {
    loop {
        let first = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = first.local_addr().unwrap().port();
        if port < u16::MAX && TcpListener::bind(("0.0.0.0", port + 1)).is_ok() {
            return [port, port + 1];
        }
    }
}

fn endpoints(cluster: &Cluster) -> Vec<String> {
    let segments = cluster.segments().unwrap();
    let mut endpoints: Vec<String> = segments.into_iter().map(|it| it.endpoint).collect();
    endpoints.sort_unstable();
    endpoints
}

#[test]
fn clients_of_one_host_take_different_ports_of_the_range_until_none_is_left() {
    let cluster = master(&[]);
    let range = free_pair();
    let addresses = range.map(|port| format!("127.0.0.1:{port}"));
    let nodes = [(); 2].map(|()| open(&cluster, SEGMENT_BYTES, range).unwrap());
    assert_eq!(endpoints(&cluster), addresses, "data ports");
    let mut names = nodes.each_ref().map(Store::hostname);
    names.sort_unstable();
    assert_eq!(names, addresses, "names");
    let refused = open(&cluster, 0, range).unwrap_err();
    assert!(
        matches!(refused, StoreError::PortsTaken { first, last } if [first, last] == range),
        "{refused}"
    );
    assert_eq!(refused.status(), Status::InternalError);
    for name in &addresses {
        assert_eq!(put(&nodes[0], name, &data(1, 100_000), &on(name, false)), Status::Ok);
        assert!(get(&nodes[1], name) == Ok(data(1, 100_000)));
    }
    let [first, second] = nodes;
    let freed = first.hostname();
    first.close();
    let next = open(&cluster, SEGMENT_BYTES, range).unwrap();
    assert_eq!(next.hostname(), freed);
    assert_eq!(endpoints(&cluster), addresses);
    second.close();
    next.close();
    cluster.stop();
}

#[test]
fn a_name_with_a_port_is_kept_and_its_data_port_lies_in_the_range() {
    let cluster = master(&[]);
    let [port, _] = free_pair();
    let only = port.to_string();
    let environment = StoreEnvironment::from_variables(|name| {
        let is_bound = ["MC_STORE_CLIENT_MIN_PORT", "MC_STORE_CLIENT_MAX_PORT"].contains(&name);
        is_bound.then(|| only.clone())
    });
    let config = config(&cluster, "127.0.0.1:9", SEGMENT_BYTES);
    let node = Store::open_with(config, &environment.unwrap()).unwrap();
    assert_eq!(node.hostname(), "127.0.0.1:9");
    assert_eq!(endpoints(&cluster), [format!("127.0.0.1:{port}")]);
    node.close();
    cluster.stop();
}
