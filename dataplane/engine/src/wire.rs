//! Move requests and replies as bytes.
//!
//! The invariant that saves system calls: no frame of a request or reply is shorter than a known length, so that many
//! bytes can be received before the length is known, and never a byte of the payload behind the frame with them.

use crate::request::Direction;
use crate::slice::Piece;
use flatbuffers::FlatBufferBuilder;
use perigee_schemas::Status;
use perigee_schemas::engine as wire;
use perigee_schemas::frame::{HEADER_BYTES, Header, Kind};
use perigee_schemas::message::decode;
use std::io;

pub(crate) use wire::Piece as WirePiece;

/// Least bytes of a request's frame: the one of a request for one piece.
pub(crate) const REQUEST_BYTES_MIN: usize = HEADER_BYTES + 64;
/// Least bytes of a reply's frame: the one of a reply for one piece.
pub(crate) const REPLY_BYTES_MIN: usize = HEADER_BYTES + 40;

/// A decoded request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MoveRequest {
    pub(crate) direction: Direction,
    pub(crate) epoch: u64,
    pub(crate) pieces: Vec<WirePiece>,
    pub(crate) checksum: Vec<u32>,
    pub(crate) with_checksum: bool,
}

/// A decoded reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: Vec<Status>,
    pub(crate) checksum: Vec<u32>,
    pub(crate) payload_bytes: u64,
}

/// Makes frames in a buffer that is used again and again.
pub(crate) struct Encoder {
    builder: FlatBufferBuilder<'static>,
}

impl Encoder {
    pub(crate) fn new() -> Self {
        let mut builder = FlatBufferBuilder::with_capacity(512);
        // Defaults are written, so that the length of a frame depends on the number of its pieces only.
        builder.force_defaults(true);
        Self { builder }
    }

    /// Appends the frame of a request to `frame`.
    pub(crate) fn request(
        &mut self,
        frame: &mut Vec<u8>,
        number: u64,
        epoch: u64,
        direction: Direction,
        pieces: &[Piece],
        checksum: Option<&[u32]>,
    ) {
        let builder = &mut self.builder;
        builder.reset();
        let places = pieces
            .iter()
            .map(|piece| WirePiece::new(piece.remote, piece.bytes));
        let checksum_sent = checksum.filter(|_| direction == Direction::Write);
        let args = wire::MoveRequestArgs {
            direction: to_wire(direction),
            epoch,
            pieces: Some(builder.create_vector_from_iter(places)),
            checksum: checksum_sent.map(|sums| builder.create_vector(sums)),
            with_checksum: checksum.is_some() && direction == Direction::Read,
        };
        let root = wire::MoveRequest::create(builder, &args);
        builder.finish_minimal(root);
        append(frame, Kind::Move, number, builder.finished_data());
    }

    /// Appends the frame of a reply to `frame`.
    pub(crate) fn reply(
        &mut self,
        frame: &mut Vec<u8>,
        number: u64,
        status: &[i32],
        checksum: &[u32],
        payload_bytes: u64,
    ) {
        let builder = &mut self.builder;
        builder.reset();
        let sums = (!checksum.is_empty()).then(|| builder.create_vector(checksum));
        let args = wire::MoveReplyArgs {
            status: Some(builder.create_vector(status)),
            checksum: sums,
            payload_bytes,
        };
        let root = wire::MoveReply::create(builder, &args);
        builder.finish_minimal(root);
        append(frame, Kind::Reply, number, builder.finished_data());
    }
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Encoder").finish_non_exhaustive()
    }
}

/// Reads the body of a request.
///
/// # Errors
/// The body is malformed.
pub(crate) fn decode_request(body: &[u8]) -> io::Result<MoveRequest> {
    let request = decode::<wire::MoveRequest<'_>>(body).map_err(invalid)?;
    let direction = match request.direction() {
        wire::Direction::Read => Direction::Read,
        wire::Direction::Write => Direction::Write,
        other => {
            return Err(invalid_text(format!(
                "Direction {} does not exist",
                other.0
            )));
        }
    };
    let pieces = request.pieces();
    let checksum = request.checksum();
    Ok(MoveRequest {
        direction,
        epoch: request.epoch(),
        pieces: pieces
            .iter()
            .flat_map(flatbuffers::Vector::iter)
            .copied()
            .collect(),
        checksum: checksum
            .iter()
            .flat_map(flatbuffers::Vector::iter)
            .collect(),
        with_checksum: request.with_checksum(),
    })
}

