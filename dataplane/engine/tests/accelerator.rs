//! Memory that only a driver can touch: reached by network cards that can, staged on both sides
//! otherwise, for reads and writes, and its borders hold.
#![allow(clippy::unwrap_used, reason = "tests")]

use perigee_engine::{
    DeviceMemory, Direction, DmaBuf, EngineError, EngineOptions, GivenDevices, GivenFabric,
    SubmitOptions, TransferEngine, TransferRequest,
};
use perigee_memory::Segment;
use perigee_memory::segment::SegmentOptions;
use perigee_verbs::software::{Clock, DevicePlan, SoftwareNetwork};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
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
        let range = memory.get_mut(at..at + bytes).ok_or("outside of the card")?;
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

fn whole(direction: Direction) -> TransferRequest {
    TransferRequest { direction, local: BASE, remote: BASE, bytes: BYTES as u64 }
}

#[test]
fn bytes_go_from_card_to_card_by_both_kinds_of_batches() {
    let (ours, theirs) = (Card::filled(1), Card::filled(2));
    let (here, there) = (engine(&ours), engine(&theirs));
    let options = SubmitOptions::default();
    // SAFETY: the cards outlive the calls.
    unsafe {
        here.transfer(there.local_name(), &[whole(Direction::Write)], &options).unwrap();
        assert!(theirs.holds_only(1));
        theirs.0.lock().unwrap().fill(7);
        let batch = here.submit(there.local_name(), &[whole(Direction::Read)], &options).unwrap();
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
    let past = TransferRequest { remote: BASE + 1, ..whole(Direction::Write) };
    // SAFETY: the cards outlive the call.
    let refused = unsafe { here.transfer(there.local_name(), &[past], &SubmitOptions::default()) };
    assert!(matches!(refused, Err(EngineError::RemoteAddress { .. })), "{refused:?}");
    assert!(theirs.0.lock().unwrap().last() == Some(&2));
    here.close();
    there.close();
}

const LARGE_BYTES: u64 = 64 << 20;
/// What may be staged for one batch at a time: what is on its way over one connection, or over
/// several.
const UNDER_WAY_BYTES: u64 = 16 << 20;

/// A card without bytes that tells how many were asked for when the first ones arrive at the other
/// side, which waits.
#[derive(Default)]
struct Stopped {
    loaded_bytes: AtomicU64,
    arrived: Mutex<Option<Sender<()>>>,
    go_on: Mutex<Option<Receiver<()>>>,
}

impl DeviceMemory for Stopped {
    fn holds(&self, address: u64) -> bool {
        (BASE..BASE + LARGE_BYTES).contains(&address)
    }

    unsafe fn load(&self, _: u64, _: *mut u8, bytes: usize) -> Result<(), String> {
        self.loaded_bytes.fetch_add(bytes as u64, Ordering::SeqCst);
        Ok(())
    }

    unsafe fn store(&self, _: u64, _: *const u8, _: usize) -> Result<(), String> {
        drop(self.arrived.lock().unwrap().take());
        if let Some(go_on) = self.go_on.lock().unwrap().take() {
            let _ = go_on.recv();
        }
        Ok(())
    }
}

#[test]
fn no_more_of_a_large_batch_is_staged_than_is_under_way() {
    for is_waited_for in [false, true] {
        let (ours, theirs) = (Arc::new(Stopped::default()), Arc::new(Stopped::default()));
        let (sender, receiver) = channel();
        let (go, go_on) = channel::<()>();
        *theirs.arrived.lock().unwrap() = Some(sender);
        *theirs.go_on.lock().unwrap() = Some(go_on);
        let engine = |card: &Arc<Stopped>| {
            let options =
                EngineOptions::from_variables("127.0.0.1", "P2PHANDSHAKE", "tcp", "", |_| None);
            let options = EngineOptions {
                accelerators: Some(GivenDevices(card.clone())),
                shards: 1,
                ..options.unwrap()
            };
            let engine = TransferEngine::start(options).unwrap();
            // SAFETY: the card outlives the engine.
            unsafe { engine.register(BASE, LARGE_BYTES, "cuda:0") }.unwrap();
            engine
        };
        let (here, there) = (engine(&ours), engine(&theirs));
        let write = TransferRequest {
            direction: Direction::Write,
            local: BASE,
            remote: BASE,
            bytes: LARGE_BYTES,
        };
        let options = SubmitOptions::default();
        std::thread::scope(|scope| {
            let mover = scope.spawn(|| {
                // SAFETY: the cards outlive the calls.
                unsafe {
                    if is_waited_for {
                        return here.transfer(there.local_name(), &[write], &options);
                    }
                    let batch = here.submit(there.local_name(), &[write], &options)?;
                    here.wait(batch, Duration::from_secs(60))?;
                    here.batch_outcome(batch)
                }
            });
            // Ends when the first bytes have arrived.
            let first = receiver.recv_timeout(Duration::from_secs(60));
            assert_eq!(first, Err(RecvTimeoutError::Disconnected));
            let loaded_bytes = ours.loaded_bytes.load(Ordering::SeqCst);
            assert!((1..=UNDER_WAY_BYTES).contains(&loaded_bytes), "{loaded_bytes}");
            drop(go);
            mover.join().unwrap().unwrap();
        });
        assert_eq!(ours.loaded_bytes.load(Ordering::SeqCst), LARGE_BYTES);
        here.close();
        there.close();
    }
}

/// Where the memory of a card begins that network cards can reach.
const REACHABLE: u64 = 0x7100_0000_0000;

/// A device whose driver exports its memory, and counts the copies that it is asked for.
struct OpenCard {
    memory: Segment,
    copies: AtomicUsize,
}

impl OpenCard {
    fn filled(byte: u8) -> Arc<Self> {
        let memory = Segment::create(BYTES as u64, &SegmentOptions::default()).unwrap();
        // SAFETY: the segment has this length and is ours alone.
        unsafe { memory.base().write_bytes(byte, BYTES) };
        let copies = AtomicUsize::new(0);
        Arc::new(Self { memory, copies })
    }

    fn holds_only(&self, byte: u8) -> bool {
        // SAFETY: the segment has this length, and every transfer has ended.
        let bytes = unsafe { std::slice::from_raw_parts(self.memory.base(), BYTES) };
        bytes.iter().all(|found| *found == byte)
    }

    fn place(&self, device: u64, bytes: usize) -> Result<*mut u8, String> {
        self.copies.fetch_add(1, Ordering::Relaxed);
        let place = self.memory.range(device - REACHABLE, bytes as u64);
        place.ok_or_else(|| "outside of the card".to_owned())
    }
}

impl DeviceMemory for OpenCard {
    fn holds(&self, address: u64) -> bool {
        (REACHABLE..REACHABLE + BYTES as u64).contains(&address)
    }

    fn export(&self, device: u64, _: u64) -> Result<DmaBuf, String> {
        let file = self.memory.fd().unwrap().try_clone_to_owned();
        Ok(DmaBuf {
            file: file.map_err(|error| error.to_string())?,
            offset_bytes: device - REACHABLE,
        })
    }

    unsafe fn load(&self, device: u64, host: *mut u8, bytes: usize) -> Result<(), String> {
        let from = self.place(device, bytes)?;
        // SAFETY: the caller vouches for `host`, and the range was checked.
        unsafe { std::ptr::copy_nonoverlapping(from, host, bytes) };
        Ok(())
    }

    unsafe fn store(&self, device: u64, host: *const u8, bytes: usize) -> Result<(), String> {
        let to = self.place(device, bytes)?;
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(host, to, bytes) };
        Ok(())
    }
}

