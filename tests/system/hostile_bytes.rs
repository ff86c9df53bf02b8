//! Bytes that no client of ours would send, on every port that speaks frames.
//! Invariant: the program goes on serving others and its memory does not follow the peer's words.

use std::net::SocketAddr;

use perigee_schemas::frame::{FrameHeader, HEADER_BYTES, MessageKind};
use perigee_schemas::limits::{FRAME_BODY_BYTES_MAX, PROTOCOL_MAX};
use perigee_schemas::session::{Hello, Role};
use perigee_schemas::{Identity, Status};
use perigee_tests::cluster::{Master, Node};
use perigee_tests::limits::HOSTILE_GROWTH_BYTES_MAX;
use perigee_tests::noise::Noise;
use perigee_tests::program::Program;
use perigee_tests::wire::{Connection, Heard, exist_body};

/// Kinds a peer may send after its greeting, and some it must not.
const KINDS: [MessageKind; 30] = [
    MessageKind::Hello,
    MessageKind::Welcome,
    MessageKind::Failure,
    MessageKind::Exist,
    MessageKind::GetReplicas,
    MessageKind::PutStart,
    MessageKind::PutEnd,
    MessageKind::PutRevoke,
    MessageKind::Remove,
    MessageKind::RemoveByRegex,
    MessageKind::RemoveAll,
    MessageKind::ListByRegex,
    MessageKind::ReplicaClear,
    MessageKind::Mount,
    MessageKind::Unmount,
    MessageKind::Ping,
    MessageKind::Leave,
    MessageKind::QuerySegments,
    MessageKind::FetchMoves,
    MessageKind::EndMoves,
    MessageKind::CreateTask,
    MessageKind::QueryTask,
    MessageKind::QueryAddresses,
    MessageKind::FetchDemotions,
    MessageKind::EndDemotions,
    MessageKind::FetchTombstones,
    MessageKind::ConfirmTombstones,
    MessageKind::AnnounceCopies,
    MessageKind::Recycled,
    MessageKind::Reply,
];
const ROUNDS: u64 = 60;
const SEGMENT_BYTES: u64 = 64 << 20;

/// Runs `attack` on the RPC port of a master and on the data port of a node, and checks after
/// each that the program still greets others and has not grown.
fn on_every_frame_port(attack: impl Fn(SocketAddr)) {
    let mut master = Master::start(&[]);
    let mut node = Node::start(&master, SEGMENT_BYTES);
    let data_port = master.first_data_port();
    let rpc = master.rpc;
    for (name, port, program) in
        [("master", rpc, &mut master.program), ("node", data_port, &mut node.program)]
    {
        let before = resident_bytes(program);
        attack(port);
        assert!(program.is_running(), "the {name} has ended");
        Connection::greeted(port);
        let growth = resident_bytes(program).saturating_sub(before);
        // The node's segment is filled in the background and does not count.
        let allowed = HOSTILE_GROWTH_BYTES_MAX + if name == "node" { SEGMENT_BYTES } else { 0 };
        assert!(growth <= allowed, "the {name} has grown by {growth} bytes");
        let log = program.log();
        assert!(!log.contains("panicked"), "the {name} has panicked:\n{log}");
    }
}

fn resident_bytes(program: &Program) -> u64 {
    program.status_bytes("VmRSS")
}

#[test]
fn random_bytes_end_only_the_connection_they_came_on() {
    on_every_frame_port(|port| {
        for seed in 0..ROUNDS {
            let mut noise = Noise::new(seed);
            let count = 1 + noise.below(4096);
            let mut connection = Connection::open(port).unwrap();
            connection.send(&noise.bytes(count));
            connection.finish_sending();
            assert!(connection.is_ended_by_peer(1), "seed {seed}");
        }
    });
}

#[test]
fn an_oversized_length_is_refused_before_anything_is_allocated() {
    on_every_frame_port(|port| {
        for bytes in [FRAME_BODY_BYTES_MAX as u32 + 1, u32::MAX / 2, u32::MAX] {
            for greeted in [false, true] {
                let mut connection = if greeted {
                    Connection::greeted(port)
                } else {
                    Connection::open(port).unwrap()
                };
                let kind = if greeted { MessageKind::Exist } else { MessageKind::Hello };
                let mut header = FrameHeader::encode(kind, 1, &[]);
                header[8..12].copy_from_slice(&bytes.to_le_bytes());
                connection.send(&header);
                assert!(connection.is_ended_by_peer(1), "{bytes} bytes, greeted: {greeted}");
            }
        }
    });
}

