//! A connection used by one calling thread at a time: slices go out one behind the other, answers
//! come back in order. Invariant: memory of a slice is touched only between the call's beginning
//! and its end, by the calling thread.
#![expect(unsafe_code, reason = "it lends memory of a slice to the kernel")]

use super::call_bounds::CallBounds;
use super::exchange::{Exchange, incoming, outgoing};
use super::own_waits::OwnWaits;
use super::scatter::Scatter;
use super::unsettled::Unsettled;
use crate::error::PeerError;
use crate::greeting::take_welcome;
use crate::limits::{BODY_BYTES_MAX, CONNECT_DEADLINE, PIPELINED_SLICES_MAX, SPIN};
use crate::peer_address::{Dialect, PeerAddress};
use crate::reply::Reply;
use crate::slice::Slice;
use crate::stats::{CountedExchange as Counted, Exchanged, RouteCounters};
use crate::wire::{invalid, invalid_text, reply_bytes_min};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, recv};
use perigee_activity::{Link, LinkRole, SlotKey};
use perigee_memory::{ByteRange, ByteRangeMut};
use perigee_schemas::frame_buffer::FrameBuffer;
use perigee_schemas::session::{Hello, Role, Welcome};
use perigee_shard::{MeasuredSleep, SpinWait, connect_blocking, has_vanished, is_quiet, monotonic};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest sleep before a caller looks whether its side was closed.
const LOOK: Duration = Duration::from_millis(50);

/// A greeted connection to one target.
#[derive(Debug)]
pub(crate) struct BlockingConnection {
    stream: TcpStream,
    /// Of the NIC that it goes through.
    counters: Arc<RouteCounters>,
    exchange: Exchange,
    arriving: FrameBuffer,
    frame: Vec<u8>,
    sending: Scatter,
    /// A reply whose payload is on its way into `receiving`.
    reply: Option<Reply>,
    receiving: Scatter,
    link: Link,
    /// When the exchange that is answered next began: with its request, or with the answer before
    /// it.
    since: Duration,
    /// When the present call began, and when its present answer was there, without its payload.
    called: Duration,
    answered: Duration,
    own_waits: OwnWaits,
}

impl BlockingConnection {
    /// Connects and greets; refuses a peer in another run than the target's.
    pub(super) fn open(call: &CallBounds<'_>) -> Result<Self, PeerError> {
        let Dialect::Own { epoch } = call.peer.dialect else {
            let reason = "Mooncake's protocol is spoken on shards only".to_owned();
            return Err(PeerError::Unreachable { peer: call.peer.name.to_string(), reason });
        };
        let mut failure = Err(PeerError::Closed);
        for address in &call.peer.addresses {
            failure = Self::open_at(call, address, epoch);
            let elsewhere = |error: &PeerError| error.is_of_one_address();
            if !failure.as_ref().is_err_and(elsewhere) {
                break;
            }
        }
        failure
    }

    /// An address that another host has, too, may lead to another process: the next one is tried
    /// then.
    fn open_at(
        call: &CallBounds<'_>,
        address: &PeerAddress,
        epoch: Option<u64>,
    ) -> Result<Self, PeerError> {
        let limit = CONNECT_DEADLINE.min(call.left()?);
        let end = Instant::now() + limit;
        let failed = |error: io::Error| {
            let ends = call.ends();
            ends.unwrap_or_else(|| call.unreachable(&error, address.address, limit))
        };
        let is_given_up = || call.ends().is_some();
        let stream = connect_blocking(address.address, limit, call.congestion, is_given_up);
        let stream = stream.map_err(failed)?;
        let mut connection = Self {
            link: Link::of(Some(stream.as_fd()), LinkRole::Asks),
            since: Duration::ZERO,
            called: Duration::ZERO,
            answered: Duration::ZERO,
            own_waits: OwnWaits::default(),
            stream,
            counters: address.counters.clone(),
            exchange: Exchange::new(epoch.unwrap_or(0)),
            arriving: FrameBuffer::new(BODY_BYTES_MAX),
            frame: Vec::new(),
            sending: Scatter::default(),
            reply: None,
            receiving: Scatter::default(),
        };
        let greeting = CallBounds { deadline: call.deadline.min(end), ..*call };
        debug_assert!(greeting.deadline <= call.deadline);
        let welcome =
            connection.greet(&greeting, address.address).map_err(|error| match error {
                PeerError::Deadline { .. } => failed(io::ErrorKind::TimedOut.into()),
                error => error,
            })?;
        match epoch {
            Some(epoch) if epoch != welcome.epoch => {
                Err(PeerError::Restarted { peer: call.peer.name.to_string() })
            }
            _ => Ok(connection),
        }
    }

