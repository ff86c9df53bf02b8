//! One connection to the master: greeting, then request and reply in turn.

use crate::error::CallError;
use crate::limits::{IDLE_BUFFER_BYTES_MAX, LEASES_BEHIND_MAX, SPIN};
use crate::returns::{Lease, Returns, frame};
use flatbuffers::FlatBufferBuilder;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, recv, sendmsg};
use perigee_activity::{SpanKind, add_span, current_context};
use perigee_schemas::frame::{FrameHeader, HEADER_BYTES, MessageKind};
use perigee_schemas::limits::{FRAME_BODY_BYTES_MAX, HELLO_BODY_BYTES_MAX};
use perigee_schemas::session::{Hello, Welcome, decode_failure};
use perigee_schemas::trace::{ServiceTimes, TRAILER_BYTES};
use perigee_shard::{MeasuredSleep, SpinWait, is_interrupted, monotonic, wait_step};
use std::cell::{Cell, LazyCell};
use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// When a call has begun, and when it must be over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallWindow {
    pub(crate) begun: Duration,
    pub(crate) deadline: Duration,
}

impl CallWindow {
    /// A call that begins now and may take so long.
    pub(crate) fn of(limit: Duration) -> Self {
        let begun = monotonic();
        Self { begun, deadline: begun.saturating_add(limit) }
    }
}

/// A greeted connection with the buffers of its calls.
pub(crate) struct MasterConnection {
    stream: TcpStream,
    pub(crate) builder: FlatBufferBuilder<'static>,
    body: Vec<u8>,
    request: u64,
    epoch: u64,
    protocol: u16,
    /// The master's address, as spans name it.
    master: String,
    /// What was asked for a request that is traced, and when that call has begun.
    asked: Option<(MessageKind, Duration)>,
    /// For how long the calling thread had no core, or was stopped, while it waited for its answer:
    /// that is this side's time, and neither the master's nor the network's.
    own_wait: Cell<Duration>,
    /// Leases that go back with the present call, and their frame.
    given_back: Vec<Lease>,
    giving_back: FlatBufferBuilder<'static>,
}

impl MasterConnection {
    /// Connects, which may take `connect_deadline` of the time, and greets.
    pub(crate) fn open(
        address: SocketAddr,
        hello: &Hello,
        (connect_deadline, deadline): (Duration, Duration),
    ) -> Result<Self, CallError> {
        let wait = connect_deadline.min(left(deadline)?);
        let stream = TcpStream::connect_timeout(&address, wait)
            .map_err(|source| CallError::Unreachable { address: address.to_string(), source })?;
        stream.set_nodelay(true)?;
        let mut connection = Self {
            stream,
            builder: FlatBufferBuilder::new(),
            body: Vec::new(),
            request: 0,
            epoch: 0,
            protocol: 0,
            master: address.to_string(),
            asked: None,
            own_wait: Cell::default(),
            given_back: Vec::new(),
            giving_back: FlatBufferBuilder::new(),
        };
        send(&connection.stream, &mut [IoSlice::new(&hello.encode())], deadline)?;
        let header = connection.receive(HELLO_BODY_BYTES_MAX, deadline)?;
        connection.refusal(header)?;
        let welcome = Welcome::decode(&connection.body)?;
        match welcome.status.ok() {
            Ok(()) => {
                connection.epoch = welcome.epoch;
                connection.protocol = welcome.protocol;
                Ok(connection)
            }
            Err(status) => Err(CallError::Refused { status, message: welcome.message }),
        }
    }

    /// The life of the master this connection talks to.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The protocol that both sides speak.
    pub(crate) fn protocol(&self) -> u16 {
        self.protocol
    }

