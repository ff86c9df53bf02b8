//! Bytes, keys, bounds, rights and the accounting of queues.

use std::os::fd::AsFd;
use std::time::Duration;

use super::bench::{BYTES, end, join, joined, request};
use crate::device::DmaBufRange;
use crate::error::VerbsError;
use crate::pair_state::QueuePairState;
use crate::queue::ConnectOptions;
use crate::region::RegionAccess;
use crate::software::{Clock, DevicePlan, SoftwareNetwork};
use crate::work::CompletionStatus::{LocalProtection, RemoteAccess, Success};
use crate::work::{Sge, WorkOperation, WorkRequest};

#[test]
fn a_write_and_a_read_move_bytes() {
    let (_network, mut a, b) = joined(Clock::Manual);
    a.fill(7);
    a.write(1, b.region.as_ref(), 4096);
    assert_eq!(b.byte(0), 0, "nothing moves before a poll");
    assert_eq!(a.ended(), [(1, Success)]);
    assert_eq!((b.byte(0), b.byte(4095), b.byte(4096)), (7, 7, 0));

    b.fill(9);
    let piece = [a.piece(100, 50)];
    let read = request(2, WorkOperation::Read(&piece), b.region.as_ref());
    a.pair.post(&[read]).unwrap();
    let ended = a.poll();
    assert_eq!((ended[0].id, ended[0].bytes), (2, 50));
    assert_eq!((a.byte(99), a.byte(100), a.byte(149), a.byte(150)), (7, 9, 9, 7));
}

#[test]
fn pieces_are_gathered_in_order_and_inline_data_needs_no_region() {
    let (_network, mut a, b) = joined(Clock::Manual);
    a.fill(1);
    let pieces = [a.piece(0, 10), a.piece(500, 20)];
    let gather = request(1, WorkOperation::Write(&pieces), b.region.as_ref());
    let data = *b"inline";
    let mut inline = request(2, WorkOperation::WriteInline(&data), b.region.as_ref());
    inline.remote_address += 30;
    a.pair.post(&[gather, inline]).unwrap();
    assert_eq!(a.ended(), [(1, Success), (2, Success)]);
    assert_eq!((b.byte(29), b.byte(30), b.byte(35), b.byte(36)), (1, b'i', b'e', 0));
}

#[test]
fn only_signalled_requests_report_success_and_they_give_back_all_entries_behind_them() {
    let (_network, mut a, b) = joined(Clock::Manual);
    let piece = [a.piece(0, 8)];
    let quiet = WorkRequest {
        signaled: false,
        ..request(1, WorkOperation::Write(&piece), b.region.as_ref())
    };
    let loud = request(2, WorkOperation::Write(&piece), b.region.as_ref());
    a.pair.post(&[quiet; 7]).unwrap();
    assert_eq!(a.ended(), []);
    let error = a.pair.post(&[loud, loud]).unwrap_err();
    assert_eq!(error.accepted, 1);
    assert!(matches!(error.source, VerbsError::QueueFull { .. }));
    assert_eq!(a.ended(), [(2, Success)]);
    a.pair.post(&[quiet; 8]).unwrap();
}

#[test]
fn a_wrong_key_and_every_out_of_bounds_range_are_refused_and_change_nothing() {
    let last = BYTES as u64;
    for (offset, bytes, key) in [
        (0, 8, 0x10),
        (last - 4, 8, 0),
        (last, 1, 0),
        (u64::MAX - 3, 8, 0),
        (0u64.wrapping_sub(1), 1, 0),
    ] {
        let (_network, mut a, b) = joined(Clock::Manual);
        a.fill(7);
        let piece = [a.piece(0, bytes)];
        let mut work = request(1, WorkOperation::Write(&piece), b.region.as_ref());
        work.remote_address = work.remote_address.wrapping_add(offset);
        work.remote_key ^= key;
        a.pair.post(&[work]).unwrap();
        assert_eq!(a.ended(), [(1, RemoteAccess)], "{offset:#x}");
        assert!((0..BYTES).all(|offset| b.byte(offset) == 0));
        assert_eq!(a.pair.state().unwrap(), QueuePairState::Failed);
        assert_eq!(b.pair.state().unwrap(), QueuePairState::Failed);
    }
}

#[test]
fn rights_are_those_of_the_region() {
    let (_network, mut a, b) = joined(Clock::Manual);
    let address = b.buffer.base() as u64;
    // SAFETY: dropped before the buffer, at the end of this function.
    let readable = unsafe { b.device.register(address, 64, RegionAccess::REMOTE_READ) }.unwrap();
    let piece = [a.piece(0, 8)];
    let read = request(1, WorkOperation::Read(&piece), readable.as_ref());
    let write = request(2, WorkOperation::Write(&piece), readable.as_ref());
    a.pair.post(&[read, write]).unwrap();
    assert_eq!(a.ended(), [(1, Success), (2, RemoteAccess)]);
}

#[test]
fn a_local_key_of_another_opening_does_not_work() {
    let (network, mut a, b) = joined(Clock::Manual);
    let fabric = network.host("a", &[]).unwrap();
    let other = end(fabric.as_ref(), "sw0");
    let piece = [other.piece(0, 8)];
    let work = request(1, WorkOperation::Write(&piece), b.region.as_ref());
    a.pair.post(&[work]).unwrap();
    assert_eq!(a.ended(), [(1, LocalProtection)]);
}

#[test]
fn a_remote_key_is_no_local_key() {
    let (_network, mut a, b) = joined(Clock::Manual);
    let piece = [Sge { local_key: a.region.remote_key(), ..a.piece(0, 8) }];
    a.pair.post(&[request(1, WorkOperation::Write(&piece), b.region.as_ref())]).unwrap();
    assert_eq!(a.ended(), [(1, LocalProtection)]);
}

