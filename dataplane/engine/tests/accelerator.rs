//! Memory that only a driver can touch is staged on both sides, for reads and writes, and its borders hold.
#![allow(clippy::unwrap_used, reason = "tests")]

use perigee_engine::{
    DeviceMemory, Direction, EngineError, EngineOptions, GivenDevices, Request, SubmitOptions,
    TransferEngine,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const BYTES: usize = 3 << 20;
/// Where the device's memory begins: no address that the CPU could touch.
const BASE: u64 = 0x10;

/// A device whose memory has addresses of its own.
struct Card(Mutex<Vec<u8>>);

impl Card {
    fn filled(byte: u8) -> Arc<Self> {
        Arc::new(Self(Mutex::new(vec![byte; BYTES])))
    }

    fn holds_only(&self, byte: u8) -> bool {
        self.0.lock().unwrap().iter().all(|found| *found == byte)
    }
}

impl DeviceMemory for Card {
    fn holds(&self, address: u64) -> bool {
        (BASE..BASE + BYTES as u64).contains(&address)
    }

    unsafe fn load(&self, device: u64, host: *mut u8, bytes: usize) -> Result<(), String> {
        let memory = self.0.lock().unwrap();
        let at = (device - BASE) as usize;
        let range = memory.get(at..at + bytes).ok_or("outside of the card")?;
        // SAFETY: the caller vouches for `host`.
        unsafe { std::ptr::copy_nonoverlapping(range.as_ptr(), host, bytes) };
        Ok(())
    }

    unsafe fn store(&self, device: u64, host: *const u8, bytes: usize) -> Result<(), String> {
        let mut memory = self.0.lock().unwrap();
        let at = (device - BASE) as usize;
        let range = memory
            .get_mut(at..at + bytes)
            .ok_or("outside of the card")?;
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(host, range.as_mut_ptr(), bytes) };
        Ok(())
    }
}

fn engine(card: &Arc<Card>) -> TransferEngine {
    let mut options =
        EngineOptions::from_variables("127.0.0.1", "P2PHANDSHAKE", "tcp", "", |_| None).unwrap();
    options.accelerators = Some(GivenDevices(card.clone()));
    let engine = TransferEngine::start(options).unwrap();
    // SAFETY: the card outlives the engine.
    unsafe { engine.register(BASE, BYTES as u64, "cuda:0") }.unwrap();
    engine
}

fn whole(direction: Direction) -> Request {
    Request {
        direction,
        local: BASE,
        remote: BASE,
        bytes: BYTES as u64,
    }
}

#[test]
fn bytes_go_from_card_to_card_by_both_kinds_of_batches() {
    let (ours, theirs) = (Card::filled(1), Card::filled(2));
    let (here, there) = (engine(&ours), engine(&theirs));
    let options = SubmitOptions::default();
    // SAFETY: the cards outlive the calls.
    unsafe {
        here.transfer(there.local_name(), &[whole(Direction::Write)], &options)
            .unwrap();
        assert!(theirs.holds_only(1));
        theirs.0.lock().unwrap().fill(7);
        let batch = here
            .submit(there.local_name(), &[whole(Direction::Read)], &options)
            .unwrap();
        here.wait(batch, Duration::from_secs(60)).unwrap();
        here.batch_outcome(batch).unwrap();
    }
    assert!(ours.holds_only(7));
    here.close();
    there.close();
}

#[test]
fn a_range_past_the_end_of_a_card_is_refused() {
    let (ours, theirs) = (Card::filled(1), Card::filled(2));
    let (here, there) = (engine(&ours), engine(&theirs));
    let past = Request {
        remote: BASE + 1,
        ..whole(Direction::Write)
    };
    // SAFETY: the cards outlive the call.
    let refused = unsafe { here.transfer(there.local_name(), &[past], &SubmitOptions::default()) };
    assert!(
        matches!(refused, Err(EngineError::RemoteAddress { .. })),
        "{refused:?}"
    );
    assert!(theirs.0.lock().unwrap().last() == Some(&2));
    here.close();
    there.close();
}
