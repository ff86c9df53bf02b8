//! A shard's connection to one target: connects when needed, then one exchange at a time.
//! Invariant: a connection on which anything went wrong is broken and never used again.

use super::peer::Terms;
use super::upstream;
use crate::counters::Counters;
use crate::error::EngineError;
use crate::frame_buffer::FrameBuffer;
use crate::limits::CONNECT_DEADLINE;
use crate::request::Direction;
use crate::slice::Slice;
use crate::target::{Dialect, Target};
use crate::ways::Way;
use crate::wire::{Encoder, REPLY_BYTES_MIN, Reply, decode_reply, invalid, invalid_text};
use perigee_schemas::frame::Kind;
use perigee_schemas::session::{Hello, Role, Welcome, decode_failure};
use perigee_schemas::{Identity, Status};
use perigee_shard::{Environment, Message, Stream, connect_within, within};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// A connection that may be there.
pub(super) struct Link<E: Environment> {
    target: Arc<Target>,
    identity: Identity,
    /// Which of the target's ways comes first.
    turn: usize,
    wires: Option<Wires<E::Stream>>,
}

/// A greeted connection.
struct Wires<S> {
    stream: S,
    /// Of the NIC that it goes through.
    counters: Arc<Counters>,
    arriving: FrameBuffer,
    encoder: Encoder,
    number: u64,
    link: perigee_activity::Link,
}

impl<E: Environment> Link<E> {
    pub(super) fn new(target: Arc<Target>, identity: Identity, turn: usize) -> Self {
        Self {
            target,
            identity,
            turn,
            wires: None,
        }
    }

    /// Whether an exchange would use a connection that was used before.
    pub(super) fn is_open(&self) -> bool {
        self.wires.is_some()
    }

    /// Moves one slice. `seat` is told the connection before anything is sent, and may refuse.
    pub(super) async fn exchange(
        &mut self,
        environment: &E,
        slice: &Slice,
        terms: Terms,
        seat: impl Fn(&E::Stream) -> bool,
    ) -> Result<(Reply, Arc<Counters>), EngineError> {
        let mut wires = match self.wires.take() {
            Some(wires) => wires,
            None => self.connect(environment, terms).await?,
        };
        let left = self.left(environment, terms)?;
        if !seat(&wires.stream) {
            return Err(EngineError::Canceled);
        }
        let stream = wires.stream.clone();
        let begun = environment.now();
        let talk = async {
            match self.target.dialect {
                Dialect::Own { epoch } => wires.exchange(slice, epoch, terms.with_checksum).await,
                Dialect::Upstream { with_status } => {
                    upstream::exchange(&wires.stream, slice, with_status).await
                }
            }
        };
        match within(environment, left, &stream, talk).await {
            Ok(reply) => {
                wires.note(slice, environment.now().saturating_sub(begun));
                let counters = wires.counters.clone();
                self.wires = Some(wires);
                Ok((reply, counters))
            }
            Err(error) => {
                stream.shutdown();
                Err(self.broken(&error, terms))
            }
        }
    }

    /// Takes the first way that leads to the peer.
    async fn connect(
        &self,
        environment: &E,
        terms: Terms,
    ) -> Result<Wires<E::Stream>, EngineError> {
        let mut failure = Err(EngineError::Closed);
        for way in self.target.ways_from(self.turn) {
            failure = self.connect_by(way, environment, terms).await;
            let elsewhere = matches!(
                failure,
                Err(EngineError::Unreachable { .. } | EngineError::Restarted { .. })
            );
            if !elsewhere {
                break;
            }
        }
        failure
    }

    async fn connect_by(
        &self,
        way: &Way,
        environment: &E,
        terms: Terms,
    ) -> Result<Wires<E::Stream>, EngineError> {
        let left = self.left(environment, terms)?.min(CONNECT_DEADLINE);
        let connected = connect_within(environment, left, way.address).await;
        let stream = connected.map_err(|error| self.unreachable(&error))?;
        let mut wires = Wires {
            stream: stream.clone(),
            counters: way.counters.clone(),
            arriving: FrameBuffer::new(REPLY_BYTES_MIN),
            encoder: Encoder::new(),
            number: 0,
            link: perigee_activity::Link::of(stream.socket(), perigee_activity::LinkRole::Asks),
        };
        let Dialect::Own { epoch } = self.target.dialect else {
            return Ok(wires);
        };
        let left = self.left(environment, terms)?.min(CONNECT_DEADLINE);
        let greeting = wires.greet(self.identity);
        let welcome = within(environment, left, &stream, greeting)
            .await
            .map_err(|error| self.unreachable(&error))?;
        match welcome.status {
            Status::Ok if welcome.epoch == epoch => Ok(wires),
            Status::Ok => Err(EngineError::Restarted {
                peer: self.target.name.to_string(),
            }),
            _ => Err(self.unreachable(&io::Error::other(welcome.message))),
        }
    }

