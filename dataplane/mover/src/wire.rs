//! Move requests and replies as bytes.
//!
//! The invariant that saves system calls: no frame of a request or reply is shorter than a known
//! length, so that many bytes can be received before the length is known, and never a byte of the
//! payload behind the frame with them.

use crate::limits::BODY_BYTES_MAX;
use crate::reply::{Reply, StagedPlaces};
use crate::scope::Scope;
use crate::server_times::ServerTimes;
use crate::slice::{Slice, SliceHeader};
use flatbuffers::FlatBufferBuilder;
use perigee_schemas::frame::{FrameHeader, HEADER_BYTES, MessageKind};
use perigee_schemas::message::decode;
use perigee_schemas::mover as wire;
use perigee_schemas::trace::FrameTrailer;
use perigee_schemas::{Direction, Identity, Status};
use std::io;

pub use wire::{Guard, Piece};

/// The oldest protocol in which replies carry the server's times.
pub(crate) const PROTOCOL_WITH_TIMES: u16 = 3;

// A peer of any build reads these numbers.
const _: () = assert!(Direction::Read as u8 == wire::Direction::Read.0);
const _: () = assert!(Direction::Write as u8 == wire::Direction::Write.0);

/// Least bytes of a request's frame: the one of a request for one piece.
pub(crate) const REQUEST_BYTES_MIN: usize = HEADER_BYTES + 88;
/// Least bytes of a reply's frame: the one of a reply for one piece, without the server's times and
/// with them.
const REPLY_BYTES_MIN: usize = HEADER_BYTES + 40;
const TIMED_REPLY_BYTES_MIN: usize = HEADER_BYTES + 56;

/// Least bytes of a reply's frame in this protocol.
pub(crate) fn reply_bytes_min(protocol: u16) -> usize {
    if protocol >= PROTOCOL_WITH_TIMES { TIMED_REPLY_BYTES_MIN } else { REPLY_BYTES_MIN }
}

/// A decoded request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MoveRequest {
    pub(crate) direction: Direction,
    pub(crate) epoch: u64,
    pub(crate) scope: Scope,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) guards: Vec<Guard>,
    pub(crate) checksum: Vec<u32>,
    pub(crate) with_checksum: bool,
    /// The run of the rails of who asks, if it reads by itself what the answer says the place of.
    pub(crate) reader: Option<u64>,
}

impl MoveRequest {
    /// Bytes of all pieces.
    pub(crate) fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes()).sum()
    }
}

/// Makes frames in a buffer that is used again and again.
pub(crate) struct Encoder {
    builder: FlatBufferBuilder<'static>,
}

impl Encoder {
    pub(crate) fn new() -> Self {
        let mut builder = FlatBufferBuilder::with_capacity(512);
        // Defaults are written, so that the length of a frame depends on the number of its pieces
        // only.
        builder.force_defaults(true);
        Self { builder }
    }

    /// Appends the frame of a request to `frame`.
    pub(crate) fn request<S: Slice>(
        &mut self,
        frame: &mut Vec<u8>,
        number: u64,
        epoch: u64,
        slice: &S,
        with_checksum: bool,
    ) {
        let builder = &mut self.builder;
        builder.reset();
        let SliceHeader { direction, scope } = slice.header();
        let segment = scope.segment();
        let guards = slice.guards();
        let guards = (guards.len() > 0).then(|| builder.create_vector_from_iter(guards));
        let writes = direction == Direction::Write;
        let sums = (with_checksum && writes).then(|| builder.create_vector(&slice.checksums()));
        let args = wire::MoveRequestArgs {
            direction: wire::Direction(direction as u8),
            epoch,
            segment_high: segment.high(),
            segment_low: segment.low(),
            pieces: Some(builder.create_vector_from_iter(slice.pieces())),
            guards,
            checksum: sums,
            with_checksum: with_checksum && !writes,
            reader: slice.reader().filter(|_| !writes),
            ..wire::MoveRequestArgs::default()
        };
        let root = wire::MoveRequest::create(builder, &args);
        builder.finish_minimal(root);
        let trailer = slice.traced().map(|request| request.context().encode());
        append(frame, MessageKind::Move, number, builder.finished_data(), trailer.as_ref());
    }

