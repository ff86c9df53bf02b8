//! Two engines in two processes over real verbs: killed, restarted, and with all rails cut.
//! Soft-RoCE in the virtual machine of `tests/rdma`; this process has devices 0 and 1, the other
//! one 2 and 3. Where there are fewer, the tests print SKIP.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a peer process says where its memory is, a test that does not run says so"
)]

use perigee_engine::{
    Direction, EngineError, EngineOptions, PeerError, Route, SubmitOptions, TransferEngine,
    TransferRequest,
};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// An emulated processor does in a minute what others do in a second.
const LONG: Duration = Duration::from_secs(120);
/// Between looks at what was moved: the processors are needed for moving it.
const PAUSE: Duration = Duration::from_millis(20);
const BYTES: usize = 1 << 20;
const NAME_VARIABLE: &str = "PERIGEE_TEST_PEER_NAME";
const PROTOCOL_VARIABLE: &str = "PERIGEE_TEST_PEER_PROTOCOL";

fn devices() -> Option<Vec<String>> {
    let names = std::env::var("PERIGEE_VM_DEVICES").unwrap_or_default();
    let names: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
    if names.len() >= 4 {
        return Some(names);
    }
    eprintln!(
        "SKIP: engines over real verbs need 4 devices of the virtual machine, there are {}",
        names.len()
    );
    None
}

fn engine(name: &str, protocol: &str, devices: &[String]) -> TransferEngine {
    let devices = devices.join(",");
    let alone = |name: &str| (name == "PERIGEE_SHARED_MEMORY").then(|| "0".to_owned());
    let options = EngineOptions::from_variables(name, "P2PHANDSHAKE", protocol, &devices, alone);
    TransferEngine::start(options.unwrap()).unwrap()
}

/// What the other process does: registers a buffer, says where it is, and waits to be ended.
#[test]
#[ignore = "runs in a process of its own, started by the other tests"]
fn peer_process() {
    let (Ok(name), Some(devices)) = (std::env::var(NAME_VARIABLE), devices()) else {
        return;
    };
    let protocol = std::env::var(PROTOCOL_VARIABLE).unwrap();
    let engine = engine(&name, &protocol, &devices[2..4]);
    let memory = vec![7u8; BYTES];
    let address = memory.as_ptr() as u64;
    // SAFETY: the memory lives until the process ends.
    unsafe { engine.register(address, BYTES as u64, "cpu:0") }.unwrap();
    println!("\nPEER {} {address}", engine.local_name());
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().lines().last();
    engine.close();
}

struct Peer {
    child: Child,
    name: String,
    address: u64,
    /// Kept open: it still writes when it ends.
    _output: BufReader<ChildStdout>,
}

impl Peer {
    fn start(name: &str, protocol: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "peer_process", "--ignored", "--nocapture"])
            .env(NAME_VARIABLE, name)
            .env(PROTOCOL_VARIABLE, protocol)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut said = output.by_ref().lines().map_while(Result::ok);
        let (name, address) = said
            .find_map(|line| {
                let (name, address) = line.strip_prefix("PEER ")?.split_once(' ')?;
                Some((name.to_owned(), address.parse().ok()?))
            })
            .expect("the peer starts");
        Self { child, name, address, _output: output }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Memory that an engine knows: rails move nothing else.
fn registered(here: &TransferEngine, memory: Vec<u8>) -> Vec<u8> {
    // SAFETY: every caller keeps the memory until it has unregistered it.
    unsafe { here.register(memory.as_ptr() as u64, memory.len() as u64, "cpu:0") }.unwrap();
    memory
}

/// One request between `memory` and the start of the peer's buffer, to its end.
fn move_all(
    here: &TransferEngine,
    peer: &Peer,
    direction: Direction,
    memory: &[u8],
) -> Result<(), EngineError> {
    let request = TransferRequest {
        direction,
        local: memory.as_ptr() as u64,
        remote: peer.address,
        bytes: memory.len() as u64,
    };
    let options = SubmitOptions { deadline: Some(LONG), ..SubmitOptions::default() };
    // SAFETY: the call returns when the request is over, and the caller looks at what was read only
    // then.
    unsafe { here.transfer(&peer.name, &[request], &options) }
}

/// Payload bytes that this engine has moved over a route.
fn moved(here: &TransferEngine, route: Route) -> u64 {
    let rails = here.rails();
    let of_route = rails.iter().filter(|rail| rail.route == route);
    of_route.map(|rail| rail.bytes_read + rail.bytes_written).sum()
}