#[test]
fn frames_with_one_wrong_field_end_the_connection() {
    on_every_frame_port(|port| {
        for at in [0, 1, 2, 4, 12, HEADER_BYTES] {
            let mut frame = Hello::new(Role::Client, Identity(1)).encode();
            frame[at] ^= 0x55;
            let mut connection = Connection::open(port).unwrap();
            connection.send(&frame);
            assert!(connection.is_ended_by_peer(1), "byte {at}");
        }
    });
}

#[test]
fn a_first_frame_that_is_no_greeting_is_refused() {
    on_every_frame_port(|port| {
        let mut connection = Connection::open(port).unwrap();
        connection.send_frame(MessageKind::Exist, 1, &exist_body(&["key"]));
        assert!(connection.is_ended_by_peer(1));
    });
}

#[test]
fn a_peer_of_another_protocol_version_learns_which_side_to_upgrade() {
    on_every_frame_port(|port| {
        let mut connection = Connection::open(port).unwrap();
        let hello = Hello {
            protocol_min: PROTOCOL_MAX + 1,
            protocol_max: PROTOCOL_MAX + 3,
            ..Hello::new(Role::Client, Identity(1))
        };
        let welcome = connection.greet(&hello).expect("a refusal is an answer");
        assert_ne!(welcome.status, Status::Ok, "{welcome:?}");
        assert!(welcome.message.contains("upgrade"), "{welcome:?}");
        assert!(connection.is_ended_by_peer(0));
    });
}

#[test]
fn random_bodies_of_every_kind_are_answered_or_end_the_connection() {
    on_every_frame_port(|port| {
        for (number, kind) in KINDS.into_iter().enumerate() {
            for seed in 0..ROUNDS / 6 {
                let mut noise = Noise::new(seed * 100 + number as u64);
                let count = noise.below(512);
                let body = noise.bytes(count);
                let mut connection = Connection::greeted(port);
                connection.send_frame(kind, seed, &body);
                connection.finish_sending();
                let heard = connection.hear();
                let expected = matches!(
                    heard,
                    Heard::Closed
                        | Heard::Frame { kind: MessageKind::Reply | MessageKind::Failure, .. }
                );
                assert!(expected, "{kind:?}, seed {seed}: {heard:?}");
            }
        }
    });
}

#[test]
fn real_requests_with_flipped_bytes_are_answered_or_end_the_connection() {
    on_every_frame_port(|port| {
        let body = exist_body(&["one", "two", "three"]);
        for at in 0..body.len() {
            let mut changed = body.clone();
            changed[at] ^= 0xff;
            let mut connection = Connection::greeted(port);
            // The frame's checksum is right: only the message inside is not.
            connection.send_frame(MessageKind::Exist, 7, &changed);
            connection.finish_sending();
            let heard = connection.hear();
            assert!(!matches!(heard, Heard::Silence | Heard::Garbage(_)), "byte {at}: {heard:?}");
        }
    });
}

#[test]
fn half_open_connections_do_not_keep_others_waiting() {
    on_every_frame_port(|port| {
        let greeting = Hello::new(Role::Client, Identity(1)).encode();
        let half_open: Vec<Connection> = (0..300)
            .map(|index| {
                let mut connection = Connection::open(port).unwrap();
                connection.send(&greeting[..index % greeting.len()]);
                connection
            })
            .collect();
        Connection::greeted(port);
        drop(half_open);
        Connection::greeted(port);
    });
}

#[test]
fn a_peer_that_sends_and_never_reads_does_not_keep_others_waiting() {
    on_every_frame_port(|port| {
        let mut deaf = Connection::greeted(port);
        let keys = ["k"; 1000];
        let body = exist_body(&keys);
        for request in 0..2000 {
            // Sending fails once the peer's patience or buffers have ended, which is fine.
            if !deaf.send_frame(MessageKind::Exist, request, &body) {
                break;
            }
        }
        Connection::greeted(port);
    });
}