    /// Appends the frame of a reply to `frame`.
    pub(crate) fn reply(
        &mut self,
        frame: &mut Vec<u8>,
        number: u64,
        status: &[i32],
        checksum: &[u32],
        payload_bytes: u64,
        times: Option<ServerTimes>,
    ) {
        let builder = &mut self.builder;
        builder.reset();
        let sums = (!checksum.is_empty()).then(|| builder.create_vector(checksum));
        let times = times.map(ServerTimes::encode);
        let args = wire::MoveReplyArgs {
            status: Some(builder.create_vector(status)),
            checksum: sums,
            payload_bytes,
            times: times.as_ref(),
            ..wire::MoveReplyArgs::default()
        };
        let root = wire::MoveReply::create(builder, &args);
        builder.finish_minimal(root);
        append(frame, MessageKind::Reply, number, builder.finished_data(), None);
    }

    /// Appends the frame of a reply that says where the bytes lie.
    pub(crate) fn staged_reply(
        &mut self,
        frame: &mut Vec<u8>,
        number: u64,
        status: &[i32],
        staged: &StagedPlaces,
        times: Option<ServerTimes>,
    ) {
        debug_assert_eq!(status.len(), staged.addresses.len(), "a place for each piece");
        let builder = &mut self.builder;
        builder.reset();
        let times = times.map(ServerTimes::encode);
        let args = wire::MoveReplyArgs {
            status: Some(builder.create_vector(status)),
            times: times.as_ref(),
            places: Some(builder.create_vector(&staged.addresses)),
            ticket: Some(staged.ticket),
            ..wire::MoveReplyArgs::default()
        };
        let root = wire::MoveReply::create(builder, &args);
        builder.finish_minimal(root);
        append(frame, MessageKind::Reply, number, builder.finished_data(), None);
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
    let direction = request.direction().0;
    let direction = Direction::from_number(direction)
        .ok_or_else(|| invalid_text(format!("Direction {direction} does not exist")))?;
    let scope = match Identity::from_halves(request.segment_high(), request.segment_low()) {
        Identity(0) => Scope::Registered,
        segment => Scope::Segment(segment),
    };
    Ok(MoveRequest {
        direction,
        epoch: request.epoch(),
        scope,
        pieces: request.pieces().iter().flatten().copied().collect(),
        guards: request.guards().iter().flatten().copied().collect(),
        checksum: request.checksum().iter().flatten().collect(),
        with_checksum: request.with_checksum(),
        reader: request.reader(),
    })
}

/// Reads the body of a reply to a request of this many pieces.
///
/// # Errors
/// The body is malformed or answers another request.
pub(crate) fn decode_reply(body: &[u8], pieces: usize) -> io::Result<Reply> {
    let reply = decode::<wire::MoveReply<'_>>(body).map_err(invalid)?;
    let status = reply.status();
    let status = status.iter().flatten().map(Status::from_peer);
    let staged = reply.places().zip(reply.ticket());
    let staged =
        staged.map(|(places, ticket)| StagedPlaces { addresses: places.iter().collect(), ticket });
    let reply = Reply {
        status: status.collect(),
        checksum: reply.checksum().iter().flatten().collect(),
        payload_bytes: reply.payload_bytes(),
        times: reply.times().map(ServerTimes::decode).unwrap_or_default(),
        staged,
    };
    if reply.status.len() != pieces {
        let text = format!("{} pieces were answered instead of {pieces}", reply.status.len());
        return Err(invalid_text(text));
    }
    if !reply.checksum.is_empty() && reply.checksum.len() != pieces {
        return Err(invalid_text("Not every piece has a checksum"));
    }
    if reply.staged.as_ref().is_some_and(|staged| staged.addresses.len() != pieces) {
        return Err(invalid_text("Not every piece has a place"));
    }
    Ok(reply)
}

/// An error of data that a peer sent.
pub(crate) fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

pub(crate) fn invalid_text(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.into())
}

