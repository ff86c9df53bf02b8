//! Questions to a peer: one connection each, on the caller's thread.
//! Invariant: connecting and answering have deadlines; no answer is taken unchecked.

use super::frame::{Frame, HandshakeKind, LENGTH_BYTES, decode_length};
use crate::address::{resolve, share};
use crate::document::{SegmentDocument, decode};
use crate::error::{DocumentError, HandshakeError};
use crate::limits::{ANSWER_BYTES, EXCHANGE_DEADLINE, FREE_REQUEST_BYTES, PROBE_DEADLINE};
use crate::message::{NotifyMessage, ProbeAnswer, RpcMeta, SUCCESS};
use crate::settings::DiscoverySettings;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Asks peers. Cheap to clone; usable from any thread.
#[derive(Clone, Debug)]
pub struct HandshakeClient {
    connect_deadline: Duration,
    frame_bytes_max: usize,
}

/// Times of one question.
#[derive(Clone, Copy)]
struct HandshakeTimeouts {
    connect: Duration,
    answer: Duration,
    /// Both together.
    whole: Duration,
}

impl HandshakeClient {
    /// A client; opens a connection for each question.
    pub fn new(settings: &DiscoverySettings) -> Self {
        Self {
            connect_deadline: settings.connect_deadline,
            frame_bytes_max: settings.frame_bytes_max,
        }
    }

    /// Asks for the peer's document, showing it one's own.
    ///
    /// # Errors
    /// The peer does not answer, or answers nonsense.
    pub fn metadata(
        &self,
        peer: &RpcMeta,
        own: &SegmentDocument,
    ) -> Result<SegmentDocument, HandshakeError> {
        self.metadata_within(peer, own, Duration::MAX)
    }

    /// As [`HandshakeClient::metadata`], for a caller who waits no longer than `limit`.
    pub(crate) fn metadata_within(
        &self,
        peer: &RpcMeta,
        own: &SegmentDocument,
        limit: Duration,
    ) -> Result<SegmentDocument, HandshakeError> {
        let timeouts = HandshakeTimeouts { whole: limit, ..self.timeouts() };
        let json = self.ask(peer, HandshakeKind::Metadata, own.encode(), timeouts)?;
        SegmentDocument::decode(&json).map_err(|error| unusable(peer, error))
    }

    /// Asks for the peer's document without showing anything, and soon gives up.
    pub(crate) fn identify(&self, peer: &RpcMeta) -> Result<SegmentDocument, HandshakeError> {
        let json =
            self.ask(peer, HandshakeKind::Metadata, "{}".to_owned(), self.little_patience())?;
        SegmentDocument::decode(&json).map_err(|error| unusable(peer, error))
    }

    /// Sends an application's message.
    ///
    /// # Errors
    /// The peer does not answer, or does not take it.
    pub fn notify(&self, peer: &RpcMeta, message: &NotifyMessage) -> Result<(), HandshakeError> {
        let json = self.ask(peer, HandshakeKind::Notify, message.encode(), self.timeouts())?;
        let answer = NotifyMessage::decode(&json).map_err(|error| unusable(peer, error))?;
        if answer.message == SUCCESS {
            return Ok(());
        }
        Err(refused(peer, answer.message))
    }

    /// Asks whether the peer lives; takes at most [`PROBE_DEADLINE`] to connect and as long again
    /// for the answer.
    ///
    /// # Errors
    /// It does not answer, or says no.
    pub fn probe(&self, peer: &RpcMeta) -> Result<(), HandshakeError> {
        let json = self.ask(peer, HandshakeKind::Probe, "{}".to_owned(), self.little_patience())?;
        let answer: ProbeAnswer =
            decode("probe answer", &json).map_err(|error| unusable(peer, error))?;
        if answer.status == SUCCESS {
            return Ok(());
        }
        Err(refused(peer, answer.status))
    }

