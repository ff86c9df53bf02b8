//! Two engines in two processes: the peer is killed, stopped and restarted under load, and every
//! call ends.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stdout, reason = "a peer process says where its memory is")]

use perigee_engine::{
    Direction, EngineError, EngineOptions, Notify, PeerError, SubmitOptions, TransferEngine,
    TransferRequest, TransferState,
};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

mod asynchronous;
mod connections;

const LONG: Duration = Duration::from_secs(60);
const BYTES: usize = 8 << 20;
const NAME_VARIABLE: &str = "PERIGEE_TEST_PEER_NAME";
/// Where to put the peer's memory: addresses in hex with commas between them, or `segment` for
/// memory that it hands out.
const MEMORY_VARIABLE: &str = "PERIGEE_TEST_PEER_MEMORY";
/// Two places where no process has anything by itself.
const HERE: &str = "5a0000000000";
const ELSEWHERE: &str = "5b0000000000";

fn engine(name: &str) -> TransferEngine {
    let options = EngineOptions::from_variables(name, "P2PHANDSHAKE", "tcp", "", |_| None);
    TransferEngine::start(options.unwrap()).unwrap()
}

/// What the other process does: registers a buffer, says where it is, and waits to be ended.
#[test]
#[ignore = "runs in a process of its own, started by the other tests"]
fn peer_process() {
    let Ok(name) = std::env::var(NAME_VARIABLE) else {
        return;
    };
    let engine = engine(&name);
    let place = std::env::var(MEMORY_VARIABLE).unwrap();
    let segment = perigee_memory::Segment::create(BYTES as u64, &Default::default()).unwrap();
    let segment = std::sync::Arc::new(segment);
    let memories = place.split(',').map(|place| {
        let memory = u64::from_str_radix(place, 16).map_or(segment.base(), map_at);
        // SAFETY: either memory has this length, and it is not shared yet.
        unsafe { memory.write_bytes(7, BYTES) };
        if memory == segment.base() {
            engine.register_segment(&segment, "*").unwrap();
        } else {
            // SAFETY: the memory lives until the process ends.
            unsafe { engine.register(memory as u64, BYTES as u64, "*") }.unwrap();
        }
        memory
    });
    let memories: Vec<*mut u8> = memories.collect();
    println!("\nPEER {} {}", engine.local_name(), memories[0] as u64);
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().lines().last();
    // SAFETY: the engine writes to it only what peers ask for, and none does any more.
    let bytes = unsafe { std::slice::from_raw_parts(memories[0], BYTES) };
    assert!(bytes.iter().all(|byte| *byte == 7), "it was not written");
    engine.close();
}

fn map_at(address: u64) -> *mut u8 {
    use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
    let length = std::num::NonZero::new(BYTES).unwrap();
    let rights = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_FIXED_NOREPLACE;
    let wanted = std::num::NonZero::new(address as usize);
    // SAFETY: the flag keeps it from replacing anything.
    let mapped = unsafe { mmap_anonymous(wanted, length, rights, flags) };
    mapped.unwrap().as_ptr().cast()
}

struct Peer {
    child: Child,
    name: String,
    address: u64,
    /// Kept open: it still writes when it ends.
    output: BufReader<ChildStdout>,
}

impl Peer {
    fn start(name: &str) -> Self {
        Self::start_with(name, HERE)
    }

