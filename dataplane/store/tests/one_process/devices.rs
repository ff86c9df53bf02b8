//! Memory that callers name by address: an accelerator's, which only its driver can touch, and none
//! at all.

use crate::cluster::{ANY, config, data, environment, get, master, piece, put, store};
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect};
use perigee_device::{DeviceMemory, GivenDevices};
use perigee_schemas::Status;
use perigee_store::{CallerRange, GetRequest, PutRequest, RangeRequest, ReplicateConfig, Store};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const BYTES: usize = 80 << 20;
/// Where the device's memory begins: no address that the CPU could touch.
const BASE: usize = 0x10;

/// A device whose memory has addresses of its own.
pub(crate) struct Card {
    memory: Mutex<Vec<u8>>,
    /// Times that it was asked for an address of its own.
    asked: AtomicUsize,
}

impl Card {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { memory: Mutex::new(vec![0; BYTES]), asked: AtomicUsize::new(0) })
    }

    pub(crate) fn fill(&self, at: usize, bytes: &[u8]) {
        self.memory.lock().unwrap()[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn holds_at(&self, at: usize, bytes: &[u8]) -> bool {
        self.memory.lock().unwrap()[at..at + bytes.len()] == *bytes
    }
}

impl DeviceMemory for Card {
    fn holds(&self, address: u64) -> bool {
        let is_here = (BASE as u64..(BASE + BYTES) as u64).contains(&address);
        self.asked.fetch_add(usize::from(is_here), Ordering::Relaxed);
        is_here
    }

    unsafe fn load(&self, device: u64, host: *mut u8, bytes: usize) -> Result<(), String> {
        let memory = self.memory.lock().unwrap();
        let at = device as usize - BASE;
        let range = memory.get(at..at + bytes).ok_or("outside of the card")?;
        // SAFETY: the caller vouches for `host`.
        unsafe { std::ptr::copy_nonoverlapping(range.as_ptr(), host, bytes) };
        Ok(())
    }

    unsafe fn store(&self, device: u64, host: *const u8, bytes: usize) -> Result<(), String> {
        let mut memory = self.memory.lock().unwrap();
        let at = device as usize - BASE;
        let range = memory.get_mut(at..at + bytes);
        let range = range.ok_or("outside of the card")?;
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(host, range.as_mut_ptr(), bytes) };
        Ok(())
    }
}

pub(crate) fn on_card(at: usize, bytes: usize) -> CallerRange {
    CallerRange::named(BASE + at, bytes)
}

pub(crate) fn put_pieces(store: &Store, key: &str, pieces: &[CallerRange]) -> Status {
    let group = None;
    let request = PutRequest { key, pieces, group };
    store.put(&[request], &ReplicateConfig::default())[0]
}

pub(crate) fn get_pieces(store: &Store, key: &str, pieces: &[CallerRange]) -> Result<u64, Status> {
    store.get(&[GetRequest { key, pieces }])[0]
}

/// Puts, reads and reads ranges of device memory, with memory of the host in between.
fn moves(client: &Store, card: &Card) {
    let value = data(5, 300_000);
    card.fill(100, &value[..100_000]);
    card.fill(500_000, &value[150_000..]);
    let mixed = [on_card(100, 100_000), piece(&value[100_000..150_000]), on_card(500_000, 150_000)];
    assert_eq!(put_pieces(client, "mixed", &mixed), Status::Ok);
    assert!(get(client, "mixed").unwrap() == value);
    let host = vec![0u8; 100_000];
    let into = [on_card(1 << 20, 200_000), piece(&host)];
    assert_eq!(get_pieces(client, "mixed", &into), Ok(300_000));
    assert!(card.holds_at(1 << 20, &value[..200_000]));
    assert!(host == value[200_000..]);
    let range =
        RangeRequest { key: "mixed", source_offset: 70_000, target: on_card(2 << 20, 90_000) };
    assert_eq!(client.read_ranges(&[range]), [Ok(90_000)]);
    assert!(card.holds_at(2 << 20, &value[70_000..160_000]));
    client.remove(&["mixed"], true);
}

