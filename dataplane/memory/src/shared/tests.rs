//! An owner and its guests in one process. Invariant: the owner is asked through its socket, as by
//! another process.

use super::*;
use crate::Segment;
use crate::limits::{OWNER_RETRY, SHARED_SEGMENTS_MAX};
use crate::rendezvous::{connect, listen};
use crate::segment::{Populate, SegmentOptions};
use std::io::Read;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);
const BYTES: u64 = 8192;

#[derive(Debug, Default)]
struct Table(Mutex<Vec<(u128, Arc<Segment>)>>);

impl SegmentSource for Table {
    fn segments(&self) -> Vec<(u128, Arc<Segment>)> {
        self.0.lock().unwrap().clone()
    }
}

impl Table {
    fn add(&self, id: u128) -> Arc<Segment> {
        let options = SegmentOptions { populate: Populate::OnRequest, ..SegmentOptions::default() };
        let segment = Arc::new(Segment::create(BYTES, &options).unwrap());
        self.0.lock().unwrap().push((id, segment.clone()));
        segment
    }

    fn remove(&self, id: u128) {
        self.0.lock().unwrap().retain(|(known, _)| *known != id);
    }
}

fn socket() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("perigee-shared-test-{}-{number}", std::process::id())
}

/// An owner of segment 1.
fn owner() -> (Owner, Arc<Table>, Arc<Segment>) {
    let table = Arc::new(Table::default());
    let segment = table.add(1);
    let owner = Owner::new(socket(), table.clone());
    owner.extend();
    (owner, table, segment)
}

fn find(guest: &Guest, owner: &Owner, id: u128) -> Option<SharedSegment> {
    let has = |memory: &OwnerMemory| memory.segments().any(|(known, _)| known == id);
    let memory = guest.find(owner.socket(), LONG, has)?;
    SharedSegment::of(memory, id)
}

#[test]
fn a_guest_writes_what_the_owner_reads() {
    let (owner, _table, segment) = owner();
    let guest = Guest::default();
    let shared = find(&guest, &owner, 1).unwrap();
    let byte = shared.mapping().range_mut(BYTES - 1, 1).unwrap();
    // SAFETY: the byte lies within both mappings, and no other test uses it.
    unsafe {
        byte.write(7);
        assert_eq!(segment.range(BYTES - 1, 1).unwrap().read(), 7);
    }
    let again = find(&guest, &owner, 1).unwrap();
    assert_eq!(again.mapping().base(), shared.mapping().base(), "mapped once");
    assert!(find(&guest, &owner, 2).is_none());
}

#[test]
fn what_was_taken_back_is_not_found_any_more_and_what_is_left_is() {
    let (owner, table, _segment) = owner();
    table.add(2);
    owner.extend();
    let guest = Guest::default();
    let before = [1, 2].map(|id| find(&guest, &owner, id).unwrap());
    table.remove(1);
    owner.withdraw();
    assert!(find(&guest, &owner, 1).is_none());
    let after = find(&guest, &owner, 2).unwrap();
    assert_ne!(after.mapping().base(), before[1].mapping().base());
}

#[test]
fn a_segment_that_comes_later_is_found_by_a_guest_that_was_there() {
    let (owner, table, _segment) = owner();
    let guest = Guest::default();
    assert!(find(&guest, &owner, 1).is_some() && find(&guest, &owner, 2).is_none());
    table.add(2);
    owner.extend();
    assert!(find(&guest, &owner, 2).is_some() && find(&guest, &owner, 1).is_some());
}

#[test]
fn an_owner_waits_for_copies_and_for_no_guest_that_has_left() {
    let (owner, _table, _segment) = owner();
    let guest = Guest::default();
    let memory = |guest: &Guest| guest.find(owner.socket(), LONG, |_| true);
    let first = memory(&guest).unwrap();
    let copy = first.begin_copy().unwrap();
    assert!(!owner.revoke(Duration::ZERO), "a copy is under way");
    assert!(first.begin_copy().is_none() && !first.is_open());
    drop(copy);
    assert!(owner.revoke(LONG));
    let second = memory(&guest).unwrap();
    let _never_ended = ManuallyDrop::new(second.begin_copy().unwrap());
    assert!(!owner.revoke(Duration::ZERO));
    drop((first, second));
    guest.leave(owner.socket());
    assert!(owner.revoke(LONG), "the guest has left in the middle of a copy");
}

#[test]
fn an_owner_that_has_ended_is_copied_by_no_guest_any_more() {
    let copying = AtomicU32::new(0);
    for _ in 0..50 {
        let (owner, _table, _segment) = owner();
        let copied = AtomicU32::new(0);
        let copy = || {
            while let Some(memory) = Guest::default().find(owner.socket(), LONG, |_| true) {
                let Some(_permit) = memory.begin_copy() else {
                    continue;
                };
                copying.fetch_add(1, Ordering::SeqCst);
                copied.fetch_add(1, Ordering::SeqCst);
                std::thread::yield_now();
                copying.fetch_sub(1, Ordering::SeqCst);
            }
        };
        std::thread::scope(|scope| {
            let guests = [(); 2].map(|()| scope.spawn(copy));
            while copied.load(Ordering::SeqCst) < 2 {
                std::thread::yield_now();
            }
            owner.close(LONG);
            let late = copying.load(Ordering::SeqCst);
            guests.into_iter().for_each(|guest| guest.join().unwrap());
            assert_eq!(late, 0);
        });
    }
}

#[test]
fn an_owner_that_has_ended_is_noticed_and_its_memory_dropped() {
    let (owner, _table, _segment) = owner();
    let guest = Guest::default();
    let memory = guest.find(owner.socket(), LONG, |_| true);
    let memory = memory.unwrap();
    assert!(memory.is_alive() && memory.is_open());
    owner.close(LONG);
    assert!(!memory.is_open() && !memory.is_alive());
    guest.sweep();
    assert_eq!(Arc::strong_count(&memory), 1, "the guest keeps nothing");
    let refused = guest.find(owner.socket(), LONG, |_| true);
    assert!(refused.is_none());
}

#[test]
fn an_owner_that_is_silent_costs_one_wait() {
    let (silent, guest) = (socket(), Guest::default());
    let listener = listen(&silent).unwrap();
    let find = || guest.find(&silent, LONG, |_| true);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let asked = [(); 4].map(|()| scope.spawn(find));
        assert!(asked.into_iter().all(|asked| asked.join().unwrap().is_none()));
    });
    assert!(find().is_none());
    listener.set_nonblocking(true).unwrap();
    let asked = std::iter::from_fn(|| listener.accept().ok()).count();
    // Only one of them has asked, unless they were so slow that the owner was not left alone any
    // more.
    assert!(asked == 1 || begun.elapsed() > OWNER_RETRY, "asked {asked} times");
}

#[test]
fn guests_get_as_many_segments_as_one_message_holds() {
    let (owner, table, _segment) = owner();
    for id in 2..SHARED_SEGMENTS_MAX as u128 + 10 {
        table.add(id);
    }
    let guest = Guest::default();
    let memory = guest.find(owner.socket(), LONG, |_| true);
    assert_eq!(memory.unwrap().segments().count(), SHARED_SEGMENTS_MAX);
}

#[test]
fn a_guest_that_speaks_is_sent_away() {
    let (owner, _table, _segment) = owner();
    let mut stream = connect(owner.socket(), Instant::now() + LONG).unwrap();
    std::io::Write::write_all(&mut stream, b"x").unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let mut sent = Vec::new();
    stream.read_to_end(&mut sent).unwrap();
    assert!(!sent.is_empty(), "it was let in before it spoke");
}