    fn start_with(name: &str, memory: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "peer_process", "--ignored", "--nocapture"])
            .env(NAME_VARIABLE, name)
            .env(MEMORY_VARIABLE, memory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let said = output.by_ref().lines().map_while(Result::ok);
        let mut said = said.filter_map(|line| {
            let rest = line.strip_prefix("PEER ")?;
            let (name, address) = rest.split_once(' ')?;
            Some((name.to_owned(), address.parse().ok()?))
        });
        let (name, address) = said.next().unwrap();
        Self { child, name, address, output }
    }

    /// Sends a signal. A process that is to stop has stopped then.
    fn signal(&self, signal: nix::sys::signal::Signal) {
        use nix::sys::wait::{WaitPidFlag, waitpid};
        let process = nix::unistd::Pid::from_raw(self.child.id() as i32);
        nix::sys::signal::kill(process, signal).unwrap();
        if signal == nix::sys::signal::Signal::SIGSTOP {
            waitpid(process, Some(WaitPidFlag::WUNTRACED)).unwrap();
        }
    }

    /// Kills it; the kernel has ended its connections then.
    fn kill(&mut self) {
        let far_ends = connections::far_ends(self.child.id());
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        connections::await_closed(&far_ends);
    }

    /// Ends it by closing its input; true if it found its memory untouched.
    fn end(&mut self) -> bool {
        drop(self.child.stdin.take());
        let _ = self.output.by_ref().lines().count();
        self.child.wait().unwrap().success()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn write(memory: &[u8], remote: u64, bytes: usize) -> TransferRequest {
    TransferRequest {
        direction: Direction::Write,
        local: memory.as_ptr() as u64,
        remote,
        bytes: bytes as u64,
    }
}

fn within(limit: Duration) -> SubmitOptions {
    SubmitOptions { deadline: Some(limit), ..SubmitOptions::default() }
}

#[test]
fn a_killed_peer_fails_everything_in_flight_and_the_error_names_it() {
    let mut peer = Peer::start("127.0.0.1");
    let here = engine("127.0.0.1");
    let memory = vec![1u8; BYTES];
    let requests = [write(&memory, peer.address, BYTES)];
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|worker| {
                let (here, requests, name) = (&here, &requests, peer.name.clone());
                scope.spawn(move || {
                    let end = Instant::now() + LONG;
                    while Instant::now() < end {
                        // SAFETY: `memory` outlives the scope.
                        let moved = unsafe {
                            if worker == 0 {
                                here.submit(&name, requests, &within(LONG)).and_then(|batch| {
                                    here.wait(batch, LONG)?;
                                    here.batch_outcome(batch)
                                })
                            } else {
                                here.transfer(&name, requests, &within(LONG))
                            }
                        };
                        if let Err(error) = moved {
                            return error.to_string();
                        }
                    }
                    "the peer was never missed".to_owned()
                })
            })
            .collect();
        // SAFETY: as above.
        unsafe { here.transfer(&peer.name, &requests, &within(LONG)) }.unwrap();
        peer.kill();
        for worker in workers {
            let error = worker.join().unwrap();
            assert!(error.contains(&peer.name), "{error}");
        }
    });
    let gone = here.probe(&peer.name).unwrap_err();
    assert_eq!(gone.code(), -102, "{gone}");
    here.close();
}

#[test]
fn a_restarted_peer_never_gets_bytes_for_addresses_of_its_earlier_life() {
    let mut first = Peer::start("127.0.0.1");
    let here = engine("127.0.0.1");
    let memory = vec![1u8; 4096];
    // SAFETY: `memory` outlives every call.
    let send = |name: &str, address| unsafe {
        here.transfer(name, &[write(&memory, address, 4096)], &within(LONG))
    };
    send(&first.name, first.address).unwrap();
    first.kill();
    let mut second = Peer::start(&first.name);
    assert_eq!(first.name, second.name, "it takes its port back");
    let end = Instant::now() + LONG;
    loop {
        assert!(Instant::now() < end);
        // The address is a good one from the peer's point of view: only its life tells.
        match send(&second.name, second.address) {
            Err(EngineError::Peer(PeerError::Restarted { peer })) => {
                break assert_eq!(peer, second.name);
            }
            Err(other) => assert!(other.to_string().contains(&second.name), "{other}"),
            Ok(()) => panic!("bytes for an earlier life arrived"),
        }
    }
    assert!(second.end(), "its memory is untouched");
    let third = Peer::start(&second.name);
    while !matches!(
        send(&third.name, third.address),
        Err(EngineError::Peer(PeerError::Restarted { .. }))
    ) {
        assert!(Instant::now() < end);
    }
    send(&third.name, third.address).unwrap();
    here.close();
}

#[test]
fn a_restarted_peer_with_other_addresses_is_served_at_once() {
    let mut first = Peer::start("127.0.0.1");
    let here = engine("127.0.0.1");
    let memory = vec![1u8; 4096];
    // SAFETY: `memory` outlives every call.
    let send = |name: &str, address| unsafe {
        here.transfer(name, &[write(&memory, address, 4096)], &within(LONG))
    };
    send(&first.name, first.address).unwrap();
    first.kill();
    let second = Peer::start_with(&first.name, ELSEWHERE);
    assert_eq!(first.name, second.name, "it takes its port back");
    send(&second.name, second.address).unwrap();
    let stale = send(&second.name, first.address).unwrap_err();
    assert!(matches!(stale, EngineError::Peer(PeerError::Restarted { .. })), "{stale}");
    let sent = send(&second.name, first.address).unwrap_err();
    assert!(matches!(sent, EngineError::RemoteAddress { .. }), "{sent}");
    here.close();
}

