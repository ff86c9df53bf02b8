//! A master and nodes as real processes.
//! Invariant: `start` returns only when the program serves on all of its ports.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;

use crate::deadline::{comes_true, wait_until};
use crate::http;
use crate::limits::{CLIENT_TTL_SECONDS, MEMBERSHIP_DEADLINE, START_DEADLINE, START_TRIES};
use crate::network::{free_ports, loopback};
use crate::program::{Program, path};

/// Name under which the program is a master.
pub const MASTER: &str = "mooncake_master";
/// Name under which the program is a node.
pub const NODE: &str = "mooncake_client";
/// Name under which the program is a metadata service.
pub const METADATA: &str = "mooncake_http_metadata_server";

/// A running master with embedded metadata service.
#[derive(Debug)]
pub struct Master {
    /// The process.
    pub program: Program,
    /// Where clients and nodes call it.
    pub rpc: SocketAddr,
    /// Its HTTP routes.
    pub http: SocketAddr,
    /// Its metadata service.
    pub metadata: SocketAddr,
    flags: Vec<String>,
}

impl Master {
    /// Starts one that gives up silent clients after [`CLIENT_TTL_SECONDS`].
    #[track_caller]
    pub fn start(extra_flags: &[&str]) -> Self {
        for _ in 1..START_TRIES {
            if let Some(master) = Self::try_start(extra_flags) {
                return master;
            }
        }
        Self::try_start(extra_flags).expect("the master serves within the deadline")
    }

    fn try_start(extra_flags: &[&str]) -> Option<Self> {
        Self::try_launch(extra_flags, |flags| Program::start(MASTER, flags))
    }

    /// Starts one whose output goes to `file`.
    #[track_caller]
    pub fn start_into(file: &std::fs::File) -> Self {
        let launched = Self::try_launch(&[], |flags| {
            let output = file.try_clone().expect("a file descriptor can be copied");
            Program::start_into(MASTER, flags, output)
        });
        launched.expect("the master serves within the deadline")
    }

    /// Starts one that may open so many files.
    #[track_caller]
    pub fn start_with_descriptors(limit: u64) -> Self {
        let launched = Self::try_launch(&[], |flags| {
            let script = format!("ulimit -n {limit} && exec \"$0\" master \"$@\"");
            let mut all = vec!["-c".to_owned(), script, path().display().to_string()];
            all.extend(flags.iter().cloned());
            Program::start_file("/bin/sh", &all)
        });
        launched.expect("the master serves within the deadline")
    }

    /// The sum of a metric over its labels.
    pub fn metric_sum(&self, name: &str) -> f64 {
        let text = http::get(self.http, "/metrics").body;
        let of_name = text.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
        let values = of_name.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        values.sum()
    }

    fn try_launch(extra_flags: &[&str], launch: impl FnOnce(&[String]) -> Program) -> Option<Self> {
        let [rpc, http, metadata] = free_ports().map(loopback);
        let mut flags = master_flags(rpc, http, metadata);
        flags.extend(extra_flags.iter().map(|flag| (*flag).to_owned()));
        let program = launch(&flags);
        let mut master = Self { program, rpc, http, metadata, flags };
        master.becomes_ready().then_some(master)
    }

    fn becomes_ready(&mut self) -> bool {
        let mut ended = false;
        comes_true(START_DEADLINE, || {
            ended = !self.program.is_running();
            ended || (self.is_serving() && http::request(self.metadata, "GET", "/health").is_ok())
        }) && !ended
    }

    /// Whether its HTTP routes answer and say that calls are served.
    pub fn is_serving(&self) -> bool {
        http::request(self.http, "GET", "/health")
            .is_ok_and(|answer| answer.body.contains("\"service_ready\":true"))
    }

    /// Starts it again with the same flags and ports after it has ended, as a supervisor does: the
    /// kernel gives back the sockets of a killed process's rings a moment after the process.
    #[track_caller]
    pub fn start_again(&mut self) {
        let serves = comes_true(START_DEADLINE, || {
            self.program = Program::start(MASTER, &self.flags);
            self.becomes_ready()
        });
        assert!(serves, "the restarted master does not serve; log:\n{}", self.program.log());
    }

    /// `host:port` for clients.
    pub fn address(&self) -> String {
        self.rpc.to_string()
    }

