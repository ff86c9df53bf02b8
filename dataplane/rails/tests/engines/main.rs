//! Whole engines on their own threads, over a software fabric in real time.
#![expect(clippy::unwrap_used, reason = "a failure in a test is a failure of the test")]

#[path = "../soft_roce/pair.rs"]
mod pair;

use pair::{LONG, Meeting, Side};
use perigee_activity::Direction;
use perigee_rails::{
    ParkSink, Preference, RailError, RailRequest, Registration, RemoteKeys, Sink, deadline_in,
};
use perigee_verbs::software::{Clock, DevicePlan, SoftwareNetwork};
use perigee_verbs::{RegionAccess, VerbsError};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

const BYTES: usize = 32 << 20;
const HALF: u64 = 16 << 20;

struct Couple {
    a: Side,
    b: Side,
    meeting: Arc<Meeting>,
    network: SoftwareNetwork,
}

fn couple(rails: usize, shards: usize) -> Couple {
    let network = SoftwareNetwork::new(Clock::Real).unwrap();
    let meeting = Meeting::new();
    let names: Vec<String> = (0..rails).map(|index| format!("sw{index}")).collect();
    let plans: Vec<DevicePlan> = names.iter().map(|name| DevicePlan::new(name)).collect();
    let devices: Vec<&str> = names.iter().map(String::as_str).collect();
    let side = |host: &str| {
        let fabric = network.host(host, &plans).unwrap();
        Side::start(&meeting, fabric.as_ref(), host, &devices, (shards, BYTES)).unwrap()
    };
    let (a, b) = (side("a"), side("b"));
    Couple { a, b, meeting, network }
}

#[test]
fn many_threads_read_and_write_over_two_rails_and_two_shards() {
    let Couple { a, b, .. } = couple(2, 2);
    a.fill(0, HALF, 1);
    b.fill(0, HALF, 2);
    let (peer, keys) = a.open(&b, "b");
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (a, b, peer, keys) = (&a, &b, &peer, &keys);
            scope.spawn(move || {
                let share = HALF / 4;
                let from = thread * share;
                let direction = [Direction::Write, Direction::Read][thread as usize % 2];
                let (local, remote) = match direction {
                    Direction::Write => (from, HALF + from),
                    Direction::Read => (HALF + from, from),
                };
                let piece = share / 16;
                let request = |index| {
                    let at = index * piece;
                    a.request(b, keys, (direction, local + at, remote + at, piece), index)
                };
                let requests: Vec<_> = (0..16).map(request).collect();
                for _ in 0..5 {
                    a.run(peer, &requests).unwrap();
                }
            });
        }
    });
    for thread in 0..4u64 {
        let at = thread * (HALF / 4);
        let (from, to) = if thread % 2 == 0 { (&a, &b) } else { (&b, &a) };
        assert!(from.bytes(at, HALF / 4) == to.bytes(HALF + at, HALF / 4), "thread {thread}");
    }
    let reports = a.engine.reports();
    assert!(
        reports.iter().all(|rail| rail.written_bytes > 0 && rail.read_bytes > 0),
        "{reports:?}"
    );
    assert!(reports.iter().all(|rail| rail.errors == 0 && rail.latency.iter().sum::<u64>() > 0));
}

#[test]
fn small_writes_one_after_the_other_come_through_whether_the_shard_polls_or_sleeps() {
    let Couple { a, b, network, .. } = couple(1, 1);
    a.fill(0, 4096, 3);
    let (peer, keys) = a.open(&b, "b");
    let mut woken = Vec::new();
    for round in 0..300u64 {
        if round == 200 {
            // Longer than the shard polls: from here on completion events have to wake it.
            network.faults("a", "sw0").unwrap().delay(Duration::from_millis(2));
        }
        let bytes = [8, 200, 4096][round as usize % 3];
        let request = a.request(&b, &keys, (Direction::Write, 0, HALF, bytes), round);
        let start = std::time::Instant::now();
        a.run(&peer, &[request]).unwrap();
        if round >= 200 {
            woken.push(start.elapsed());
        }
        assert_eq!(a.bytes(0, bytes), b.bytes(HALF, bytes));
        if round % 100 == 0 {
            b.fill(HALF, 4096, round);
        }
    }
    woken.sort();
    // Without events the shard would see them when it keeps house, every 50 ms.
    assert!(woken[woken.len() / 2] < Duration::from_millis(25), "{woken:?}");
}

