//! Passing segments over socket pairs, and the messages of a peer that lies.
//! Invariant: a lying peer is played by writing raw bytes, not by our own encoder.

use std::io::Write;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::rendezvous::identity::require_user;
use crate::segment::{Access, MappedSegment, Segment, SegmentOptions};

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

fn segment(bytes: u64) -> Segment {
    Segment::create(
        bytes,
        &SegmentOptions { populate: crate::segment::Populate::OnRequest, ..Default::default() },
    )
    .unwrap()
}

fn offer(id: u128, segment: &Segment) -> OfferedSegment<'_> {
    OfferedSegment { id, segment_bytes: segment.len() as u64, fd: segment.fd().unwrap() }
}

/// What a receiver makes of `bytes` followed by the end of the stream.
fn receive_raw(bytes: &[u8]) -> Result<Vec<ReceivedSegment>, RendezvousError> {
    let (mut liar, us) = UnixStream::pair().unwrap();
    liar.write_all(bytes).unwrap();
    drop(liar);
    recv_segments(&us, soon())
}

fn header(count: u64) -> Vec<u8> {
    [*b"PERIGEE1", count.to_le_bytes()].concat()
}

#[test]
fn segments_arrive_in_order_with_their_memory() {
    let (node, client) = UnixStream::pair().unwrap();
    let (first, second) = (segment(5000), segment(70_000));
    // SAFETY: both bytes are within their segments.
    unsafe {
        first.base().write(1);
        second.base().write(2);
    }
    send_segments(&node, &[offer(u128::MAX - 1, &first), offer(7, &second)], soon()).unwrap();
    let got = recv_segments(&client, soon()).unwrap();
    let received: Vec<_> = got.iter().map(|s| (s.id, s.segment_bytes)).collect();
    assert_eq!(received, [(u128::MAX - 1, 5000), (7, 70_000)]);
    for (mark, received) in [1, 2].into_iter().zip(got) {
        let mapped =
            MappedSegment::map(received.fd, received.segment_bytes, Access::ReadOnly).unwrap();
        // SAFETY: the byte is within the mapping.
        assert_eq!(unsafe { mapped.base().read() }, mark);
    }
}

#[test]
fn no_segments_and_two_messages_in_a_row_are_fine() {
    let (node, client) = UnixStream::pair().unwrap();
    let one = segment(4096);
    send_segments(&node, &[], soon()).unwrap();
    send_segments(&node, &[offer(1, &one)], soon()).unwrap();
    assert!(recv_segments(&client, soon()).unwrap().is_empty());
    assert_eq!(recv_segments(&client, soon()).unwrap().len(), 1);
}

#[test]
fn the_largest_message_passes_and_one_more_is_refused() {
    let (node, client) = UnixStream::pair().unwrap();
    let one = segment(4096);
    let mut offers = vec![offer(1, &one); RENDEZVOUS_SEGMENTS_MAX];
    send_segments(&node, &offers, soon()).unwrap();
    assert_eq!(recv_segments(&client, soon()).unwrap().len(), RENDEZVOUS_SEGMENTS_MAX);
    offers.push(offer(2, &one));
    let refused = send_segments(&node, &offers, soon());
    assert!(matches!(refused, Err(RendezvousError::Count { count: 129 })));
}

#[test]
fn a_silent_peer_ends_at_the_deadline() {
    let (_silent, client) = UnixStream::pair().unwrap();
    let result = recv_segments(&client, Instant::now() + Duration::from_millis(5));
    assert!(matches!(result, Err(RendezvousError::Deadline)));
}

#[test]
fn a_lying_header_is_refused_before_memory_is_taken() {
    assert!(matches!(receive_raw(b"GET / HTTP/1.1\r\n\r\n"), Err(RendezvousError::Magic { .. })));
    let huge = receive_raw(&header(u64::MAX));
    assert!(matches!(huge, Err(RendezvousError::Count { count: u64::MAX })));
    assert!(matches!(receive_raw(&header(1)), Err(RendezvousError::Closed { received_bytes: 0 })));
}

