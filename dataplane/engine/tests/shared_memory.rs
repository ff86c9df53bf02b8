//! Engines of one host copy directly into and out of segments that they hand to each other, within
//! the same bounds as over TCP, and not a byte after a segment was taken back.
#![allow(clippy::unwrap_used, reason = "tests")]

use perigee_engine::{
    Direction, EngineError, EngineOptions, PeerError, Route, SubmitOptions, TransferEngine,
    TransferRequest, TransferState,
};
use perigee_memory::Segment;
use perigee_memory::segment::SegmentOptions;
use std::sync::Arc;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);
/// Not a whole number of pages: the rest of the last page is mapped, too, and must stay untouched.
const BYTES: usize = (1 << 20) + 100;

fn engine(protocol: &str, shares: bool) -> TransferEngine {
    let variable =
        |name: &str| (name == "PERIGEE_SHARED_MEMORY" && !shares).then(|| "0".to_owned());
    let options =
        EngineOptions::from_variables("127.0.0.1", "P2PHANDSHAKE", protocol, "", variable);
    TransferEngine::start(options.unwrap()).unwrap()
}

/// An engine with one segment, closed at the end.
struct Owner {
    engine: TransferEngine,
    segment: Arc<Segment>,
}

impl Owner {
    fn new() -> Self {
        let owner = Self { engine: engine("tcp", true), segment: segment(0x11) };
        owner.engine.register_segment(&owner.segment, "*").unwrap();
        owner
    }

    fn name(&self) -> &str {
        self.engine.local_name()
    }

    fn at(&self, offset: usize) -> u64 {
        self.segment.base() as u64 + offset as u64
    }

    /// A copy of what the segment holds, to the end of its last page.
    fn content(&self) -> Vec<u8> {
        let whole = self.segment.mapped_bytes();
        // SAFETY: the mapping has this length, and every transfer of the tests has ended when this
        // is called.
        unsafe { std::slice::from_raw_parts(self.segment.base(), whole) }.to_vec()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.engine.close();
    }
}

fn segment(fill: u8) -> Arc<Segment> {
    let options = SegmentOptions {
        populate: perigee_memory::segment::Populate::OnRequest,
        ..SegmentOptions::default()
    };
    let segment = Segment::create(BYTES as u64, &options).unwrap();
    // SAFETY: the mapping is this long and ours alone.
    unsafe { segment.base().write_bytes(fill, segment.mapped_bytes()) };
    Arc::new(segment)
}

fn request(direction: Direction, local: &[u8], remote: u64) -> TransferRequest {
    TransferRequest { direction, local: local.as_ptr() as u64, remote, bytes: local.len() as u64 }
}

fn hint(route: &str) -> SubmitOptions {
    SubmitOptions { hint: Some(route.to_owned()), ..SubmitOptions::default() }
}

fn transfer(
    from: &TransferEngine,
    to: &str,
    request: TransferRequest,
    options: &SubmitOptions,
) -> Result<(), EngineError> {
    // SAFETY: every caller's local memory outlives the call.
    unsafe { from.transfer(to, &[request], options) }
}

/// Bytes that an engine has moved over a route.
fn moved(engine: &TransferEngine, route: Route) -> u64 {
    let rows = engine.rails().into_iter().filter(|row| row.route == route);
    rows.map(|row| row.bytes_read + row.bytes_written).sum()
}

#[test]
fn segments_are_copied_directly_at_every_size_and_from_any_local_memory() {
    let (owner, guest) = (Owner::new(), engine("tcp", true));
    let managed = guest.allocate_managed(BYTES as u64).unwrap();
    let mut total = 0;
    for bytes in [1, 63, 4096, 70_001, 1 << 20, BYTES] {
        let source: Vec<u8> = (0..bytes).map(|at| (at * 7 + bytes) as u8).collect();
        let target = vec![0u8; bytes];
        for local_is_registered in [false, true] {
            // SAFETY: the managed buffer has this length.
            let far = unsafe { std::slice::from_raw_parts_mut(managed as *mut u8, bytes) };
            let (from, into) = if local_is_registered {
                far.copy_from_slice(&source);
                (&*far, &*far)
            } else {
                (&source[..], &target[..])
            };
            let there = owner.at(BYTES - bytes);
            transfer(&guest, owner.name(), request(Direction::Write, from, there), &hint("shm"))
                .unwrap();
            assert!(owner.content()[BYTES - bytes..BYTES] == source[..]);
            transfer(&guest, owner.name(), request(Direction::Read, into, there), &hint(""))
                .unwrap();
            assert!(into == source);
            total += 2 * bytes as u64;
        }
    }
    assert_eq!((moved(&guest, Route::SharedMemory), moved(&guest, Route::Tcp)), (total, 0));
    assert!(owner.content()[BYTES..].iter().all(|byte| *byte == 0x11));
    guest.close();
}

