//! Messages about rails survive the wire, and broken ones are refused.

use super::*;
use perigee_rails::{
    EndpointAnswer, EndpointDescriptor, EndpointOffer, FencedPair, PairAnswer, PairOffer,
    ProofDescriptor,
};
use perigee_schemas::frame::HEADER_BYTES;
use proptest::prelude::*;

fn endpoint() -> EndpointDescriptor {
    EndpointDescriptor {
        gid: *b"0123456789abcdef",
        lid: 7,
        queue_pair: 8,
        sequence: 9,
        mtu_bytes: 4096,
    }
}

const PROOF: ProofDescriptor = ProofDescriptor { address: 0x1000, remote_key: 5 };

#[test]
fn rails_and_regions_round_trip() {
    let region = RegionDescriptor {
        epoch: u64::MAX,
        generation: 3,
        address: 0x1000,
        bytes: 0x4000,
        lease_ms: Some(10_000),
        borders: vec![0x2000],
        remote_keys: vec![vec![1, 2], Vec::new(), vec![3, 4]],
        placement: Placement::of(vec![1], vec![0, 2], true),
    };
    let gid = GidDescriptor { index: 3, address: *b"fedcba9876543210", roce_v1: true };
    let rail =
        RailDescriptor { device: "mlx5_0".to_owned(), infiniband: true, lid: 4, gids: vec![gid] };
    let reply = RailsReply {
        peer: PeerDescriptor { epoch: u64::MAX, rails: vec![rail] },
        regions: vec![(Identity(77), region)],
        version: 6,
        lease_ms: 10_000,
    };
    let frame = encode_reply(&reply);
    assert_eq!(decode_reply(&frame[HEADER_BYTES..]).unwrap(), reply);
    let none = encode_no_rails(Status::NotSupported);
    assert!(decode_reply(&none[HEADER_BYTES..]).is_err());
}

#[test]
fn requests_round_trip_with_and_without_tickets() {
    for returned in [Vec::new(), vec![3, u64::MAX]] {
        let request = RailsRequest { epoch: 5, fence: true, version: 9, returned };
        let frame = encode_request(&request);
        assert_eq!(decode_request(&frame[HEADER_BYTES..]).unwrap(), request);
    }
}

#[test]
fn regions_that_do_not_fit_are_left_out_rather_than_sent_in_an_oversized_frame() {
    let region = RegionDescriptor {
        epoch: 1,
        generation: 1,
        address: 0,
        bytes: 1 << 40,
        lease_ms: Some(1),
        borders: vec![1; 40_000],
        remote_keys: vec![vec![1; 40_001]; 2],
        placement: Placement::default(),
    };
    let peer = PeerDescriptor { epoch: 1, rails: Vec::new() };
    let regions = (0..100).map(|id| (Identity(id), region.clone()));
    let reply = RailsReply { peer, regions: regions.collect(), version: 1, lease_ms: 1 };
    let frame = encode_reply(&reply);
    assert!(frame.len() <= crate::limits::BODY_BYTES_MAX);
    let decoded = decode_reply(&frame[HEADER_BYTES..]).unwrap().regions;
    assert!((1..100).contains(&decoded.len()), "{}", decoded.len());
}

#[test]
fn offers_and_answers_round_trip() {
    let pair =
        PairOffer { lane: 1, peer_rail: 2, peer_gid_index: 3, endpoint: endpoint(), proof: PROOF };
    let offer = EndpointOffer {
        name: "client".to_owned(),
        epoch: 1,
        peer_epoch: 2,
        shard: 3,
        pairs: vec![pair],
        fenced: vec![FencedPair { lane: 4, queue_pair: 5 }],
    };
    let frame = encode_offer(&offer);
    assert_eq!(decode_offer(&frame[HEADER_BYTES..]).unwrap(), offer);
    let joined = PairAnswer::Joined { endpoint: endpoint(), proof: PROOF };
    let refused = PairAnswer::Refused { reason: "no".to_owned() };
    let answer = EndpointAnswer { epoch: 2, pairs: vec![joined, refused], fenced: 1 };
    let frame = encode_answer(&Ok(answer.clone()));
    assert_eq!(decode_answer(&frame[HEADER_BYTES..]).unwrap(), answer);
    let frame = encode_answer(&Err("closed".to_owned()));
    let error = decode_answer(&frame[HEADER_BYTES..]).unwrap_err();
    assert_eq!(error.to_string(), "closed");
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = decode_request(&bytes);
        let _ = decode_reply(&bytes);
        let _ = decode_offer(&bytes);
        let _ = decode_answer(&bytes);
    }
}
