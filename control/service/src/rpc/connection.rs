//! One connection: greeting, then calls in order. Several calls may arrive in one read.
//! Invariant: each call is answered before the next is looked at, and an answer has a deadline.

use super::limits::{FRAME_DEADLINE, READ_BYTES, READ_BYTES_KEPT};
use super::{ShardStream, dispatch};
use crate::cluster::ControlShard;
use flatbuffers::FlatBufferBuilder;
use perigee_schemas::Status;
use perigee_schemas::frame::{FrameError, HEADER_BYTES, Header, Kind};
use perigee_schemas::limits::{FRAME_BODY_BYTES_MAX, HELLO_BODY_BYTES_MAX};
use perigee_schemas::session::{Hello, encode_failure};
use perigee_shard::{Message, ShardEnvironment, Stream, within};
use std::io;
use std::time::Duration;

/// Serves until the peer leaves, misbehaves, or is idle for too long.
pub(super) async fn serve(
    environment: &ShardEnvironment,
    stream: &ShardStream,
    shard: &ControlShard,
    idle: Option<Duration>,
) -> io::Result<()> {
    let mut reader = Reader {
        environment,
        stream,
        buffer: Vec::new(),
        consumed: 0,
    };
    let Some((header, body)) = reader
        .frame(HELLO_BODY_BYTES_MAX, Some(FRAME_DEADLINE))
        .await?
    else {
        return Ok(());
    };
    greet(shard, stream, header, &body).await?;
    let mut builder = FlatBufferBuilder::new();
    loop {
        let (header, body) = match reader.frame(FRAME_BODY_BYTES_MAX, idle).await {
            Ok(Some(frame)) => frame,
            Ok(None) => return Ok(()),
            Err(error) => return refuse(shard, stream, 0, Status::DeserializeFail, error).await,
        };
        shard
            .cells
            .received_bytes
            .add((HEADER_BYTES + body.len()) as u64);
        builder.reset();
        let mut message = Message::new();
        match dispatch::answer(shard, header.kind, &body, &mut builder).await {
            Ok(()) => {
                let answer = builder.finished_data();
                let head = Header::encode(Kind::Reply, header.request, answer);
                let mut frame = Vec::with_capacity(HEADER_BYTES + answer.len());
                frame.extend_from_slice(&head);
                frame.extend_from_slice(answer);
                shard.cells.sent_bytes.add(frame.len() as u64);
                message.push_owned(frame);
            }
            Err(refusal) => {
                shard.cells.protocol_errors.add(1);
                message.push_owned(encode_failure(
                    header.request,
                    refusal.status,
                    &refusal.message,
                ));
            }
        }
        reader.recycle(body);
        within(
            environment,
            FRAME_DEADLINE,
            stream,
            stream.send_message(message),
        )
        .await?;
    }
}

async fn greet(
    shard: &ControlShard,
    stream: &ShardStream,
    header: Header,
    body: &[u8],
) -> io::Result<()> {
    if header.kind != Kind::Hello {
        let error = io::Error::new(
            io::ErrorKind::InvalidData,
            "The first frame is not a greeting",
        );
        return refuse(shard, stream, header.request, Status::InvalidVersion, error).await;
    }
    let hello = match Hello::decode(body) {
        Ok(hello) => hello,
        Err(error) => {
            return refuse(
                shard,
                stream,
                0,
                Status::DeserializeFail,
                io::Error::other(error),
            )
            .await;
        }
    };
    let welcome = hello.answer(shard.epoch);
    let mut message = Message::new();
    message.push_owned(welcome.encode());
    stream.send_message(message).await?;
    if let Err(status) = welcome.status.ok() {
        shard.cells.connections_refused.add(1);
        return Err(io::Error::other(status));
    }
    Ok(())
}

/// Tells the peer why, then ends the connection with that error.
async fn refuse(
    shard: &ControlShard,
    stream: &ShardStream,
    request: u64,
    status: Status,
    error: io::Error,
) -> io::Result<()> {
    shard.cells.protocol_errors.add(1);
    let mut message = Message::new();
    message.push_owned(encode_failure(request, status, &error.to_string()));
    let _ = stream.send_message(message).await;
    Err(error)
}

/// Cuts the byte stream into frames. A header is judged before its body's memory is reserved.
struct Reader<'a> {
    environment: &'a ShardEnvironment,
    stream: &'a ShardStream,
    buffer: Vec<u8>,
    consumed: usize,
}

impl Reader<'_> {
    /// The next frame, or `None` when the peer has left between frames. `idle` bounds the wait for its first byte.
    async fn frame(
        &mut self,
        limit: usize,
        idle: Option<Duration>,
    ) -> io::Result<Option<(Header, Vec<u8>)>> {
        if self.available() == 0 && !self.fill(READ_BYTES, idle).await? {
            return Ok(None);
        }
        while self.available() < HEADER_BYTES {
            self.need(HEADER_BYTES).await?;
        }
        let mut head = [0; HEADER_BYTES];
        head.copy_from_slice(&self.buffer[self.consumed..self.consumed + HEADER_BYTES]);
        let header = Header::decode(&head, limit).map_err(invalid)?;
        let whole = HEADER_BYTES + header.body_bytes;
        while self.available() < whole {
            self.need(whole).await?;
        }
        let body = self.take_body(whole);
        header.check(&body).map_err(invalid)?;
        Ok(Some((header, body)))
    }

    fn available(&self) -> usize {
        self.buffer.len() - self.consumed
    }

    /// The usual case is one whole frame in the buffer: then the buffer becomes the body without a copy of the rest.
    fn take_body(&mut self, whole: usize) -> Vec<u8> {
        let start = self.consumed + HEADER_BYTES;
        let end = self.consumed + whole;
        let body = self.buffer[start..end].to_vec();
        self.consumed = end;
        if self.consumed == self.buffer.len() {
            self.buffer.clear();
            self.consumed = 0;
            if self.buffer.capacity() > READ_BYTES_KEPT {
                self.buffer = Vec::new();
            }
        }
        body
    }

    fn recycle(&mut self, body: Vec<u8>) {
        if self.buffer.capacity() == 0
            && body.capacity() >= READ_BYTES
            && body.capacity() <= READ_BYTES_KEPT
        {
            self.buffer = body;
            self.buffer.clear();
        }
    }

    /// Receives more of a frame that has begun and needs `whole` bytes from the first unread one.
    async fn need(&mut self, whole: usize) -> io::Result<()> {
        let missing = whole.saturating_sub(self.available()).max(READ_BYTES);
        if self.fill(missing, Some(FRAME_DEADLINE)).await? {
            Ok(())
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }

    /// Receives some bytes; false if the peer has finished.
    async fn fill(&mut self, room: usize, deadline: Option<Duration>) -> io::Result<bool> {
        let mut buffer = std::mem::take(&mut self.buffer);
        if self.consumed > 0 {
            buffer.drain(..self.consumed);
            self.consumed = 0;
        }
        buffer.reserve(room);
        let receive = async {
            let (result, buffer) = self.stream.receive(buffer).await;
            result.map(|count| (count, buffer))
        };
        let (count, buffer) = match deadline {
            Some(deadline) => within(self.environment, deadline, self.stream, receive).await?,
            None => receive.await?,
        };
        self.buffer = buffer;
        Ok(count > 0)
    }
}

fn invalid(error: FrameError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
