//! Peers that break the handshake. Invariant: whatever they do, a well-behaved peer is answered
//! while they do it.

use crate::engine::{Engine, settings};
use perigee_discovery::limits::CONNECTIONS_MAX;
use perigee_discovery::{
    DiscoverySettings, HandshakeClient, HandshakeError, NotifyMessage, RpcMeta, SegmentDocument,
};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread::{JoinHandle, spawn};

fn engine() -> Engine {
    Engine::start("P2PHANDSHAKE", "").unwrap()
}

fn connect(engine: &Engine) -> TcpStream {
    TcpStream::connect(("127.0.0.1", engine.server.port())).unwrap()
}

fn probe(engine: &Engine) {
    HandshakeClient::new(&settings()).probe(&engine.place()).unwrap();
}

/// Reads until the server closes; whether it said anything.
fn is_answered(mut stream: TcpStream) -> bool {
    let mut answer = Vec::new();
    // A reset is a way of closing.
    let _ = stream.read_to_end(&mut answer);
    !answer.is_empty()
}

/// Bytes that look random and are the same in each run.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..bytes).map(|_| next()).collect()
}

#[test]
fn random_bytes_are_not_answered() {
    let engine = engine();
    for seed in 0..200 {
        let mut stream = connect(&engine);
        let _ = stream.write_all(&noise(seed, 64));
        let _ = stream.shutdown(std::net::Shutdown::Write);
        assert!(!is_answered(stream), "seed {seed}");
    }
    probe(&engine);
}

#[test]
fn well_formed_frames_of_nonsense_are_refused() {
    let engine = engine();
    for (kind, body, answered) in [
        (0u8, "nonsense", true),
        (0, r#"{"qp_num":[-1]}"#, true),
        (1, "[]", true),
        (2, r#"{"notify_msg":7}"#, true),
        (9, "{}", false),
    ] {
        let mut stream = connect(&engine);
        stream.write_all(&(body.len() as u64 + 1).to_le_bytes()).unwrap();
        stream.write_all(&[&[kind], body.as_bytes()].concat()).unwrap();
        assert_eq!(is_answered(stream), answered, "{kind} {body}");
    }
    assert!(engine.answers.notifies.lock().unwrap().is_empty());
    assert!(engine.answers.peers.lock().unwrap().is_empty());
}

#[test]
fn huge_and_empty_lengths_are_cut_off() {
    let engine = engine();
    for length in [0, u64::MAX, 1 << 40, settings().frame_bytes_max as u64 + 1] {
        let mut stream = connect(&engine);
        stream.write_all(&length.to_le_bytes()).unwrap();
        assert!(!is_answered(stream), "{length}");
    }
    probe(&engine);
}

#[test]
fn silent_peers_do_not_keep_others_out() {
    let engine = engine();
    // Far more than the server holds; each stays in the middle of its request.
    let mut silent = Vec::new();
    for index in 0..CONNECTIONS_MAX + 50 {
        let mut stream = connect(&engine);
        let part = [20, 0, 0, 0, 0, 0, 0, 0, 1, b'{'];
        let _ = stream.write_all(&part[..index % part.len()]);
        silent.push(stream);
    }
    probe(&engine);
    let other = self::engine();
    assert_eq!(*other.directory.segment(&engine.document.name).unwrap(), engine.document);
    drop(silent);
}

#[test]
fn peers_that_send_much_and_never_finish_do_not_keep_others_out() {
    let engine = engine();
    let length = settings().frame_bytes_max;
    let part = [&(length as u64).to_le_bytes()[..], &vec![b'{'; length - 1]].concat();
    let mut unfinished = Vec::new();
    for _ in 0..100 {
        let mut stream = connect(&engine);
        let _ = stream.write_all(&part);
        unfinished.push(stream);
    }
    let large = NotifyMessage { name: "large".to_owned(), message: "x".repeat(length - 1000) };
    let client = HandshakeClient::new(&settings());
    client.notify(&engine.place(), &large).unwrap();
    drop(unfinished);
}

#[test]
fn a_slow_peer_is_sent_away() {
    let engine = engine();
    let mut stream = connect(&engine);
    stream.write_all(&[20, 0, 0, 0, 0, 0, 0, 0, 1]).unwrap();
    assert!(!is_answered(stream));
}

#[test]
fn closing_does_not_wait_for_silent_peers() {
    let engine = engine();
    let streams: Vec<_> = (0..20).map(|_| connect(&engine)).collect();
    engine.server.close();
    for stream in streams {
        assert!(!is_answered(stream));
    }
}

/// A server that answers one connection with the given bytes and then stays silent.
fn false_server(answer: Vec<u8>) -> (RpcMeta, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = RpcMeta::new("127.0.0.1", listener.local_addr().unwrap().port());
    let thread = spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut question = [0; 4096];
        let _ = stream.read(&mut question);
        let _ = stream.write_all(&answer);
        // Until the client has gone.
        while stream.read(&mut question).is_ok_and(|bytes| bytes > 0) {}
    });
    (place, thread)
}

#[test]
fn a_client_survives_every_kind_of_answer() {
    let client = HandshakeClient::new(&settings());
    let own = SegmentDocument::new("a:1", "tcp");
    let framed = |body: &[u8]| [&(body.len() as u64).to_le_bytes()[..], body].concat();
    for answer in [
        framed(b"\x01nonsense"),
        framed(b"\x01{\"name\":7}"),
        framed(b"\x02{}"),
        framed(b"\x07{}"),
        u64::MAX.to_le_bytes().to_vec(),
        vec![0; 8],
        noise(7, 4096),
    ] {
        let (place, thread) = false_server(answer);
        assert!(client.metadata(&place, &own).is_err());
        thread.join().unwrap();
    }
}

#[test]
fn a_client_does_not_wait_for_an_answer_for_ever() {
    let client = HandshakeClient::new(&DiscoverySettings::default());
    for answer in [Vec::new(), vec![9], 9u64.to_le_bytes().to_vec()] {
        let (place, thread) = false_server(answer);
        let error = client.probe(&place).unwrap_err();
        assert!(matches!(error, HandshakeError::Deadline { .. }), "{error}");
        thread.join().unwrap();
    }
}
