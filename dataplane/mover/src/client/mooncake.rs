//! Mooncake's data protocol, on the side that asks: one header per piece, then bytes, then a
//! status.
//!
//! Its requests carry no identity of the peer's run, so addresses of a peer that restarted are not
//! noticed here.

use super::borrowed::borrow;
use crate::mooncake::{self, HEADER_BYTES, STATUS_BYTES};
use crate::reply::Reply;
use crate::slice::Slice;
use crate::wire::{Piece, invalid_text};
use perigee_schemas::{Direction, Status};
use perigee_shard::{Message, Stream};
use std::io;

/// Moves the pieces of a slice one after the other.
pub(super) async fn exchange<T: Stream, S: Slice>(
    stream: &T,
    slice: &S,
    with_status: bool,
) -> io::Result<Reply> {
    let mut reply = Reply::default();
    for (number, piece) in slice.pieces().enumerate() {
        let mut payload = Message::new();
        borrow(slice.memory(number), &mut payload);
        let status = match slice.header().direction {
            Direction::Write => write(stream, piece, payload, with_status).await?,
            Direction::Read => read(stream, piece, payload, with_status).await?,
        };
        reply.status.push(status);
    }
    Ok(reply)
}

async fn write<T: Stream>(
    stream: &T,
    piece: Piece,
    payload: Message,
    with_status: bool,
) -> io::Result<Status> {
    let mut message = header(Direction::Write, piece, with_status);
    message.append(payload);
    stream.send_message(message).await?;
    match with_status {
        true => status(stream).await,
        false => Ok(Status::Ok),
    }
}

async fn read<T: Stream>(
    stream: &T,
    piece: Piece,
    payload: Message,
    with_status: bool,
) -> io::Result<Status> {
    let asked = header(Direction::Read, piece, with_status);
    stream.send_message(asked).await?;
    if with_status {
        let status = status(stream).await?;
        if status != Status::Ok {
            return Ok(status);
        }
    }
    stream.receive_message(payload).await?;
    Ok(Status::Ok)
}

fn header(direction: Direction, piece: Piece, with_status: bool) -> Message {
    let mut message = Message::new();
    let header = mooncake::MooncakeHeader {
        direction,
        with_status,
        address: piece.offset(),
        bytes: piece.bytes(),
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
    let word = bytes.first_chunk().copied().map(u64::from_le_bytes).unwrap_or_default();
    mooncake::decode_status(word).ok_or_else(|| invalid_text("The peer answered without a status"))
}
