//! Engines: exposed memory is written, read and taken back; memory that exists already too.

use perigee_client::{
    CacheMemory, EngineOptions, LendError, Notify, PeerEngine, PeerTransfer, SubmitOptions,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const BYTES: usize = 256 << 10;

fn engine() -> PeerEngine {
    let options = EngineOptions::new("127.0.0.1", "P2PHANDSHAKE", "tcp", "");
    PeerEngine::open(options.expect("the settings are good")).expect("an engine starts")
}

/// Owns memory, and says when it is gone.
struct Keeper(#[expect(dead_code, reason = "it is dropped last")] Vec<u8>, Arc<AtomicBool>);

impl Drop for Keeper {
    fn drop(&mut self) {
        self.1.store(true, Ordering::Release);
    }
}

#[test]
fn peers_write_and_read_memory_while_it_is_exposed() {
    let (here, there) = (engine(), engine());
    let memory = CacheMemory::allocate(BYTES).unwrap();
    // SAFETY: transfers of this test have ended before the memory is lent.
    let exposed = unsafe { there.expose(&memory, "cpu:0") }.unwrap();
    assert_eq!(there.first_address(there.name()).unwrap(), memory.address());
    let own = CacheMemory::allocate(BYTES).unwrap();
    let _known = here.register(&own).unwrap();
    let mut slice = own.lend(0..BYTES).unwrap();
    slice.bytes_mut().unwrap().fill(3);
    let done = Notify { name: "n".into(), message: "done".into() };
    let options = SubmitOptions { notify: Some(done.clone()), ..SubmitOptions::default() };
    let mut writes = [PeerTransfer::write_slice(&slice, memory.address())];
    here.transfer(there.name(), &mut writes, &options).unwrap();
    assert_eq!(there.take_notifies(), [done]);
    assert!(memory.lend(0..BYTES).unwrap().bytes().unwrap().iter().all(|byte| *byte == 3));
    let mut back = vec![0; BYTES];
    let mut reads = [PeerTransfer::read(&mut back, memory.address())];
    here.transfer(there.name(), &mut reads, &SubmitOptions::default()).unwrap();
    assert_eq!(back, vec![3; BYTES]);

    drop(exposed);
    let mut late = [PeerTransfer::write(&back, memory.address())];
    let refused = here.transfer(there.name(), &mut late, &SubmitOptions::default());
    assert!(refused.is_err(), "it is not exposed any more");
}

#[test]
fn adopted_memory_lives_until_its_last_use() {
    let (here, there) = (engine(), engine());
    let gone = Arc::new(AtomicBool::new(false));
    let mut bytes = vec![0_u8; BYTES];
    let address = bytes.as_mut_ptr();
    let keeper = Keeper(bytes, gone.clone());
    // SAFETY: the keeper has the vector, which this test does not touch any more.
    let memory = unsafe { CacheMemory::adopt(address, BYTES, keeper) };
    // SAFETY: no part is lent while a transfer runs.
    let exposed = unsafe { there.expose(&memory, "*") }.unwrap();
    let remote = memory.address();
    assert!(memory.lend(0..1).unwrap().bytes().is_none(), "it may be a device's");
    drop(memory);
    assert!(!gone.load(Ordering::Acquire), "it is exposed");
    let source = vec![4; BYTES];
    let mut writes = [PeerTransfer::write(&source, remote)];
    here.transfer(there.name(), &mut writes, &SubmitOptions::default()).unwrap();
    drop(exposed);
    assert!(gone.load(Ordering::Acquire));
}

#[test]
fn parts_of_memory_are_lent_once() {
    let memory = CacheMemory::allocate(BYTES).unwrap();
    let first = memory.lend(0..10).unwrap();
    let second = memory.lend(10..20).unwrap();
    for range in [5..15, 0..1, 19..30, 0..BYTES] {
        assert!(matches!(memory.lend(range), Err(LendError::Lent { .. })));
    }
    for range in [0..0, BYTES..BYTES + 1, usize::MAX - 1..usize::MAX] {
        assert!(matches!(memory.lend(range), Err(LendError::Outside { .. })));
    }
    drop(first);
    assert!(memory.lend(0..10).is_ok() && memory.lend(0..11).is_err());
    assert_eq!(second.range(), 10..20);
}
