//! One side's part of a conversation, without sockets: requests as frames, replies judged against
//! the slices they answer. Both kinds of connections speak through it.
//! Invariant: a reply is taken only for the oldest request that has none, and only with the payload
//! that was asked for.

use crate::greeting::refusal;
use crate::limits::PIECES_MAX;
use crate::reply::Reply;
use crate::slice::Slice;
use crate::wire::{Encoder, decode_reply, invalid, invalid_text};
use perigee_memory::ByteRangeMut;
use perigee_schemas::frame::MessageKind;
use perigee_schemas::frame_buffer::FrameBuffer;
use perigee_schemas::{Direction, Status};
use std::io;

/// A conversation after its greeting.
#[derive(Debug)]
pub(super) struct Exchange {
    encoder: Encoder,
    epoch: u64,
    /// Numbers of the newest request and of the newest reply.
    sent: u64,
    answered: u64,
}

impl Exchange {
    /// With a peer whose addresses belong to this run.
    pub(super) fn new(epoch: u64) -> Self {
        Self { encoder: Encoder::new(), epoch, sent: 0, answered: 0 }
    }

    /// How many requests have been answered.
    pub(super) fn answered(&self) -> u64 {
        self.answered
    }

    /// How many requests have not been answered.
    pub(super) fn unanswered(&self) -> u64 {
        debug_assert!(self.answered <= self.sent, "answers follow questions");
        self.sent - self.answered
    }

    /// Appends the frame of a request. The payload of a write follows it.
    pub(super) fn request<S: Slice>(&mut self, frame: &mut Vec<u8>, slice: &S, summed: bool) {
        debug_assert!((1..=PIECES_MAX).contains(&slice.pieces().len()));
        debug_assert!([0, slice.pieces().len()].contains(&slice.guards().len()));
        self.sent += 1;
        self.encoder.request(frame, self.sent, self.epoch, slice, summed);
    }

    /// Takes a whole frame as the reply to the oldest request. The payload of a read follows it.
    ///
    /// # Errors
    /// It is something else; the connection cannot be used further.
    pub(super) fn reply<S: Slice>(
        &mut self,
        arriving: &mut FrameBuffer,
        slice: &S,
    ) -> io::Result<Reply> {
        debug_assert!(self.unanswered() > 0, "a question has no answer yet");
        let (expected, pieces) = (self.answered + 1, slice.pieces().len());
        let frame = arriving.frame().map_err(invalid)?;
        let (header, body) = frame.ok_or(io::ErrorKind::UnexpectedEof)?;
        let reply = match header.kind {
            MessageKind::Reply if header.request == expected => decode_reply(body, pieces)?,
            MessageKind::Reply => return Err(invalid_text("An answer to another question")),
            kind => return Err(refusal(kind, body)),
        };
        arriving.consume();
        if reply.staged.is_some() && slice.reader().is_none() {
            return Err(invalid_text("Places instead of the bytes that were asked for"));
        }
        let wanted: u64 = readable(slice, &reply).map(|(_, bytes)| bytes).sum();
        if reply.payload_bytes != wanted {
            return Err(invalid_text("Another number of bytes than was asked for"));
        }
        self.answered = expected;
        Ok(reply)
    }
}

/// The local ranges that the payload of a request is taken from.
pub(super) fn outgoing<S: Slice>(slice: &S) -> impl Iterator<Item = ByteRangeMut> {
    let writes = slice.header().direction == Direction::Write;
    let pieces = if writes { slice.pieces().len() } else { 0 };
    (0..pieces).flat_map(|piece| slice.memory(piece))
}

/// The local ranges that the payload of a reply goes to.
pub(super) fn incoming<S: Slice>(slice: &S, reply: &Reply) -> impl Iterator<Item = ByteRangeMut> {
    readable(slice, reply).flat_map(|(piece, _)| slice.memory(piece))
}

/// The pieces of a read whose bytes come, and how many bytes each has.
fn readable<S: Slice>(slice: &S, reply: &Reply) -> impl Iterator<Item = (usize, u64)> {
    let reads = slice.header().direction == Direction::Read && reply.staged.is_none();
    let pieces = slice.pieces().map(|piece| piece.bytes()).enumerate();
    let granted = pieces.zip(&reply.status);
    granted.filter(move |(_, status)| reads && **status == Status::Ok).map(|(piece, _)| piece)
}
