//! One connection of the handshake server: a request in, an answer out, end.
//! Invariant: each of the three steps has its own deadline, and memory for a large request is
//! taken from the server's budget as the bytes arrive, never because a length was announced.

use super::frame::{Frame, HandshakeKind, LENGTH_BYTES, decode_length};
use super::handler::Handler;
use crate::document::{SegmentDocument, encode};
use crate::limits::{ANSWER_DEADLINE, FREE_REQUEST_BYTES, REPLY_DEADLINE, REQUEST_DEADLINE};
use crate::message::{ConnectionMessage, NotifyMessage, ProbeAnswer, SUCCESS};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// What all connections share.
pub(super) struct SessionContext {
    pub(super) handler: Arc<dyn Handler>,
    pub(super) frame_bytes_max: usize,
    /// One permit per byte of large requests.
    pub(super) budget: Arc<Semaphore>,
}

pub(super) struct HandshakeSession {
    stream: TcpStream,
    shared: Arc<SessionContext>,
    answering: Arc<AtomicBool>,
}

/// A request, and its share of the budget for as long as it is held.
struct HeldRequest {
    frame: Frame,
    _budget: Option<OwnedSemaphorePermit>,
}

impl HandshakeSession {
    pub(super) fn new(
        stream: TcpStream,
        shared: Arc<SessionContext>,
        answering: Arc<AtomicBool>,
    ) -> Self {
        Self { stream, shared, answering }
    }

    pub(super) async fn run(mut self) {
        // The peer's mistakes and its death are its own business: a line at debug level is enough.
        if let Err(error) = self.converse().await {
            tracing::debug!(%error, "A handshake ended early");
        }
    }

    async fn converse(&mut self) -> io::Result<()> {
        let request = within(REQUEST_DEADLINE, self.request()).await?;
        self.answering.store(true, Relaxed);
        let handler = Arc::clone(&self.shared.handler);
        let work = tokio::task::spawn_blocking(move || answer(&*handler, request));
        let answered = within(ANSWER_DEADLINE, async { Ok(work.await?) }).await?;
        self.answering.store(false, Relaxed);
        let Some(frame) = answered else {
            return Ok(());
        };
        within(REPLY_DEADLINE, self.reply(&frame)).await
    }

    async fn request(&mut self) -> io::Result<HeldRequest> {
        let mut length = [0; LENGTH_BYTES];
        self.stream.read_exact(&mut length).await?;
        let length =
            decode_length(length, self.shared.frame_bytes_max).map_err(io::Error::other)?;
        let mut bytes = Vec::with_capacity(length.min(FREE_REQUEST_BYTES));
        let mut budget: Option<OwnedSemaphorePermit> = None;
        while bytes.len() < length {
            let step = (length - bytes.len()).min(FREE_REQUEST_BYTES);
            if !bytes.is_empty() {
                let more = self.take(step)?;
                match &mut budget {
                    Some(held) => held.merge(more),
                    None => budget = Some(more),
                }
            }
            let part = (&mut self.stream).take(step as u64).read_to_end(&mut bytes).await?;
            if part < step {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let frame = Frame::decode(bytes).map_err(io::Error::other)?;
        Ok(HeldRequest { frame, _budget: budget })
    }

    fn take(&self, bytes: usize) -> io::Result<OwnedSemaphorePermit> {
        let permits = u32::try_from(bytes).map_err(io::Error::other)?;
        let budget = Arc::clone(&self.shared.budget);
        budget
            .try_acquire_many_owned(permits)
            .map_err(|_| io::Error::other("too many large requests at once"))
    }

    async fn reply(&mut self, frame: &Frame) -> io::Result<()> {
        self.stream.write_all(&frame.encode()).await?;
        self.stream.shutdown().await
    }
}

async fn within<T>(limit: Duration, step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(limit, step).await.map_err(io::Error::from)?
}

/// The answer to one request; `None` ends the connection without one.
fn answer(handler: &dyn Handler, request: HeldRequest) -> Option<Frame> {
    let frame = &request.frame;
    let json = match frame.kind {
        HandshakeKind::Connection => connection(handler, &frame.json).encode(),
        HandshakeKind::Metadata => {
            // A peer that only asks sends an empty object.
            let peer = SegmentDocument::decode(&frame.json).ok();
            handler.metadata(peer)?.encode()
        }
        HandshakeKind::Notify => notify(handler, &frame.json).encode(),
        HandshakeKind::Probe => {
            let status = if handler.probe() { SUCCESS } else { "closing" };
            encode(&ProbeAnswer { status: status.to_owned() })
        }
    };
    Some(Frame { typed: frame.typed, ..Frame::new(frame.kind, json) })
}

fn connection(handler: &dyn Handler, json: &[u8]) -> ConnectionMessage {
    let asked = ConnectionMessage::decode(json).map_err(|error| error.to_string());
    asked
        .and_then(|message| handler.connection(message))
        .unwrap_or_else(|reason| ConnectionMessage::refusal(&reason))
}

fn notify(handler: &dyn Handler, json: &[u8]) -> NotifyMessage {
    let message = NotifyMessage::decode(json).map_err(|error| error.to_string());
    let verdict = message.and_then(|message| handler.notify(message));
    NotifyMessage {
        name: String::new(),
        message: verdict.map_or_else(|reason| reason, |()| SUCCESS.to_owned()),
    }
}
