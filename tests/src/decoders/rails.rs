//! What processes tell each other about rails, queue pairs and lent memory, on data connections.
//! Invariant: what is taken survives encoding, and keys reach nothing outside of their region.

use std::time::Duration;

use perigee_rails::{RAILS_MAX, RegionDescriptor, RemoteKeys};
use perigee_rdma::wire::{
    decode_answer, decode_offer, decode_reply, decode_request, encode_answer, encode_offer,
    encode_reply, encode_request,
};
use perigee_schemas::frame::HEADER_BYTES;

/// The body of a frame as each of the messages.
pub(super) fn rails(body: &[u8]) -> bool {
    request(body) | reply(body) | offer(body) | answer(body)
}

fn request(body: &[u8]) -> bool {
    let Ok(request) = decode_request(body) else {
        return false;
    };
    let again = decode_request(&encode_request(&request)[HEADER_BYTES..]);
    assert_eq!(again.ok(), Some(request));
    true
}

fn reply(body: &[u8]) -> bool {
    let Ok(reply) = decode_reply(body) else {
        return false;
    };
    reply.regions.iter().for_each(|(_, region)| judge_keys(region));
    let again = decode_reply(&encode_reply(&reply)[HEADER_BYTES..]);
    let again = again.expect("what was decoded can be encoded");
    assert_eq!((again.peer, again.version), (reply.peer, reply.version));
    true
}

fn offer(body: &[u8]) -> bool {
    let Ok(offer) = decode_offer(body) else {
        return false;
    };
    let again = decode_offer(&encode_offer(&offer)[HEADER_BYTES..]);
    assert_eq!(again.ok(), Some(offer));
    true
}

fn answer(body: &[u8]) -> bool {
    let Ok(answer) = decode_answer(body) else {
        return false;
    };
    let again = decode_answer(&encode_answer(&Ok(answer.clone()))[HEADER_BYTES..]);
    assert_eq!(again.ok(), Some(answer));
    true
}

/// A region is refused, or used as it was described.
fn judge_keys(region: &RegionDescriptor) {
    let (address, bytes) = (region.address, region.bytes);
    let Ok(keys) = RemoteKeys::new(region, Duration::ZERO) else {
        return;
    };
    assert!(region.remote_keys.len() <= RAILS_MAX, "the limit holds");
    assert!(keys.contains(address, bytes));
    assert!(!keys.contains(address, bytes.saturating_add(1)) || bytes == u64::MAX);
    assert!(address == 0 || !keys.contains(address - 1, 1));
    assert!(!keys.contains(u64::MAX, 2), "ranges do not wrap around");
    std::hint::black_box(keys.is_valid(Duration::from_secs(1)));
}
