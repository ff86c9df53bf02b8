//! Engines in one process move bytes to each other over TCP, refuse what they must, and end what
//! they began.
#![allow(clippy::unwrap_used, reason = "tests")]

use perigee_engine::{
    BufferError, Direction, EngineError, EngineOptions, Notify, PeerError, SubmitOptions,
    TransferEngine, TransferRequest, TransferState,
};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

fn engine() -> TransferEngine {
    let options = EngineOptions::from_variables("127.0.0.1", "P2PHANDSHAKE", "tcp", "", |_| None);
    TransferEngine::start(options.unwrap()).unwrap()
}

/// An engine and a registered buffer of its own.
struct Side {
    engine: TransferEngine,
    memory: Box<[u8]>,
}

impl Side {
    fn new(bytes: usize, fill: impl Fn(usize) -> u8) -> Self {
        let side = Self { engine: engine(), memory: (0..bytes).map(fill).collect() };
        // SAFETY: the memory lives as long as the engine.
        unsafe { side.engine.register(side.at(0), bytes as u64, "*") }.unwrap();
        side
    }

    fn at(&self, offset: usize) -> u64 {
        self.memory.as_ptr() as u64 + offset as u64
    }

    fn name(&self) -> &str {
        self.engine.local_name()
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        self.engine.close();
    }
}

fn pattern(index: usize) -> u8 {
    ((index * 7) ^ (index >> 9)) as u8
}

fn request(direction: Direction, local: u64, remote: u64, bytes: usize) -> TransferRequest {
    TransferRequest { direction, local, remote, bytes: bytes as u64 }
}

fn transfer(from: &Side, to: &str, requests: &[TransferRequest]) -> Result<(), EngineError> {
    // SAFETY: the requests name memory of `from`, which outlives the call.
    unsafe { from.engine.transfer(to, requests, &SubmitOptions::default()) }
}

#[test]
fn bytes_written_and_read_back_are_the_same_at_every_size() {
    let here = Side::new(24 << 20, pattern);
    let there = Side::new(24 << 20, |_| 0);
    let mut offset = 0;
    for bytes in [1, 3, 4095, 4096, 65_536, 131_073, 1 << 20, (5 << 20) + 17] {
        let write = request(Direction::Write, here.at(offset), there.at(offset), bytes);
        transfer(&here, there.name(), &[write]).unwrap();
        assert!(there.memory[offset..offset + bytes] == here.memory[offset..offset + bytes]);
        let target = vec![0u8; bytes];
        let read = request(Direction::Read, target.as_ptr() as u64, there.at(offset), bytes);
        transfer(&here, there.name(), &[read]).unwrap();
        assert!(target[..] == here.memory[offset..offset + bytes]);
        offset += bytes;
    }
    assert!(there.memory[offset..].iter().all(|byte| *byte == 0));
}

#[test]
fn many_requests_in_one_batch_move_by_polling_and_by_waiting() {
    let here = Side::new(16 << 20, pattern);
    let there = Side::new(16 << 20, |_| 0);
    let requests: Vec<TransferRequest> = (0..2500)
        .map(|i| request(Direction::Write, here.at(i * 6000), there.at(i * 6000), 5000))
        .collect();
    // SAFETY: the memory of `here` outlives the batch.
    let batch =
        unsafe { here.engine.submit(there.name(), &requests, &SubmitOptions::default()) }.unwrap();
    let status = here.engine.wait(batch, LONG).unwrap();
    assert_eq!((status.state, status.bytes), (TransferState::Completed, 2500 * 5000));
    for i in 0..2500 {
        assert!(there.memory[i * 6000..i * 6000 + 5000] == here.memory[i * 6000..i * 6000 + 5000]);
        assert!(there.memory[i * 6000 + 5000..(i + 1) * 6000].iter().all(|byte| *byte == 0));
        assert_eq!(here.engine.status(batch, i).unwrap().bytes, 5000);
    }
    here.engine.release(batch).unwrap();
    assert!(here.engine.status(batch, 0).is_err());
    let mut both: Vec<TransferRequest> = requests[..10].to_vec();
    both.extend(
        (0..10).map(|i| {
            request(Direction::Read, here.at((15 << 20) + i * 100), there.at(i * 6000), 100)
        }),
    );
    transfer(&here, there.name(), &both).unwrap();
}

