//! Frames around messages, and addresses as two words. Invariant: what is written here is read
//! here.

use crate::limits::BODY_BYTES_MAX;
use flatbuffers::FlatBufferBuilder;
use perigee_schemas::frame::{FrameHeader, HEADER_BYTES, MessageKind};
use std::io;

pub(crate) type Builder<'a> = FlatBufferBuilder<'a>;

pub(crate) fn halves(address: &[u8; 16]) -> (u64, u64) {
    let whole = u128::from_be_bytes(*address);
    ((whole >> 64) as u64, whole as u64)
}

pub(crate) fn joined(high: u64, low: u64) -> [u8; 16] {
    (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
}

pub(crate) fn framed(kind: MessageKind, request: u64, body: &[u8]) -> Vec<u8> {
    debug_assert!(body.len() <= BODY_BYTES_MAX, "the peer takes it");
    let mut frame = Vec::with_capacity(HEADER_BYTES + body.len());
    frame.extend_from_slice(&FrameHeader::encode(kind, request, body));
    frame.extend_from_slice(body);
    frame
}

pub(crate) fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
