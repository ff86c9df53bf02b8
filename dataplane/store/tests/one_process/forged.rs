//! Segments that strangers announce. Invariant: no object goes to a segment whose owner does not
//! answer at its endpoint. A client that does not answer takes no other client's place.

use crate::cluster::{ANY, data, get, master, put, store, until};
use perigee_rpc::{ClientOptions, MasterClient, SegmentOffer};
use perigee_schemas::limits::SEGMENTS_PER_PAGE;
use perigee_schemas::{Identity, SegmentKind, Status};
use perigee_service::Cluster;
use perigee_store::ReplicateConfig;
use std::collections::BTreeSet;
use std::net::TcpListener;

const SEGMENT_BYTES: u64 = 16 << 20;
const OBJECT_BYTES: usize = 100_000;

fn stranger(cluster: &Cluster, number: u128) -> MasterClient {
    MasterClient::new(ClientOptions::new(&cluster.address().to_string(), Identity(number)))
}

fn forged(id: u128, bytes: u64, endpoint: &str, host_id: &str) -> SegmentOffer {
    SegmentOffer {
        id: Identity(id),
        bytes,
        base: 0,
        name: format!("forged-{id}:1"),
        endpoint: endpoint.to_owned(),
        host_id: host_id.to_owned(),
        rendezvous: String::new(),
        protocol: "tcp".to_owned(),
        kind: SegmentKind::Memory,
    }
}

#[test]
fn puts_do_not_go_to_segments_without_an_owner() {
    let cluster = master(&[]);
    let node = store(&cluster, ANY, SEGMENT_BYTES, false);
    // One without a listener, one that takes connections and never sends a byte.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoints = ["127.0.0.1:1".to_owned(), silent.local_addr().unwrap().to_string()];
    for (number, endpoint) in endpoints.iter().enumerate() {
        let number = 70 + number as u128;
        let offers: Vec<_> =
            (0..32).map(|id| forged(number << 8 | id, 1 << 46, endpoint, "elsewhere")).collect();
        let mounted = stranger(&cluster, number).mount(&offers, false, 1).unwrap();
        assert!(mounted.iter().all(|status| *status == Status::Ok));
    }
    let value = data(3, OBJECT_BYTES);
    for key in 0..20 {
        let key = format!("key-{key}");
        assert_eq!(put(&node, &key, &value, &ReplicateConfig::default()), Status::Ok);
        assert!(get(&node, &key).unwrap() == value);
    }
    node.close();
    cluster.stop();
}

#[test]
fn a_stranger_at_the_endpoint_of_a_live_node_does_not_displace_it() {
    let cluster = master(&[]);
    let node = store(&cluster, ANY, SEGMENT_BYTES, false);
    let value = data(4, OBJECT_BYTES);
    assert_eq!(put(&node, "key", &value, &ReplicateConfig::default()), Status::Ok);
    let caller = stranger(&cluster, 9);
    let segment = caller.segments(&[&node.hostname()]).unwrap().remove(0).segment;
    let offer = forged(77, 4096, &segment.endpoint, &segment.host_id);
    assert_eq!(caller.mount(&[offer], false, 1).unwrap(), [Status::Ok]);
    let listed = caller.segments(&[]).unwrap();
    assert!(listed.iter().any(|used| used.segment.id == segment.id), "the node has lost its place");
    assert!(get(&node, "key").unwrap() == value);
    node.close();
    cluster.stop();
}

#[test]
fn four_thousand_forged_segments_do_not_keep_a_node_out() {
    let cluster = master(&[]);
    let caller = stranger(&cluster, 9);
    let offers: Vec<_> = (0..4094)
        .map(|id| forged(1000 + id, 4096, &format!("127.0.0.1:{}", 1 + id), "elsewhere"))
        .collect();
    caller.mount(&offers, false, 1).unwrap();
    let listed = caller.segments(&[]).unwrap();
    let ids: BTreeSet<u128> = listed.iter().map(|used| used.segment.id.0).collect();
    assert!(ids.len() > SEGMENTS_PER_PAGE, "a listing has all of its pages");
    assert_eq!(ids.len(), listed.len(), "each segment is listed once");
    let node = store(&cluster, ANY, SEGMENT_BYTES, false);
    let value = data(5, OBJECT_BYTES);
    until("room for an object", || {
        let stored = put(&node, "key", &value, &ReplicateConfig::default());
        (stored == Status::Ok).then_some(())
    });
    assert!(get(&node, "key").unwrap() == value);
    node.close();
    cluster.stop();
}
