//! One data connection, served: greeting, then slice after slice. Every range is checked before a byte moves.

use super::rails::RailSession;
use super::state::Ground;
use crate::activity::Moved;
use crate::extent::MappedExtent;
use crate::limits::{DISCARD_BYTES, FRAME_DEADLINE, SLICE_PIECES_MAX};
use crate::segments::SegmentTable;
use crate::wire::{self, Direction, Piece, SliceRequest};
use perigee_activity::{Key, Link, LinkRole};
use perigee_memory::Segment;
use perigee_memory::segment::Exhausted;
use perigee_schemas::extent::extent_bytes;
use perigee_schemas::frame::{Header, Kind};
use perigee_schemas::limits::{OBJECT_BYTES_MAX, SLICE_PAYLOAD_BYTES_MAX};
use perigee_schemas::session::{Hello, encode_failure};
use perigee_schemas::{Identity, Status};
use perigee_shard::{Environment, Message, Stream, within};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Serves until the peer leaves or misbehaves.
pub(super) async fn serve_connection<E: Environment>(
    environment: &E,
    stream: &E::Stream,
    ground: &Ground,
) -> io::Result<()> {
    let greeting = greet(stream, ground.identity);
    within(environment, FRAME_DEADLINE, stream, greeting).await?;
    let mut rails = RailSession::new(ground.rails.clone());
    let link = Link::of(stream.socket(), LinkRole::Answers);
    loop {
        let header = match rails.receive_header(environment, stream).await {
            Ok(header) => header,
            Err(error) if is_farewell(&error) => return Ok(()),
            Err(error) => return refuse(stream, 0, Status::DeserializeFail, error).await,
        };
        if matches!(header.kind, Kind::Rails | Kind::Pairs) {
            let serve = rails.serve(environment, stream, &header);
            within(environment, FRAME_DEADLINE, stream, serve).await?;
        } else {
            let serve = serve_slice(environment, stream, &link, &ground.table, &header);
            within(environment, FRAME_DEADLINE, stream, serve).await?;
        }
        link.look(stream.socket());
    }
}

/// The peer has left, or was silent for too long.
fn is_farewell(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::TimedOut
    )
}

async fn greet<S: Stream>(stream: &S, identity: Identity) -> io::Result<()> {
    let (header, body) = match wire::receive_frame(stream).await {
        Ok(frame) => frame,
        Err(error) => return refuse(stream, 0, Status::DeserializeFail, error).await,
    };
    if header.kind != Kind::Hello {
        let error = io::Error::new(
            io::ErrorKind::InvalidData,
            "The first frame is not a greeting",
        );
        return refuse(stream, header.request, Status::InvalidVersion, error).await;
    }
    let welcome = Hello::decode(&body)
        .map_err(wire::invalid)?
        .answer(identity.low());
    wire::send_bytes(stream, welcome.encode()).await?;
    welcome.status.ok().map_err(io::Error::other)
}

/// Tells the peer why, then ends the connection with that error.
async fn refuse<S: Stream, T>(
    stream: &S,
    request: u64,
    status: Status,
    error: io::Error,
) -> io::Result<T> {
    let _ = wire::send_bytes(stream, encode_failure(request, status, &error.to_string())).await;
    Err(error)
}

async fn serve_slice<E: Environment>(
    environment: &E,
    stream: &E::Stream,
    link: &Link,
    table: &SegmentTable,
    header: &Header,
) -> io::Result<()> {
    if header.kind != Kind::Slice {
        let error = io::Error::new(
            io::ErrorKind::InvalidData,
            "Only slices and rails are served on a data port",
        );
        return refuse(stream, header.request, Status::InvalidParams, error).await;
    }
    let body = match wire::receive_body(stream, header).await {
        Ok(body) => body,
        Err(error) => return refuse(stream, header.request, Status::DeserializeFail, error).await,
    };
    let request = match wire::decode_request(&body).and_then(within_limits) {
        Ok(request) => request,
        Err(error) => return refuse(stream, header.request, Status::InvalidParams, error).await,
    };
    let segment = table.get(request.segment);
    let begun = environment.now();
    let served = match request.direction {
        Direction::Write => serve_write(stream, header.request, segment, &request.pieces).await,
        _ => serve_read(stream, header.request, segment, &request.pieces).await,
    };
    let on_wire = environment.now().saturating_sub(begun);
    count(link, &request, on_wire, served.is_ok());
    served
}

/// What a peer writes comes towards this process, what it reads leaves it.
fn count(link: &Link, request: &SliceRequest, on_wire: Duration, went_well: bool) {
    let moved = Moved {
        device: link.device(),
        peer: "",
        direction: match request.direction {
            Direction::Write => perigee_activity::Direction::Read,
            _ => perigee_activity::Direction::Write,
        },
        lane: Key::CALLER,
        operations: request.pieces.len() as u64,
        bytes: request.pieces.iter().map(Piece::bytes).sum(),
        queued: Duration::ZERO,
        on_wire,
    };
    if went_well {
        moved.record(None);
    } else {
        moved.record_failure();
    }
}