#[test]
fn a_rail_that_goes_down_during_load_fails_no_request() {
    let Couple { a, b, network, .. } = couple(2, 1);
    a.fill(0, HALF, 4);
    let (peer, keys) = a.open(&b, "b");
    let request = |index: u64| {
        let at = index << 20;
        a.request(&b, &keys, (Direction::Write, at, HALF + at, 1 << 20), index)
    };
    let requests: Vec<_> = (0..16).map(request).collect();
    a.run(&peer, &requests).unwrap();
    for round in 0..6 {
        b.fill(HALF, HALF, round);
        let faults = network.faults("a", &format!("sw{}", round % 2)).unwrap();
        let run = || a.run(&peer, &requests);
        std::thread::scope(|scope| {
            let running = scope.spawn(run);
            faults.down();
            running.join().unwrap().unwrap();
        });
        faults.up();
        assert!(a.bytes(0, HALF) == b.bytes(HALF, HALF), "round {round}");
        let whole = || a.engine.reports().iter().all(|rail| rail.pairs_up >= 1);
        wait_until(whole);
    }
}

#[test]
fn a_peer_that_is_not_there_is_an_error_that_names_it() {
    let Couple { a, b, meeting, .. } = couple(1, 1);
    let (peer, keys) = a.open(&b, "b");
    meeting.engines.lock().unwrap().remove("b");
    let request = a.request(&b, &keys, (Direction::Read, 0, 0, 4096), 0);
    let (_, error) = a.run(&peer, &[request]).unwrap_err();
    assert!(matches!(&error, RailError::Unreachable { peer, .. } if peer == "b"), "{error}");
}

#[test]
fn a_peer_under_a_name_that_another_engine_took_is_reported_as_restarted() {
    let Couple { a, b, .. } = couple(1, 1);
    let (peer, keys) = a.open(&b, "b");
    let request = a.request(&b, &keys, (Direction::Read, 0, 0, 4096), 0);
    a.run(&peer, std::slice::from_ref(&request)).unwrap();
    let mut other = b.engine.descriptor();
    other.epoch ^= 1;
    let replaced = a.engine.open_peer("b", &other).unwrap();
    let (_, error) = a.run(&peer, std::slice::from_ref(&request)).unwrap_err();
    assert!(matches!(error, RailError::PeerRestarted { .. }), "{error}");
    assert!(!peer.is_open() && replaced.is_open());
}

#[test]
fn cancel_and_close_end_every_request_once() {
    let Couple { a, b, network, .. } = couple(1, 1);
    let (peer, keys) = a.open(&b, "b");
    let requests: Vec<_> = (0..64u64)
        .map(|index| a.request(&b, &keys, (Direction::Write, 0, HALF, 64 << 10), index))
        .collect();
    a.run(&peer, &requests[..1]).unwrap();
    network.faults("a", "sw0").unwrap().drop_all(true);
    for close in [false, true] {
        let sink = Arc::new(ParkSink::new(requests.len()));
        let shared: Arc<dyn Sink> = sink.clone();
        // SAFETY: the memory lives until `a` is dropped, after the wait.
        let ticket = unsafe { a.engine.submit(&peer, &requests, deadline_in(LONG), &shared) };
        if close {
            a.engine.close();
        } else {
            a.engine.cancel(ticket.unwrap());
        }
        let outcome = sink.wait(LONG).expect("all are reported");
        let (_, error) = outcome.unwrap_err();
        assert!(matches!(error, RailError::Canceled | RailError::Closed), "{error}");
        assert_eq!(sink.left(), 0);
    }
    // SAFETY: refused at once.
    let refused = unsafe {
        let sink: Arc<dyn Sink> = Arc::new(ParkSink::new(1));
        a.engine.submit(&peer, &requests[..1], deadline_in(LONG), &sink)
    };
    assert_eq!(refused.unwrap_err(), RailError::Closed);
}

#[test]
fn engines_that_come_and_go_leave_no_descriptor_behind() {
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let round = || {
        let Couple { a, b, .. } = couple(2, 1);
        let (peer, keys) = a.open(&b, "b");
        let request = a.request(&b, &keys, (Direction::Write, 0, HALF, 1 << 20), 0);
        a.run(&peer, &[request]).unwrap();
    };
    round();
    let after_first = descriptors();
    for _ in 0..4 {
        round();
    }
    // Other tests of this binary run beside this one and hold descriptors of their own for a while.
    wait_until(|| descriptors() <= after_first + 8);
}

/// Memory of a device that only its driver can reach: a file whose address is made up.
struct DeviceMemory {
    file: std::fs::File,
    address: u64,
}

impl DeviceMemory {
    fn new(address: u64) -> Self {
        let file = tempfile::tempfile().unwrap();
        file.set_len(2 << 20).unwrap();
        Self { file, address }
    }

