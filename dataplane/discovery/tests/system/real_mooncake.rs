//! The real Mooncake as the other side. These tests need its wheel: `PERIGEE_MOONCAKE_PYTHON` is a
//! Python that has it, and `cargo test -- --ignored real_mooncake` runs them.

use crate::crash;
use crate::engine::{Engine, directory, settings};
use crate::server::{Process, free_port};
use crate::wait::until;
use perigee_discovery::{HandshakeClient, NotifyMessage, RpcMeta};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

fn python() -> String {
    std::env::var("PERIGEE_MOONCAKE_PYTHON").expect("PERIGEE_MOONCAKE_PYTHON names a Python")
}

/// A process that runs Python with Mooncake's module, on loopback.
fn run(code: &str) -> Process {
    Process::start(
        Command::new(python())
            .args(["-c", code])
            .env("MC_TCP_BIND_ADDRESS", "127.0.0.1")
            .stdout(Stdio::null()),
    )
}

/// Mooncake's Python metadata server.
fn metadata_server() -> (Process, String) {
    let port = free_port();
    let process = Process::start(
        Command::new(python())
            .args(["-m", "mooncake.http_metadata_server", "--host", "127.0.0.1"])
            .args(["--port", &port.to_string()])
            .stdout(Stdio::null()),
    );
    until("it listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    (process, format!("http://127.0.0.1:{port}/metadata"))
}

/// The metadata server inside Mooncake's master.
fn embedded_metadata_server() -> (Process, String) {
    let master = Path::new(&python()).with_file_name("mooncake_master");
    let [rpc, metrics, http] = [(); 3].map(|()| free_port());
    let process = Process::start(
        Command::new(master)
            .arg("--enable_http_metadata_server=true")
            .args(["--rpc_address=127.0.0.1", "--metrics_host=127.0.0.1"])
            .arg(format!("--rpc_port={rpc}"))
            .arg(format!("--metrics_port={metrics}"))
            .arg(format!("--http_metadata_server_port={http}"))
            .stdout(Stdio::null()),
    );
    until("it listens", || TcpStream::connect(("127.0.0.1", http)).is_ok());
    (process, format!("http://127.0.0.1:{http}/metadata"))
}

#[test]
#[ignore = "needs Mooncake's servers; make test-mooncake runs it"]
fn its_metadata_servers_take_our_entries_and_a_restart() {
    for (server, address) in [metadata_server(), embedded_metadata_server()] {
        entries_and_a_restart(&address);
        drop(server);
    }
}

fn entries_and_a_restart(address: &str) {
    crash::engine_process(address, "same:1").kill();
    let engine = Engine::start(address, "same:1").unwrap();
    let other = directory(address);
    assert_eq!(*other.segment("same:1").unwrap(), engine.document);
    assert_eq!(other.rpc_meta("same:1").unwrap(), engine.place());
    engine.directory.close();
    assert!(other.reload("same:1").is_err());
}

#[test]
#[ignore = "needs Mooncake's servers; make test-mooncake runs it"]
fn its_engine_is_found_at_its_metadata_server() {
    let (_server, address) = metadata_server();
    let port = free_port();
    let _engine = run(&format!(
        "import time; from mooncake.engine import TransferEngine as T; e = T(); \
         e.initialize('127.0.0.1:{port}', '{address}', 'tcp', ''); time.sleep(600)"
    ));
    let name = format!("127.0.0.1:{port}");
    let other = directory(&address);
    until("it is registered", || other.reload(&name).is_ok_and(|found| found.tcp_data_port > 0));
    assert!(other.segment(&name).unwrap().is_upstream());
    let place = other.rpc_meta(&name).unwrap();
    HandshakeClient::new(&settings()).probe(&place).unwrap();
    let refused = Engine::start(&address, &name).unwrap_err();
    assert!(refused.to_string().contains("taken by a running engine"), "{refused}");
}

#[test]
#[ignore = "needs Mooncake's servers; make test-mooncake runs it"]
fn its_peers_and_ours_understand_each_other() {
    let engine = Engine::start("P2PHANDSHAKE", "").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("port");
    let _peer = run(&format!(
        "import os, time; from mooncake.engine import *; e = TransferEngine(); \
         e.initialize('127.0.0.1', 'P2PHANDSHAKE', 'tcp', ''); \
         b = e.allocate_managed_buffer(8192); \
         p = e.send_probe('{0}'); \
         n = TransferNotify('nm', 'ms'); \
         e.transfer_sync('{0}', b, b, 8, TransferOpcode.Write, n); \
         open('{1}.part', 'w').write(f'{{e.get_rpc_port()}} {{p}}'); \
         os.rename('{1}.part', '{1}'); time.sleep(600)",
        engine.document.name,
        note.display()
    ));
    until("it has asked", || note.exists());
    let text = std::fs::read_to_string(&note).unwrap();
    let (port, probed) = text.split_once(' ').unwrap();
    assert_eq!(probed, "0");
    let name = format!("127.0.0.1:{port}");
    assert_eq!(engine.answers.peers.lock().unwrap()[0].name, name);

    let place = RpcMeta::new("127.0.0.1", port.parse().unwrap());
    let client = HandshakeClient::new(&settings());
    client.probe(&place).unwrap();
    let found = engine.directory.segment(&name).unwrap();
    assert!(found.is_upstream() && found.tcp_proto_version == 2 && !found.buffers.is_empty());
    let message = NotifyMessage { name: "a".to_owned(), message: "b".to_owned() };
    client.notify(&place, &message).unwrap();
}