#[test]
fn private_memory_is_a_source_and_no_target() {
    let here = Side::new(4096, pattern);
    let there = Side::new(4096, |_| 0);
    let secret = vec![7u8; 4096];
    let address = secret.as_ptr() as u64;
    // SAFETY: the memory is unregistered before it goes.
    unsafe { there.engine.register_private(address, 4096, "*") }.unwrap();
    for direction in [Direction::Read, Direction::Write] {
        let reached = transfer(&here, there.name(), &[request(direction, here.at(0), address, 64)]);
        let error = reached.unwrap_err();
        assert!(matches!(error, EngineError::RemoteAddress { .. }), "{error}");
    }
    let sent = request(Direction::Write, address, here.at(0), 64);
    transfer(&there, here.name(), &[sent]).unwrap();
    assert_eq!(here.memory[..64], secret[..64]);
    let known = here.engine.first_buffer(there.name()).unwrap();
    assert_eq!(known, there.at(0), "the document lists what peers may use");
    there.engine.unregister(address).unwrap();
}

#[test]
fn segments_are_opened_before_a_transfer_and_found_again_after_they_were_forgotten() {
    let here = Side::new(4096, pattern);
    let there = Side::new(4096, |_| 0);
    assert_eq!(there.engine.address(), there.name());
    here.engine.open_segment(there.name()).unwrap();
    here.engine.forget_segment(there.name());
    here.engine.forget_segment("127.0.0.1:1");
    let write = request(Direction::Write, here.at(0), there.at(0), 64);
    transfer(&here, there.name(), &[write]).unwrap();
    here.engine.forget_segment(there.name());
    transfer(&here, there.name(), &[write]).unwrap();
    here.engine.open_segment(here.name()).unwrap();
    assert!(here.engine.open_segment("127.0.0.1:1").is_err());
}

#[test]
fn ranges_outside_of_registered_memory_are_refused_and_others_of_the_batch_complete() {
    let here = Side::new(1 << 20, pattern);
    let there = Side::new(1 << 20, |_| 9);
    let wrong = [(1 << 20) - 100, 1 << 20, 5 << 20];
    for direction in [Direction::Write, Direction::Read] {
        for remote in wrong {
            let bad = request(direction, here.at(0), there.at(remote), 200);
            let error = transfer(&here, there.name(), &[bad]).unwrap_err();
            assert!(matches!(error, EngineError::RemoteAddress { .. }), "{error}");
        }
        let requests = [
            request(direction, here.at(4096), there.at(4096), 4096),
            request(direction, here.at(0), there.at(1 << 20), 4096),
            request(direction, here.at(16384), there.at(16384), 4096),
        ];
        // SAFETY: the memory of `here` outlives the batch.
        let batch =
            unsafe { here.engine.submit(there.name(), &requests, &SubmitOptions::default()) }
                .unwrap();
        assert_eq!(here.engine.wait(batch, LONG).unwrap().state, TransferState::Invalid);
        let states: Vec<_> = (0..3).map(|i| here.engine.status(batch, i).unwrap().state).collect();
        assert_eq!(
            states,
            [TransferState::Completed, TransferState::Invalid, TransferState::Completed]
        );
        here.engine.release(batch).unwrap();
    }
    assert!(there.memory[..4096].iter().all(|byte| *byte == 9));
}

/// Two pages, of which the first can be written and the second cannot.
fn half_frozen() -> (u64, u64) {
    use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect};
    let page = 64 << 10;
    let length = std::num::NonZero::new(2 * page).unwrap();
    let rights = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: a new mapping of its own, never taken away; its second half was never written.
    unsafe {
        let mapped = mmap_anonymous(None, length, rights, MapFlags::MAP_PRIVATE).unwrap();
        mprotect(mapped.byte_add(page), page, ProtFlags::PROT_READ).unwrap();
        (mapped.as_ptr() as u64, page as u64)
    }
}

