//! Slice requests and replies as bytes, and frames read from a stream.

use crate::limits::SLICE_BODY_BYTES_MAX;
use flatbuffers::FlatBufferBuilder;
use perigee_schemas::frame::{HEADER_BYTES, Header, Kind};
use perigee_schemas::message::decode;
use perigee_schemas::transfer as wire;
use perigee_schemas::{Identity, Status};
use perigee_shard::{Message, Stream};
use std::io;

pub(crate) use wire::{Direction, Piece};

/// A decoded slice request.
#[derive(Debug)]
pub(crate) struct SliceRequest {
    pub(crate) direction: Direction,
    pub(crate) segment: Identity,
    pub(crate) pieces: Vec<Piece>,
}

/// A decoded slice reply.
#[derive(Debug)]
pub(crate) struct SliceReply {
    pub(crate) status: Vec<Status>,
    pub(crate) payload_bytes: u64,
}

/// The frame of a slice request.
pub(crate) fn encode_request(
    request: u64,
    direction: Direction,
    segment: Identity,
    pieces: &[Piece],
) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::with_capacity(pieces.len() * 40 + 96);
    let pieces = builder.create_vector(pieces);
    let root = wire::SliceRequest::create(
        &mut builder,
        &wire::SliceRequestArgs {
            direction,
            segment_high: segment.high(),
            segment_low: segment.low(),
            pieces: Some(pieces),
        },
    );
    builder.finish_minimal(root);
    framed(Kind::Slice, request, builder.finished_data())
}

/// The frame of a slice reply.
pub(crate) fn encode_reply(request: u64, status: &[i32], payload_bytes: u64) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::with_capacity(status.len() * 4 + 64);
    let status = builder.create_vector(status);
    let root = wire::SliceReply::create(
        &mut builder,
        &wire::SliceReplyArgs {
            status: Some(status),
            payload_bytes,
        },
    );
    builder.finish_minimal(root);
    framed(Kind::Reply, request, builder.finished_data())
}

pub(crate) fn decode_request(body: &[u8]) -> io::Result<SliceRequest> {
    let request = decode::<wire::SliceRequest<'_>>(body).map_err(invalid)?;
    let pieces = request
        .pieces()
        .iter()
        .flat_map(flatbuffers::Vector::iter)
        .copied()
        .collect();
    let segment = Identity::from_halves(request.segment_high(), request.segment_low());
    Ok(SliceRequest {
        direction: request.direction(),
        segment,
        pieces,
    })
}

pub(crate) fn decode_reply(body: &[u8]) -> io::Result<SliceReply> {
    let reply = decode::<wire::SliceReply<'_>>(body).map_err(invalid)?;
    let status = reply
        .status()
        .iter()
        .flat_map(flatbuffers::Vector::iter)
        .map(Status::from_peer)
        .collect();
    Ok(SliceReply {
        status,
        payload_bytes: reply.payload_bytes(),
    })
}

/// Receives one whole frame; the body is checked.
pub(crate) async fn receive_frame<S: Stream>(stream: &S) -> io::Result<(Header, Vec<u8>)> {
    receive_frame_up_to(stream, SLICE_BODY_BYTES_MAX).await
}

/// Receives one whole frame with a body of at most `limit` bytes.
pub(crate) async fn receive_frame_up_to<S: Stream>(
    stream: &S,
    limit: usize,
) -> io::Result<(Header, Vec<u8>)> {
    let header = receive_header_up_to(stream, limit).await?;
    let body = receive_body(stream, &header).await?;
    Ok((header, body))
}

/// Receives and judges a frame's header.
pub(crate) async fn receive_header<S: Stream>(stream: &S) -> io::Result<Header> {
    receive_header_up_to(stream, SLICE_BODY_BYTES_MAX).await
}

async fn receive_header_up_to<S: Stream>(stream: &S, limit: usize) -> io::Result<Header> {
    let head = receive_bytes(stream, HEADER_BYTES).await?;
    let mut bytes = [0; HEADER_BYTES];
    bytes.copy_from_slice(&head);
    Header::decode(&bytes, limit).map_err(invalid)
}

/// Receives and checks the body of a judged header.
pub(crate) async fn receive_body<S: Stream>(stream: &S, header: &Header) -> io::Result<Vec<u8>> {
    let body = receive_bytes(stream, header.body_bytes).await?;
    header.check(&body).map_err(invalid)?;
    Ok(body)
}

async fn receive_bytes<S: Stream>(stream: &S, count: usize) -> io::Result<Vec<u8>> {
    let mut buffer = Vec::with_capacity(count);
    while buffer.len() < count {
        let missing = count - buffer.len();
        let (result, filled) = stream.receive_up_to(buffer, missing).await;
        buffer = filled;
        if result? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(buffer)
}

/// Sends bytes that are whole by themselves.
pub(crate) async fn send_bytes<S: Stream>(stream: &S, bytes: Vec<u8>) -> io::Result<()> {
    let mut message = Message::new();
    message.push_owned(bytes);
    stream.send_message(message).await
}

pub(crate) fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

pub(crate) fn framed(kind: Kind, request: u64, body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEADER_BYTES + body.len());
    frame.extend_from_slice(&Header::encode(kind, request, body));
    frame.extend_from_slice(body);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::SLICE_PIECES_MAX;

    #[test]
    fn a_full_request_fits_the_body_limit() {
        let pieces = vec![Piece::new(1, 2, 3, 4, 5); SLICE_PIECES_MAX];
        let frame = encode_request(1, Direction::Write, Identity(7), &pieces);
        assert!(frame.len() - HEADER_BYTES <= SLICE_BODY_BYTES_MAX);
        let request = decode_request(&frame[HEADER_BYTES..]).unwrap();
        assert_eq!(request.pieces.len(), SLICE_PIECES_MAX);
        assert_eq!(
            (request.direction, request.segment),
            (Direction::Write, Identity(7))
        );
    }

    #[test]
    fn replies_round_trip() {
        let frame = encode_reply(3, &[0, -702], 42);
        let reply = decode_reply(&frame[HEADER_BYTES..]).unwrap();
        assert_eq!(reply.status, [Status::Ok, Status::InvalidReplica]);
        assert_eq!(reply.payload_bytes, 42);
    }
}
