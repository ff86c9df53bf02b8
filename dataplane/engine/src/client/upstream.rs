//! Mooncake's data protocol, on the side that asks: one header per piece, then bytes, then a status.
//!
//! Its requests carry no identity of the peer's life, so addresses of a peer that restarted are not noticed here.

use crate::request::Direction;
use crate::slice::{Piece, Slice};
use crate::upstream::{self, HEADER_BYTES, Opcode, STATUS_BYTES};
use crate::wire::{Reply, invalid_text};
use perigee_schemas::Status;
use perigee_shard::{Message, Stream};
use std::io;

/// Moves the pieces of a slice one after the other.
pub(super) async fn exchange<S: Stream>(
    stream: &S,
    slice: &Slice,
    with_status: bool,
) -> io::Result<Reply> {
    let mut reply = Reply::default();
    for piece in &slice.pieces {
        let status = match slice.direction {
            Direction::Write => write(stream, piece, with_status).await?,
            Direction::Read => read(stream, piece, with_status).await?,
        };
        reply.status.push(status);
    }
    // A refused piece of a read leaves the others where they are: they have arrived.
    Ok(reply)
}

async fn write<S: Stream>(stream: &S, piece: &Piece, with_status: bool) -> io::Result<Status> {
    let mut message = header(Opcode::Write, piece, with_status);
    // SAFETY: whoever submitted the batch keeps its memory until it is over.
    unsafe { message.push_borrowed(piece.local as *mut u8, piece.bytes as usize) };
    stream.send_message(message).await?;
    if with_status {
        status(stream).await
    } else {
        Ok(Status::Ok)
    }
}

async fn read<S: Stream>(stream: &S, piece: &Piece, with_status: bool) -> io::Result<Status> {
    stream
        .send_message(header(Opcode::Read, piece, with_status))
        .await?;
    if with_status {
        let status = status(stream).await?;
        if status != Status::Ok {
            return Ok(status);
        }
    }
    let mut payload = Message::new();
    // SAFETY: as in `write`.
    unsafe { payload.push_borrowed(piece.local as *mut u8, piece.bytes as usize) };
    stream.receive_message(payload).await?;
    Ok(Status::Ok)
}

fn header(opcode: Opcode, piece: &Piece, with_status: bool) -> Message {
    let mut message = Message::new();
    let header = upstream::Header {
        opcode,
        with_status,
        address: piece.remote,
        bytes: piece.bytes,
    };
    message.push_owned(header.encode());
    debug_assert_eq!(message.bytes(), HEADER_BYTES);
    message
}

async fn status<S: Stream>(stream: &S) -> io::Result<Status> {
    let mut bytes = Vec::with_capacity(STATUS_BYTES);
    while bytes.len() < STATUS_BYTES {
        let missing = STATUS_BYTES - bytes.len();
        let (received, filled) = stream.receive_up_to(bytes, missing).await;
        bytes = filled;
        if received? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let word = bytes
        .first_chunk()
        .copied()
        .map(u64::from_le_bytes)
        .unwrap_or_default();
    upstream::decode_status(word).ok_or_else(|| invalid_text("The peer answered without a status"))
}