#[test]
fn objects_go_from_and_to_device_memory_over_every_route() {
    let cluster = master(&[]);
    let _node = store(&cluster, ANY, 256 << 20, true);
    for (shared_memory, own_bytes) in [(true, 0), (false, 0), (true, 64 << 20)] {
        let card = Card::new();
        let mut environment = environment(shared_memory);
        environment.accelerators = Some(GivenDevices(card.clone()));
        let config = config(&cluster, ANY, own_bytes);
        let client = Store::open_with(config, &environment).unwrap();
        moves(&client, &card);
        assert_eq!(client.register_buffer(BASE, BYTES), Status::Ok);
        let asked = card.asked.load(Ordering::Relaxed);
        moves(&client, &card);
        assert_eq!(
            card.asked.load(Ordering::Relaxed),
            asked,
            "the driver is asked once per region"
        );
        assert_eq!(client.unregister_buffer(BASE), Status::Ok);
        client.close();
    }
}

#[test]
fn a_batch_larger_than_what_is_staged_at_a_time_arrives_whole() {
    let cluster = master(&[]);
    let _node = store(&cluster, ANY, 256 << 20, true);
    let card = Card::new();
    let mut environment = environment(true);
    environment.accelerators = Some(GivenDevices(card.clone()));
    let client = Store::open_with(config(&cluster, ANY, 0), &environment).unwrap();
    let value = data(3, BYTES);
    card.fill(0, &value);
    let keys: Vec<String> = (0..5).map(|key| format!("part-{key}")).collect();
    let part = BYTES / keys.len();
    let pieces: Vec<[CallerRange; 1]> = (0..5).map(|at| [on_card(at * part, part)]).collect();
    let put = keys.iter().zip(&pieces).map(|(key, pieces)| PutRequest { key, pieces, group: None });
    let stored = client.put(&put.collect::<Vec<_>>(), &ReplicateConfig::default());
    assert_eq!(stored, [Status::Ok; 5]);
    card.memory.lock().unwrap().fill(0);
    let get = keys.iter().zip(&pieces);
    let get = get.map(|(key, pieces)| GetRequest { key, pieces });
    let read = client.get(&get.collect::<Vec<_>>());
    assert_eq!(read, [Ok(part as u64); 5]);
    assert!(card.holds_at(0, &value));
}

/// Two pages, of which nothing may touch the second one.
fn half_closed() -> &'static [u8] {
    let page = 4096;
    let memory = Box::leak(vec![7u8; 4 * page].into_boxed_slice());
    let first = memory.as_ptr() as usize;
    let first = first.next_multiple_of(page);
    let closed = std::ptr::NonNull::new((first + page) as *mut std::ffi::c_void).unwrap();
    // SAFETY: the page lies within memory that is never used again.
    unsafe {
        mprotect(closed, page, ProtFlags::PROT_NONE).unwrap();
        std::slice::from_raw_parts(first as *const u8, 2 * page)
    }
}