#[test]
fn memory_without_the_right_names_the_cause_and_others_go_on() {
    let (here, there) = (Side::new(64 << 10, pattern), Side::new(4096, |_| 0));
    let (mapped, half) = half_frozen();
    // SAFETY: it is never unmapped.
    unsafe { there.engine.register(mapped, 2 * half, "*") }.unwrap();
    let write = |remote, bytes| request(Direction::Write, here.at(0), remote, bytes);
    for bytes in [1, 4096, 64 << 10] {
        let refused = transfer(&here, there.name(), &[write(mapped + half, bytes)]);
        let expected = EngineError::NoRight {
            peer: there.name().to_owned(),
            direction: Direction::Write,
            address: mapped + half,
            bytes: bytes as u64,
        };
        assert_eq!(refused, Err(expected));
        transfer(&here, there.name(), &[write(mapped, bytes)]).unwrap();
        let read = request(Direction::Read, here.at(0), mapped + half, bytes);
        transfer(&here, there.name(), &[read]).unwrap();
    }
    let closed = std::ptr::NonNull::new((mapped + half) as *mut std::ffi::c_void).unwrap();
    // SAFETY: no address of it is used but over the engine.
    unsafe {
        let none = nix::sys::mman::ProtFlags::PROT_NONE;
        nix::sys::mman::mprotect(closed, half as usize, none).unwrap();
    }
    let address = mapped + half;
    let read = request(Direction::Read, here.at(0), address, 4096);
    let (peer, direction) = (there.name().to_owned(), Direction::Read);
    let expected = EngineError::NoRight { peer, direction, address, bytes: 4096 };
    assert_eq!(transfer(&here, there.name(), &[read]), Err(expected));
    let options = SubmitOptions::default();
    let mixed = [write(mapped + half - 1, 2), write(there.at(0), 4096)];
    // SAFETY: the local memory outlives the batch.
    let batch = unsafe { here.engine.submit(there.name(), &mixed, &options) }.unwrap();
    here.engine.wait(batch, LONG).unwrap();
    let states = [0, 1].map(|index| here.engine.status(batch, index).unwrap().state);
    assert_eq!(states, [TransferState::Invalid, TransferState::Completed]);
}

#[test]
fn local_memory_that_does_not_exist_is_an_error_and_the_engine_works_on() {
    let here = Side::new(1 << 20, pattern);
    let there = Side::new(1 << 20, |_| 0);
    for direction in [Direction::Write, Direction::Read] {
        let bad = request(direction, 64, there.at(0), 4096);
        assert_eq!(
            transfer(&here, there.name(), &[bad]),
            Err(EngineError::Peer(PeerError::LocalMemory))
        );
    }
    let good = request(Direction::Write, here.at(0), there.at(0), 4096);
    transfer(&here, there.name(), &[good]).unwrap();
}

#[test]
fn notifies_arrive_after_the_bytes_and_only_then() {
    let here = Side::new(1 << 20, pattern);
    let there = Side::new(1 << 20, |_| 0);
    let notify = |name: &str| SubmitOptions {
        notify: Some(Notify { name: name.to_owned(), message: "done".to_owned() }),
        ..SubmitOptions::default()
    };
    let good = request(Direction::Write, here.at(0), there.at(0), 1 << 20);
    let bad = request(Direction::Write, here.at(0), there.at(1), 1 << 20);
    // SAFETY: the memory of `here` outlives the calls.
    unsafe {
        here.engine.transfer(there.name(), &[good], &notify("first")).unwrap();
        assert!(here.engine.transfer(there.name(), &[bad], &notify("bad")).is_err());
        here.engine.submit(there.name(), &[good], &notify("second")).unwrap();
    }
    let mut names = Vec::new();
    let deadline = std::time::Instant::now() + LONG;
    while names.len() < 2 {
        assert!(std::time::Instant::now() < deadline, "{names:?}");
        names.extend(there.engine.take_notifies().into_iter().map(|notify| notify.name));
        std::thread::yield_now();
    }
    assert_eq!(names, ["first", "second"]);
    here.engine.probe(there.name()).unwrap();
    assert_eq!(here.engine.first_buffer(there.name()).unwrap(), there.at(0));
}