    /// How many requests have been answered over it.
    pub(super) fn answered(&self) -> u64 {
        self.exchange.answered()
    }

    fn greet(&mut self, call: &CallBounds<'_>, port: SocketAddr) -> Result<Welcome, PeerError> {
        self.frame = Hello::new(Role::Client, call.identity).encode();
        self.send_frame(std::iter::empty());
        let mut patience = SpinWait::new(SPIN);
        loop {
            let step = self.greet_step();
            match step.map_err(|error| call.unreachable(&error, port, CONNECT_DEADLINE))? {
                Some(welcome) => {
                    self.link.end_wait();
                    self.arriving.expect_least(reply_bytes_min(welcome.protocol));
                    return Ok(welcome);
                }
                None => self.wait(call, &mut patience)?,
            }
        }
    }

    fn greet_step(&mut self) -> io::Result<Option<Welcome>> {
        self.flush()?;
        receive_frame(&self.stream, &mut self.arriving)?;
        match self.arriving.missing().map_err(invalid)? {
            0 => take_welcome(&mut self.arriving).map(Some),
            _ => Ok(None),
        }
    }

    /// Moves all slices; those of an error are still in `slices`.
    pub(super) fn run<S: Slice>(
        &mut self,
        call: &CallBounds<'_>,
        slices: &mut Unsettled<S>,
    ) -> Result<(), PeerError> {
        self.called = monotonic();
        self.exchange_all(call, slices).inspect_err(|error| {
            if let Some(failed) = slices.under_way.front() {
                self.counted(failed, call).record_failure(error);
            }
        })
    }

    fn exchange_all<S: Slice>(
        &mut self,
        call: &CallBounds<'_>,
        slices: &mut Unsettled<S>,
    ) -> Result<(), PeerError> {
        let mut patience = SpinWait::new(SPIN);
        while !slices.is_empty() {
            let answered = self.exchange.answered();
            let step = self.step(call, slices).inspect(|has_moved| {
                if *has_moved {
                    self.link.end_wait();
                }
            });
            match step {
                // A long batch may never have to wait.
                Ok(true) if self.exchange.answered() > answered && !slices.is_empty() => {
                    call.left()?;
                    patience = SpinWait::new(SPIN);
                }
                Ok(true) => patience = SpinWait::new(SPIN),
                Ok(false) => self.wait(call, &mut patience)?,
                Err(error) => return Err(call.broken(&error)),
            }
        }
        Ok(())
    }

    /// Sends and receives what is possible at once; true if anything moved.
    fn step<S: Slice>(
        &mut self,
        call: &CallBounds<'_>,
        slices: &mut Unsettled<S>,
    ) -> io::Result<bool> {
        if self.sending.is_done()
            && slices.under_way.len() < PIPELINED_SLICES_MAX
            && let Some(mut slice) = slices.todo.pop_front()
        {
            if let Err(error) = slice.prepare() {
                slice.fail(&error);
                return Ok(true);
            }
            if slices.under_way.is_empty() {
                self.since = monotonic();
                self.own_waits = OwnWaits::default();
            }
            self.frame.clear();
            self.exchange.request(&mut self.frame, &slice, call.with_checksum);
            self.send_frame(outgoing(&slice));
            slices.under_way.push_back(slice);
            debug_assert!(slices.under_way.len() <= PIPELINED_SLICES_MAX);
        }
        debug_assert_eq!(self.exchange.unanswered(), self.unanswered(slices));
        let sent = self.flush()?;
        let received = if self.reply.is_some() {
            self.receive_payload()?
        } else {
            receive_frame(&self.stream, &mut self.arriving)?
        };
        self.settle(call, slices)?;
        Ok(sent | received)
    }

    /// Slices under way whose reply has not begun to arrive.
    fn unanswered<S>(&self, slices: &Unsettled<S>) -> u64 {
        (slices.under_way.len() - usize::from(self.reply.is_some())) as u64
    }

    /// Lines the frame up, and the payload behind it.
    fn send_frame(&mut self, payload: impl Iterator<Item = ByteRangeMut>) {
        debug_assert!(self.sending.is_done(), "one frame after the other");
        self.sending.clear();
        self.sending.push(ByteRange::from(self.frame.as_slice()).cast_mut());
        payload.for_each(|memory| self.sending.push(memory));
    }

    fn flush(&mut self) -> io::Result<bool> {
        if self.sending.is_done() {
            return Ok(false);
        }
        // SAFETY: `frame` is not touched before the list is done; the slice under way keeps its
        // memory.
        some(unsafe { self.sending.send(self.stream.as_fd()) })
    }

