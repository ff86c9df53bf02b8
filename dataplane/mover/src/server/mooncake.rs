//! One connection in Mooncake's data protocol, served only when that was asked for: its requests do
//! not say which run of this process their addresses belong to.
//!
//! Bounds are checked as in our own dialect, and a peer that stops in the middle of a request is
//! cut off.

use super::granted_range::GrantedRange;
use super::owner::{MemoryOwner, PieceRequest};
use super::serving::Serving;
use super::verdict::lend_last;
use crate::limits::{PAYLOAD_DEADLINE, REQUEST_BYTES_MAX};
use crate::mooncake::{HEADER_BYTES, MooncakeHeader, encode_status};
use crate::scope::Scope;
use crate::wire::{Piece, invalid_text};
use perigee_port::Connection;
use perigee_schemas::{Direction, Status};
use perigee_shard::{Environment, Message, Stream, within};
use std::io;

/// Serves until the peer leaves or misbehaves.
pub(super) async fn serve<E: Environment, O: MemoryOwner>(
    owner: &O,
    connection: &Connection<E, Serving>,
) -> io::Result<()> {
    let (environment, stream) = (connection.environment(), connection.stream());
    let serving = &connection.state;
    while let Some(header) = receive_header(environment, stream).await? {
        // The whole range is checked, and kept, before its first step.
        let whole = find(owner, &header, header.address, header.bytes);
        serving.uses(whole.iter().map(GrantedRange::memory));
        let refused = usize::from(whole.is_err());
        serving.counters.served(header.bytes, refused);
        match (&whole, header.direction) {
            (Ok(_), Direction::Read) => serve_read(environment, stream, owner, &header).await?,
            (Ok(_), Direction::Write) => serve_write(environment, stream, owner, &header).await?,
            (Err(_), _) => return refuse(environment, stream, &header).await,
        }
        serving.uses(std::iter::empty());
        connection.hear();
    }
    Ok(())
}

/// Checks a range in the way of our own protocol.
fn find<O: MemoryOwner>(
    owner: &O,
    header: &MooncakeHeader,
    address: u64,
    bytes: u64,
) -> Result<GrantedRange, Status> {
    let (direction, piece) = (header.direction, &Piece::new(address, bytes));
    owner.find(&PieceRequest { scope: Scope::Registered, direction, piece, guard: None })
}

/// The next request, or `None` when the peer has left. Only its first byte may take as long as it
/// likes.
async fn receive_header<E: Environment>(
    environment: &E,
    stream: &E::Stream,
) -> io::Result<Option<MooncakeHeader>> {
    let (received, bytes) =
        stream.receive_up_to(Vec::with_capacity(HEADER_BYTES), HEADER_BYTES).await;
    if received? == 0 {
        return Ok(None);
    }
    let rest = async {
        let mut bytes = bytes;
        while bytes.len() < HEADER_BYTES {
            let missing = HEADER_BYTES - bytes.len();
            let (received, filled) = stream.receive_up_to(bytes, missing).await;
            bytes = filled;
            if received? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(bytes)
    };
    let bytes = within(environment, PAYLOAD_DEADLINE, stream, rest).await?;
    let header =
        bytes.first_chunk().and_then(MooncakeHeader::decode).filter(|header| header.bytes > 0);
    header.map(Some).ok_or_else(|| invalid_text("An opcode that does not exist, or no bytes"))
}

async fn serve_read<E: Environment, O: MemoryOwner>(
    environment: &E,
    stream: &E::Stream,
    owner: &O,
    header: &MooncakeHeader,
) -> io::Result<()> {
    let mut message = status(header, Status::Ok);
    for (address, bytes) in steps(header) {
        let mut range = find(owner, header, address, bytes).map_err(io::Error::other)?;
        range.stage(Direction::Read).map_err(io::Error::other)?;
        lend_last(&range, range.bytes(), &mut message);
        let step = std::mem::take(&mut message);
        let sending = stream.send_message(step);
        within(environment, PAYLOAD_DEADLINE, stream, sending).await?;
    }
    Ok(())
}

async fn serve_write<E: Environment, O: MemoryOwner>(
    environment: &E,
    stream: &E::Stream,
    owner: &O,
    header: &MooncakeHeader,
) -> io::Result<()> {
    for (address, bytes) in steps(header) {
        let mut range = find(owner, header, address, bytes).map_err(io::Error::other)?;
        range.stage(Direction::Write).map_err(io::Error::other)?;
        let mut step = Message::new();
        lend_last(&range, range.bytes(), &mut step);
        let receiving = stream.receive_message(step);
        within(environment, PAYLOAD_DEADLINE, stream, receiving).await?;
        range.store().map_err(io::Error::other)?;
    }
    let answer = status(header, Status::Ok);
    if answer.bytes() == 0 {
        return Ok(());
    }
    within(environment, PAYLOAD_DEADLINE, stream, stream.send_message(answer)).await
}

/// A refused peer gets the reason if the dialect has one, and its connection ends: it may have sent
/// bytes already.
async fn refuse<E: Environment>(
    environment: &E,
    stream: &E::Stream,
    header: &MooncakeHeader,
) -> io::Result<()> {
    let answer = status(header, Status::InvalidParams);
    if answer.bytes() > 0 {
        within(environment, PAYLOAD_DEADLINE, stream, stream.send_message(answer)).await?;
    }
    Err(invalid_text(
        "A range outside of registered memory, or a write to memory that cannot be written",
    ))
}

fn status(header: &MooncakeHeader, status: Status) -> Message {
    let mut message = Message::new();
    if header.with_status {
        message.push_owned(encode_status(status).to_le_bytes());
    }
    message
}

/// The range in steps, each of which has a deadline of its own.
fn steps(header: &MooncakeHeader) -> impl Iterator<Item = (u64, u64)> + use<> {
    let (address, bytes) = (header.address, header.bytes);
    debug_assert!(address.checked_add(bytes).is_some(), "the range was checked");
    let step = REQUEST_BYTES_MAX;
    (0..bytes.div_ceil(step)).map(move |index| {
        let done = index * step;
        (address + done, step.min(bytes - done))
    })
}