    /// Names of all mounted segments.
    pub fn segment_names(&self) -> Vec<String> {
        let answer = http::request(self.http, "GET", "/get_all_segments");
        let body = answer.map(|answer| answer.body).unwrap_or_default();
        body.lines().filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }

    /// Details of all mounted segments.
    pub fn segments(&self) -> Vec<Value> {
        let body = http::get(self.http, "/get_segments_detail").body;
        let detail: Value = serde_json::from_str(&body).unwrap_or_default();
        detail["segments"].as_array().cloned().unwrap_or_default()
    }

    /// Data port of the first segment.
    pub fn first_data_port(&self) -> SocketAddr {
        let segments = self.segments();
        let endpoint = segments.first().and_then(|segment| segment["te_endpoint"].as_str());
        let address = endpoint.and_then(|endpoint| endpoint.parse().ok());
        address.expect("a mounted segment tells its data port as IP:PORT")
    }

    /// Value of a metric without labels.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let text = http::get(self.http, "/metrics").body;
        let line = text.lines().find(|line| line.split(' ').next() == Some(name))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    /// Waits until this many segments are mounted.
    #[track_caller]
    pub fn wait_for_segments(&self, count: usize) {
        let what = format!("{count} segments are mounted");
        wait_until(&what, MEMBERSHIP_DEADLINE, || self.segment_names().len() == count);
    }
}

fn master_flags(rpc: SocketAddr, http: SocketAddr, metadata: SocketAddr) -> Vec<String> {
    vec![
        format!("--rpc_address={}", rpc.ip()),
        format!("--rpc_port={}", rpc.port()),
        format!("--metrics_host={}", http.ip()),
        format!("--metrics_port={}", http.port()),
        "--enable_http_metadata_server=true".into(),
        format!("--http_metadata_server_host={}", metadata.ip()),
        format!("--http_metadata_server_port={}", metadata.port()),
        format!("--client_ttl={CLIENT_TTL_SECONDS}"),
        "--logtostderr=true".into(),
    ]
}

/// A running node.
#[derive(Debug)]
pub struct Node {
    /// The process.
    pub program: Program,
    /// Name of its segment at the master.
    pub name: String,
}

impl Node {
    /// Starts one that donates `bytes` and waits until its segment is mounted and it is ready.
    #[track_caller]
    pub fn start(master: &Master, bytes: u64) -> Self {
        Self::start_with(master, bytes, &[])
    }

    /// The same with further flags.
    #[track_caller]
    pub fn start_with(master: &Master, bytes: u64, extra_flags: &[&str]) -> Self {
        Self::launch(master, bytes, extra_flags, |flags| Program::start(NODE, flags))
    }

    /// The same, started by `launch` with all flags.
    #[track_caller]
    pub fn launch(
        master: &Master,
        bytes: u64,
        extra_flags: &[&str],
        launch: impl FnOnce(&[String]) -> Program,
    ) -> Self {
        let before = master.segment_names();
        let [port] = free_ports();
        let mut flags = node_flags(master, port, &bytes.to_string());
        flags.extend(extra_flags.iter().map(|flag| (*flag).to_owned()));
        let mut program = launch(&flags);
        let mut name = None;
        let limit = START_DEADLINE + Duration::from_secs(CLIENT_TTL_SECONDS);
        let mounted = comes_true(limit, || {
            name = master.segment_names().into_iter().find(|name| !before.contains(name));
            name.is_some() || !program.is_running()
        });
        // A signal between mounting and readiness ends a node without a goodbye.
        let mounted = mounted && comes_true(limit, || program.log().contains("Ready"));
        assert!(mounted, "the node's segment is not mounted; log:\n{}", program.log());
        let name = name.expect("the node runs until its segment is mounted");
        Self { program, name }
    }
}

/// Flags of a node of a master.
pub fn node_flags(master: &Master, port: u16, segment_size: &str) -> Vec<String> {
    vec![
        "--host=127.0.0.1".into(),
        format!("--port={port}"),
        format!("--global_segment_size={segment_size}"),
        format!("--master_server_address={}", master.address()),
        "--metadata_server=P2PHANDSHAKE".into(),
        "--protocol=tcp".into(),
        "--logtostderr=true".into(),
    ]
}
