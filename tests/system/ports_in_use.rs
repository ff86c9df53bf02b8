//! A port that is taken: the program ends and names it. Invariant: it never serves half of its
//! ports.

use std::net::TcpListener;

use perigee_tests::cluster::{MASTER, METADATA};
use perigee_tests::network::free_ports;
use perigee_tests::program::Program;

fn master_with_taken(index: usize) {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut ports: [u16; 3] = free_ports();
    ports[index] = taken.local_addr().unwrap().port();
    let ended = Program::run(
        MASTER,
        &[
            "--rpc_address=127.0.0.1".to_owned(),
            format!("--rpc_port={}", ports[0]),
            "--metrics_host=127.0.0.1".to_owned(),
            format!("--metrics_port={}", ports[1]),
            "--enable_http_metadata_server=true".to_owned(),
            "--http_metadata_server_host=127.0.0.1".to_owned(),
            format!("--http_metadata_server_port={}", ports[2]),
            "--logtostderr=true".to_owned(),
        ],
    );
    assert!(ended.code.is_some_and(|code| code != 0), "{ended:?}");
    assert!(ended.output.contains(&ports[index].to_string()), "{}", ended.output);
    assert!(!ended.output.contains("panicked"), "{}", ended.output);
}

#[test]
fn a_master_whose_rpc_port_is_taken_ends_and_names_it() {
    master_with_taken(0);
}

#[test]
fn a_master_whose_http_port_is_taken_ends_and_names_it() {
    master_with_taken(1);
}

#[test]
fn a_master_whose_metadata_port_is_taken_ends_and_names_it() {
    master_with_taken(2);
}

#[test]
fn a_metadata_service_whose_port_is_taken_ends_and_names_it() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let ended = Program::run(METADATA, &["--host=127.0.0.1".to_owned(), format!("--port={port}")]);
    assert!(ended.code.is_some_and(|code| code != 0), "{ended:?}");
    assert!(ended.output.contains(&port.to_string()), "{}", ended.output);
}