    /// Sends what the builder has finished, with leases that are given back;
    /// [`MasterConnection::answer`] must follow.
    pub(crate) fn ask(
        &mut self,
        kind: MessageKind,
        returns: &Returns,
        bounds: CallWindow,
    ) -> Result<(), CallError> {
        self.request += 1;
        let bytes = self.builder.finished_data();
        let fits = bytes.len() + TRAILER_BYTES <= FRAME_BODY_BYTES_MAX;
        let trailer = current_context().filter(|_| fits).map(|context| context.encode());
        self.asked = trailer.is_some().then_some((kind, bounds.begun));
        self.own_wait.take();
        let (header, trailer) = match &trailer {
            None => (FrameHeader::encode(kind, self.request, bytes), &[][..]),
            Some(trailer) => {
                (FrameHeader::encode_with_trailer(kind, self.request, bytes, trailer), &trailer[..])
            }
        };
        let send = |parts: &mut [IoSlice<'_>]| send(&self.stream, parts, bounds.deadline);
        returns.take(&mut self.given_back);
        let leases = self.given_back.as_slice();
        if leases.is_empty() {
            return send(&mut [&header, bytes, trailer].map(IoSlice::new));
        }
        let (their_header, theirs) = frame(leases, &mut self.giving_back);
        // A put may need the space of what is given back; others are answered first. Many leases go
        // in front, too: the master does not read on while it waits for its answer to be taken.
        let mut parts = [&header, bytes, trailer, &their_header, theirs].map(IoSlice::new);
        if kind == MessageKind::PutStart || leases.len() > LEASES_BEHIND_MAX {
            parts.rotate_right(2);
        }
        send(&mut parts)
    }

    /// Waits for the reply to what was asked last; the returned bytes are its body.
    pub(crate) fn answer(&mut self, bounds: CallWindow) -> Result<&[u8], CallError> {
        let received = self.receive(FRAME_BODY_BYTES_MAX, bounds.deadline);
        let received = received.and_then(|header| self.refusal(header).map(|()| header));
        if let Some((kind, begun)) = self.asked.take() {
            self.note(kind, begun, &received);
        }
        let header = received?;
        if header.request != self.request {
            return Err(
                io::Error::new(io::ErrorKind::InvalidData, "Reply to another request").into()
            );
        }
        Ok(&self.body)
    }

    /// Adds a call to the request that this thread works at, with what the master says of it.
    fn note(&self, kind: MessageKind, begun: Duration, received: &Result<FrameHeader, CallError>) {
        add_span(SpanKind::Master, ("", &self.master), |span| {
            let now = monotonic();
            let whole = now.saturating_sub(begun);
            let own = self.own_wait.get().min(whole);
            let took = whole - own;
            let header = received.as_ref().ok();
            let trailer = header.and_then(|header| header.trailer(&self.body));
            let times = trailer.and_then(ServiceTimes::decode).unwrap_or_default();
            span.detail = kind as u16;
            // How long its thread waited is a mean of late, and may be more than this call took.
            let took_ns = nanoseconds(took);
            span.queue_ns = nanoseconds(own);
            span.served_ns = times.served_ns.min(took_ns);
            span.waited_ns = times.waited_ns.min(took_ns - span.served_ns);
            span.status = received.as_ref().err().map_or(0, |error| error.status().code());
            (now, took)
        });
    }

    /// Whether an idle connection is still open and silent.
    pub(crate) fn is_usable(&self) -> bool {
        let mut probe = [0; 1];
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_PEEK;
        matches!(recv(self.stream.as_raw_fd(), &mut probe, flags), Err(Errno::EAGAIN))
    }

    /// Makes the connection small again before it is kept.
    pub(crate) fn rest(&mut self) {
        self.builder.reset();
        if self.body.capacity() > IDLE_BUFFER_BYTES_MAX {
            self.body = Vec::new();
        }
        if self.given_back.len() > LEASES_BEHIND_MAX {
            self.giving_back = FlatBufferBuilder::new();
        }
        self.given_back.clear();
        self.given_back.shrink_to(LEASES_BEHIND_MAX);
    }

    fn refusal(&self, header: FrameHeader) -> Result<(), CallError> {
        if header.kind != MessageKind::Failure {
            return Ok(());
        }
        let (status, message) = decode_failure(&self.body)?;
        Err(CallError::Refused { status, message })
    }

    fn receive(&mut self, limit: usize, deadline: Duration) -> Result<FrameHeader, CallError> {
        let mut head = [0; HEADER_BYTES];
        self.fill(&mut head, deadline)?;
        let header = FrameHeader::decode(&head, limit)?;
        let mut body = std::mem::take(&mut self.body);
        body.resize(header.body_bytes, 0);
        let filled = self.fill(&mut body, deadline);
        self.body = body;
        filled?;
        header.check(&self.body)?;
        Ok(header)
    }

    fn fill(&self, mut buffer: &mut [u8], deadline: Duration) -> Result<(), CallError> {
        // What has arrived already needs none.
        let mut patience = LazyCell::new(|| SpinWait::new(SPIN));
        while !buffer.is_empty() {
            match recv(self.stream.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(count) => buffer = &mut buffer[count..],
                Err(Errno::EAGAIN) if patience.watch_on() => {}
                Err(Errno::EAGAIN) => {
                    let own = wait(&self.stream, PollFlags::POLLIN, deadline)?;
                    self.own_wait.set(self.own_wait.get() + own);
                }
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(io::Error::from(errno).into()),
            }
        }
        Ok(())
    }
}

fn send(
    stream: &TcpStream,
    mut parts: &mut [IoSlice<'_>],
    deadline: Duration,
) -> Result<(), CallError> {
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    while !parts.is_empty() {
        match sendmsg::<()>(stream.as_raw_fd(), parts, &[], flags, None) {
            Ok(sent) => IoSlice::advance_slices(&mut parts, sent),
            Err(Errno::EAGAIN) => drop(wait(stream, PollFlags::POLLOUT, deadline)?),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(io::Error::from(errno).into()),
        }
    }
    Ok(())
}

/// Sleeps until the stream is ready, or for a step. Says what of it was this thread's own doing.
fn wait(stream: &TcpStream, wanted: PollFlags, deadline: Duration) -> Result<Duration, CallError> {
    let wait = wait_step(left(deadline)?) + Duration::from_millis(1);
    let timeout = PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX);
    let mut descriptors = [PollFd::new(stream.as_fd(), wanted)];
    let sleep = MeasuredSleep::begin(wait);
    match poll(&mut descriptors, timeout) {
        Ok(0) | Err(Errno::EINTR) if is_interrupted() => Err(CallError::Interrupted),
        Ok(_) | Err(Errno::EINTR) => Ok(sleep.own_wait()),
        Err(errno) => Err(io::Error::from(errno).into()),
    }
}

impl std::fmt::Debug for MasterConnection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Connection").field("stream", &self.stream).finish_non_exhaustive()
    }
}

