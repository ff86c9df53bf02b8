//! Engines over real verbs: Soft-RoCE in the virtual machine of `tests/rdma`, or any host with RDMA
//! devices.
//!
//! With four devices the first engine has rails 0 and 1, the second 2 and 3. Where there are fewer,
//! tests print SKIP.
#![expect(clippy::unwrap_used, reason = "a failure in a test is a failure of the test")]
#![expect(clippy::print_stderr, reason = "a test that does not run says so")]

mod pair;

use pair::{LONG, Meeting, Side};
use perigee_activity::Direction;
use perigee_rails::{RailError, RailReport};
use perigee_verbs::Fabric;
use perigee_verbs::libibverbs::HostDevices;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

const HALF: u64 = 8 << 20;

struct Couple {
    a: Side,
    b: Side,
}

/// Two engines with two rails each, or `None` where there are not four devices.
fn couple() -> Option<Couple> {
    let names = device_names();
    if names.len() < 4 {
        eprintln!("SKIP: rails over real verbs need 4 RDMA devices, there are {}", names.len());
        return None;
    }
    let fabric = HostDevices::load().unwrap();
    let meeting = Meeting::new();
    let side = |name: &str, devices: &[String]| {
        let devices: Vec<&str> = devices.iter().map(String::as_str).collect();
        Side::start(&meeting, &fabric, name, &devices, (1, 2 * HALF as usize)).unwrap()
    };
    Some(Couple { a: side("a", &names[..2]), b: side("b", &names[2..4]) })
}

fn device_names() -> Vec<String> {
    let Ok(fabric) = HostDevices::load() else {
        return Vec::new();
    };
    let infos = fabric.devices().unwrap_or_default();
    infos.into_iter().filter(|info| info.active).map(|info| info.name).collect()
}

fn rail(action: &str, number: usize) {
    let script = std::env::var("PERIGEE_VM_RAIL").unwrap();
    let status = Command::new(script).arg(action).arg(number.to_string()).status().unwrap();
    assert!(status.success(), "rail {action} {number}");
}

fn requests(
    couple: &Couple,
    keys: &Arc<perigee_rails::RemoteKeys>,
    piece: u64,
) -> Vec<perigee_rails::RailRequest> {
    let request = |index: u64| {
        let at = index * piece;
        couple.a.request(&couple.b, keys, (Direction::Write, at, HALF + at, piece), index)
    };
    (0..HALF / piece).map(request).collect()
}

#[test]
fn reads_and_writes_of_many_sizes_arrive_over_both_rails() {
    let Some(couple) = couple() else { return };
    let Couple { a, b } = &couple;
    a.fill(0, HALF, 1);
    b.fill(0, HALF, 2);
    let (peer, keys) = a.open(b, "b");
    for (direction, from, to) in [(Direction::Write, a, b), (Direction::Read, b, a)] {
        let mut at = 0;
        let mut batch = Vec::new();
        for bytes in [1, 8, 100, 256, 257, 4096, 4097, 65_536, 1 << 20, (3 << 20) + 5] {
            let (local, remote) = match direction {
                Direction::Write => (at, HALF + at),
                Direction::Read => (HALF + at, at),
            };
            batch.push(a.request(b, &keys, (direction, local, remote, bytes), at));
            at += bytes;
        }
        let has_moved = |rail: &RailReport| match direction {
            Direction::Write => rail.written_bytes > 0,
            Direction::Read => rail.read_bytes > 0,
        };
        // A rail that a busy host kept waiting for too long cools down and comes back: not every
        // batch goes over both.
        let end = Instant::now() + LONG;
        loop {
            a.run(&peer, &batch).unwrap();
            assert!(from.bytes(0, at) == to.bytes(HALF, at), "{direction:?}");
            let reports = a.engine.reports();
            if reports.iter().all(has_moved) {
                break;
            }
            assert!(Instant::now() < end, "{direction:?}: {reports:?}");
        }
    }
}

#[test]
fn a_rail_cut_during_load_fails_no_request_and_comes_back() {
    let Some(couple) = couple() else { return };
    if std::env::var_os("PERIGEE_VM_RAIL").is_none() {
        eprintln!("SKIP: rails can be cut in the virtual machine only");
        return;
    }
    let Couple { a, b } = &couple;
    let (peer, keys) = a.open(b, "b");
    let all = requests(&couple, &keys, 256 << 10);
    a.fill(0, HALF, 3);
    for _ in 0..2 {
        let started = Instant::now();
        a.run(&peer, &all).unwrap();
        eprintln!("whole: 8 MiB took {:?}", started.elapsed());
    }
    for (break_it, mend_it) in [("cut", "join"), ("down", "up")] {
        b.fill(HALF, HALF, 4);
        let started = Instant::now();
        std::thread::scope(|scope| {
            let running = scope.spawn(|| a.run(&peer, &all));
            rail(break_it, 1);
            running.join().unwrap().unwrap();
        });
        eprintln!("{break_it}: 8 MiB took {:?}", started.elapsed());
        let retries: Vec<u64> = a.engine.reports().iter().map(|rail| rail.retries).collect();
        eprintln!("{break_it}: slices sent again by rail {retries:?}; {:#?}", a.engine.explain());
        assert!(a.bytes(0, HALF) == b.bytes(HALF, HALF), "{break_it}");
        rail(mend_it, 1);
        let end = Instant::now() + LONG;
        while a.engine.reports().iter().any(|rail| rail.pairs_up == 0) {
            assert!(Instant::now() < end, "{mend_it}: {:#?}", a.engine.explain());
            a.run(&peer, &all[..1]).unwrap();
            std::thread::park_timeout(Duration::from_millis(100));
        }
    }
}

#[test]
fn revoked_memory_is_refused_and_stays_as_it_is() {
    let Some(couple) = couple() else { return };
    let Couple { a, b } = &couple;
    let (peer, keys) = a.open(b, "b");
    let all = requests(&couple, &keys, 1 << 20);
    a.run(&peer, &all).unwrap();
    b.memory.revoke().unwrap();
    b.fill(HALF, HALF, 9);
    let before = b.bytes(HALF, HALF);
    let (_, error) = a.run(&peer, &all[..1]).unwrap_err();
    assert!(matches!(error, RailError::Refused { .. }), "{error}");
    assert!(b.bytes(HALF, HALF) == before);
}

#[test]
fn the_explanation_says_which_addresses_were_chosen_and_that_pairs_are_proven() {
    let Some(couple) = couple() else { return };
    let Couple { a, b } = &couple;
    let (peer, keys) = a.open(b, "b");
    let all = requests(&couple, &keys, 1 << 20);
    let end = Instant::now() + LONG;
    loop {
        a.run(&peer, &all).unwrap();
        let text = a.engine.explain().join("\n");
        // A rail that cools down after a silence of the guest is proven a little later.
        let is_proven = text.matches(": proven").count() == perigee_rails::PAIRS_PER_PEER;
        if text.contains("first choice") && is_proven {
            return;
        }
        assert!(Instant::now() < end, "{text}");
    }
}
