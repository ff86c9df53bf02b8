//! One slice on one connection: request, payload, reply.
//! Invariant: a function here returns only when the kernel is done with the slice's memory.

use super::slice::{Part, Slice};
use crate::wire;
use perigee_schemas::Status;
use perigee_schemas::frame::Kind;
use perigee_schemas::session::decode_failure;
use perigee_shard::{Message, Stream};
use std::io;

pub(super) async fn write_slice<S: Stream>(
    stream: &S,
    slice: &Slice,
) -> io::Result<Vec<Result<u32, Status>>> {
    let mut message = Message::new();
    message.push_owned(wire::encode_request(
        0,
        slice.direction,
        slice.segment,
        &slice.pieces,
    ));
    let checksums = slice.load(&mut message);
    stream.send_message(message).await?;
    let reply = receive_reply(stream, slice).await?;
    Ok(slice
        .parts
        .iter()
        .zip(checksums)
        .map(|(part, sum)| verdict(&reply.status[part.pieces.clone()], sum))
        .collect())
}

pub(super) async fn read_slice<S: Stream>(
    stream: &S,
    slice: &Slice,
) -> io::Result<Vec<Result<u32, Status>>> {
    wire::send_bytes(
        stream,
        wire::encode_request(0, slice.direction, slice.segment, &slice.pieces),
    )
    .await?;
    let reply = receive_reply(stream, slice).await?;
    let mut message = Message::new();
    for part in &slice.parts {
        if reply.status[part.pieces.clone()]
            .iter()
            .all(|status| *status == Status::Ok)
        {
            slice.borrow(part, &mut message);
        }
    }
    if message.bytes() as u64 != reply.payload_bytes {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "The peer announced another length than was asked",
        ));
    }
    if message.bytes() > 0 {
        stream.receive_message(message).await?;
    }
    let mut blocks = Vec::new();
    let check = |part: &Part| {
        let statuses = &reply.status[part.pieces.clone()];
        verdict(statuses, 0).map(|_| slice.checksum(part, &mut blocks))
    };
    Ok(slice.parts.iter().map(check).collect())
}

async fn receive_reply<S: Stream>(stream: &S, slice: &Slice) -> io::Result<wire::SliceReply> {
    let (header, body) = wire::receive_frame(stream).await?;
    if header.kind == Kind::Failure {
        let (status, message) = decode_failure(&body).map_err(wire::invalid)?;
        return Err(io::Error::other(format!("{message} ({status})")));
    }
    let reply = wire::decode_reply(&body)?;
    if reply.status.len() != slice.pieces.len() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "The peer answered another number of pieces",
        ));
    }
    Ok(reply)
}

fn verdict(statuses: &[Status], checksum: u32) -> Result<u32, Status> {
    match statuses.iter().find(|status| **status != Status::Ok) {
        Some(status) => Err(*status),
        None => Ok(checksum),
    }
}