    fn left(&self, environment: &E, terms: Terms) -> Result<Duration, EngineError> {
        let left = terms
            .due
            .checked_sub(environment.now())
            .filter(|left| !left.is_zero());
        left.ok_or_else(|| self.late(terms))
    }

    fn late(&self, terms: Terms) -> EngineError {
        EngineError::Deadline {
            peer: self.target.name.to_string(),
            deadline: terms.length,
        }
    }

    fn unreachable(&self, error: &io::Error) -> EngineError {
        EngineError::Unreachable {
            peer: self.target.name.to_string(),
            reason: error.to_string(),
        }
    }

    fn broken(&self, error: &io::Error, terms: Terms) -> EngineError {
        match error.kind() {
            _ if error.raw_os_error() == Some(libc::EFAULT) => EngineError::LocalMemory,
            io::ErrorKind::TimedOut => self.late(terms),
            _ => EngineError::Broken {
                peer: self.target.name.to_string(),
                reason: error.to_string(),
            },
        }
    }
}

impl<S: Stream> Wires<S> {
    /// Counts an exchange, for those who look at connections.
    fn note(&self, slice: &Slice, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let peer_ns = self.link.record(took_ns, slice.bytes());
        let accounts = slice.batch().accounts();
        accounts.waited_for_peer(&self.counters, peer_ns);
        self.link.look(self.stream.socket());
    }

    async fn greet(&mut self, identity: Identity) -> io::Result<Welcome> {
        let mut hello = Message::new();
        hello.push_owned(Hello::new(Role::Client, identity).encode());
        self.stream.send_message(hello).await?;
        self.receive_frame().await?;
        self.arriving.take(|header, body| match header.kind {
            Kind::Welcome => Welcome::decode(body).map_err(invalid),
            kind => Err(refusal(kind, body)),
        })
    }

    async fn exchange(
        &mut self,
        slice: &Slice,
        epoch: u64,
        with_checksum: bool,
    ) -> io::Result<Reply> {
        let message = self.request(slice, epoch, with_checksum);
        self.stream.send_message(message).await?;
        self.receive_frame().await?;
        let (expected, pieces) = (self.number, slice.pieces.len());
        let reply = self.arriving.take(|header, body| match header.kind {
            Kind::Reply if header.request == expected => decode_reply(body, pieces),
            Kind::Reply => Err(invalid_text("An answer to another question")),
            kind => Err(refusal(kind, body)),
        })?;
        let fine = reply.status.iter().all(|status| *status == Status::Ok);
        let reads = fine && slice.direction == Direction::Read;
        if reply.payload_bytes != if reads { slice.bytes() } else { 0 } {
            return Err(invalid_text("Another number of bytes than was asked for"));
        }
        if reads {
            let mut payload = Message::new();
            borrow(slice, &mut payload);
            self.stream.receive_message(payload).await?;
        }
        Ok(reply)
    }

    fn request(&mut self, slice: &Slice, epoch: u64, with_checksum: bool) -> Message {
        let sums = match slice.direction {
            _ if !with_checksum => None,
            Direction::Write => Some(slice.checksums()),
            Direction::Read => Some(Vec::new()),
        };
        self.number += 1;
        let mut frame = Vec::with_capacity(128);
        self.encoder.request(
            &mut frame,
            self.number,
            epoch,
            slice.direction,
            &slice.pieces,
            sums.as_deref(),
        );
        let mut message = Message::new();
        message.push_owned(frame);
        if slice.direction == Direction::Write {
            borrow(slice, &mut message);
        }
        message
    }

    async fn receive_frame(&mut self) -> io::Result<()> {
        loop {
            let missing = self.arriving.missing()?;
            if missing == 0 {
                return Ok(());
            }
            let bytes = self.arriving.lend(missing);
            let (received, bytes) = self.stream.receive_up_to(bytes, missing).await;
            self.arriving.give_back(bytes);
            if received? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// Appends the local memory of a slice to a message.
pub(super) fn borrow(slice: &Slice, message: &mut Message) {
    for piece in &slice.pieces {
        // SAFETY: whoever submitted the batch keeps its memory until it is over, and the slice reports only after the
        // operations on it have completed.
        unsafe { message.push_borrowed(piece.local as *mut u8, piece.bytes as usize) };
    }
}

/// What a peer says that refuses a connection.
pub(super) fn refusal(kind: Kind, body: &[u8]) -> io::Error {
    if kind != Kind::Failure {
        return invalid_text("The peer sent another kind of frame than was expected");
    }
    match decode_failure(body) {
        Ok((status, message)) => io::Error::other(format!("{message} ({status})")),
        Err(error) => invalid(error),
    }
}
