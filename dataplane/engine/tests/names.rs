//! Engines under names that no resolver knows find each other through a metadata server, on one
//! host and between two.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an engine in a process of its own says what it did"
)]

use perigee_engine::{Direction, EngineOptions, SubmitOptions, TransferEngine, TransferRequest};
use perigee_metadata::MetadataServer;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const BYTES: usize = 1 << 20;
const NAME_VARIABLE: &str = "PERIGEE_TEST_ENGINE_NAME";
const SERVER_VARIABLE: &str = "PERIGEE_TEST_METADATA_AT";
/// The two hosts of the test with namespaces.
const HOSTS: [&str; 2] = ["10.203.77.1", "10.203.77.2"];
const METADATA_PORT: u16 = 8080;

/// An engine with a buffer of its own.
struct Side {
    engine: TransferEngine,
    memory: Box<[u8]>,
}

impl Side {
    fn start(name: &str, metadata: &str) -> Self {
        let options = EngineOptions::from_variables(name, metadata, "tcp", "", |_| None);
        let engine = TransferEngine::start(options.unwrap()).unwrap();
        let memory: Box<[u8]> = (0..BYTES).map(|index| index as u8).collect();
        let address = memory.as_ptr() as u64;
        // SAFETY: the memory lives as long as the engine.
        unsafe { engine.register(address, BYTES as u64, "*") }.unwrap();
        Self { engine, memory }
    }

    fn address(&self) -> u64 {
        self.memory.as_ptr() as u64
    }

    /// Probes a peer, and writes to its memory.
    fn reach(&self, peer: &str, remote: u64) {
        self.engine.probe(peer).unwrap();
        let request = TransferRequest {
            direction: Direction::Write,
            local: self.address(),
            remote,
            bytes: 4096,
        };
        // SAFETY: the memory outlives the call.
        unsafe { self.engine.transfer(peer, &[request], &SubmitOptions::default()) }.unwrap();
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        self.engine.close();
    }
}

fn http(host: &str, port: u16) -> String {
    format!("http://{host}:{port}/metadata")
}

#[test]
fn engines_of_names_that_no_resolver_knows_reach_each_other() {
    let server = MetadataServer::start(([127, 0, 0, 1], 0).into()).unwrap();
    let metadata = http("127.0.0.1", server.local_addr().port());
    let sides = ["node-q1", "node-q2"].map(|name| Side::start(name, &metadata));
    sides[0].reach("node-q2", sides[1].address());
    sides[1].reach("node-q1", sides[0].address());
}

#[test]
fn the_name_of_a_running_engine_is_refused_to_another() {
    let server = MetadataServer::start(([127, 0, 0, 1], 0).into()).unwrap();
    let metadata = http("127.0.0.1", server.local_addr().port());
    let first = Side::start("eng-b", &metadata);
    let options = EngineOptions::from_variables("eng-b", &metadata, "tcp", "", |_| None);
    let refused = TransferEngine::start(options.unwrap()).unwrap_err();
    assert!(refused.to_string().contains("eng-b is taken"), "{refused}");
    let other = Side::start("eng-c", &metadata);
    other.reach("eng-b", first.address());
}

/// What the other processes do: an engine that executes commands line by line.
#[test]
#[ignore = "runs in processes of its own, started by the other tests"]
fn engine_process() {
    let Ok(name) = std::env::var(NAME_VARIABLE) else {
        return;
    };
    let serves = std::env::var(SERVER_VARIABLE).ok();
    let server = serves.map(|at| MetadataServer::start(at.parse().unwrap()).unwrap());
    let side = Side::start(&name, &http(HOSTS[0], METADATA_PORT));
    println!("\nSAID {}", side.address());
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let (peer, remote) = line.split_once(' ').unwrap();
        side.reach(peer, remote.parse().unwrap());
        println!("\nSAID done");
    }
    drop(side);
    drop(server);
}

/// An engine in a process of its own, on a host of its own.
struct Far {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    address: String,
}

impl Far {
    fn start(host: &Hosts, which: usize, name: &str) -> Self {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &host.names[which]]);
        command.arg(std::env::current_exe().unwrap());
        command.args(["--exact", "engine_process", "--ignored", "--nocapture"]);
        if which == 0 {
            command.env(SERVER_VARIABLE, format!("{}:{METADATA_PORT}", HOSTS[0]));
        }
        let command = command.env(NAME_VARIABLE, name).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut far = Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
            address: String::new(),
        };
        far.address = far.hear();
        far
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "it ended");
            if let Some(said) = line.strip_prefix("SAID ") {
                return said.trim().to_owned();
            }
        }
    }

    fn reach(&mut self, peer: &str, remote: &str) {
        writeln!(self.input, "{peer} {remote}").unwrap();
        assert_eq!(self.hear(), "done");
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two network namespaces with a cable between them.
struct Hosts {
    names: [String; 2],
}

impl Hosts {
    fn create() -> Self {
        let names = ["a", "b"].map(|end| format!("perigee-{}-{end}", std::process::id()));
        let hosts = Self { names };
        for name in &hosts.names {
            ip(&format!("netns add {name}"));
        }
        let [one, two] = &hosts.names;
        ip(&format!("link add x0 netns {one} type veth peer name x0 netns {two}"));
        for (name, address) in hosts.names.iter().zip(HOSTS) {
            ip(&format!("-n {name} addr add {address}/24 dev x0"));
            ip(&format!("-n {name} link set lo up"));
            ip(&format!("-n {name} link set x0 up"));
        }
        hosts
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

fn ip(words: &str) {
    let done = Command::new("ip").args(words.split(' ')).status().unwrap();
    assert!(done.success(), "ip {words}");
}

#[test]
fn engines_of_such_names_reach_each_other_between_two_hosts() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("SKIP: only root can have two hosts on one");
        return;
    }
    let hosts = Hosts::create();
    let mut one = Far::start(&hosts, 0, "node-q1");
    let mut two = Far::start(&hosts, 1, "node-q2");
    one.reach("node-q2", &two.address);
    two.reach("node-q1", &one.address);
}
