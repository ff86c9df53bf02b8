//! What an operator is shown of a key. Invariant: times are milliseconds from now, back or ahead.

use std::sync::Arc;

use crate::departures::Departure;
use crate::segment::SegmentSpec;

/// What a shard knows of a key.
#[derive(Debug)]
pub struct InspectedKey {
    /// What can be read.
    pub object: Option<InspectedObject>,
    /// Puts that have begun and not ended.
    pub unfinished_puts: usize,
    /// Replicas that went, the latest first.
    pub departures: Vec<Departure>,
    /// Milliseconds that departures are remembered for; `None` if none was forgotten.
    pub reach_ms: Option<u64>,
}

/// An object that can be read.
#[derive(Debug)]
pub struct InspectedObject {
    /// Client that finished the last put.
    pub writer: u128,
    /// CRC-32C of the payload.
    pub checksum: u32,
    /// Its group, if it has one.
    pub group: Option<String>,
    /// Whether it is never evicted.
    pub is_hard_pinned: bool,
    /// Milliseconds left of its soft pin.
    pub soft_pin_ms: Option<u64>,
    /// Milliseconds left of the lease of its readers; 0 without one.
    pub lease_ms: u64,
    /// Whether it was read.
    pub was_read: bool,
    /// Milliseconds since it was touched, at least.
    pub idle_ms: u64,
    /// Its replicas, in the order in which readers are given them.
    pub replicas: Vec<InspectedReplica>,
}

/// A replica that can be read.
#[derive(Debug)]
pub struct InspectedReplica {
    /// The segment or disk where it lies.
    pub segment: Arc<SegmentSpec>,
    /// Offset in the segment; on a disk the packed address.
    pub offset: u64,
    /// Payload length in bytes.
    pub payload_bytes: u64,
    /// Number of this writing of its place.
    pub generation: u64,
    /// Where it stands in the order of eviction.
    pub standing: &'static str,
}
