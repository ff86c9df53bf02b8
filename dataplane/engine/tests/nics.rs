//! An engine with several NICs: its peers spread a batch over them, and account each slice to the one it went over.
#![allow(clippy::unwrap_used, reason = "tests")]

use nix::ifaddrs::getifaddrs;
use perigee_activity::{Directory, Route as ActivityRoute, pages};
use perigee_engine::{
    Direction, EngineOptions, Request, Route, State, SubmitOptions, TransferEngine,
};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);
const BYTES: usize = 32 << 20;

/// The loopback interface, and another one that has an address.
fn interfaces() -> [String; 2] {
    let mut others = getifaddrs().unwrap().filter(|interface| {
        let address = interface.address.as_ref();
        let has_address = address.is_some_and(|address| address.as_sockaddr_in().is_some());
        has_address && interface.interface_name != "lo"
    });
    let other = others.next().expect(
        "an interface with an IPv4 address beside the loopback one; add one with `ip addr add`",
    );
    ["lo".to_owned(), other.interface_name]
}

fn engine(devices: &str) -> TransferEngine {
    let none = |_: &str| None;
    let options = EngineOptions::from_variables("127.0.0.1", "P2PHANDSHAKE", "tcp", devices, none);
    TransferEngine::start(options.unwrap()).unwrap()
}

/// Payload bytes of this process by NIC, as the agent of the host sees them.
fn seen_by_the_agent(device: &str) -> u64 {
    let directory = Directory::from_environment().unwrap();
    let own = std::process::id();
    let page = pages(&directory).into_iter().find(|page| page.pid() == own);
    let slots = page.unwrap().slots().unwrap();
    let of_nic = slots
        .iter()
        .filter(|slot| slot.key.device() == device && slot.key.route == ActivityRoute::Tcp);
    of_nic.map(|slot| slot.bytes).sum()
}

#[test]
fn a_batch_that_is_spread_over_two_nics_is_accounted_to_each_by_what_it_carried() {
    let names = interfaces();
    let there = engine(&names.join(","));
    let here = engine("");
    let (from, into) = (vec![7u8; BYTES], vec![0u8; BYTES]);
    let remote = into.as_ptr() as u64;
    // SAFETY: the memory lives until the engines are closed.
    unsafe { there.register(remote, BYTES as u64, "*") }.unwrap();
    let write = Request {
        direction: Direction::Write,
        local: from.as_ptr() as u64,
        remote,
        bytes: BYTES as u64,
    };
    // SAFETY: as above.
    let batch = unsafe { here.submit(there.local_name(), &[write], &SubmitOptions::default()) };
    let batch = batch.unwrap();
    assert_eq!(here.wait(batch, LONG).unwrap().state, State::Completed);
    assert!(into == from);
    let carried = |name: &String| {
        let mut rows = here.rails().into_iter();
        let row = rows.find(|row| row.route == Route::Tcp && row.name == *name);
        row.map_or(0, |row| row.bytes_written)
    };
    let carried = names.each_ref().map(carried);
    assert!(carried.iter().all(|bytes| *bytes > 0), "{carried:?}");
    assert_eq!(carried.iter().sum::<u64>(), BYTES as u64);
    assert_eq!(
        names.each_ref().map(|name| seen_by_the_agent(name)),
        carried
    );
    here.close();
    there.close();
}