/// An engine with a card and a network card.
fn on_a_network(
    network: &SoftwareNetwork,
    host: &str,
    card: &Arc<OpenCard>,
    plan: DevicePlan,
) -> TransferEngine {
    let mut options =
        EngineOptions::from_variables("127.0.0.1", "P2PHANDSHAKE", "", "", |_| None).unwrap();
    options.accelerators = Some(GivenDevices(card.clone()));
    options.fabric = Some(GivenFabric(network.host(host, &[plan]).unwrap()));
    let engine = TransferEngine::start(options).unwrap();
    // SAFETY: the card outlives the engine.
    unsafe { engine.register(REACHABLE, BYTES as u64, "cuda:0") }.unwrap();
    engine
}

fn reachable(direction: Direction) -> TransferRequest {
    TransferRequest { direction, local: REACHABLE, remote: REACHABLE, bytes: BYTES as u64 }
}

/// Moves a card's bytes to another's; how many copies through host memory that took.
fn copies_between_cards(plan: impl Fn() -> DevicePlan) -> usize {
    let network = SoftwareNetwork::new(Clock::Real).unwrap();
    let (ours, theirs) = (OpenCard::filled(1), OpenCard::filled(2));
    let [here, there] = [("a", &ours), ("b", &theirs)]
        .map(|(host, card)| on_a_network(&network, host, card, plan()));
    // SAFETY: the cards outlive the calls.
    let transfer = |direction| unsafe {
        here.transfer(there.local_name(), &[reachable(direction)], &SubmitOptions::default())
    };
    transfer(Direction::Write).unwrap();
    assert!(theirs.holds_only(1));
    // SAFETY: the segment has this length, and no transfer is under way.
    unsafe { theirs.memory.base().write_bytes(8, BYTES) };
    transfer(Direction::Read).unwrap();
    assert!(ours.holds_only(8));
    here.close();
    there.close();
    ours.copies.load(Ordering::Relaxed) + theirs.copies.load(Ordering::Relaxed)
}

#[test]
fn network_cards_that_take_dma_bufs_reach_the_card_themselves() {
    assert_eq!(copies_between_cards(|| DevicePlan::new("sw0")), 0);
}

#[test]
fn what_cut_rails_give_back_is_staged() {
    let network = SoftwareNetwork::new(Clock::Real).unwrap();
    let (ours, theirs) = (OpenCard::filled(1), OpenCard::filled(2));
    let plan = || DevicePlan::new("sw0");
    let [here, there] = [("a", &ours), ("b", &theirs)]
        .map(|(host, card)| on_a_network(&network, host, card, plan()));
    let write = reachable(Direction::Write);
    let options =
        SubmitOptions { deadline: Some(Duration::from_secs(20)), ..SubmitOptions::default() };
    // SAFETY: the cards outlive the calls.
    let transfer = || unsafe { here.transfer(there.local_name(), &[write], &options) };
    transfer().unwrap();
    let copies = || ours.copies.load(Ordering::Relaxed);
    assert_eq!(copies(), 0);
    // SAFETY: the segment has this length, and no transfer is under way.
    unsafe { theirs.memory.base().write_bytes(8, BYTES) };
    network.cut(("a", "sw0"), ("b", "sw0")).unwrap();
    transfer().unwrap();
    assert!(theirs.holds_only(1) && copies() > 0);
    here.close();
    there.close();
}

#[test]
fn with_network_cards_that_take_none_the_bytes_are_staged() {
    assert!(copies_between_cards(|| DevicePlan::new("sw0").without_dmabuf()) > 0);
}
