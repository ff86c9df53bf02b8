//! Thousands of connections that greet and then say nothing.
//! Invariant: a newcomer is served as if they were not there, and their descriptors come back.

use std::net::SocketAddr;

use perigee_tests::cluster::{Master, Node};
use perigee_tests::deadline::wait_until;
use perigee_tests::http;
use perigee_tests::limits::MEMBERSHIP_DEADLINE;
use perigee_tests::network::raise_descriptor_limit;
use perigee_tests::program::Program;
use perigee_tests::wire::Connection;

const CONNECTIONS: u64 = 10_000;
/// Descriptors of either side beside the connections.
const SPARE_DESCRIPTORS: u64 = 500;

/// As many idle connections as the descriptor limit allows; prints why when that is fewer.
fn affordable_connections() -> usize {
    let limit = raise_descriptor_limit(CONNECTIONS + SPARE_DESCRIPTORS);
    let count = CONNECTIONS.min(limit.saturating_sub(SPARE_DESCRIPTORS));
    if count < CONNECTIONS {
        eprintln!("{count} connections instead of {CONNECTIONS}: the descriptor limit is {limit}");
    }
    usize::try_from(count).unwrap()
}

fn hold_idle_connections(port: SocketAddr, program: &mut Program, count: usize) {
    let before = program.descriptors();
    let idle: Vec<Connection> = (0..count).map(|_| Connection::greeted(port)).collect();
    Connection::greeted(port);
    assert!(program.is_running());
    drop(idle);
    wait_until("the descriptors of closed connections are free", MEMBERSHIP_DEADLINE, || {
        program.descriptors() <= before + 16
    });
}

#[test]
fn ten_thousand_idle_clients_do_not_disturb_the_master() {
    let count = affordable_connections();
    let mut master = Master::start(&[]);
    let rpc = master.rpc;
    hold_idle_connections(rpc, &mut master.program, count);
    let answer = Connection::greeted(rpc).exist(1, &["nothing"]);
    assert_eq!(answer, Ok(vec![0]));
}

#[test]
fn ten_thousand_idle_clients_do_not_disturb_a_node() {
    let count = affordable_connections();
    let master = Master::start(&[]);
    let mut node = Node::start(&master, 16 << 20);
    hold_idle_connections(master.first_data_port(), &mut node.program, count);
    master.wait_for_segments(1);
}

#[test]
fn idle_http_connections_do_not_disturb_the_routes() {
    affordable_connections();
    let master = Master::start(&[]);
    let idle: Vec<Connection> = (0..1000).map(|_| Connection::open(master.http).unwrap()).collect();
    assert_eq!(http::get(master.http, "/health").status, 200);
    drop(idle);
}
