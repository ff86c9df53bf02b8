//! What engines tell each other about rails, queue pairs and registered memory: JSON in documents and in handshakes.
//! Invariant: what is taken comes out of the encoder again as the same value, and keys reach nothing outside of their
//! region.

use std::time::Duration;

use perigee_rails::{
    EndpointAnswer, EndpointOffer, PeerDescriptor, RAILS_MAX, RegionDescriptor, RemoteKeys,
};

/// JSON as each of the messages.
pub(super) fn rails(bytes: &[u8]) -> bool {
    offer(bytes) | answer(bytes) | peer(bytes) | region(bytes)
}

macro_rules! survives {
    ($name:ident, $message:ty, $judge:expr) => {
        fn $name(json: &[u8]) -> bool {
            let Ok(message) = serde_json::from_slice::<$message>(json) else {
                return false;
            };
            let text = serde_json::to_vec(&message).expect("messages have names as keys only");
            let again: Result<$message, _> = serde_json::from_slice(&text);
            assert_eq!(
                again.ok().as_ref(),
                Some(&message),
                "what was taken survives encoding"
            );
            $judge(&message);
            true
        }
    };
}

survives!(offer, EndpointOffer, |_: &EndpointOffer| {});
survives!(answer, EndpointAnswer, |_: &EndpointAnswer| {});
survives!(peer, PeerDescriptor, |_: &PeerDescriptor| {});
survives!(region, RegionDescriptor, judge_keys);

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