#[test]
fn registered_memory_that_is_taken_away_is_refused_and_the_process_lives() {
    let cluster = master(&[]);
    let _node = store(&cluster, ANY, 64 << 20, true);
    for shared_memory in [true, false] {
        let client = store(&cluster, ANY, 0, shared_memory);
        let page = 4096;
        let length = std::num::NonZero::new(256 * page).unwrap();
        let rights = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping of its own, never taken away.
        let memory =
            unsafe { mmap_anonymous(None, length, rights, MapFlags::MAP_PRIVATE).unwrap() };
        let at = |number: usize| memory.as_ptr() as usize + number * page;
        assert_eq!(client.register_buffer(at(0), 256 * page), Status::Ok);
        let text = data(1, page);
        assert_eq!(put(&client, "good", &text, &ReplicateConfig::default()), Status::Ok);
        let closed = std::ptr::NonNull::new(at(7) as *mut std::ffi::c_void).unwrap();
        // SAFETY: the page belongs to the mapping, and nothing uses it.
        unsafe {
            mprotect(closed, page, ProtFlags::PROT_NONE).unwrap();
        }
        let refused = Status::InvalidParams;
        let pages: Vec<[CallerRange; 1]> =
            (0..16).map(|number| [CallerRange::named(at(number), page)]).collect();
        let keys: Vec<String> = (0..16).map(|number| format!("page {number}")).collect();
        let puts = keys.iter().zip(&pages);
        let puts = puts.map(|(key, pieces)| PutRequest { key, pieces, group: None });
        let stored = client.put(&puts.collect::<Vec<_>>(), &ReplicateConfig::default());
        for (number, status) in stored.into_iter().enumerate() {
            assert_eq!(status, if number == 7 { refused } else { Status::Ok }, "{number}");
        }
        let whole = CallerRange::named(at(0), 256 * page);
        assert_eq!(put_pieces(&client, "whole", &[whole]), refused);
        let gets = pages.iter().map(|pieces| GetRequest { key: "good", pieces });
        for (number, read) in client.get(&gets.collect::<Vec<_>>()).into_iter().enumerate() {
            assert_eq!(read.is_err(), number == 7, "{number}: {read:?}");
        }
        let range = RangeRequest { key: "good", source_offset: 0, target: pages[7][0] };
        assert_eq!(client.read_ranges(&[range]), [Err(refused)]);
        client.remove(&keys.iter().map(String::as_str).chain(["good"]).collect::<Vec<_>>(), true);
        assert!(client.unregister_buffer(at(0)) == Status::Ok);
    }
}

#[test]
fn addresses_without_memory_are_refused_and_the_process_lives() {
    let cluster = master(&[]);
    let _node = store(&cluster, ANY, 64 << 20, true);
    let pages = half_closed();
    let (first, half, whole) = (pages.as_ptr() as usize, pages.len() / 2, pages.len());
    for shared_memory in [true, false] {
        let client = store(&cluster, ANY, 0, shared_memory);
        let text = data(1, whole);
        let good = ReplicateConfig::default();
        assert_eq!(put(&client, "good", &text, &good), Status::Ok);
        for bad in [CallerRange::named(0x10, 10), CallerRange::named(first, whole)] {
            let refused = Status::InvalidParams;
            assert_eq!(client.register_buffer(bad.address, bad.bytes), refused);
            assert_eq!(put_pieces(&client, "bad", &[bad]), refused);
            let target = CallerRange::named(bad.address, whole);
            assert_eq!(get_pieces(&client, "good", &[target]), Err(refused));
            let range = RangeRequest { key: "good", source_offset: 0, target: bad };
            assert_eq!(client.read_ranges(&[range]), [Err(refused)]);
        }
        assert_eq!(client.exist(&["bad"]), [Ok(false)]);
        let readable = [CallerRange::named(first, half)];
        assert_eq!(put_pieces(&client, "half", &readable), Status::Ok);
        assert!(get(&client, "half").unwrap() == pages[..half]);
        client.remove(&["good", "half"], true);
    }
}

#[test]
fn a_registered_buffer_that_may_only_be_read_takes_puts_and_refuses_gets() {
    static BYTES: [u8; 8192] = [5; 8192];
    let cluster = master(&[]);
    let _node = store(&cluster, ANY, 64 << 20, true);
    let constant = CallerRange::named(BYTES.as_ptr() as usize, BYTES.len());
    for shared_memory in [true, false] {
        let client = store(&cluster, ANY, 0, shared_memory);
        assert_eq!(client.register_buffer(constant.address, constant.bytes), Status::Ok);
        assert_eq!(put_pieces(&client, "key", &[constant]), Status::Ok);
        let refused = Err(Status::InvalidParams);
        assert_eq!(get_pieces(&client, "key", &[constant]), refused);
        let range = RangeRequest { key: "key", source_offset: 0, target: constant };
        assert_eq!(client.read_ranges(&[range]), [refused]);
        assert!(get(&client, "key").unwrap() == BYTES);
        client.remove(&["key"], true);
    }
}
