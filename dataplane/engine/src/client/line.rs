//! A connection used by one calling thread at a time: slices go out one behind the other, answers come back in order.
//!
//! Handing a small transfer to a shard would cost a sleep and a wake-up, which is more than its round trip. The invariant:
//! memory of a slice is touched only between the call's beginning and its end, by the calling thread.

use super::scatter::Scatter;
use crate::counters::Counters;
use crate::error::EngineError;
use crate::frame_buffer::FrameBuffer;
use crate::limits::{CONNECT_DEADLINE, LINE_SLICES_MAX, SPIN};
use crate::request::Direction;
use crate::slice::Slice;
use crate::target::{Dialect, Target};
use crate::ways::Way;
use crate::wire::{self, Encoder, REPLY_BYTES_MIN, Reply, invalid, invalid_text};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, recv};
use perigee_activity::{Link, LinkRole};
use perigee_schemas::frame::Kind;
use perigee_schemas::session::{Hello, Role, Welcome, decode_failure};
use perigee_schemas::{Identity, Status};
use perigee_shard::{Congestion, Patience, connect_blocking};
use std::collections::VecDeque;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest sleep before a caller looks whether the engine was closed.
const LOOK: Duration = Duration::from_millis(50);

/// One blocking transfer: its slices and when it must be over.
pub(crate) struct Call<'a> {
    pub(crate) target: &'a Target,
    pub(crate) identity: Identity,
    pub(crate) congestion: &'a Congestion,
    pub(crate) with_checksum: bool,
    pub(crate) deadline: Instant,
    /// The time it has in all, for messages.
    pub(crate) length: Duration,
    /// Whether the engine was closed meanwhile.
    pub(crate) is_closed: &'a dyn Fn() -> bool,
}

/// A greeted connection to one target.
#[derive(Debug)]
pub(crate) struct Line {
    stream: TcpStream,
    /// Of the NIC that it goes through.
    counters: Arc<Counters>,
    epoch: u64,
    encoder: Encoder,
    frame: Vec<u8>,
    outgoing: Scatter,
    arriving: FrameBuffer,
    /// A reply whose payload is on its way into `incoming`.
    reply: Option<Reply>,
    incoming: Scatter,
    /// Numbers of the next request and of the next reply.
    sent: u64,
    answered: u64,
    link: Link,
    /// When the exchange that is answered next began: with its request, or with the answer before it.
    since: Instant,
}

/// Slices of a call that are not settled.
#[derive(Debug, Default)]
pub(crate) struct Unsettled {
    pub(crate) todo: VecDeque<Slice>,
    pub(crate) flight: VecDeque<Slice>,
}

impl Unsettled {
    /// Everything goes again over another connection.
    fn rewind(&mut self) {
        while let Some(slice) = self.flight.pop_back() {
            self.todo.push_front(slice);
        }
    }

    fn is_empty(&self) -> bool {
        self.todo.is_empty() && self.flight.is_empty()
    }

    /// Fails what is left.
    fn fail(&mut self, error: &EngineError) {
        self.rewind();
        self.todo.drain(..).for_each(|slice| slice.fail(error));
    }
}

impl Call<'_> {
    /// Moves slices over a connection of the target; each slice reports to its batch.
    pub(crate) fn run(&self, slices: impl Iterator<Item = Slice>) {
        let mut slices = Unsettled {
            todo: slices.collect(),
            flight: VecDeque::new(),
        };
        if slices.is_empty() {
            return;
        }
        if let Err(error) = self.try_lines(&mut slices) {
            slices.fail(&error);
        }
    }

    fn try_lines(&self, slices: &mut Unsettled) -> Result<(), EngineError> {
        if let Some(mut line) = self.target.take_line() {
            let answered = line.answered;
            match line.run(self, slices) {
                Ok(()) => {
                    self.target.keep_line(line);
                    return Ok(());
                }
                // An idle connection may have died: what went over it can go again.
                Err(EngineError::Broken { .. }) if line.answered == answered => slices.rewind(),
                Err(error) => return Err(error),
            }
        }
        let mut line = Line::open(self)?;
        line.run(self, slices)?;
        self.target.keep_line(line);
        Ok(())
    }

    fn left(&self) -> Result<Duration, EngineError> {
        if (self.is_closed)() {
            return Err(EngineError::Closed);
        }
        match self.deadline.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => Ok(left),
            _ => Err(EngineError::Deadline {
                peer: self.target.name.to_string(),
                deadline: self.length,
            }),
        }
    }

    fn broken(&self, error: &io::Error) -> EngineError {
        if error.raw_os_error() == Some(libc::EFAULT) {
            return EngineError::LocalMemory;
        }
        EngineError::Broken {
            peer: self.target.name.to_string(),
            reason: error.to_string(),
        }
    }
}

