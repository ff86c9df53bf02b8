//! Bodies of the calls that an owner makes about what lies in its segments.
//! Invariant: a part of an announcement is one body.

use flatbuffers::FlatBufferBuilder;
use perigee_schemas::{Identity, master};

/// One message of an announcement.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct AnnouncementPart {
    /// Records one behind the other, as in a journal.
    pub records: Vec<u8>,
    /// Where free ranges begin...
    pub free_offset: Vec<u64>,
    /// ... and their lengths in bytes.
    pub free_bytes: Vec<u64>,
    /// Whether no part follows.
    pub is_last: bool,
    /// Records of removals in earlier lives of the master.
    pub removed: Vec<u8>,
}

/// Asks a shard that is none of the `taken` ones for the records of a segment.
pub fn follow_request(client: Identity, segment: Identity, taken: &[u32]) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let args = master::FollowRequestArgs {
        client_high: client.high(),
        client_low: client.low(),
        segment_high: segment.high(),
        segment_low: segment.low(),
        taken: Some(builder.create_vector(taken)),
    };
    let root = master::FollowRequest::create(&mut builder, &args);
    builder.finish_minimal(root);
    builder.finished_data().to_vec()
}

/// Announces a part of what lies in a segment.
pub fn announce_request(client: Identity, segment: Identity, part: &AnnouncementPart) -> Vec<u8> {
    let mut builder =
        FlatBufferBuilder::with_capacity(part.records.len() + part.removed.len() + 1024);
    let args = master::AnnounceRequestArgs {
        client_high: client.high(),
        client_low: client.low(),
        segment_high: segment.high(),
        segment_low: segment.low(),
        records: Some(builder.create_vector(&part.records)),
        free_offset: Some(builder.create_vector(&part.free_offset)),
        free_bytes: Some(builder.create_vector(&part.free_bytes)),
        is_last: part.is_last,
        removed: Some(builder.create_vector(&part.removed)),
    };
    let root = master::AnnounceRequest::create(&mut builder, &args);
    builder.finish_minimal(root);
    builder.finished_data().to_vec()
}
