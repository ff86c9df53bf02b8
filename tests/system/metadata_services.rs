//! Nodes that register with the metadata services that engines use: etcd and Redis from their
//! packages.
//! Invariant: what a node has recorded goes when the node is stopped.

use perigee_discovery::{Directory, DiscoveryError, DiscoverySettings};
use perigee_tests::cluster::{Master, NODE, node_flags};
use perigee_tests::deadline::wait_until;
use perigee_tests::limits::START_DEADLINE;
use perigee_tests::network::{free_ports, loopback};
use perigee_tests::program::Program;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// A service that dies with its value.
struct Service {
    child: Child,
    address: String,
    _folder: tempfile::TempDir,
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(program: &str, scheme: &str, flags: impl Fn(u16, u16, &str) -> Vec<String>) -> Service {
    let [port, peer] = free_ports();
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().to_str().expect("a plain path");
    let child = Command::new(program)
        .args(flags(port, peer, place))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("tools/setup.sh installs it");
    wait_until("the service listens", START_DEADLINE, || {
        TcpStream::connect(loopback(port)).is_ok()
    });
    Service { child, address: format!("{scheme}://127.0.0.1:{port}"), _folder: folder }
}

fn etcd() -> Service {
    serve("etcd", "etcd", |port, peer, place| {
        let url = |port| format!("http://127.0.0.1:{port}");
        vec![
            format!("--data-dir={place}"),
            format!("--listen-client-urls={}", url(port)),
            format!("--advertise-client-urls={}", url(port)),
            format!("--listen-peer-urls={}", url(peer)),
            format!("--initial-advertise-peer-urls={}", url(peer)),
            format!("--initial-cluster=default={}", url(peer)),
        ]
    })
}

fn redis() -> Service {
    serve("redis-server", "redis", |port, _, place| {
        let words = format!("--port {port} --dir {place} --save");
        let words = words.split(' ').map(str::to_owned);
        words.chain([String::new()]).collect()
    })
}

#[test]
fn a_node_is_found_in_etcd_and_redis_as_long_as_it_runs() {
    for service in [etcd(), redis()] {
        let address = &service.address;
        let master = Master::start(&[]);
        let [port] = free_ports();
        let mut flags = node_flags(&master, port, "16777216");
        flags.push(format!("--metadata_server={address}"));
        let mut node = Program::start(NODE, &flags);
        master.wait_for_segments(1);
        let name = master.segment_names().remove(0);
        let directory = Directory::open(address, DiscoverySettings::default()).expect("an address");
        wait_until("the node is recorded", START_DEADLINE, || directory.reload(&name).is_ok());
        let document = directory.reload(&name).expect("it was there");
        assert_eq!(document.buffers[0].length, 16 << 20, "{address}");
        assert!(directory.rpc_meta(&name).is_ok(), "{address}");
        node.stop();
        let gone = directory.reload(&name);
        assert!(matches!(gone, Err(DiscoveryError::NotFound { .. })), "{address}: {gone:?}");
    }
}