    fn timeouts(&self) -> HandshakeTimeouts {
        HandshakeTimeouts {
            connect: self.connect_deadline,
            answer: EXCHANGE_DEADLINE,
            whole: Duration::MAX,
        }
    }

    fn little_patience(&self) -> HandshakeTimeouts {
        HandshakeTimeouts {
            connect: self.connect_deadline.min(PROBE_DEADLINE),
            answer: PROBE_DEADLINE,
            whole: Duration::MAX,
        }
    }

    fn ask(
        &self,
        peer: &RpcMeta,
        kind: HandshakeKind,
        json: String,
        timeouts: HandshakeTimeouts,
    ) -> Result<Vec<u8>, HandshakeError> {
        let question = Frame::new(kind, json).encode();
        let limit = self.frame_bytes_max;
        decode_length(((question.len() - LENGTH_BYTES) as u64).to_le_bytes(), limit)?;
        let begun = Instant::now();
        let stream = connect(peer, timeouts.connect.min(timeouts.whole))?;
        let left = timeouts.whole.saturating_sub(begun.elapsed());
        let deadline = Instant::now() + timeouts.answer.min(left);
        let mut exchange = HandshakeCall { stream, deadline };
        let broken = |error: io::Error| match error.kind() {
            ErrorKind::TimedOut | ErrorKind::WouldBlock => HandshakeError::Deadline {
                peer: peer.to_string(),
                deadline: timeouts.answer.min(timeouts.whole),
            },
            _ => HandshakeError::Broken { peer: peer.to_string(), reason: error.to_string() },
        };
        exchange.send(&question).map_err(broken)?;
        let mut length = [0; LENGTH_BYTES];
        exchange.fill(&mut length).map_err(broken)?;
        let length = decode_length(length, limit.max(ANSWER_BYTES))?;
        let frame = Frame::decode(exchange.read(length).map_err(broken)?)?;
        if frame.typed && frame.kind != kind {
            let reason = format!("it answered {kind:?} with {:?}", frame.kind);
            return Err(refused(peer, reason));
        }
        Ok(frame.json)
    }
}

fn connect(peer: &RpcMeta, limit: Duration) -> Result<TcpStream, HandshakeError> {
    let deadline = Instant::now() + limit;
    let unresolved = |reason| HandshakeError::Unresolved { peer: peer.to_string(), reason };
    let addresses = resolve(&peer.ip_or_host_name, peer.rpc_port, deadline).map_err(unresolved)?;
    let mut failure = io::Error::new(ErrorKind::AddrNotAvailable, "it has no address");
    for (index, address) in addresses.iter().enumerate() {
        let time = share(deadline, addresses.len() - index);
        if time.is_zero() {
            break;
        }
        match TcpStream::connect_timeout(address, time) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(HandshakeError::Unreachable {
        peer: peer.to_string(),
        kind: failure.kind(),
        reason: failure.to_string(),
    })
}

/// A connection whose every call ends by one deadline.
struct HandshakeCall {
    stream: TcpStream,
    deadline: Instant,
}

impl HandshakeCall {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(Some(left))
    }

    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        self.stream.set_nodelay(true)?;
        while !bytes.is_empty() {
            self.stream.set_write_timeout(self.left()?)?;
            match self.stream.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn fill(&mut self, mut bytes: &mut [u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.stream.set_read_timeout(self.left()?)?;
            match self.stream.read(bytes) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => bytes = &mut bytes[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads so many bytes; memory grows with what arrives, not with what was announced.
    fn read(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while bytes.len() < length {
            let from = bytes.len();
            bytes.resize(from + (length - from).min(FREE_REQUEST_BYTES), 0);
            self.fill(&mut bytes[from..])?;
        }
        Ok(bytes)
    }
}

fn refused(peer: &RpcMeta, reason: String) -> HandshakeError {
    HandshakeError::Refused { peer: peer.to_string(), reason }
}

fn unusable(peer: &RpcMeta, error: DocumentError) -> HandshakeError {
    HandshakeError::Answer { peer: peer.to_string(), error }
}
