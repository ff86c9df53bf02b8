//! Bytes between two devices.

use std::time::Duration;

use perigee_verbs::CompletionStatus::Success;
use perigee_verbs::{VerbsError, WorkOperation, WorkRequest};

use crate::end::{BYTES, LONG, host, pattern, readable, request};

#[test]
fn a_write_and_a_read_of_a_mebibyte_move_every_byte() {
    let Some(host) = host() else { return };
    let (mut a, b) = host.joined();
    a.fill(pattern);
    b.fill(|_| 0);
    assert_eq!(a.write(&b, BYTES), Success);
    assert_eq!(b.bytes(0, BYTES), a.bytes(0, BYTES));

    b.fill(|offset| pattern(offset) ^ 0x55);
    let pieces = [a.piece(0, 1000), a.piece(5000, BYTES - 5000)];
    let read = request(2, WorkOperation::Read(&pieces), &b);
    a.pair.post(&[read]).unwrap();
    let ended = a.wait();
    assert_eq!((ended[0].status, ended[0].bytes as usize), (Success, BYTES - 4000));
    assert_eq!(a.bytes(0, 1000), b.bytes(0, 1000));
    assert_eq!(a.bytes(5000, BYTES - 5000), b.bytes(1000, BYTES - 5000));
}

#[test]
fn inline_bytes_need_no_region_up_to_what_was_granted() {
    let Some(host) = host() else { return };
    let (mut a, b) = host.joined();
    b.fill(|_| 0);
    let granted = a.pair.capacity().inline_bytes as usize;
    assert!(granted >= 64, "{granted}");
    let limit = a.device.info().limits.inline_bytes as usize;
    assert!(limit >= granted, "{limit}");
    let data: Vec<u8> = (0..granted + 1).map(pattern).collect();
    let inline = WorkOperation::WriteInline(&data[..granted]);
    assert_eq!(a.run(request(1, inline, &b)), Success);
    assert_eq!(b.bytes(0, granted), data[..granted]);
    assert_eq!(b.bytes(granted, 1), [0]);

    let too_long = request(2, WorkOperation::WriteInline(&data), &b);
    let error = a.pair.post(&[too_long]).unwrap_err();
    assert!(matches!(error.source, VerbsError::TooMuch { .. }), "{error}");
    let empty = WorkOperation::WriteInline(&[]);
    assert_eq!(a.run(request(3, empty, &b)), Success);
}

#[test]
fn a_long_chain_reports_only_its_signalled_requests_and_moves_all() {
    let Some(host) = host() else { return };
    let (mut a, b) = host.joined();
    a.fill(pattern);
    b.fill(|_| 0);
    let slice = 1024;
    let pieces: Vec<_> = (0..48).map(|index| [a.piece(index * slice, slice)]).collect();
    let chain: Vec<WorkRequest<'_>> = (0..48)
        .map(|index| WorkRequest {
            id: index as u64,
            remote_address: b.region.address() + (index * slice) as u64,
            signaled: index % 16 == 15,
            ..request(0, WorkOperation::Write(&pieces[index]), &b)
        })
        .collect();
    // Three times the chain is more than the send queue holds: entries must come back.
    for round in 0..3 {
        a.pair.post(&chain).unwrap();
        let mut ended = Vec::new();
        while ended.len() < 3 {
            ended.extend(a.wait().into_iter().map(|end| (end.id, end.status)));
        }
        assert_eq!(ended, [(15, Success), (31, Success), (47, Success)], "{round}");
    }
    assert_eq!(b.bytes(0, 48 * slice), a.bytes(0, 48 * slice));
}

#[test]
fn a_full_send_queue_says_how_much_was_taken() {
    let Some(host) = host() else { return };
    let (mut a, b) = host.joined();
    let pieces = [a.piece(0, 64 << 10)];
    let quiet = WorkRequest { signaled: false, ..request(1, WorkOperation::Write(&pieces), &b) };
    // Far more than the queue holds, of requests that do not give their entries back.
    let chain = vec![quiet; 1000];
    let error = a.pair.post(&chain).unwrap_err();
    assert!((64..1000).contains(&error.accepted), "{error}");
    assert!(matches!(error.source, VerbsError::QueueFull { .. }), "{error}");
}

#[test]
fn an_armed_queue_wakes_its_descriptor() {
    let Some(host) = host() else { return };
    let (mut a, b) = host.joined();
    assert!(!readable(a.queue.event_fd(), Duration::ZERO));
    assert_eq!(a.queue.drain_events(), Ok(0));
    for _ in 0..3 {
        a.queue.arm().unwrap();
        let pieces = [a.piece(0, 64)];
        a.pair.post(&[request(1, WorkOperation::Write(&pieces), &b)]).unwrap();
        assert!(readable(a.queue.event_fd(), LONG));
        assert_eq!(a.queue.drain_events(), Ok(1));
        assert_eq!(a.wait()[0].status, Success);
    }
    assert!(!readable(a.queue.event_fd(), Duration::ZERO));
}

#[test]
fn handles_may_be_dropped_in_any_order() {
    let Some(host) = host() else { return };
    let (a, b) = host.joined();
    let (mut pair, region) = (a.pair, a.region);
    drop(a.queue);
    drop(a.device);
    let piece = [perigee_verbs::Sge {
        address: region.address(),
        bytes: 64,
        local_key: region.local_key(),
    }];
    pair.post(&[request(1, WorkOperation::Write(&piece), &b)]).unwrap();
    drop(region);
    drop(pair);
}