impl Line {
    /// Connects and greets; refuses a peer in another life than the target's.
    fn open(call: &Call<'_>) -> Result<Self, EngineError> {
        let peer = call.target.name.to_string();
        let Dialect::Own { epoch } = call.target.dialect else {
            return Err(EngineError::Unsupported(format!(
                "{peer} speaks another dialect"
            )));
        };
        let mut failure = Err(EngineError::Closed);
        for way in &call.target.ways {
            failure = Self::open_way(call, way, epoch, &peer);
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

    /// An address that another host has, too, may lead to another engine: that is no way to this one.
    fn open_way(call: &Call<'_>, way: &Way, epoch: u64, peer: &str) -> Result<Self, EngineError> {
        let peer = peer.to_owned();
        let wait = CONNECT_DEADLINE.min(call.left()?);
        let unreachable = |error: io::Error| EngineError::Unreachable {
            peer: peer.clone(),
            reason: error.to_string(),
        };
        let stream = connect_blocking(way.address, wait, call.congestion).map_err(unreachable)?;
        let mut line = Self {
            link: Link::of(Some(stream.as_fd()), LinkRole::Asks),
            since: Instant::now(),
            stream,
            counters: way.counters.clone(),
            epoch,
            encoder: Encoder::new(),
            frame: Vec::new(),
            outgoing: Scatter::default(),
            arriving: FrameBuffer::new(REPLY_BYTES_MIN),
            reply: None,
            incoming: Scatter::default(),
            sent: 0,
            answered: 0,
        };
        let welcome = line.greet(call)?;
        match welcome.status {
            Status::Ok if welcome.epoch == epoch => Ok(line),
            Status::Ok => Err(EngineError::Restarted { peer }),
            _ => Err(unreachable(io::Error::other(welcome.message))),
        }
    }

    fn greet(&mut self, call: &Call<'_>) -> Result<Welcome, EngineError> {
        self.frame = Hello::new(Role::Client, call.identity).encode();
        self.outgoing.clear();
        self.outgoing
            .push(self.frame.as_ptr() as u64, self.frame.len() as u64);
        let greeting = Instant::now() + CONNECT_DEADLINE.min(call.left()?);
        let call = Call {
            deadline: call.deadline.min(greeting),
            ..*call
        };
        let mut patience = Patience::new(SPIN);
        loop {
            let step = self.greet_step().map_err(|error| call.broken(&error))?;
            match step {
                Some(welcome) => return Ok(welcome),
                None => self.wait(&call, &mut patience)?,
            }
        }
    }

    fn greet_step(&mut self) -> io::Result<Option<Welcome>> {
        self.flush()?;
        self.fill_frame()?;
        if self.arriving.missing()? > 0 {
            return Ok(None);
        }
        self.arriving.take(|header, body| match header.kind {
            Kind::Welcome => Welcome::decode(body).map(Some).map_err(invalid),
            _ => Err(refusal(header.kind, body)),
        })
    }

    /// Moves all slices; those of an error are still in `slices`.
    fn run(&mut self, call: &Call<'_>, slices: &mut Unsettled) -> Result<(), EngineError> {
        let mut patience = Patience::new(SPIN);
        while !slices.is_empty() {
            let moved = self
                .step(call, slices)
                .map_err(|error| call.broken(&error))?;
            if moved {
                patience = Patience::new(SPIN);
            } else {
                self.wait(call, &mut patience)?;
            }
        }
        Ok(())
    }

    /// Sends and receives what is possible at once; true if anything moved.
    fn step(&mut self, call: &Call<'_>, slices: &mut Unsettled) -> io::Result<bool> {
        if self.outgoing.is_done()
            && slices.flight.len() < LINE_SLICES_MAX
            && let Some(mut slice) = slices.todo.pop_front()
        {
            if let Err(error) = slice.embark() {
                slice.fail(&error);
                return Ok(true);
            }
            if slices.flight.is_empty() {
                self.since = Instant::now();
            }
            self.load(call, &slice);
            slices.flight.push_back(slice);
        }
        let sent = self.flush()?;
        let received = if self.reply.is_some() {
            self.fill_payload()?
        } else {
            self.fill_frame()?
        };
        self.settle(call, slices)?;
        Ok(sent | received)
    }

    /// Makes the frame of a slice and lines its payload up behind it.
    fn load(&mut self, call: &Call<'_>, slice: &Slice) {
        let sums = match slice.direction {
            _ if !call.with_checksum => None,
            Direction::Write => Some(slice.checksums()),
            Direction::Read => Some(Vec::new()),
        };
        self.frame.clear();
        self.sent += 1;
        self.encoder.request(
            &mut self.frame,
            self.sent,
            self.epoch,
            slice.direction,
            &slice.pieces,
            sums.as_deref(),
        );
        self.outgoing.clear();
        self.outgoing
            .push(self.frame.as_ptr() as u64, self.frame.len() as u64);
        if slice.direction == Direction::Write {
            for piece in &slice.pieces {
                self.outgoing.push(piece.local, piece.bytes);
            }
        }
    }

    fn flush(&mut self) -> io::Result<bool> {
        if self.outgoing.is_done() {
            return Ok(false);
        }
        // SAFETY: `frame` is not touched before the list is done; the submitter vouches for the payload.
        some(unsafe { self.outgoing.send(self.stream.as_fd()) })
    }

    fn fill_payload(&mut self) -> io::Result<bool> {
        // SAFETY: the submitter vouches for the memory of the slice whose reply this is.
        let received = unsafe { self.incoming.receive(self.stream.as_fd()) };
        end_is_error(received)
    }

    fn fill_frame(&mut self) -> io::Result<bool> {
        let missing = self.arriving.missing()?;
        if missing == 0 {
            return Ok(false);
        }
        let mut bytes = self.arriving.lend(missing);
        let before = bytes.len();
        bytes.resize(before + missing, 0);
        let received = recv(
            self.stream.as_raw_fd(),
            &mut bytes[before..],
            MsgFlags::MSG_DONTWAIT,
        );
        bytes.truncate(before + received.unwrap_or(0));
        self.arriving.give_back(bytes);
        end_is_error(received.map_err(io::Error::from))
    }

    /// Takes whole replies off the connection and tells their slices.
    fn settle(&mut self, call: &Call<'_>, slices: &mut Unsettled) -> io::Result<()> {
        if self.reply.is_none() && self.arriving.missing()? == 0 {
            self.begin_reply(slices)?;
        }
        if self.reply.is_some() && self.incoming.is_done() {
            let reply = self.reply.take().unwrap_or_default();
            self.answered += 1;
            if let Some(slice) = slices.flight.pop_front() {
                self.note(&slice);
                let again = slice.settle(&call.target.name, &reply, &self.counters);
                slices.todo.extend(again);
            }
        }
        Ok(())
    }

    /// Counts the exchange that has ended, for those who look at connections.
    fn note(&mut self, slice: &Slice) {
        let now = Instant::now();
        let took = now.duration_since(std::mem::replace(&mut self.since, now));
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let peer_ns = self.link.record(took_ns, slice.bytes());
        let accounts = slice.batch().accounts();
        accounts.waited_for_peer(&self.counters, peer_ns);
        self.link.look(Some(self.stream.as_fd()));
    }

    fn begin_reply(&mut self, slices: &Unsettled) -> io::Result<()> {
        let front = slices
            .flight
            .front()
            .ok_or_else(|| invalid_text("An answer without a question"))?;
        // The newest slice is not answered before all of it was sent: the peer would not have seen its end.
        if slices.flight.len() == 1 && !self.outgoing.is_done() {
            return Err(invalid_text("An answer before the end of the question"));
        }
        let expected = self.answered + 1;
        let reply = self.arriving.take(|header, body| match header.kind {
            Kind::Reply if header.request == expected => {
                wire::decode_reply(body, front.pieces.len())
            }
            Kind::Reply => Err(invalid_text("An answer to another question")),
            kind => Err(refusal(kind, body)),
        })?;
        self.incoming.clear();
        let fine = reply.status.iter().all(|status| *status == Status::Ok);
        let payload = if fine && front.direction == Direction::Read {
            front.bytes()
        } else {
            0
        };
        if reply.payload_bytes != payload {
            return Err(invalid_text("Another number of bytes than was asked for"));
        }
        if payload > 0 {
            for piece in &front.pieces {
                self.incoming.push(piece.local, piece.bytes);
            }
        }
        self.reply = Some(reply);
        Ok(())
    }

    /// Watches the socket for a while, then sleeps until it is ready, or looks whether the call must end.
    fn wait(&self, call: &Call<'_>, patience: &mut Patience) -> Result<(), EngineError> {
        if patience.watch_on() {
            return Ok(());
        }
        let left = call.left()?.min(LOOK) + Duration::from_millis(1);
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        let mut wanted = PollFlags::POLLIN;
        if !self.outgoing.is_done() {
            wanted |= PollFlags::POLLOUT;
        }
        let mut sockets = [PollFd::new(self.stream.as_fd(), wanted)];
        match poll(&mut sockets, timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(call.broken(&errno.into())),
        }
    }

    /// Whether an idle connection is still open and silent.
    pub(crate) fn is_usable(&self) -> bool {
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_PEEK;
        let silent = recv(self.stream.as_raw_fd(), &mut [0; 1], flags);
        self.arriving.is_empty() && matches!(silent, Err(Errno::EAGAIN))
    }
}

/// What a peer says that refuses a connection.
fn refusal(kind: Kind, body: &[u8]) -> io::Error {
    if kind != Kind::Failure {
        return invalid_text("The peer sent another kind of frame than was expected");
    }
    match decode_failure(body) {
        Ok((status, message)) => io::Error::other(format!("{message} ({status})")),
        Err(error) => invalid(error),
    }
}

fn some(moved: io::Result<usize>) -> io::Result<bool> {
    match moved {
        Ok(count) => Ok(count > 0),
        Err(error) if is_not_yet(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

fn end_is_error(received: io::Result<usize>) -> io::Result<bool> {
    match received {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        other => some(other),
    }
}

fn is_not_yet(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}
