//! One connection to the master: greeting, then request and reply in turn.

use crate::error::CallError;
use crate::limits::{IDLE_BUFFER_BYTES_MAX, LEASES_BEHIND_MAX, SPIN};
use crate::returns::{Lease, frame};
use flatbuffers::FlatBufferBuilder;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, recv};
use perigee_activity::{Span, SpanKind, add_span, current_context};
use perigee_schemas::frame::{FrameHeader, HEADER_BYTES, MessageKind};
use perigee_schemas::limits::{FRAME_BODY_BYTES_MAX, HELLO_BODY_BYTES_MAX};
use perigee_schemas::session::{Hello, Welcome, decode_failure};
use perigee_schemas::trace::{ServiceTimes, TRAILER_BYTES};
use perigee_shard::{SpinWait, is_interrupted, monotonic, wait_step};
use std::io::{self, IoSlice, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

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
    /// What was asked for a request that is traced, and when.
    asked: Option<(MessageKind, Duration)>,
}

impl MasterConnection {
    /// Connects, which may take `connect_deadline` of the time, and greets.
    pub(crate) fn open(
        address: SocketAddr,
        hello: &Hello,
        (connect_deadline, deadline): (Duration, Instant),
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
        };
        connection.send([&hello.encode()], deadline)?;
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
        given_back: &[Lease],
        deadline: Instant,
    ) -> Result<(), CallError> {
        self.request += 1;
        let body = std::mem::take(&mut self.builder);
        let sent = {
            let bytes = body.finished_data();
            let fits = bytes.len() + TRAILER_BYTES <= FRAME_BODY_BYTES_MAX;
            let trailer = current_context().filter(|_| fits).map(|context| context.encode());
            self.asked = trailer.is_some().then(|| (kind, monotonic()));
            let (header, trailer) = match &trailer {
                None => (FrameHeader::encode(kind, self.request, bytes), &[][..]),
                Some(trailer) => (
                    FrameHeader::encode_with_trailer(kind, self.request, bytes, trailer),
                    &trailer[..],
                ),
            };
            // A put may need the space of what is given back; others are answered first. Many
            // leases go in front, too: the master does not read on while it waits for its answer to
            // be taken.
            let in_front = kind == MessageKind::PutStart || given_back.len() > LEASES_BEHIND_MAX;
            match given_back {
                [] => self.send([&header, bytes, trailer], deadline),
                leases if in_front => {
                    self.send([&frame(leases), &header, bytes, trailer], deadline)
                }
                leases => self.send([&header, bytes, trailer, &frame(leases)], deadline),
            }
        };
        self.builder = body;
        sent
    }

    /// Waits for the reply to what was asked last; the returned bytes are its body.
    pub(crate) fn answer(&mut self, deadline: Instant) -> Result<&[u8], CallError> {
        let received = self.receive(FRAME_BODY_BYTES_MAX, deadline);
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
        let now = monotonic();
        let took = now.saturating_sub(begun);
        add_span(now, took, || {
            let header = received.as_ref().ok();
            let trailer = header.and_then(|header| header.trailer(&self.body));
            let times = trailer.and_then(ServiceTimes::decode).unwrap_or_default();
            let mut span = Span::new(SpanKind::Master, "", &self.master);
            span.detail = kind as u16;
            // How long its thread waited is a mean of late, and may be more than this call took.
            let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
            span.served_ns = times.served_ns.min(took_ns);
            span.waited_ns = times.waited_ns.min(took_ns - span.served_ns);
            span.status = received.as_ref().err().map_or(0, |error| error.status().code());
            span
        });
    }

    /// Whether an idle connection is still open and silent.
    pub(crate) fn is_usable(&self) -> bool {
        let mut probe = [0; 1];
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_PEEK;
        matches!(recv(self.stream.as_raw_fd(), &mut probe, flags), Err(nix::errno::Errno::EAGAIN))
    }

    /// Makes the connection small again before it is kept.
    pub(crate) fn rest(&mut self) {
        self.builder.reset();
        if self.body.capacity() > IDLE_BUFFER_BYTES_MAX {
            self.body = Vec::new();
        }
    }

    fn refusal(&self, header: FrameHeader) -> Result<(), CallError> {
        if header.kind != MessageKind::Failure {
            return Ok(());
        }
        let (status, message) = decode_failure(&self.body)?;
        Err(CallError::Refused { status, message })
    }

    fn send<const PARTS: usize>(
        &mut self,
        parts: [&[u8]; PARTS],
        deadline: Instant,
    ) -> Result<(), CallError> {
        self.stream.set_write_timeout(Some(left(deadline)?))?;
        let mut slices = parts.map(IoSlice::new);
        let mut rest = slices.as_mut_slice();
        while !rest.is_empty() {
            match self.stream.write_vectored(rest) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(sent) => IoSlice::advance_slices(&mut rest, sent),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn receive(&mut self, limit: usize, deadline: Instant) -> Result<FrameHeader, CallError> {
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

    fn fill(&self, mut buffer: &mut [u8], deadline: Instant) -> Result<(), CallError> {
        let mut patience = SpinWait::new(SPIN);
        while !buffer.is_empty() {
            match recv(self.stream.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(count) => buffer = &mut buffer[count..],
                Err(nix::errno::Errno::EAGAIN) if patience.watch_on() => {}
                Err(nix::errno::Errno::EAGAIN) => self.wait(deadline)?,
                Err(nix::errno::Errno::EINTR) => {}
                Err(errno) => return Err(io::Error::from(errno).into()),
            }
        }
        Ok(())
    }

    fn wait(&self, deadline: Instant) -> Result<(), CallError> {
        let wait = wait_step(left(deadline)?);
        let timeout =
            PollTimeout::try_from(wait + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
        let mut descriptors = [PollFd::new(self.stream.as_fd(), PollFlags::POLLIN)];
        match poll(&mut descriptors, timeout) {
            Ok(0) | Err(nix::errno::Errno::EINTR) if is_interrupted() => {
                Err(CallError::Interrupted)
            }
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(errno) => Err(io::Error::from(errno).into()),
        }
    }
}

impl std::fmt::Debug for MasterConnection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Connection").field("stream", &self.stream).finish_non_exhaustive()
    }
}

fn left(deadline: Instant) -> Result<Duration, CallError> {
    match deadline.checked_duration_since(Instant::now()) {
        Some(wait) if !wait.is_zero() => Ok(wait),
        _ => Err(CallError::Deadline(Duration::ZERO)),
    }
}