#[test]
fn old_addresses_stay_refused_after_a_new_one_was_served() {
    let mut first = Peer::start("127.0.0.1");
    let here = engine("127.0.0.1");
    let memory = vec![1u8; 4096];
    // SAFETY: `memory` outlives every call.
    let send = |name: &str, address| unsafe {
        here.transfer(name, &[write(&memory, address, 4096)], &within(LONG))
    };
    send(&first.name, first.address).unwrap();
    first.kill();
    let mut second = Peer::start_with(&first.name, &format!("{HERE},{ELSEWHERE}"));
    let new = u64::from_str_radix(ELSEWHERE, 16).unwrap();
    send(&second.name, new).unwrap();
    let stale = send(&second.name, first.address).unwrap_err();
    assert!(matches!(stale, EngineError::Peer(PeerError::Restarted { .. })), "{stale}");
    send(&second.name, new).unwrap();
    assert!(second.end(), "what the earlier life had is untouched");
    here.close();
}

/// Writes as long as the peer answers; how often it did, and why it stopped.
fn write_until_it_fails(here: &TransferEngine, peer: &Peer, memory: &[u8]) -> (usize, EngineError) {
    let requests = [write(memory, peer.address, memory.len())];
    for round in 0.. {
        // SAFETY: `memory` outlives every call.
        if let Err(error) = unsafe { here.transfer(&peer.name, &requests, &within(LONG)) } {
            return (round, error);
        }
    }
    unreachable!("the loop has no end")
}

#[test]
fn a_peer_that_shares_memory_and_is_killed_is_missed_and_its_successor_is_reached() {
    let mut peer = Peer::start_with("127.0.0.1", "segment");
    let here = engine("127.0.0.1");
    let memory = vec![1u8; BYTES];
    let requests = [write(&memory, peer.address, BYTES)];
    let hint = SubmitOptions { hint: Some("shm".to_owned()), ..within(LONG) };
    // SAFETY: `memory` outlives every call.
    unsafe { here.transfer(&peer.name, &requests, &hint) }.unwrap();
    peer.signal(nix::sys::signal::Signal::SIGSTOP);
    // SAFETY: as above. A stopped peer need not do anything for this.
    unsafe { here.transfer(&peer.name, &requests, &hint) }.unwrap();
    peer.signal(nix::sys::signal::Signal::SIGCONT);
    let name = peer.name.clone();
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..3).map(|_| scope.spawn(|| write_until_it_fails(&here, &peer, &memory))).collect();
        let process = nix::unistd::Pid::from_raw(peer.child.id() as i32);
        nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGKILL).unwrap();
        for worker in workers {
            let (_, error) = worker.join().unwrap();
            assert!(error.to_string().contains(&name), "{error}");
        }
    });
    peer.kill();
    let second = Peer::start_with(&name, "segment");
    let requests = [write(&memory, second.address, BYTES)];
    let end = Instant::now() + LONG;
    // SAFETY: as above.
    while let Err(error) = unsafe { here.transfer(&second.name, &requests, &hint) } {
        // Its memory may lie where the first one's was.
        assert!(
            matches!(error, EngineError::Peer(PeerError::Restarted { .. })) && Instant::now() < end,
            "{error}"
        );
    }
    here.close();
}

#[test]
fn the_first_contact_with_a_silent_peer_ends_by_the_deadline_of_the_batch() {
    // The kernel accepts, and no answer ever comes.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let name = silent.local_addr().unwrap().to_string();
    let here = engine("127.0.0.1");
    let memory = vec![1u8; 4096];
    let limit = Duration::from_millis(300);
    // SAFETY: `memory` outlives the call.
    let late = unsafe { here.transfer(&name, &[write(&memory, 4096, 4096)], &within(limit)) };
    match late.unwrap_err() {
        EngineError::Peer(PeerError::Deadline { deadline, .. }) => {
            assert!(deadline <= limit * 2, "{deadline:?}");
        }
        other => panic!("{other}"),
    }
    here.close();
}