#[test]
fn an_entry_without_descriptor_is_refused() {
    let message = [header(1), vec![1; 24]].concat();
    let result = receive_raw(&message);
    assert!(matches!(result, Err(RendezvousError::Descriptors { count: 1, descriptors: 0 })));
}

#[test]
fn lengths_that_no_segment_has_are_refused_by_both_ends() {
    let (node, client) = UnixStream::pair().unwrap();
    let one = segment(4096);
    for segment_bytes in [0, SEGMENT_BYTES_MAX + 1, u64::MAX] {
        let offer = OfferedSegment { segment_bytes, ..offer(3, &one) };
        let refused = send_segments(&node, &[offer], soon());
        assert!(matches!(refused, Err(RendezvousError::Length { id: 3, .. })));
        let body = message::encode(&[offer]);
        transport::send(&node, &body, &[offer], soon()).unwrap();
        let refused = recv_segments(&client, soon());
        assert!(matches!(refused, Err(RendezvousError::Length { id: 3, .. })));
    }
}

#[test]
fn a_named_listener_is_found_and_its_user_verified() {
    let name = format!("perigee-rendezvous-test-{}", std::process::id());
    let listener = listen(&name).unwrap();
    let client = connect(&name, soon()).unwrap();
    let (node, _) = listener.accept().unwrap();
    assert_eq!(verify_peer(&node).unwrap().pid, std::process::id().cast_signed());
    assert_eq!(verify_peer(&client).unwrap().uid, nix::unistd::geteuid().as_raw());
    let one = segment(100);
    send_segments(&node, &[offer(9, &one)], soon()).unwrap();
    assert_eq!(recv_segments(&client, soon()).unwrap()[0].id, 9);
    assert!(listen(&name).is_err());
}

#[test]
fn another_users_process_is_refused_even_by_root() {
    let peer = PeerIdentity { pid: 5, uid: 1000 };
    assert_eq!(require_user(peer, 1000).unwrap(), peer);
    let refused = require_user(peer, 0).unwrap_err();
    assert!(matches!(refused, RendezvousError::ForeignUser { pid: 5, theirs: 1000, ours: 0 }));
}

#[test]
fn names_that_do_not_fit_and_listeners_that_are_not_there_are_errors() {
    for name in [String::new(), "x".repeat(108)] {
        assert!(matches!(listen(&name), Err(RendezvousError::Name { .. })));
        assert!(matches!(connect(&name, soon()), Err(RendezvousError::Name { .. })));
    }
    let absent = connect("perigee-no-listener-here", soon());
    assert!(matches!(absent, Err(RendezvousError::Socket(_))));
}

#[test]
fn descriptors_of_a_refused_message_are_closed() {
    let (node, client) = UnixStream::pair().unwrap();
    let (watched, ours) = UnixStream::pair().unwrap();
    let stray = OfferedSegment { id: 1, segment_bytes: 1, fd: ours.as_fd() };
    transport::send(&node, &header(0).repeat(1), &[stray], soon()).unwrap();
    let refused = recv_segments(&client, soon());
    assert!(matches!(refused, Err(RendezvousError::Descriptors { count: 0, descriptors: 1 })));
    drop((refused, ours));
    // All copies of the other end are closed, so reading reports the end of the stream.
    assert_eq!(std::io::Read::read(&mut &watched, &mut [0; 1]).unwrap(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_garbage_is_taken_for_segments(
        tail in proptest::collection::vec(any::<u8>(), 0..200), framed in any::<bool>(),
    ) {
        let bytes = if framed { [b"PERIGEE1".to_vec(), tail].concat() } else { tail };
        if let Ok(segments) = receive_raw(&bytes) {
            prop_assert!(segments.is_empty());
        }
    }
}
