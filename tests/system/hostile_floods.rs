//! Peers that send, ask for or hold as much as they can.
//! Invariant: others are served all the while, and what it cost the master in memory goes back to
//! the kernel.

use perigee_rpc::{MasterClient, WirePlacement, WriteForm};
use perigee_schemas::frame::{FrameHeader, MessageKind};
use perigee_schemas::limits::{FRAME_BODY_BYTES_MAX, KEY_BYTES_MAX, LISTING_PAGE_BYTES};
use perigee_schemas::{Identity, Status};
use perigee_tests::cluster::{Master, Node};
use perigee_tests::deadline::wait_until;
use perigee_tests::http;
use perigee_tests::limits::{FRAME_BUDGET_BYTES, HOSTILE_GROWTH_BYTES_MAX, MEMBERSHIP_DEADLINE};
use perigee_tests::stranger::{announce, forged, stranger};
use perigee_tests::wire::{Connection, Heard, list_body, repeated_key_body};

const STRANGER: Identity = Identity(0x0bad_0000_0000_0000_0000_0bad);
/// What may stay of a flood.
const LEFT_BYTES_MAX: u64 = 32 << 20;

fn resident_bytes(master: &Master) -> u64 {
    master.program.status_bytes("VmRSS")
}

#[track_caller]
fn serves_others(master: &Master) {
    let answer = Connection::greeted(master.rpc).exist(1, &["nothing"]);
    assert_eq!(answer, Ok(vec![0]));
}

#[track_caller]
fn wait_for_memory(master: &Master, before: u64) {
    let mut left = 0;
    let is_back = || {
        left = resident_bytes(master).saturating_sub(before);
        left <= LEFT_BYTES_MAX
    };
    let gone = perigee_tests::deadline::comes_true(MEMBERSHIP_DEADLINE, is_back);
    assert!(gone, "{left} bytes are left of the flood");
}

#[test]
fn unfinished_frames_hold_bounded_memory_that_goes_back_to_the_kernel() {
    const CONNECTIONS: usize = 64;
    let master = Master::start(&[]);
    serves_others(&master);
    let before = resident_bytes(&master);
    let whole = vec![0x5a; FRAME_BODY_BYTES_MAX];
    let unfinished = &whole[..FRAME_BODY_BYTES_MAX - (1 << 20)];
    let rpc = master.rpc;
    std::thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                let mut connection = Connection::greeted(rpc);
                // Those without room for their frame are not read, and all are cut off.
                connection.send(&FrameHeader::encode(MessageKind::Exist, 1, &whole));
                connection.send(unfinished);
                connection.is_ended_by_peer(1)
            });
        }
        wait_until("frames have begun", MEMBERSHIP_DEADLINE, || {
            resident_bytes(&master) > before + FRAME_BUDGET_BYTES / 4
        });
        serves_others(&master);
        let growth = resident_bytes(&master).saturating_sub(before);
        assert!(growth <= FRAME_BUDGET_BYTES + HOSTILE_GROWTH_BYTES_MAX);
    });
    wait_for_memory(&master, before);
}

/// Stores keys of the greatest length, whose bytes are never written.
fn fill_with_long_keys(client: &MasterClient, count: usize) {
    const BATCH: usize = 500;
    let wanted = WirePlacement { replica_num: 1, ..WirePlacement::default() };
    for first in (0..count).step_by(BATCH) {
        let name = |number| format!("{number:0width$}", width = KEY_BYTES_MAX);
        let keys: Vec<String> = (first..first + BATCH).map(name).collect();
        let form = WriteForm::default();
        let started = client.put_start(&keys, &[1; BATCH], &[], &wanted, form);
        let started = started.expect("the master answers");
        assert!(started.status.iter().all(|status| *status == Status::Ok));
        let first_generation = |at| started.locations_of(at)[0].generation;
        let generations: Vec<u64> = (0..BATCH).map(first_generation).collect();
        let ended = client.put_end(&keys, &generations, &[0; BATCH], &[], form);
        let ended = ended.expect("the master answers");
        assert!(ended.iter().all(|status| *status == Status::Ok));
    }
}