#[test]
fn a_caller_who_breaks_off_waits_for_no_silent_peer() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let name = silent.local_addr().unwrap().to_string();
    let here = engine("127.0.0.1");
    let memory = vec![1u8; 4096];
    let notify = || Notify { name: "name".to_owned(), message: "message".to_owned() };
    // SAFETY: `memory` outlives the call.
    let transfer = || unsafe { here.transfer(&name, &[write(&memory, 4096, 4096)], &within(LONG)) };
    let find = || here.first_buffer(&name).map(drop);
    let notifies = || here.notify(&name, notify());
    let waits: [&dyn Fn() -> Result<(), EngineError>; 3] = [&transfer, &find, &notifies];
    for (number, wait) in waits.into_iter().enumerate() {
        let breaks_off = perigee_shard::interruptible(|| true);
        assert_eq!(wait(), Err(EngineError::Canceled), "wait {number}");
        drop(breaks_off);
    }
    here.close();
}

#[test]
fn a_stopped_peer_ends_calls_by_their_deadline_and_serves_again_when_it_goes_on() {
    let peer = Peer::start("127.0.0.1");
    let here = engine("127.0.0.1");
    let memory = vec![1u8; BYTES];
    let requests = [write(&memory, peer.address, BYTES)];
    // SAFETY: `memory` outlives every call.
    let send = |limit| unsafe { here.transfer(&peer.name, &requests, &within(limit)) };
    send(LONG).unwrap();
    peer.signal(nix::sys::signal::Signal::SIGSTOP);
    let late = send(Duration::from_millis(300)).unwrap_err();
    assert!(matches!(late, EngineError::Peer(PeerError::Deadline { .. })), "{late}");
    // SAFETY: as above.
    let batch = unsafe { here.submit(&peer.name, &requests, &within(Duration::from_millis(300))) };
    if let Ok(batch) = batch {
        let ended = here.wait(batch, LONG).unwrap().state;
        assert!(matches!(ended, TransferState::Timeout | TransferState::Failed), "{ended:?}");
    }
    peer.signal(nix::sys::signal::Signal::SIGCONT);
    let end = Instant::now() + LONG;
    while send(LONG).is_err() {
        assert!(Instant::now() < end, "it serves again");
    }
    here.close();
}

#[test]
fn a_canceled_batch_lets_go_of_its_memory_although_the_peer_is_silent() {
    let peer = Peer::start("127.0.0.1");
    let here = engine("127.0.0.1");
    let memory = vec![1u8; 64 << 20];
    let requests: Vec<TransferRequest> =
        (0..64).map(|i| write(&memory[i << 20..], peer.address, 1 << 20)).collect();
    // SAFETY: `memory` outlives the engine.
    unsafe {
        here.transfer(&peer.name, &requests[..1], &within(LONG)).unwrap();
        peer.signal(nix::sys::signal::Signal::SIGSTOP);
        let batch = here.submit(&peer.name, &requests, &within(LONG)).unwrap();
        assert!(here.release(batch).is_err(), "it is under way");
        here.cancel(batch).unwrap();
        assert_eq!(here.wait(batch, LONG).unwrap().state, TransferState::Canceled);
        here.release(batch).unwrap();
    }
    peer.signal(nix::sys::signal::Signal::SIGCONT);
    here.close();
}

fn in_flight(engine: &TransferEngine) -> u64 {
    engine.rails().iter().map(|row| row.in_flight).sum()
}

#[test]
fn closing_an_engine_ends_a_transfer_that_waits_for_a_silent_peer() {
    let peer = Peer::start("127.0.0.1");
    let here = engine("127.0.0.1");
    let memory = vec![1u8; BYTES];
    let requests = [write(&memory, peer.address, BYTES)];
    // SAFETY: `memory` outlives the engine.
    unsafe { here.transfer(&peer.name, &requests, &within(LONG)) }.unwrap();
    peer.signal(nix::sys::signal::Signal::SIGSTOP);
    // SAFETY: as above.
    let batch = unsafe { here.submit(&peer.name, &requests, &within(LONG)) }.unwrap();
    std::thread::scope(|scope| {
        // SAFETY: as above.
        let waiting =
            scope.spawn(|| unsafe { here.transfer(&peer.name, &requests, &within(LONG)) });
        while in_flight(&here) < 2 && !waiting.is_finished() {
            std::thread::yield_now();
        }
        here.close();
        assert!(waiting.join().unwrap().is_err());
    });
    assert!(here.wait(batch, LONG).unwrap().state.is_final());
    peer.signal(nix::sys::signal::Signal::SIGCONT);
}
