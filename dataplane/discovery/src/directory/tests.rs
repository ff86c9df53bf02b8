//! What a directory does without any server.

use super::*;

#[test]
fn keys_are_mooncakes() {
    let keys = RecordKeys::of("", "10.0.0.1:17001");
    assert_eq!(keys.segment, "mooncake/ram/10.0.0.1:17001");
    assert_eq!(keys.rpc_meta, "mooncake/rpc_meta/10.0.0.1:17001");
    for cluster in ["blue", "blue/"] {
        assert_eq!(RecordKeys::of(cluster, "a").segment, "mooncake/blue/ram/a");
    }
}

#[test]
fn peers_are_found_by_their_names() {
    let directory = Directory::open("P2PHANDSHAKE", DiscoverySettings::default()).unwrap();
    assert!(directory.is_peer_to_peer());
    assert_eq!(directory.rpc_meta("h:7"), Ok(RpcMeta::new("h", 7)));
    assert_eq!(directory.rpc_meta("h"), Ok(RpcMeta::new("h", 12_001)));
    assert!(matches!(directory.rpc_meta("h:x"), Err(DiscoveryError::Setting(_))));
}

#[test]
fn own_document_needs_no_server() {
    let directory = Directory::open("P2PHANDSHAKE", DiscoverySettings::default()).unwrap();
    let document = SegmentDocument::new("127.0.0.1:5", "tcp");
    directory.publish(&document).unwrap();
    assert_eq!(*directory.segment("127.0.0.1:5").unwrap(), document);
}

#[test]
fn a_document_beyond_the_limits_is_not_published() {
    let directory = Directory::open("P2PHANDSHAKE", DiscoverySettings::default()).unwrap();
    let published = directory.publish(&SegmentDocument::new("", "tcp"));
    assert!(matches!(published, Err(DiscoveryError::Document { .. })));
    assert!(directory.own().is_none());
}

#[test]
fn empty_and_endless_names_are_refused_without_a_request() {
    let directory =
        Directory::open("http://192.0.2.1/metadata", DiscoverySettings::default()).unwrap();
    for name in [String::new(), "n".repeat(2000)] {
        let refused = directory.publish_rpc(&name, &RpcMeta::new("h", 1));
        assert!(matches!(refused, Err(DiscoveryError::Document { .. })));
    }
}

#[test]
fn a_dead_server_is_named_with_what_to_check() {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    for given in [
        format!("http://127.0.0.1:{port}/metadata"),
        format!("etcd://127.0.0.1:{port}"),
        format!("redis://127.0.0.1:{port}"),
    ] {
        let directory = Directory::open(&given, DiscoverySettings::default()).unwrap();
        let text = directory.segment("a").unwrap_err().to_string();
        assert!(text.contains(&given) && text.contains("check that it runs"), "{text}");
    }
}
