//! An engine with several NICs: its peers spread a batch over them, and account each slice to the
//! one it went over.
#![allow(clippy::unwrap_used, reason = "tests")]

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{geteuid, gettid};
use perigee_activity::{PageDirectory, Route as ActivityRoute, pages};
use perigee_engine::{
    Direction, EngineOptions, Route, SubmitOptions, TransferEngine, TransferRequest, TransferState,
};
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);
const BYTES: usize = 32 << 20;

/// Addresses of the two NICs on both sides: what a host sends to an address of its own goes over no
/// NIC.
const HERE: [&str; 2] = ["10.213.1.1", "10.213.2.1"];
const THERE: [&str; 2] = ["10.213.1.2", "10.213.2.2"];

fn ip(words: &str) {
    let status = Command::new("ip").args(words.split(' ')).status().unwrap();
    assert!(status.success(), "ip {words}");
}

/// Two threads, each alone in a network namespace, with two wires between them; the second one is
/// the far end.
fn apart<T: Send>(near: impl FnOnce() -> T, far: impl FnOnce() + Send) -> T {
    let (sender, receiver) = channel();
    let (laid, wires) = channel();
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            sender.send(gettid()).unwrap();
            wires.recv().unwrap();
            set_up("far", THERE);
            far();
        });
        let thread = receiver.recv().unwrap();
        for wire in 0..2 {
            ip(&format!("link add near{wire} type veth peer name far{wire} netns {thread}"));
        }
        set_up("near", HERE);
        laid.send(()).unwrap();
        near()
    })
}

fn set_up(side: &str, addresses: [&str; 2]) {
    ip("link set lo up");
    for (wire, address) in addresses.iter().enumerate() {
        ip(&format!("address add {address}/24 dev {side}{wire}"));
        ip(&format!("link set {side}{wire} up"));
    }
}

fn engine(name: &str, devices: &str) -> TransferEngine {
    let none = |_: &str| None;
    let options = EngineOptions::from_variables(name, "P2PHANDSHAKE", "tcp", devices, none);
    TransferEngine::start(options.unwrap()).unwrap()
}

/// Payload bytes of this process by NIC, as the agent of the host sees them.
fn seen_by_the_agent(device: &str) -> u64 {
    let directory = PageDirectory::from_environment().unwrap();
    let own = std::process::id();
    let page = pages(&directory).into_iter().find(|page| page.pid() == own);
    let slots = page.unwrap().slots().unwrap();
    let of_nic = slots
        .iter()
        .filter(|slot| slot.key.device() == device && slot.key.route == ActivityRoute::Tcp);
    of_nic.map(|slot| slot.bytes).sum()
}

#[test]
fn a_batch_over_two_nics_is_counted_on_each_by_its_bytes() {
    if !geteuid().is_root() {
        eprintln!("SKIP: only root makes NICs");
        return;
    }
    let (sender, receiver) = channel();
    let (done, wait) = channel();
    let far = move || {
        let there = engine(THERE[0], "far0,far1");
        let into = vec![0u8; BYTES];
        let remote = into.as_ptr() as u64;
        // SAFETY: the memory lives until the engine is closed.
        unsafe { there.register(remote, BYTES as u64, "*") }.unwrap();
        sender.send((there.local_name().to_owned(), remote)).unwrap();
        let _ = wait.recv();
        there.close();
        assert!(into.iter().all(|byte| *byte == 7));
    };
    apart(move || write_and_check(receiver.recv().unwrap(), done), far);
}

fn write_and_check((name, remote): (String, u64), _done: Sender<()>) {
    let here = engine(HERE[0], "");
    let from = vec![7u8; BYTES];
    let write = TransferRequest {
        direction: Direction::Write,
        local: from.as_ptr() as u64,
        remote,
        bytes: BYTES as u64,
    };
    // SAFETY: the memory lives until the engine is closed.
    let batch = unsafe { here.submit(&name, &[write], &SubmitOptions::default()) };
    let batch = batch.unwrap();
    assert_eq!(here.wait(batch, LONG).unwrap().state, TransferState::Completed);
    let names = ["near0", "near1"];
    let carried = |name: &str| {
        let mut rows = here.rails().into_iter();
        let row = rows.find(|row| row.route == Route::Tcp && row.name == name);
        row.map_or(0, |row| row.bytes_written)
    };
    let carried = names.map(carried);
    assert!(carried.iter().all(|bytes| *bytes > 0), "{carried:?}");
    assert_eq!(carried.iter().sum::<u64>(), BYTES as u64);
    assert_eq!(names.map(seen_by_the_agent), carried);
    here.close();
}