#[test]
fn unread_listings_cost_bounded_memory_and_removed_keys_give_theirs_back() {
    const KEYS: usize = 20_000;
    let master = Master::start(&[]);
    let _node = Node::start(&master, 64 << 20);
    serves_others(&master);
    let before = resident_bytes(&master);
    fill_with_long_keys(&stranger(&master, STRANGER), KEYS);
    let filled = resident_bytes(&master);
    let mut asking = Connection::greeted(master.rpc);
    asking.send_frame(MessageKind::ListByRegex, 1, &list_body());
    let heard = asking.hear();
    let Heard::Frame { body, .. } = heard else {
        panic!("{heard:?}");
    };
    let page = LISTING_PAGE_BYTES + 2 * KEY_BYTES_MAX;
    assert!(body.len() <= page, "a page of {} bytes", body.len());
    let mut unread: Vec<Connection> = Vec::new();
    for path in ["/get_all_keys", "/get_segments_detail"].repeat(12) {
        let mut connection = Connection::open(master.http).expect("the port accepts connections");
        connection.send(format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").as_bytes());
        unread.push(connection);
    }
    serves_others(&master);
    assert_eq!(http::get(master.http, "/health").status, 200);
    let growth = resident_bytes(&master).saturating_sub(filled);
    assert!(growth <= HOSTILE_GROWTH_BYTES_MAX, "{growth}");
    drop(unread);
    let removed = http::request(master.http, "POST", "/api/v1/remove_all?force=true");
    let removed = removed.expect("the route answers");
    assert!(removed.body.contains(&KEYS.to_string()), "{removed:?}");
    wait_for_memory(&master, before);
}

#[test]
fn names_that_are_too_long_are_refused_and_listings_stay_short() {
    const SEGMENTS: u128 = 73;
    let master = Master::start(&[]);
    let before = resident_bytes(&master);
    let client = stranger(&master, STRANGER);
    for id in 0..SEGMENTS {
        let mut segment = forged(id, "127.0.0.1:1", 4096);
        segment.name = "n".repeat(1 << 20);
        assert_eq!(announce(&client, &[segment]), [Status::InvalidParams]);
    }
    let listed = client.segments(&[]).expect("the master answers");
    assert!(listed.is_empty(), "{listed:?}");
    wait_for_memory(&master, before);
}

#[test]
fn one_long_key_that_is_named_thirty_thousand_times_is_refused() {
    let master = Master::start(&[]);
    let body = repeated_key_body(&"k".repeat(KEY_BYTES_MAX), 32_000);
    assert!(body.len() < 140 << 10, "what it costs its sender");
    let mut connection = Connection::greeted(master.rpc);
    connection.send_frame(MessageKind::Exist, 1, &body);
    let heard = connection.hear();
    assert!(matches!(heard, Heard::Frame { kind: MessageKind::Failure, .. }), "{heard:?}");
    serves_others(&master);
}

#[test]
fn segments_that_come_and_go_in_a_loop_do_not_flood_the_log() {
    const ROUNDS: usize = 6;
    const SEGMENTS: u128 = 500;
    let master = Master::start(&[]);
    let client = stranger(&master, STRANGER);
    let all: Vec<_> = (0..SEGMENTS).map(|id| forged(id, "127.0.0.1:1", 4096)).collect();
    let ids: Vec<Identity> = all.iter().map(|segment| segment.id).collect();
    for _ in 0..ROUNDS {
        announce(&client, &all);
        client.unmount(&ids, 0).expect("the master answers");
    }
    let log = master.program.log();
    let lines = log.lines().filter(|line| line.contains("ounting a segment"));
    let (lines, caused) = (lines.count(), 2 * ROUNDS * all.len());
    assert!(lines < caused / 2, "{lines} of {caused} lines were written");
    let left_out = master.metric_sum("perigee_log_lines_left_out_total") as usize;
    assert!(lines + left_out >= caused, "{lines} and {left_out} of {caused}");
}

#[test]
fn silent_connections_lock_no_client_out() {
    const DESCRIPTORS: u64 = 1024;
    let master = Master::start_with_descriptors(DESCRIPTORS);
    let silent: Vec<Connection> = (0..DESCRIPTORS)
        .filter_map(|_| {
            let mut connection = Connection::open(master.rpc).ok()?;
            connection.greet(&perigee_tests::wire::hello()).ok()?;
            Some(connection)
        })
        .collect();
    for _ in 0..16 {
        serves_others(&master);
    }
    drop(silent);
}

#[test]
fn silent_connections_to_http_ports_lock_no_client_out() {
    const DESCRIPTORS: u64 = 1024;
    let master = Master::start_with_descriptors(DESCRIPTORS);
    let connect = |_| Connection::open(master.http).ok();
    let silent: Vec<Connection> = (0..DESCRIPTORS).filter_map(connect).collect();
    for _ in 0..16 {
        serves_others(&master);
    }
    assert_eq!(http::get(master.http, "/health").status, 200);
    drop(silent);
}
