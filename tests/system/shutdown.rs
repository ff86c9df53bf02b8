//! Ends that were asked for: exit code 0, ports free again.
//! Invariant: SIGTERM and SIGINT mean the same.

use nix::sys::signal::Signal;
use perigee_tests::cluster::{METADATA, Master, Node};
use perigee_tests::deadline::wait_until;
use perigee_tests::http;
use perigee_tests::limits::{EXIT_DEADLINE, START_DEADLINE};
use perigee_tests::network::{free_ports, loopback};
use perigee_tests::program::Program;
use perigee_tests::wire::Connection;

#[test]
fn a_master_ends_with_0_even_with_clients_connected() {
    let mut master = Master::start(&[]);
    let _node = Node::start(&master, 16 << 20);
    let _client = Connection::greeted(master.rpc);
    master.program.stop();
}

#[test]
fn an_interrupt_ends_a_master_with_0_too() {
    let mut master = Master::start(&[]);
    master.program.signal(Signal::SIGINT);
    let status = master
        .program
        .wait(EXIT_DEADLINE)
        .expect("it ends within the deadline");
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_stopped_master_can_be_started_on_its_ports_at_once() {
    let mut master = Master::start(&[]);
    let _client = Connection::greeted(master.rpc);
    master.program.stop();
    master.start_again();
    assert!(master.is_serving());
}

#[test]
fn a_node_ends_with_0_while_its_master_is_gone() {
    let mut master = Master::start(&[]);
    let mut node = Node::start(&master, 16 << 20);
    master.program.kill();
    node.program.stop();
}

#[test]
fn a_metadata_service_ends_with_0() {
    let [port] = free_ports();
    let flags = ["--host=127.0.0.1".to_owned(), format!("--port={port}")];
    let mut service = Program::start(METADATA, &flags);
    wait_until("the metadata service answers", START_DEADLINE, || {
        http::request(loopback(port), "GET", "/health").is_ok()
    });
    service.stop();
}