#[test]
fn a_buffer_named_twice_in_one_call_is_not_registered_the_second_time() {
    let here = engine();
    let memory = vec![0u8; 3 * 4096];
    let at = |index: u64| memory.as_ptr() as u64 + 4096 * index;
    // SAFETY: the memory outlives the engine.
    unsafe { here.register_all(&[(at(0), 4096), (at(1), 4096), (at(2), 4096)], "*") }.unwrap();
    let twice = here.unregister_all(&[at(0), at(0), at(1)]);
    assert_eq!(twice, Err(BufferError::NotRegistered { address: at(0) }.into()));
    let left = [0, 1, 2].map(|index| here.unregister(at(index)).is_ok());
    assert_eq!(left, [false, false, true], "all were tried");
    here.close();
}

#[test]
fn an_empty_batch_is_completed_at_once() {
    let here = Side::new(4096, pattern);
    let there = Side::new(4096, |_| 0);
    transfer(&here, there.name(), &[]).unwrap();
    let nothing = request(Direction::Write, 0, 0, 0);
    transfer(&here, there.name(), &[nothing]).unwrap();
    // SAFETY: nothing is touched.
    let batch =
        unsafe { here.engine.submit(there.name(), &[], &SubmitOptions::default()) }.unwrap();
    assert_eq!(here.engine.batch_status(batch).unwrap().state, TransferState::Completed);
}

#[test]
fn managed_buffers_are_registered_and_used_again() {
    let here = Side::new(4096, pattern);
    let there = engine();
    let first = there.allocate_managed(100_000).unwrap();
    let write = request(Direction::Write, here.at(0), first, 4096);
    transfer(&here, there.local_name(), &[write]).unwrap();
    // The others lie in the same registration.
    let other = there.allocate_managed(100_000).unwrap();
    assert_eq!(
        there.unregister(first).unwrap_err(),
        BufferError::NotRegistered { address: first }.into()
    );
    let write = request(Direction::Write, here.at(0), other, 4096);
    transfer(&here, there.local_name(), &[write]).unwrap();
    there.free_managed(other, 100_000).unwrap();
    there.free_managed(first, 100_000).unwrap();
    assert_eq!(there.allocate_managed(90_000).unwrap(), first);
    assert!(there.free_managed(first + 1, 1).is_err());
    there.close();
}

#[test]
fn engines_known_by_ipv6_addresses_reach_each_other() {
    let start = || {
        let options = EngineOptions::from_variables("::1", "P2PHANDSHAKE", "tcp", "", |_| None);
        TransferEngine::start(options.unwrap()).unwrap()
    };
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        eprintln!("SKIP: this host has no IPv6");
        return;
    }
    let (one, two) = (start(), start());
    assert!(one.local_name().starts_with("[::1]:"));
    one.probe(two.local_name()).unwrap();
    let name = two.local_name().replace(['[', ']'], "");
    assert_eq!(name, format!("::1:{}", two.rpc_port()));
    let from = vec![7_u8; 5000];
    let to = vec![0_u8; 5000];
    // SAFETY: both buffers outlive the engines' use of them.
    unsafe {
        two.register(to.as_ptr() as u64, 5000, "*").unwrap();
        let (local, remote) = (from.as_ptr() as u64, to.as_ptr() as u64);
        let requests = [request(Direction::Write, local, remote, 5000)];
        for name in [two.local_name(), &name] {
            let done = one.transfer(name, &requests, &SubmitOptions::default());
            done.unwrap();
        }
    }
    two.close();
    one.close();
    assert_eq!(from, to);
}