fn within_limits(request: SliceRequest) -> io::Result<SliceRequest> {
    let total = request
        .pieces
        .iter()
        .try_fold(0u64, |total, piece| total.checked_add(piece.bytes()));
    let fits = request.pieces.len() <= SLICE_PIECES_MAX
        && total.is_some_and(|total| total <= SLICE_PAYLOAD_BYTES_MAX)
        && request.pieces.iter().all(|piece| piece.bytes() > 0)
        && matches!(request.direction, Direction::Read | Direction::Write);
    if fits {
        Ok(request)
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "Slice request over its limits",
        ))
    }
}

async fn serve_read<S: Stream>(
    stream: &S,
    request: u64,
    segment: Option<Arc<Segment>>,
    pieces: &[Piece],
) -> io::Result<()> {
    let mut payload = Message::new();
    let mut status = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let found = readable(segment.as_deref(), piece);
        if let Ok(address) = found {
            // SAFETY: the range was checked against the segment, which the guard below keeps mapped.
            unsafe { payload.push_borrowed(address, piece.bytes() as usize) };
        }
        status.push(found.map_or_else(Status::code, |_| 0));
    }
    let payload_bytes = payload.bytes() as u64;
    let mut message = Message::new();
    message.push_owned(wire::encode_reply(request, &status, payload_bytes));
    message.append(payload);
    if let Some(segment) = segment {
        message.guard(segment);
    }
    stream.send_message(message).await
}

async fn serve_write<S: Stream>(
    stream: &S,
    request: u64,
    segment: Option<Arc<Segment>>,
    pieces: &[Piece],
) -> io::Result<()> {
    let verdicts: Vec<_> = pieces
        .iter()
        .map(|piece| populated(segment.as_deref(), piece))
        .collect();
    let mut todo = pieces.iter().zip(&verdicts).peekable();
    while todo.peek().is_some() {
        let mut payload = Message::new();
        while let Some((piece, Ok(address))) = todo.next_if(|(_, verdict)| verdict.is_ok()) {
            // SAFETY: the range was checked against the segment, which the guard below keeps mapped.
            unsafe { payload.push_borrowed(*address, piece.bytes() as usize) };
        }
        if let Some(segment) = segment.clone() {
            payload.guard(segment);
        }
        if payload.bytes() > 0 {
            stream.receive_message(payload).await?;
        }
        let mut refused = 0;
        while let Some((piece, _)) = todo.next_if(|(_, verdict)| verdict.is_err()) {
            refused += piece.bytes() as usize;
        }
        discard(stream, refused).await?;
    }
    let code = |verdict: Result<_, Status>| verdict.map_or_else(Status::code, |_| 0);
    let status: Vec<_> = verdicts.into_iter().map(code).collect();
    wire::send_bytes(stream, wire::encode_reply(request, &status, 0)).await
}

/// Takes bytes off the connection that the peer had sent before it could learn that they are refused.
async fn discard<S: Stream>(stream: &S, bytes: usize) -> io::Result<()> {
    let mut left = bytes;
    while left > 0 {
        let step = left.min(DISCARD_BYTES);
        let mut nowhere = Message::new();
        nowhere.push_owned(vec![0; step]);
        stream.receive_message(nowhere).await?;
        left -= step;
    }
    Ok(())
}

fn writable(segment: Option<&Segment>, piece: &Piece) -> Result<*mut u8, Status> {
    let segment = segment.ok_or(Status::SegmentNotFound)?;
    segment
        .range(piece.offset(), piece.bytes())
        .ok_or(Status::InvalidParams)
}

/// The address of a piece whose pages are made, so that this process is charged for them and not killed for them.
fn populated(segment: Option<&Segment>, piece: &Piece) -> Result<*mut u8, Status> {
    let address = writable(segment, piece)?;
    let segment = segment.ok_or(Status::SegmentNotFound)?;
    let made = segment.populate(piece.offset(), piece.bytes());
    made.map_err(|Exhausted| Status::NoAvailableHandle)?;
    Ok(address)
}

/// The address of a piece whose extent still holds the generation that the reader was promised.
fn readable(segment: Option<&Segment>, piece: &Piece) -> Result<*mut u8, Status> {
    let address = writable(segment, piece)?;
    let segment = segment.ok_or(Status::SegmentNotFound)?;
    let payload_bytes = piece.extent_payload_bytes();
    if payload_bytes > OBJECT_BYTES_MAX || !piece.extent_offset().is_multiple_of(8) {
        return Err(Status::InvalidParams);
    }
    let base = segment
        .range(piece.extent_offset(), extent_bytes(payload_bytes))
        .ok_or(Status::InvalidParams)?;
    if !segment.is_populated(piece.extent_offset(), extent_bytes(payload_bytes)) {
        return Err(Status::InvalidReplica);
    }
    // SAFETY: the whole extent was checked against the segment, segments begin at a page border, and the offset is a
    // multiple of 8.
    let extent = unsafe { MappedExtent::new(base, payload_bytes) };
    extent
        .expect_generation(piece.generation())
        .map_err(|_| Status::InvalidReplica)?;
    Ok(address)
}