#[test]
fn batches_without_a_waiter_end_and_can_be_polled() {
    let (owner, guest) = (Owner::new(), engine("", true));
    let source = vec![0x77u8; BYTES];
    let requests: Vec<TransferRequest> = source
        .chunks(100_000)
        .enumerate()
        .map(|(index, chunk)| request(Direction::Write, chunk, owner.at(index * 100_000)))
        .collect();
    // SAFETY: the source outlives the batch.
    let batch = unsafe { guest.submit(owner.name(), &requests, &hint("shm")) }.unwrap();
    let status = guest.wait(batch, LONG).unwrap();
    assert_eq!((status.state, status.bytes), (TransferState::Completed, BYTES as u64));
    guest.release(batch).unwrap();
    assert!(owner.content()[..BYTES] == source[..]);
    guest.close();
}

#[test]
fn memory_that_cannot_be_handed_out_goes_over_tcp_unless_shared_memory_was_asked_for() {
    let (owner, guest) = (Owner::new(), engine("tcp", true));
    let private = vec![0u8; 5000];
    // SAFETY: the memory lives until the owner is closed.
    unsafe { owner.engine.register(private.as_ptr() as u64, 5000, "*") }.unwrap();
    let source = vec![0x33u8; 5000];
    let write = request(Direction::Write, &source, private.as_ptr() as u64);
    let refused = transfer(&guest, owner.name(), write, &hint("shm")).unwrap_err();
    assert!(matches!(refused, EngineError::Unsupported(_)), "{refused}");
    transfer(&guest, owner.name(), write, &hint("")).unwrap();
    let away = engine("tcp", false);
    let write = request(Direction::Write, &source, owner.at(0));
    transfer(&away, owner.name(), write, &hint("")).unwrap();
    assert_eq!(moved(&away, Route::SharedMemory) + moved(&guest, Route::SharedMemory), 0);
    assert_eq!((private, &owner.content()[..5000]), (source.clone(), &source[..]));
    away.close();
    guest.close();
    owner.engine.close();
}

#[test]
fn an_unregistered_segment_is_not_written_any_more_and_its_successor_is_reached() {
    let (owner, guest) = (Owner::new(), engine("tcp", true));
    let source = vec![0x22u8; 4096];
    let write = request(Direction::Write, &source, owner.at(0));
    transfer(&guest, owner.name(), write, &hint("shm")).unwrap();
    owner.engine.unregister(owner.at(0)).unwrap();
    let before = owner.content();
    for _ in 0..3 {
        let refused = transfer(&guest, owner.name(), write, &hint("")).unwrap_err();
        assert!(matches!(refused, EngineError::RemoteAddress { .. }), "{refused}");
    }
    assert!(owner.content() == before);
    let next = segment(0);
    owner.engine.register_segment(&next, "*").unwrap();
    let write = request(Direction::Write, &source, next.base() as u64);
    transfer(&guest, owner.name(), write, &hint("shm")).unwrap();
    let later = segment(0);
    owner.engine.register_segment(&later, "*").unwrap();
    let write = request(Direction::Write, &source, later.base() as u64);
    transfer(&guest, owner.name(), write, &hint("shm")).unwrap();
    guest.close();
}

#[test]
fn a_segment_is_taken_back_while_guests_copy_and_nothing_is_written_afterwards() {
    const GUESTS: usize = 3;
    let owner = Owner::new();
    std::thread::scope(|scope| {
        let (copied, all_copied) = std::sync::mpsc::channel();
        for number in 0..GUESTS as u8 {
            let (owner, copied) = (&owner, copied.clone());
            scope.spawn(move || {
                let guest = engine("tcp", true);
                let source = vec![number; BYTES];
                let write = request(Direction::Write, &source, owner.at(0));
                transfer(&guest, owner.name(), write, &hint("shm")).unwrap();
                copied.send(moved(&guest, Route::SharedMemory)).unwrap();
                drop(copied);
                while transfer(&guest, owner.name(), write, &hint("")).is_ok() {}
                guest.close();
            });
        }
        drop(copied);
        // Ends early if a guest fails, so that the others are let go.
        let copied: Vec<u64> = all_copied.iter().collect();
        owner.engine.unregister(owner.at(0)).unwrap();
        // SAFETY: no other process may touch the segment any more, which is what is tested.
        unsafe { owner.segment.base().write_bytes(0x99, BYTES) };
        assert_eq!(copied.len(), GUESTS);
        assert!(copied.iter().all(|bytes| *bytes >= BYTES as u64));
    });
    assert!(owner.content()[..BYTES].iter().all(|byte| *byte == 0x99));
}

