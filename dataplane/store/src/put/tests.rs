//! What a failed or repeated write comes to.

use super::*;
use perigee_transfer::{PeerError, SegmentAddress};
use std::sync::Arc;

fn broken() -> TransferError {
    TransferError::Peer(PeerError::Broken { peer: String::new(), reason: String::new() })
}

fn place(id: u128) -> ReplicaAddress {
    ReplicaAddress {
        segment: Arc::new(SegmentAddress {
            id: Identity(id),
            bytes: 0,
            endpoint: String::new(),
            host_id: String::new(),
            rendezvous: String::new(),
            kind: Some(perigee_schemas::SegmentKind::Memory),
        }),
        offset: 0,
        payload_bytes: 0,
        generation: 1,
    }
}

#[test]
fn of_a_repeated_key_only_the_last_request_is_written() {
    let request = |key| PutRequest { key, pieces: &[], group: None };
    let requests = ["a", "b", "a", "c", "b", "a"].map(request);
    assert_eq!(last_of_each_key(&requests), [5, 4, 5, 3, 4, 5]);
}

#[test]
fn one_broken_replica_leaves_bytes_in_flight_whatever_failed_first() {
    let PutOutcome { checksum, in_flight } =
        verdict(vec![Ok(7), Err(TransferError::Stale), Err(broken())], None);
    assert_eq!(checksum, Err(TransferError::Stale));
    assert!(in_flight);
    assert!(!verdict(vec![Ok(7), Err(TransferError::Stale)], None).in_flight);
    let whole = WrittenSums { whole: 7, parts: Vec::new() };
    assert_eq!(verdict(vec![Ok(7), Ok(7)], None).checksum, Ok(whole));
    assert!(verdict(Vec::new(), None).checksum.is_err());
}

#[test]
fn the_parts_of_an_object_have_its_checksum_together() {
    let bytes = [b"first".as_slice(), b"other", b"la"];
    let location = |part: usize| perigee_rpc::Location {
        segment: 0,
        status: 2,
        offset: 0,
        payload_bytes: bytes[part].len() as u64,
        generation: 1,
        part: Some(part as u8),
    };
    // The second part has two replicas.
    let locations = [0, 1, 1, 2].map(location);
    let parts = PartPlaces::of(&locations, 12).unwrap().unwrap();
    let sums = bytes.map(perigee_memory::crc32c);
    let replicas = || [0, 1, 1, 2].map(|part| Ok(sums[part])).to_vec();
    let whole = perigee_memory::crc32c(&bytes.concat());
    let wanted = WrittenSums { whole, parts: sums.to_vec() };
    assert_eq!(verdict(replicas(), Some(&parts)).checksum, Ok(wanted));
    for at in 0..4 {
        let mut replicas = replicas();
        replicas[at] = Err(broken());
        let PutOutcome { checksum, in_flight } = verdict(replicas, Some(&parts));
        assert_eq!((checksum, in_flight), (Err(broken()), true), "place {at}");
    }
}

fn refused() -> TransferError {
    TransferError::Peer(PeerError::Refused { peer: String::new(), status: Status::SegmentNotFound })
}

#[test]
fn only_segments_that_are_gone_or_whose_peers_are_are_avoided_and_each_once() {
    let places = [place(1), place(2), place(3), place(4)];
    let stale = Err(TransferError::Stale);
    let replicas = [Ok(7), Err(broken()), stale, Err(refused())];
    let mut excluded = Vec::new();
    exclude_faulty(&places, &replicas, &mut excluded);
    exclude_faulty(&places, &replicas, &mut excluded);
    assert_eq!(excluded, [Identity(2), Identity(4)]);
}

#[test]
fn bytes_that_did_not_arrive_have_one_code_whatever_became_of_their_owner() {
    let outside = TransferError::OutOfBounds { offset: 0, bytes: 1 };
    let unreachable =
        TransferError::Peer(PeerError::Unreachable { peer: String::new(), reason: String::new() });
    for error in [refused(), outside, TransferError::Stale, broken(), unreachable] {
        assert_eq!(status_of(&error), Status::TransferFail, "{error}");
    }
    let late = PeerError::Deadline { peer: String::new(), deadline: std::time::Duration::ZERO };
    assert_eq!(status_of(&TransferError::Peer(late)), Status::RpcTimeout);
    let memory = status_of(&TransferError::Peer(PeerError::LocalMemory));
    assert_eq!(memory, Status::InvalidParams);
}