    /// Registers its second MiB.
    fn register(&self, side: &Side) -> Result<Arc<Registration>, RailError> {
        let (offset, range) = (1 << 20, (self.address, 1 << 20));
        // SAFETY: the file's pages are used here only.
        unsafe {
            let engine = &side.engine;
            engine.register_dmabuf(
                self.file.as_fd(),
                offset,
                range,
                RegionAccess::ALL,
                &Preference::default(),
            )
        }
    }
}

#[test]
fn bytes_move_between_the_memories_of_two_devices_although_no_processor_can_read_them() {
    let Couple { a, b, .. } = couple(2, 1);
    let (ours, theirs) = (DeviceMemory::new(0x7000_0000), DeviceMemory::new(0x9000_0000));
    let (local, remote) = (ours.register(&a).unwrap(), theirs.register(&b).unwrap());
    let content: Vec<u8> = (0..1u32 << 20).map(|index| (index / 7) as u8).collect();
    ours.file.write_all_at(&content, 1 << 20).unwrap();
    let (peer, _) = a.open(&b, "b");
    let keys = RemoteKeys::new(&remote.descriptor(1, None), Duration::ZERO).unwrap();
    let keys = Arc::new(keys);
    let request = |at: u64, bytes: u64| RailRequest {
        direction: Direction::Write,
        local: local.clone(),
        local_address: ours.address + at,
        keys: keys.clone(),
        remote_address: theirs.address + at,
        bytes,
        tag: at,
    };
    // 16 bytes would travel inside of the work request if the processor could read them.
    a.run(&peer, &[request(0, 16), request(16, (1 << 20) - 16)]).unwrap();
    let mut found = vec![0; 1 << 20];
    theirs.file.read_exact_at(&mut found, 1 << 20).unwrap();
    assert!(found == content);
}

#[test]
fn device_memory_is_unsupported_if_no_rail_takes_it() {
    let network = SoftwareNetwork::new(Clock::Real).unwrap();
    let meeting = Meeting::new();
    let side = |host: &str, plans: &[DevicePlan], devices: &[&str]| {
        let fabric = network.host(host, plans).unwrap();
        Side::start(&meeting, fabric.as_ref(), host, devices, (1, BYTES)).unwrap()
    };
    let mixed = [DevicePlan::new("sw0").without_dmabuf(), DevicePlan::new("sw1")];
    let a = side("a", &mixed, &["sw0", "sw1"]);
    let b = side("b", &mixed[..1], &["sw0"]);
    let memory = DeviceMemory::new(0x7000_0000);
    let keys = memory.register(&a).unwrap().descriptor(1, None).remote_keys;
    assert_eq!(keys.iter().map(Vec::len).collect::<Vec<_>>(), [0, 1]);
    assert!(a.engine.knows_dmabuf() && !b.engine.knows_dmabuf());
    let error = memory.register(&b).err().unwrap();
    assert!(matches!(error, RailError::Device(VerbsError::Unsupported { .. })), "{error}");
}

#[test]
fn a_request_without_a_common_rail_fails_at_once_and_delays_no_other() {
    let network = SoftwareNetwork::new(Clock::Real).unwrap();
    let meeting = Meeting::new();
    let side = |host: &str, plans: &[DevicePlan]| {
        let fabric = network.host(host, plans).unwrap();
        Side::start(&meeting, fabric.as_ref(), host, &["sw0", "sw1"], (1, BYTES)).unwrap()
    };
    let (with, without) = (DevicePlan::new, |name| DevicePlan::new(name).without_dmabuf());
    let a = side("a", &[with("sw0"), without("sw1")]);
    let b = side("b", &[without("sw0"), with("sw1")]);
    let (ours, theirs) = (DeviceMemory::new(0x7000_0000), DeviceMemory::new(0x9000_0000));
    let (local, remote) = (ours.register(&a).unwrap(), theirs.register(&b).unwrap());
    let (peer, host_keys) = a.open(&b, "b");
    let keys = RemoteKeys::new(&remote.descriptor(1, None), Duration::ZERO).unwrap();
    let stuck = RailRequest {
        direction: Direction::Write,
        local,
        local_address: ours.address,
        keys: Arc::new(keys),
        remote_address: theirs.address,
        bytes: 1 << 20,
        tag: 0,
    };
    let fine = a.request(&b, &host_keys, (Direction::Write, 0, HALF, 1 << 20), 1);
    let (tag, error) = a.run(&peer, &[stuck, fine.clone()]).unwrap_err();
    assert!(tag == 0 && matches!(error, RailError::NoRoute { .. }), "{tag}: {error}");
    a.run(&peer, &[fine]).unwrap();
}

fn wait_until(done: impl Fn() -> bool) {
    let end = std::time::Instant::now() + LONG;
    while !done() {
        assert!(std::time::Instant::now() < end, "it never comes about");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}
