//! Ends that were asked for: exit code 0, ports free again.
//! Invariant: SIGTERM and SIGINT mean the same.

use nix::sys::signal::Signal;
use perigee_tests::cluster::{METADATA, Master, NODE, Node, node_flags};
use perigee_tests::deadline::wait_until;
use perigee_tests::http;
use perigee_tests::limits::{EXIT_DEADLINE, START_DEADLINE};
use perigee_tests::network::{free_ports, loopback};
use perigee_tests::program::Program;
use perigee_tests::wire::Connection;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::channel;

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
    let status = master.program.wait(EXIT_DEADLINE).expect("it ends within the deadline");
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_master_ends_without_waiting_for_clients_that_come_again_and_again() {
    let mut master = Master::start(&[]);
    let address = master.rpc;
    let (tell, connected) = channel();
    let client = std::thread::spawn(move || {
        while let Ok(mut stream) = TcpStream::connect(address) {
            tell.send(()).expect("the test listens");
            // Until the master breaks it.
            let _ = stream.read(&mut [0; 1]);
        }
    });
    connected.recv().expect("the client connects");
    master.program.stop();
    client.join().expect("the client ends");
    let log = master.program.log();
    assert!(!log.contains("did not stop in time"), "{log}");
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
fn a_node_stopped_between_mount_and_readiness_takes_its_segment_along() {
    // The time to live is a day, so only a goodbye can take the segment out.
    let master = Master::start(&["--client_ttl=86400"]);
    let metadata = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let [port] = free_ports();
    let mut flags = node_flags(&master, port, "16777216");
    let address = metadata.local_addr().expect("it listens");
    flags.push(format!("--metadata_server=http://{address}/metadata"));
    let mut node = Program::start(NODE, &flags);
    // The node publishes itself after its segment was mounted; the answer is held back.
    let mut publishing = accept_request(&metadata);
    master.wait_for_segments(1);
    node.signal(Signal::SIGTERM);
    wait_until("the node has heard the signal", START_DEADLINE, || {
        node.log().contains("Stopping before the node was ready")
    });
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    publishing.write_all(answer.as_bytes()).expect("the node waits for the answer");
    drop((publishing, metadata));
    let status = node.wait(EXIT_DEADLINE).expect("the node ends");
    assert_eq!(status.code(), Some(0), "{}", node.log());
    assert_eq!(master.segment_names(), [""; 0], "{}", node.log());
}

/// The first connection that asks something, with its request begun; the others only check for a
/// listener.
fn accept_request(listener: &TcpListener) -> std::net::TcpStream {
    loop {
        let (mut stream, _) = listener.accept().expect("a connection comes");
        let mut first = [0; 1];
        if stream.read(&mut first).is_ok_and(|count| count > 0) {
            return stream;
        }
    }
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