fn append(
    frame: &mut Vec<u8>,
    kind: MessageKind,
    number: u64,
    body: &[u8],
    trailer: Option<&FrameTrailer>,
) {
    debug_assert!(body.len() <= BODY_BYTES_MAX, "the peer takes it");
    let header = match trailer {
        None => FrameHeader::encode(kind, number, body),
        Some(trailer) => FrameHeader::encode_with_trailer(kind, number, body, trailer),
    };
    frame.extend_from_slice(&header);
    frame.extend_from_slice(body);
    trailer.into_iter().for_each(|trailer| frame.extend_from_slice(trailer));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{BODY_BYTES_MAX, PIECES_MAX};
    use crate::slice::tests::{Asked, asked};
    use std::time::Duration;

    fn request(slice: &Asked, with_checksum: bool) -> Vec<u8> {
        let mut frame = Vec::new();
        Encoder::new().request(&mut frame, 7, 0, slice, with_checksum);
        frame
    }

    #[test]
    fn no_frame_before_payload_is_shorter_than_the_least() {
        let mut reply = Vec::new();
        Encoder::new().reply(&mut reply, 0, &[0], &[], 0, None);
        assert_eq!(reply.len(), reply_bytes_min(PROTOCOL_WITH_TIMES - 1));
        let mut timed = Vec::new();
        Encoder::new().reply(&mut timed, 0, &[0], &[], 0, Some(ServerTimes::default()));
        assert_eq!(timed.len(), reply_bytes_min(PROTOCOL_WITH_TIMES));
        let write = request(&asked(Direction::Write, 1), false);
        assert_eq!(write.len(), REQUEST_BYTES_MIN);
        let read = request(&asked(Direction::Read, 1), false);
        assert_eq!(write.len(), read.len());
    }

    #[test]
    fn a_full_request_and_its_reply_fit_the_body_limit() {
        let mut slice = asked(Direction::Write, PIECES_MAX);
        slice.guards = vec![Guard::new(8, 9); PIECES_MAX];
        slice.header.scope = Scope::Segment(Identity(5 << 70));
        let frame = request(&slice, true);
        assert!(frame.len() - HEADER_BYTES <= BODY_BYTES_MAX);
        let decoded = decode_request(&frame[HEADER_BYTES..]).unwrap();
        assert_eq!((decoded.scope, decoded.guards), (slice.header.scope, slice.guards));
        assert_eq!((decoded.pieces.len(), decoded.checksum.len()), (PIECES_MAX, PIECES_MAX));
        let (sums, mut frame) = (vec![5; PIECES_MAX], Vec::new());
        let times = ServerTimes {
            waited: Duration::from_millis(3),
            copied: Duration::from_nanos(7),
            disk: Duration::from_secs(9),
        };
        Encoder::new().reply(&mut frame, 1, &[0; PIECES_MAX], &sums, 64, Some(times));
        assert!(frame.len() - HEADER_BYTES <= BODY_BYTES_MAX);
        let reply = decode_reply(&frame[HEADER_BYTES..], PIECES_MAX).unwrap();
        assert_eq!((reply.checksum, reply.payload_bytes, reply.times), (sums, 64, times));
    }

    #[test]
    fn an_answer_to_another_number_of_pieces_is_refused() {
        let mut frame = Vec::new();
        Encoder::new().reply(&mut frame, 1, &[0, -600], &[], 0, None);
        assert!(decode_reply(&frame[HEADER_BYTES..], 1).is_err());
        let reply = decode_reply(&frame[HEADER_BYTES..], 2).unwrap();
        assert_eq!(reply.status, [Status::Ok, Status::InvalidParams]);
        let mut frame = Vec::new();
        Encoder::new().reply(&mut frame, 1, &[0, 0], &[7], 0, None);
        assert!(decode_reply(&frame[HEADER_BYTES..], 2).is_err());
    }

    #[test]
    fn a_reader_gets_places_for_all_pieces_or_for_none() {
        let mut slice = asked(Direction::Read, 2);
        slice.reader = Some(77);
        let decoded = decode_request(&request(&slice, false)[HEADER_BYTES..]).unwrap();
        assert_eq!(decoded.reader, Some(77));
        slice.header.direction = Direction::Write;
        let decoded = decode_request(&request(&slice, false)[HEADER_BYTES..]).unwrap();
        assert_eq!(decoded.reader, None, "a write brings its bytes");
        let (mut frame, staged) =
            (Vec::new(), StagedPlaces { ticket: 0, addresses: vec![1 << 40, 0] });
        Encoder::new().staged_reply(&mut frame, 1, &[0, -600], &staged, None);
        let reply = decode_reply(&frame[HEADER_BYTES..], 2).unwrap();
        assert_eq!((reply.staged, reply.payload_bytes), (Some(staged), 0));
        let mut builder = FlatBufferBuilder::new();
        let (status, places) = (builder.create_vector(&[0, 0]), builder.create_vector(&[1u64]));
        let (status, places) = (Some(status), Some(places));
        let args = wire::MoveReplyArgs { status, places, ticket: Some(1), ..Default::default() };
        let root = wire::MoveReply::create(&mut builder, &args);
        builder.finish_minimal(root);
        assert!(decode_reply(builder.finished_data(), 2).is_err());
    }

    #[test]
    fn unknown_directions_are_refused() {
        let mut builder = FlatBufferBuilder::new();
        let args = wire::MoveRequestArgs { direction: wire::Direction(9), ..Default::default() };
        let root = wire::MoveRequest::create(&mut builder, &args);
        builder.finish_minimal(root);
        assert!(decode_request(builder.finished_data()).is_err());
    }
}