#[test]
fn local_memory_that_is_not_there_or_not_writable_is_an_error_and_no_fault() {
    use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
    let (owner, guest) = (Owner::new(), engine("tcp", true));
    let length = std::num::NonZero::new(8192).unwrap();
    // SAFETY: a new mapping of its own, never taken away.
    let mapped =
        |rights| unsafe { mmap_anonymous(None, length, rights, MapFlags::MAP_PRIVATE).unwrap() };
    let [frozen, closed] =
        [ProtFlags::PROT_READ, ProtFlags::PROT_NONE].map(|rights| mapped(rights).as_ptr() as u64);
    let taken = mapped(ProtFlags::PROT_READ | ProtFlags::PROT_WRITE);
    for address in [frozen, closed, taken.as_ptr() as u64] {
        // SAFETY: as above.
        unsafe { guest.register(address, 8192, "*") }.unwrap();
    }
    let local = taken.as_ptr() as u64;
    let read =
        TransferRequest { direction: Direction::Read, local, remote: owner.at(0), bytes: 4096 };
    transfer(&guest, owner.name(), read, &hint("shm")).unwrap();
    // SAFETY: nothing else uses the mapping.
    unsafe { nix::sys::mman::mprotect(taken, 8192, ProtFlags::PROT_NONE).unwrap() };
    let taken = taken.as_ptr() as u64;
    for (direction, local) in [
        (Direction::Write, 64),
        (Direction::Read, 64),
        (Direction::Read, frozen),
        (Direction::Write, closed),
        (Direction::Read, closed),
        (Direction::Write, taken),
        (Direction::Read, taken),
    ] {
        let bad = TransferRequest { direction, local, remote: owner.at(0), bytes: 4096 };
        let refused = transfer(&guest, owner.name(), bad, &hint("shm")).unwrap_err();
        assert_eq!(refused, EngineError::Peer(PeerError::LocalMemory), "{direction:?} {local:#x}");
    }
    guest.close();
}

#[test]
fn random_ranges_are_carried_out_exactly_inside_of_one_segment() {
    let (owner, guest) = (Owner::new(), engine("tcp", true));
    let other = segment(0x44);
    owner.engine.register_segment(&other, "*").unwrap();
    let mut model = owner.content();
    let mut state = 0x1234_5678_9abc_def1u64;
    let mut random = |limit: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 24) as usize % limit
    };
    let mut refusals = 0;
    for round in 0..2000 {
        let bytes = 1 + random(3 * 4096);
        let offset = random(BYTES + 4 * 4096) as i64 - 2 * 4096;
        let remote = owner.at(0).wrapping_add_signed(offset);
        let fits = offset >= 0 && offset as usize + bytes <= BYTES;
        let direction = if random(2) == 0 { Direction::Read } else { Direction::Write };
        let local = vec![round as u8; bytes];
        let answer = transfer(&guest, owner.name(), request(direction, &local, remote), &hint(""));
        assert_eq!(answer.is_ok(), fits, "{offset} {bytes}: {answer:?}");
        refusals += usize::from(!fits);
        match direction {
            Direction::Write if fits => model[offset as usize..][..bytes].fill(round as u8),
            Direction::Read if fits => assert!(model[offset as usize..][..bytes] == local[..]),
            _ => assert!(local.iter().all(|byte| *byte == round as u8), "nothing is disclosed"),
        }
    }
    assert!(refusals > 10 && owner.content() == model);
    // SAFETY: the segment has this length.
    let untouched = unsafe { std::slice::from_raw_parts(other.base(), other.mapped_bytes()) };
    assert!(untouched.iter().all(|byte| *byte == 0x44));
    guest.close();
}

#[test]
fn a_closed_owner_is_an_error_and_not_a_success_into_its_old_memory() {
    let (owner, guest) = (Owner::new(), engine("tcp", true));
    let source = vec![0x22u8; 4096];
    let write = request(Direction::Write, &source, owner.at(0));
    transfer(&guest, owner.name(), write, &hint("")).unwrap();
    owner.engine.close();
    let before = owner.content();
    let error = transfer(&guest, owner.name(), write, &hint("")).unwrap_err();
    assert!(error.to_string().contains(owner.name()), "{error}");
    let other = vec![0x55u8; 4096];
    assert!(
        transfer(&guest, owner.name(), request(Direction::Write, &other, owner.at(0)), &hint(""))
            .is_err()
    );
    assert!(owner.content() == before);
    guest.close();
}