/// Reads the body of a reply to a request of this many pieces.
///
/// # Errors
/// The body is malformed or answers another request.
pub(crate) fn decode_reply(body: &[u8], pieces: usize) -> io::Result<Reply> {
    let reply = decode::<wire::MoveReply<'_>>(body).map_err(invalid)?;
    let (status, checksum) = (reply.status(), reply.checksum());
    let status = status.iter().flat_map(flatbuffers::Vector::iter);
    let reply = Reply {
        status: status.map(Status::from_peer).collect(),
        checksum: checksum
            .iter()
            .flat_map(flatbuffers::Vector::iter)
            .collect(),
        payload_bytes: reply.payload_bytes(),
    };
    if reply.status.len() != pieces {
        let text = format!(
            "{} pieces were answered instead of {pieces}",
            reply.status.len()
        );
        return Err(invalid_text(text));
    }
    Ok(reply)
}

/// An error of data that a peer sent.
pub(crate) fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// As [`invalid`], with a text.
pub(crate) fn invalid_text(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.into())
}

fn to_wire(direction: Direction) -> wire::Direction {
    match direction {
        Direction::Read => wire::Direction::Read,
        Direction::Write => wire::Direction::Write,
    }
}

fn append(frame: &mut Vec<u8>, kind: Kind, number: u64, body: &[u8]) {
    frame.extend_from_slice(&Header::encode(kind, number, body));
    frame.extend_from_slice(body);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{BODY_BYTES_MAX, SLICE_PIECES_MAX};

    fn piece(remote: u64) -> Piece {
        Piece {
            request: 0,
            local: 1,
            remote,
            bytes: 64,
            is_first: true,
        }
    }

    fn request(direction: Direction, pieces: &[Piece], sums: Option<&[u32]>) -> Vec<u8> {
        let mut frame = Vec::new();
        Encoder::new().request(&mut frame, 7, 0, direction, pieces, sums);
        frame
    }

    #[test]
    fn no_frame_before_payload_is_shorter_than_the_least() {
        let mut reply = Vec::new();
        Encoder::new().reply(&mut reply, 0, &[0], &[], 0);
        assert_eq!(reply.len(), REPLY_BYTES_MIN);
        let write = request(Direction::Write, &[piece(0)], None);
        assert_eq!(write.len(), REQUEST_BYTES_MIN);
        assert_eq!(
            write.len(),
            request(Direction::Read, &[piece(9)], None).len()
        );
    }

    #[test]
    fn a_full_request_and_its_reply_fit_the_body_limit() {
        let pieces = vec![piece(1); SLICE_PIECES_MAX];
        let sums = vec![5; SLICE_PIECES_MAX];
        let frame = request(Direction::Write, &pieces, Some(&sums));
        assert!(frame.len() - HEADER_BYTES <= BODY_BYTES_MAX);
        let decoded = decode_request(&frame[HEADER_BYTES..]).unwrap();
        assert_eq!(
            (decoded.pieces.len(), decoded.checksum.len()),
            (SLICE_PIECES_MAX, SLICE_PIECES_MAX)
        );
        let mut frame = Vec::new();
        Encoder::new().reply(&mut frame, 1, &[0; SLICE_PIECES_MAX], &sums, 64);
        let reply = decode_reply(&frame[HEADER_BYTES..], SLICE_PIECES_MAX).unwrap();
        assert_eq!((reply.checksum, reply.payload_bytes), (sums, 64));
    }

    #[test]
    fn an_answer_to_another_number_of_pieces_is_refused() {
        let mut frame = Vec::new();
        Encoder::new().reply(&mut frame, 1, &[0, -600], &[], 0);
        assert!(decode_reply(&frame[HEADER_BYTES..], 1).is_err());
        let reply = decode_reply(&frame[HEADER_BYTES..], 2).unwrap();
        assert_eq!(reply.status, [Status::Ok, Status::InvalidParams]);
    }

    #[test]
    fn unknown_directions_are_refused() {
        let mut builder = FlatBufferBuilder::new();
        let args = wire::MoveRequestArgs {
            direction: wire::Direction(9),
            ..Default::default()
        };
        let root = wire::MoveRequest::create(&mut builder, &args);
        builder.finish_minimal(root);
        assert!(decode_request(builder.finished_data()).is_err());
    }
}