    fn receive_payload(&mut self) -> io::Result<bool> {
        // SAFETY: the slice whose reply this is keeps its memory.
        let received = unsafe { self.receiving.receive(self.stream.as_fd()) };
        end_is_error(received)
    }

    /// Takes a whole reply off the connection, and settles its slice once its payload is in place.
    fn settle<S: Slice>(
        &mut self,
        call: &CallBounds<'_>,
        slices: &mut Unsettled<S>,
    ) -> io::Result<()> {
        if self.reply.is_none() && self.arriving.missing().map_err(invalid)? == 0 {
            let oldest = slices.under_way.front();
            let oldest = oldest.ok_or_else(|| invalid_text("An answer without a question"))?;
            // The newest slice is not answered before all of it was sent: the peer would not have
            // seen its end.
            if slices.under_way.len() == 1 && !self.sending.is_done() {
                return Err(invalid_text("An answer before the end of the question"));
            }
            let reply = self.exchange.reply(&mut self.arriving, oldest)?;
            debug_assert!(self.receiving.is_done(), "the payload before is in place");
            self.receiving.clear();
            incoming(oldest, &reply).for_each(|memory| self.receiving.push(memory));
            debug_assert_eq!(self.receiving.bytes(), reply.payload_bytes);
            if reply.payload_bytes > 0 {
                self.answered = monotonic();
                self.own_waits.begin_payload();
            }
            self.reply = Some(reply);
        }
        if let Some(reply) = self.reply.take_if(|_| self.receiving.is_done())
            && let Some(slice) = slices.under_way.pop_front()
        {
            let mut counted = self.counted(&slice, call);
            counted.take_reply(&reply);
            if reply.payload_bytes > 0 {
                let took = self.own_waits.arrival(counted.ended.saturating_sub(self.answered));
                counted.arrived = (reply.payload_bytes, took);
            }
            counted.record();
            self.since = counted.ended;
            self.own_waits = OwnWaits::default();
            self.link.look(Some(self.stream.as_fd()));
            let exchanged = Exchanged { peer: &call.peer.name, counters: &self.counters };
            slice.settle(&reply, &exchanged);
        }
        Ok(())
    }

    /// The oldest exchange as it is counted, which ends now.
    fn counted<'a, S: Slice>(&'a self, slice: &'a S, call: &'a CallBounds<'_>) -> Counted<'a> {
        let ended = monotonic();
        let (own, took) = self.own_waits.split(ended.saturating_sub(self.since));
        let queued = self.since.saturating_sub(self.called) + own;
        Counted {
            queued,
            took,
            ended,
            ..Counted::of(slice, &call.peer.name, &self.link, SlotKey::CALLER)
        }
    }

    /// Watches the socket for a while, then sleeps until it is ready, or looks whether the call
    /// must end.
    fn wait(&mut self, call: &CallBounds<'_>, patience: &mut SpinWait) -> Result<(), PeerError> {
        if patience.watch_on() {
            return Ok(());
        }
        let left = call.left()?.min(LOOK) + Duration::from_millis(1);
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        let mut wanted = PollFlags::POLLIN;
        if !self.sending.is_done() {
            wanted |= PollFlags::POLLOUT;
        }
        let mut sockets = [PollFd::new(self.stream.as_fd(), wanted)];
        let sleep = MeasuredSleep::begin(left);
        let woken = poll(&mut sockets, timeout);
        self.own_waits.add(sleep.own_wait());
        match woken {
            Ok(0) if has_vanished(self.stream.as_fd()) => {
                Err(call.broken(&io::Error::from_raw_os_error(libc::ETIMEDOUT)))
            }
            Ok(0) => {
                self.link.note_silence(Some(self.stream.as_fd()));
                Ok(())
            }
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(call.broken(&errno.into())),
        }
    }

    /// Whether an idle connection is still open and silent.
    pub(crate) fn is_usable(&self) -> bool {
        self.arriving.is_empty() && is_quiet(self.stream.as_fd())
    }
}

/// Receives what has arrived of a frame; true if anything has.
fn receive_frame(stream: &TcpStream, arriving: &mut FrameBuffer) -> io::Result<bool> {
    let missing = arriving.missing().map_err(invalid)?;
    if missing == 0 {
        return Ok(false);
    }
    let mut bytes = arriving.lend(missing);
    let before = bytes.len();
    bytes.resize(before + missing, 0);
    let flags = MsgFlags::MSG_DONTWAIT;
    let received = recv(stream.as_raw_fd(), &mut bytes[before..], flags);
    bytes.truncate(before + received.unwrap_or(0));
    arriving.give_back(bytes);
    end_is_error(received.map_err(io::Error::from))
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
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