/// Writes bytes that no other round has, and finds them with a read.
fn write_and_find(here: &TransferEngine, peer: &Peer, round: u8) {
    let sent = (0..BYTES).map(|at| (at / 251) as u8 ^ round).collect();
    let (sent, found) = (registered(here, sent), registered(here, vec![0; BYTES]));
    move_all(here, peer, Direction::Write, &sent).unwrap();
    move_all(here, peer, Direction::Read, &found).unwrap();
    assert!(found == sent, "round {round}: other bytes came back");
    let all = [sent.as_ptr() as u64, found.as_ptr() as u64];
    here.unregister_all(&all).unwrap();
}

fn rail(action: &str, number: usize) {
    let script = std::env::var("PERIGEE_VM_RAIL").unwrap();
    let number = number.to_string();
    let done = Command::new(script).args([action, &number]).status();
    assert!(done.unwrap().success(), "{action} {number}");
}

#[test]
fn a_peer_killed_under_load_is_noticed_and_its_successor_reached_over_rdma() {
    let Some(devices) = devices() else { return };
    let here = engine("127.0.0.1", "rdma", &devices[..2]);
    let mut peer = Peer::start("127.0.0.1", "rdma");
    for round in 0..3 {
        write_and_find(&here, &peer, round);
        let memory = registered(&here, vec![round; BYTES]);
        let until_it_fails = || {
            let end = Instant::now() + LONG;
            while Instant::now() < end {
                if let Err(error) = move_all(&here, &peer, Direction::Write, &memory) {
                    return error.to_string();
                }
            }
            "it was never missed".to_owned()
        };
        let before = moved(&here, Route::Rdma);
        let process = nix::unistd::Pid::from_raw(peer.child.id() as i32);
        std::thread::scope(|scope| {
            let workers = [(); 2].map(|()| scope.spawn(until_it_fails));
            while moved(&here, Route::Rdma) < before + 2 * BYTES as u64 {
                let is_over = workers.iter().any(|worker| worker.is_finished());
                assert!(!is_over, "a write fails while the peer lives");
                std::thread::sleep(PAUSE);
            }
            nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGKILL).unwrap();
            for worker in workers {
                let error = worker.join().unwrap();
                assert!(error.contains(&peer.name), "{error}");
            }
        });
        let name = peer.name.clone();
        peer.kill();
        peer = Peer::start(&name, "rdma");
        assert_eq!(peer.name, name, "it takes its port back");
        let end = Instant::now() + LONG;
        // Its memory may lie where its predecessor's did: then the first request is refused.
        while let Err(error) = move_all(&here, &peer, Direction::Write, &memory) {
            let is_new = matches!(error, EngineError::Peer(PeerError::Restarted { .. }));
            assert!(is_new && Instant::now() < end, "{error}");
        }
        here.unregister(memory.as_ptr() as u64).unwrap();
    }
    write_and_find(&here, &peer, 9);
    assert_eq!(moved(&here, Route::Tcp), 0);
    here.close();
}

#[test]
fn an_engine_whose_rails_are_all_cut_goes_on_over_tcp_and_returns_to_them() {
    let Some(devices) = devices() else { return };
    let here = engine("127.0.0.1", "rdma,tcp", &devices[..2]);
    let peer = Peer::start("127.0.0.1", "rdma,tcp");
    let end = Instant::now() + LONG;
    // Rails are proven while TCP carries the first bytes.
    while moved(&here, Route::Rdma) == 0 {
        write_and_find(&here, &peer, 1);
        assert!(Instant::now() < end, "rails are never used");
    }
    (0..2).for_each(|number| rail("cut", number));
    let before = moved(&here, Route::Tcp);
    let end = Instant::now() + LONG;
    while moved(&here, Route::Tcp) < before + 2 * BYTES as u64 {
        write_and_find(&here, &peer, 2);
        assert!(Instant::now() < end, "TCP does not take over");
    }
    (0..2).for_each(|number| rail("join", number));
    let before = moved(&here, Route::Rdma);
    let end = Instant::now() + LONG;
    while moved(&here, Route::Rdma) < before + 2 * BYTES as u64 {
        write_and_find(&here, &peer, 3);
        assert!(Instant::now() < end, "the rails are not taken again");
    }
    here.close();
}
