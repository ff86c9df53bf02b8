//! Several etcd endpoints: dead ones, silent ones, and a cluster that loses a member.

use crate::engine::{Engine, directory};
use crate::server::{Process, Server, etcd_is_healthy, etcd_member, free_port};
use crate::wait::until;
use std::net::TcpListener;
use tempfile::TempDir;

#[test]
fn dead_and_silent_endpoints_are_passed_over() {
    let server = Server::etcd();
    let live = server.address().replace("etcd://", "");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap();
    let address = format!("etcd://127.0.0.1:{},{silent},{live}", free_port());
    let engine = Engine::start(&address, "a:1").unwrap();
    assert_eq!(*directory(&live).segment("a:1").unwrap(), engine.document);
}

#[test]
fn entries_outlive_the_loss_of_any_one_member() {
    let ports = [(); 3].map(|()| (free_port(), free_port()));
    let names = ["one", "two", "three"];
    let cluster = names
        .iter()
        .zip(ports)
        .map(|(name, (_, peer))| format!("{name}=http://127.0.0.1:{peer}"))
        .collect::<Vec<_>>()
        .join(",");
    let folders = [(); 3].map(|()| TempDir::new().unwrap());
    let mut members: Vec<Process> = (0..3)
        .map(|index| {
            let (port, peer) = ports[index];
            etcd_member(names[index], port, peer, &cluster, folders[index].path())
        })
        .collect();
    until("the cluster is whole", || ports.iter().all(|(port, _)| etcd_is_healthy(*port)));
    let list = ports.map(|(port, _)| format!("127.0.0.1:{port}")).join(",");
    let address = format!("etcd://{list}");
    let mut engine = Engine::start(&address, "a:1").unwrap();

    // The first endpoint is the one in use.
    members.remove(0).kill();
    engine.document.tcp_data_port = 5;
    until("the change went through", || engine.directory.publish(&engine.document).is_ok());
    let other = directory(&address);
    assert_eq!(other.segment("a:1").unwrap().tcp_data_port, 5);
}
