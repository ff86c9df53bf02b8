//! Two well-behaved peers, and one of the oldest kind.

use crate::engine::{Engine, directory, settings};
use perigee_discovery::handshake::frame::{Frame, HandshakeKind, LENGTH_BYTES};
use perigee_discovery::{
    BufferEntry, ConnectionMessage, DiscoveryError, DiscoverySettings, HandshakeClient,
    HandshakeError, HandshakeServer, NotifyMessage, RpcMeta, SegmentDocument,
};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

fn engine() -> Engine {
    Engine::start("P2PHANDSHAKE", "").unwrap()
}

fn client() -> HandshakeClient {
    HandshakeClient::new(&settings())
}

#[test]
fn documents_are_exchanged_both_ways() {
    let (one, two) = (engine(), engine());
    let found = one.directory.segment(&two.document.name).unwrap();
    assert_eq!(*found, two.document);
    assert_eq!(two.answers.peers.lock().unwrap()[..], [one.document]);
}

#[test]
fn engines_with_very_many_buffers_find_each_other() {
    let (mut one, mut two) = (engine(), engine());
    for engine in [&mut one, &mut two] {
        let buffer = |number: u64| BufferEntry {
            name: "cpu:0".to_owned(),
            addr: 0x7f00_0000_0000 + (number << 20),
            length: 1 << 20,
            ..BufferEntry::default()
        };
        engine.document.buffers = (0..30_000).map(buffer).collect();
        // As rails tell of each buffer once more.
        let regions = vec![serde_json::Value::from("x".repeat(100)); 15_000];
        let extra = engine.document.perigee.as_mut().unwrap();
        extra.unknown.insert("regions".to_owned(), regions.into());
        engine.directory.publish(&engine.document).unwrap();
        assert!(engine.document.encode().len() > settings().frame_bytes_max);
    }
    let found = one.directory.segment(&two.document.name).unwrap();
    assert_eq!(*found, two.document);
    let seen = two.answers.peers.lock().unwrap();
    assert_eq!(seen[0].name, one.document.name);
    let epoch = |document: &SegmentDocument| document.perigee.as_ref().unwrap().epoch.clone();
    assert_eq!(epoch(&seen[0]), epoch(&one.document));
}

#[test]
fn queue_pairs_are_exchanged_and_refusals_carry_their_reason() {
    let engine = engine();
    let question = ConnectionMessage {
        local_nic_path: "a@mlx5_0".to_owned(),
        qp_num: vec![1, 2],
        ..ConnectionMessage::default()
    };
    let answer = connect_pairs(&engine, &question);
    assert_eq!((answer.peer_nic_path.as_str(), answer.qp_num), ("a@mlx5_0", vec![2, 3]));
    let refused = connect_pairs(&engine, &ConnectionMessage::default());
    assert!(refused.reply_msg.contains("no queue pairs"), "{refused:?}");
}

/// Asks as an engine of Mooncake does that has RDMA.
fn connect_pairs(engine: &Engine, question: &ConnectionMessage) -> ConnectionMessage {
    let mut stream = TcpStream::connect(("127.0.0.1", engine.server.port())).unwrap();
    let frame = Frame::new(HandshakeKind::Connection, question.encode());
    stream.write_all(&frame.encode()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = Frame::decode(answer.split_off(LENGTH_BYTES)).unwrap();
    assert_eq!(answer.kind, HandshakeKind::Connection);
    ConnectionMessage::decode(&answer.json).unwrap()
}

#[test]
fn notifications_arrive_or_are_refused() {
    let engine = engine();
    let notify = |name: &str| NotifyMessage { name: name.to_owned(), message: "text".to_owned() };
    client().notify(&engine.place(), &notify("one")).unwrap();
    assert_eq!(*engine.answers.notifies.lock().unwrap(), [notify("one")]);
    let refused = client().notify(&engine.place(), &notify("full")).unwrap_err();
    assert!(matches!(refused, HandshakeError::Refused { .. }), "{refused}");
}

#[test]
fn probes_tell_the_living_from_the_closed() {
    let engine = engine();
    client().probe(&engine.place()).unwrap();
    engine.server.close();
    assert!(client().probe(&engine.place()).is_err());
}

#[test]
fn frames_without_type_byte_are_answered_without_one() {
    let engine = engine();
    let mut stream = TcpStream::connect(("127.0.0.1", engine.server.port())).unwrap();
    let json = br#"{"local_nic_path":"a@b","peer_nic_path":"c@d","qp_num":[5]}"#;
    stream.write_all(&(json.len() as u64).to_le_bytes()).unwrap();
    stream.write_all(json).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let (length, rest) = answer.split_first_chunk().unwrap();
    assert_eq!(u64::from_le_bytes(*length), rest.len() as u64);
    assert_eq!(ConnectionMessage::decode(rest).unwrap().qp_num, [6]);
}

#[test]
fn large_documents_pass_up_to_the_limit_and_no_further() {
    let server = engine();
    let limit = settings().frame_bytes_max;
    let large =
        |bytes: usize| NotifyMessage { name: "large".to_owned(), message: "x".repeat(bytes) };
    client().notify(&server.place(), &large(limit - 1000)).unwrap();
    let refused = client().notify(&server.place(), &large(limit)).unwrap_err();
    assert!(refused.to_string().contains("MC_HANDSHAKE_MAX_LENGTH"), "{refused}");
    let larger = DiscoverySettings { frame_bytes_max: 2 * limit, ..settings() };
    let cut = HandshakeClient::new(&larger).notify(&server.place(), &large(limit));
    assert!(matches!(cut, Err(HandshakeError::Broken { .. })), "{cut:?}");
}

#[test]
fn a_port_in_use_is_named() {
    let engine = engine();
    let port = engine.server.port();
    let taken = HandshakeServer::bind(Some(port), &settings()).unwrap_err();
    assert!(matches!(taken, DiscoveryError::Port { .. }), "{taken}");
    assert!(taken.to_string().contains(&port.to_string()), "{taken}");

    let narrow = DiscoverySettings { ports: port..=port, ..settings() };
    let none = HandshakeServer::bind(None, &narrow).unwrap_err();
    assert!(none.to_string().contains("MC_MAX_RPC_PORT"), "{none}");
}

#[test]
fn a_closed_server_frees_its_port() {
    let engine = engine();
    let port = engine.server.port();
    engine.server.close();
    assert_eq!(HandshakeServer::bind(Some(port), &settings()).unwrap().port(), port);
}

#[test]
fn ports_come_from_the_range() {
    let ports = 15_000..=17_000;
    let bound = HandshakeServer::bind(None, &settings()).unwrap();
    assert!(ports.contains(&bound.port()));
}

#[test]
fn ipv6_is_served_when_asked_for() {
    let both = DiscoverySettings { use_ipv6: true, bind_address: None, ..settings() };
    let answers = crate::engine::Answers::new(directory("P2PHANDSHAKE"));
    let server = HandshakeServer::bind(None, &both).unwrap().serve(std::sync::Arc::new(answers));
    let port = server.as_ref().unwrap().port();
    for host in ["::1", "127.0.0.1", "localhost"] {
        client().probe(&RpcMeta::new(host, port)).unwrap();
    }
}

#[test]
fn a_peer_that_is_not_there_is_named() {
    let error = client().probe(&RpcMeta::new("127.0.0.1", 1)).unwrap_err();
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
    let error = client().probe(&RpcMeta::new("no-such-host.invalid", 1)).unwrap_err();
    assert!(matches!(error, HandshakeError::Unresolved { .. }), "{error}");
}
