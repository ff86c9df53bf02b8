//! Frames on a stream. Invariant: from its first byte on a frame has one deadline, however slowly
//! its bytes drip in, and its body's memory is counted before it is received.

use crate::frame_budget::{FrameBudget, HeldBytes};
use crate::limits::{BUDGET_PAUSE, FRAME_DEADLINE};
use perigee_schemas::Status;
use perigee_schemas::frame::FrameHeader;
use perigee_schemas::frame_buffer::FrameBuffer;
use perigee_schemas::limits::HELLO_BODY_BYTES_MAX;
use perigee_schemas::session::encode_failure;
use perigee_shard::{Environment, Message, Stream, within};
use std::error::Error;
use std::io;
use std::time::Duration;

/// Reads and writes the frames of one stream.
pub struct Frames<E: Environment> {
    environment: E,
    stream: E::Stream,
    buffer: FrameBuffer,
    budget: FrameBudget,
    /// What the frame at the front takes of the budget.
    held: Option<HeldBytes>,
}

impl<E: Environment> Frames<E> {
    /// For a new stream, on which only a greeting may come at first; [`crate::greet`] and
    /// [`crate::connect`] open it for larger frames.
    pub fn new(environment: &E, stream: &E::Stream, budget: &FrameBudget) -> Self {
        Self {
            environment: environment.clone(),
            stream: stream.clone(),
            buffer: FrameBuffer::new(HELLO_BODY_BYTES_MAX),
            budget: budget.clone(),
            held: None,
        }
    }

    /// The stream.
    pub fn stream(&self) -> &E::Stream {
        &self.stream
    }

    /// The machine the stream is on.
    pub fn environment(&self) -> &E {
        &self.environment
    }

    /// What has arrived: to say what may come, and to take payload that came behind a frame.
    pub fn buffer(&mut self) -> &mut FrameBuffer {
        &mut self.buffer
    }

    /// Waits for the next whole frame: as long as it takes for its first byte, and
    /// [`FRAME_DEADLINE`] for all others. False when the peer has left between two frames.
    ///
    /// # Errors
    /// The connection broke, the peer was too slow or left within a frame, or sent what is no
    /// frame.
    pub async fn next(&mut self) -> io::Result<bool> {
        if !self.begun().await? {
            return Ok(false);
        }
        // The usual case is a whole frame in one read: no timer is made for it.
        if self.buffer.missing().map_err(invalid)? > 0 {
            self.finish(FRAME_DEADLINE).await?;
        }
        Ok(true)
    }

    /// Waits, as long as it takes, for the first bytes of a frame; false when the peer has left
    /// instead.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn begun(&mut self) -> io::Result<bool> {
        Ok(!self.buffer.is_empty() || self.receive_some().await?)
    }

    /// Receives what is missing of a frame, begun or not, within `deadline`; after it the stream is
    /// broken.
    ///
    /// # Errors
    /// The connection broke, the peer was too slow or left, or sent what is no frame.
    pub async fn finish(&mut self, deadline: Duration) -> io::Result<()> {
        let (environment, stream) = (self.environment.clone(), self.stream.clone());
        within(&environment, deadline, &stream, self.whole()).await
    }

    /// Receives what is missing of a frame. The caller bounds the time, for example over all of a
    /// request.
    ///
    /// # Errors
    /// The connection broke, the peer left, or sent what is no frame.
    pub async fn whole(&mut self) -> io::Result<()> {
        while self.buffer.missing().map_err(invalid)? > 0 {
            self.hold().await?;
            if !self.receive_some().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }

    /// The whole frame at the front; its body is verified.
    ///
    /// # Errors
    /// It is damaged or not there.
    pub fn frame(&self) -> io::Result<(FrameHeader, &[u8])> {
        let frame = self.buffer.frame().map_err(invalid)?;
        frame.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Drops the frame at the front.
    pub fn consume(&mut self) {
        self.buffer.consume();
        self.held = None;
    }

    /// Sends a message; a peer that does not take it within [`FRAME_DEADLINE`] is cut off.
    ///
    /// # Errors
    /// The connection broke or the peer was too slow.
    pub async fn send(&self, message: Message) -> io::Result<()> {
        let sent = self.stream.send_message(message);
        within(&self.environment, FRAME_DEADLINE, &self.stream, sent).await
    }

    /// As [`Frames::send`], for bytes.
    ///
    /// # Errors
    /// As [`Frames::send`].
    pub async fn send_bytes(&self, bytes: Vec<u8>) -> io::Result<()> {
        let mut message = Message::new();
        message.push_owned(bytes);
        self.send(message).await
    }

    /// Says why to the peer and gives that error back, which ends the connection.
    ///
    /// # Errors
    /// Always `error`.
    pub async fn refuse<T>(&self, request: u64, status: Status, error: io::Error) -> io::Result<T> {
        let _ = self.send_bytes(encode_failure(request, status, &error.to_string())).await;
        Err(error)
    }

    /// Waits until the budget has room for the frame that has begun, if its length is known.
    async fn hold(&mut self) -> io::Result<()> {
        let Some(bytes) = self.buffer.frame_bytes().map_err(invalid)? else {
            return Ok(());
        };
        while self.held.is_none() {
            self.held = self.budget.take(bytes);
            if self.held.is_none() {
                self.environment.sleep(BUDGET_PAUSE).await;
            }
        }
        Ok(())
    }

    /// Receives what has arrived; false when the peer has finished.
    async fn receive_some(&mut self) -> io::Result<bool> {
        let missing = self.buffer.missing().map_err(invalid)?;
        let bytes = self.buffer.lend(missing);
        let (received, bytes) = self.stream.receive_up_to(bytes, missing).await;
        self.buffer.give_back(bytes);
        Ok(received? > 0)
    }
}

/// An error of data that a peer sent.
pub(crate) fn invalid(error: impl Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