fn nanoseconds(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}

fn left(deadline: Duration) -> Result<Duration, CallError> {
    match deadline.checked_sub(monotonic()) {
        Some(wait) if !wait.is_zero() => Ok(wait),
        _ => Err(CallError::Deadline(Duration::ZERO)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_activity::{CallOutcome, Operation, PageDirectory, begin_call, belongs_to, page};
    use perigee_schemas::trace::TraceContext;

    fn connection() -> MasterConnection {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        MasterConnection {
            stream: TcpStream::connect(listener.local_addr().unwrap()).unwrap(),
            builder: FlatBufferBuilder::new(),
            body: Vec::new(),
            request: 0,
            epoch: 0,
            protocol: 0,
            master: "m:1".to_owned(),
            asked: None,
            own_wait: Cell::default(),
            given_back: Vec::new(),
            giving_back: FlatBufferBuilder::new(),
        }
    }

    #[test]
    fn what_the_caller_had_no_core_for_is_queue_and_neither_the_masters_nor_the_wires() {
        let folder = page().and_then(|page| page.path()?.parent()).unwrap();
        PageDirectory::new(folder).note_reader().unwrap();
        belongs_to(Some(TraceContext { id: 1, span: 2, is_sampled: true }));
        let reply = FrameHeader::encode(MessageKind::Reply, 1, b"");
        let reply = FrameHeader::decode(&reply, 0).unwrap();
        let connection = connection();
        let (begun, ms) = (Duration::ZERO, Duration::from_millis);
        while monotonic() < ms(10) {
            std::hint::spin_loop();
        }
        let call = begin_call(Operation::Get, monotonic);
        connection.own_wait.set(ms(7));
        connection.note(MessageKind::Exist, begun, &Ok(reply));
        connection.own_wait.set(Duration::from_hours(1));
        connection.note(MessageKind::Exist, begun, &Ok(reply));
        let outcome = CallOutcome { key: "k", keys: 1, bytes: 0, status: 0 };
        let spans = call.end(|| outcome, monotonic).unwrap().spans;
        assert_eq!(spans[0].queue_ns, 7_000_000);
        assert!(spans[0].took_ns >= 3_000_000);
        assert!(spans[1].queue_ns >= 10_000_000, "{spans:?}");
        assert_eq!(spans[1].took_ns, 0, "no more than the call");
    }
}
