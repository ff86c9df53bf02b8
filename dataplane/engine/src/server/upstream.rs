//! One connection in Mooncake's data protocol, served only when that was asked for: its requests do not say which life of
//! this process their addresses belong to.
//!
//! Bounds are checked as in our own dialect, and a peer that stops in the middle of a request is cut off.

use super::Host;
use super::ground::Ground;
use super::state::Seat;
use crate::limits::{FRAME_DEADLINE, REQUEST_PAYLOAD_BYTES_MAX};
use crate::request::Direction;
use crate::upstream::{HEADER_BYTES, Header, Opcode, encode_status};
use crate::wire::invalid_text;
use perigee_schemas::Status;
use perigee_shard::{Environment, Message, Stream, within};
use std::io;

/// Serves until the peer leaves or misbehaves.
pub(super) async fn serve_connection<E: Environment>(
    environment: &E,
    seat: &Seat<E::Stream>,
    host: &Host,
) -> io::Result<()> {
    while let Some(header) = receive_header(environment, &seat.stream).await? {
        let used = host.registry.use_range(header.address, header.bytes);
        let used = used.filter(|used| {
            header.opcode == Opcode::Read
                || used.region().takes_writes(header.address, header.bytes)
        });
        seat.uses(used.iter().map(|used| used.region()));
        seat.counters.served_upstream(header.bytes, used.is_some());
        match (&used, header.opcode) {
            (Some(_), Opcode::Read) => serve_read(environment, seat, host, &header).await?,
            (Some(_), Opcode::Write) => serve_write(environment, seat, host, &header).await?,
            (None, _) => return refuse(environment, &seat.stream, &header).await,
        }
        seat.uses(std::iter::empty());
    }
    Ok(())
}

/// The next request, or `None` when the peer has left. Only its first byte may take as long as it likes.
async fn receive_header<E: Environment>(
    environment: &E,
    stream: &E::Stream,
) -> io::Result<Option<Header>> {
    let (received, bytes) = stream
        .receive_up_to(Vec::with_capacity(HEADER_BYTES), HEADER_BYTES)
        .await;
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
    let bytes = within(environment, FRAME_DEADLINE, stream, rest).await?;
    let header = bytes
        .first_chunk()
        .and_then(Header::decode)
        .filter(|header| header.bytes > 0);
    header
        .map(Some)
        .ok_or_else(|| invalid_text("An opcode that does not exist, or no bytes"))
}

async fn serve_read<E: Environment>(
    environment: &E,
    seat: &Seat<E::Stream>,
    host: &Host,
    header: &Header,
) -> io::Result<()> {
    let mut message = status(header, Status::Ok);
    for (address, bytes) in steps(header) {
        let ground = Ground::find(host, Direction::Read, address, bytes);
        let ground = ground.map_err(io::Error::other)?;
        ground.load().map_err(io::Error::other)?;
        ground.lend(&mut message);
        let step = std::mem::take(&mut message);
        let sending = seat.stream.send_message(step);
        within(environment, FRAME_DEADLINE, &seat.stream, sending).await?;
    }
    Ok(())
}

async fn serve_write<E: Environment>(
    environment: &E,
    seat: &Seat<E::Stream>,
    host: &Host,
    header: &Header,
) -> io::Result<()> {
    for (address, bytes) in steps(header) {
        let ground = Ground::find(host, Direction::Write, address, bytes);
        let ground = ground.map_err(io::Error::other)?;
        let mut step = Message::new();
        ground.lend(&mut step);
        let receiving = seat.stream.receive_message(step);
        within(environment, FRAME_DEADLINE, &seat.stream, receiving).await?;
        ground.store().map_err(io::Error::other)?;
    }
    let answer = status(header, Status::Ok);
    if answer.bytes() == 0 {
        return Ok(());
    }
    within(
        environment,
        FRAME_DEADLINE,
        &seat.stream,
        seat.stream.send_message(answer),
    )
    .await
}

/// A peer that is refused is told so, if it can be told, and its connection ends: it may have sent bytes already.
async fn refuse<E: Environment>(
    environment: &E,
    stream: &E::Stream,
    header: &Header,
) -> io::Result<()> {
    let answer = status(header, Status::InvalidParams);
    if answer.bytes() > 0 {
        within(
            environment,
            FRAME_DEADLINE,
            stream,
            stream.send_message(answer),
        )
        .await?;
    }
    Err(invalid_text(
        "A range outside of registered memory, or a write to memory that cannot be written",
    ))
}

fn status(header: &Header, status: Status) -> Message {
    let mut message = Message::new();
    if header.with_status {
        message.push_owned(encode_status(status).to_le_bytes());
    }
    message
}

/// The range in steps, each of which has a deadline of its own.
fn steps(header: &Header) -> impl Iterator<Item = (u64, u64)> + use<> {
    let (address, bytes) = (header.address, header.bytes);
    let step = REQUEST_PAYLOAD_BYTES_MAX;
    (0..bytes.div_ceil(step)).map(move |index| {
        let done = index * step;
        (address + done, step.min(bytes - done))
    })
}