#[test]
fn a_revoked_region_is_not_written_by_what_was_in_flight() {
    let (network, mut a, b) = joined(Clock::Manual);
    network.faults("a", "sw0").unwrap().delay(Duration::from_millis(5));
    a.fill(7);
    a.write(1, b.region.as_ref(), 64);
    assert_eq!(a.ended(), []);
    b.region.revoke().unwrap();
    b.region.revoke().unwrap();
    assert!(b.region.revoked());
    network.advance(Duration::from_millis(10));
    assert_eq!(a.ended(), [(1, RemoteAccess)]);
    assert_eq!(b.byte(0), 0);
}

#[test]
fn speed_and_delay_of_a_device_set_the_time_and_keep_the_order() {
    let network = SoftwareNetwork::new(Clock::Manual).unwrap();
    let slow = DevicePlan::new("sw0").bits_per_second(8_000_000).delay(Duration::from_millis(1));
    let left = network.host("a", &[slow]).unwrap();
    let right = network.host("b", &[DevicePlan::new("sw0")]).unwrap();
    let (mut a, mut b) = (end(left.as_ref(), "sw0"), end(right.as_ref(), "sw0"));
    join(&mut a, &mut b);
    // A byte takes a microsecond.
    for id in 1..=3 {
        a.write(id, b.region.as_ref(), 10_000);
    }
    assert_eq!(network.next_due(), Some(Duration::from_millis(11)));
    network.advance(Duration::from_millis(11));
    assert_eq!(a.ended(), [(1, Success)]);
    network.advance(Duration::from_millis(20));
    assert_eq!(a.ended(), [(2, Success), (3, Success)]);
    assert_eq!(network.next_due(), None);
}

#[test]
fn polling_can_move_the_clock() {
    let (network, mut a, b) = joined(Clock::Manual);
    network.faults("a", "sw0").unwrap().delay(Duration::from_micros(3));
    network.set_poll_step(Duration::from_micros(1));
    a.write(1, b.region.as_ref(), 8);
    assert!(a.ended().is_empty() && a.ended().is_empty());
    assert_eq!(a.ended(), [(1, Success)]);
}

#[test]
fn limits_and_states_are_checked_when_posting() {
    let (_network, mut a, b) = joined(Clock::Manual);
    let pieces = [a.piece(0, 1); 5];
    let many = request(1, WorkOperation::Write(&pieces), b.region.as_ref());
    let error = a.pair.post(&[many]).unwrap_err();
    assert!(matches!(error.source, VerbsError::TooMuch { asked: 5, .. }));
    let data = [0; 65];
    let inline = request(1, WorkOperation::WriteInline(&data), b.region.as_ref());
    let error = a.pair.post(&[inline]).unwrap_err();
    assert!(matches!(error.source, VerbsError::TooMuch { limit: 64, .. }));
    a.pair.fail().unwrap();
    let work = request(1, WorkOperation::Write(&pieces[..1]), b.region.as_ref());
    let error = a.pair.post(&[work]).unwrap_err();
    assert!(matches!(error.source, VerbsError::WrongState { .. }));
    let endpoint = *b.pair.endpoint();
    let error = a.pair.connect(&endpoint, &ConnectOptions::default());
    assert!(matches!(error, Err(VerbsError::WrongState { .. })));
}

#[test]
fn endless_retries_are_refused() {
    let network = SoftwareNetwork::new(Clock::Manual).unwrap();
    let fabric = network.host("a", &[DevicePlan::new("sw0")]).unwrap();
    let mut a = end(fabric.as_ref(), "sw0");
    let endpoint = *a.pair.endpoint();
    let good = ConnectOptions::default();
    for options in [
        ConnectOptions { retries: 7, ..good },
        ConnectOptions { rnr_retries: 7, ..good },
        ConnectOptions { timeout_exponent: 0, ..good },
        ConnectOptions { timeout_exponent: 32, ..good },
    ] {
        let refused = a.pair.connect(&endpoint, &options);
        assert!(matches!(refused, Err(VerbsError::TooMuch { .. })));
    }
    a.pair.connect(&endpoint, &good).unwrap();
}

#[test]
fn a_dma_buf_is_written_where_it_lies() {
    let (_network, mut a, b) = joined(Clock::Manual);
    let file = tempfile::tempfile().unwrap();
    file.set_len(8192).unwrap();
    let range = DmaBufRange { offset_bytes: 4096, bytes: 4096, address: 0x7000_0000_0000 };
    assert!(b.device.knows_dmabuf());
    // SAFETY: the descriptor's pages are used here only.
    let region =
        unsafe { b.device.register_dmabuf(file.as_fd(), range, RegionAccess::ALL) }.unwrap();
    a.fill(5);
    a.write(1, region.as_ref(), 16);
    assert_eq!(a.ended(), [(1, Success)]);
    let mut bytes = [0; 17];
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 4096).unwrap();
    assert_eq!((bytes[0], bytes[15], bytes[16]), (5, 5, 0));
}

#[test]
fn handles_may_be_dropped_in_any_order() {
    let (network, mut a, b) = joined(Clock::Manual);
    let (queue, device) = (a.queue.clone(), a.device.clone());
    drop(network);
    drop(a.queue);
    drop(a.device);
    let piece = [Sge { address: a.region.address(), bytes: 8, local_key: a.region.local_key() }];
    let work = request(1, WorkOperation::Write(&piece), b.region.as_ref());
    a.pair.post(&[work]).unwrap();
    drop(device);
    let mut taken = [crate::work::WorkCompletion::EMPTY; 4];
    assert_eq!(queue.poll(&mut taken), Ok(1));
}
