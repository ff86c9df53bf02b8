//! The activity page of this process, written for each exchange and copy.
//! Invariant: what is recorded here is recorded nowhere else.

use crate::error::PeerError;
use crate::reply::Reply;
use crate::server_times::ServerTimes;
use crate::slice::Slice;
use perigee_activity::{
    Arrival, BatchMark, Link, Request, SlotKey, Span, SpanKind, Stages, answered, batch_done,
};
use perigee_schemas::trace::TraceContext;
use perigee_schemas::{Direction, Route, Status};
use perigee_shard::monotonic;
use std::time::Duration;

/// An exchange that this side asked for, as it is counted.
pub(crate) struct CountedExchange<'a> {
    pub(crate) peer: &'a str,
    pub(crate) link: &'a Link,
    pub(crate) direction: Direction,
    /// Number of the shard, or [`SlotKey::CALLER`].
    pub(crate) lane: u16,
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    pub(crate) queued: Duration,
    /// From its first byte on the wire to its last, and when that was.
    pub(crate) took: Duration,
    pub(crate) ended: Duration,
    /// What of that the peer says was its own.
    pub(crate) server: ServerTimes,
    /// Payload behind the answer, and how long it came.
    pub(crate) arrived: (u64, Duration),
    /// What it was asked for.
    pub(crate) traced: Option<&'a Request>,
    /// Whose bytes they are.
    pub(crate) tenant: &'a str,
}

impl<'a> CountedExchange<'a> {
    /// The exchange of a slice over a connection.
    pub(crate) fn of<S: Slice>(slice: &'a S, peer: &'a str, link: &'a Link, lane: u16) -> Self {
        Self {
            peer,
            link,
            direction: slice.header().direction,
            lane,
            operations: slice.pieces().len() as u64,
            bytes: slice.bytes(),
            queued: Duration::ZERO,
            took: Duration::ZERO,
            ended: Duration::ZERO,
            server: ServerTimes::default(),
            arrived: (0, Duration::ZERO),
            traced: slice.traced(),
            tenant: slice.tenant(),
        }
    }

    /// Takes over what the answer says of it. What is read from where it was staged is counted
    /// there.
    pub(crate) fn take_reply(&mut self, reply: &Reply) {
        self.server = reply.times;
        if reply.staged.is_some() {
            self.bytes = 0;
        }
    }

    /// Counts it, stage by stage.
    pub(crate) fn record(&self) {
        let (queue_ns, total_ns) = (nanoseconds(self.queued), nanoseconds(self.took));
        let [waited_ns, copied_ns, disk_ns] = self.server.within(total_ns);
        let stages = Stages { queue_ns, total_ns, waited_ns, copied_ns, disk_ns };
        let key = SlotKey::new(self.link.device(), Route::Tcp, self.direction, self.lane);
        perigee_activity::record(key, self.bytes, &stages);
        let (bytes, took) = self.arrived;
        let arrival = Arrival { bytes, took_ns: nanoseconds(took) };
        self.link.record(&stages, self.bytes, arrival);
        batch_done(&self.mark(&stages));
        self.trace(&stages, Status::Ok);
    }

    fn mark(&self, stages: &Stages) -> BatchMark {
        let nic = self.link.device();
        let mut mark = BatchMark::new(Route::Tcp, self.direction, nic, self.peer(), self.tenant);
        mark.operations = self.operations;
        mark.bytes = self.bytes;
        mark.queue_ns = stages.queue_ns;
        mark.wire_ns = stages.total_ns;
        mark.peer_ns = stages.peer_ns();
        mark
    }

    /// Adds it to the request that it was asked for.
    fn trace(&self, stages: &Stages, status: Status) {
        let Some(request) = self.traced else {
            return;
        };
        request.add(SpanKind::Transfer, (self.link.device(), self.peer()), |span| {
            span.go_over(Route::Tcp, self.direction);
            span.count = u32::try_from(self.operations).unwrap_or(u32::MAX);
            (span.parts, span.bytes, span.queue_ns) = (1, self.bytes, stages.queue_ns);
            (span.waited_ns, span.served_ns) = (stages.waited_ns, stages.copied_ns);
            (span.disk_ns, span.status) = (stages.disk_ns, status.code());
            (self.ended, self.took)
        });
    }

    /// The other end as its link has it; by the name it was asked under where there is no link.
    fn peer(&self) -> &'a str {
        match self.link.peer() {
            "" => self.peer,
            address => address,
        }
    }

    /// Counts it as failed, and shows how long it waited. What this side broke off is no failure
    /// of a NIC or a peer: only its request has it.
    pub(crate) fn record_failure(&self, error: &PeerError) {
        let stages = Stages::whole(nanoseconds(self.took), nanoseconds(self.queued));
        if !error.is_of_this_side() {
            let key = SlotKey::new(self.link.device(), Route::Tcp, self.direction, self.lane);
            perigee_activity::record_failure(key);
            let mut mark = self.mark(&stages);
            mark.status = error.status().code();
            batch_done(&mark);
        }
        self.trace(&stages, error.status());
    }
}

/// A request of a peer, as it is counted: what it writes comes towards this process, what it reads
/// leaves it.
pub(crate) struct Served<'a> {
    pub(crate) link: &'a Link,
    pub(crate) direction: Direction,
    pub(crate) bytes: u64,
    pub(crate) took: Duration,
    /// What of that was spent where.
    pub(crate) times: ServerTimes,
    /// The request of another process that it belongs to.
    pub(crate) context: Option<TraceContext>,
}

impl Served<'_> {
    pub(crate) fn record(&self, went_well: bool, now: Duration) {
        let direction = self.direction.opposite();
        let key = SlotKey::new(self.link.device(), Route::Tcp, direction, SlotKey::CALLER);
        if went_well {
            perigee_activity::record(key, self.bytes, &Stages::whole(nanoseconds(self.took), 0));
        } else {
            perigee_activity::record_failure(key);
        }
        self.context.into_iter().for_each(|context| self.trace(context, went_well, now));
    }

    fn trace(&self, context: TraceContext, went_well: bool, now: Duration) {
        let about = (SpanKind::Served, 0, self.bytes);
        answered(context, about, (self.took, now), || {
            let mut span = Span::new(SpanKind::Served, self.link.device(), self.link.peer());
            span.go_over(Route::Tcp, self.direction);
            span.parts = 1;
            span.waited_ns = nanoseconds(self.times.waited);
            span.served_ns = nanoseconds(self.times.copied);
            span.disk_ns = nanoseconds(self.times.disk);
            span.status = if went_well { 0 } else { Status::TransferFail.code() };
            span
        });
    }
}

/// Counts a slice that found no connection to leave over, so that no NIC is named.
pub(crate) fn record_unreachable<S: Slice>(slice: &S, peer: &str, lane: u16) {
    let direction = slice.header().direction;
    perigee_activity::record_failure(SlotKey::new("", Route::Tcp, direction, lane));
    if let Some(request) = slice.traced() {
        request.add(SpanKind::Transfer, ("", peer), |span| {
            span.go_over(Route::Tcp, direction);
            (span.parts, span.bytes) = (1, slice.bytes());
            span.status = Status::RpcFail.code();
            (monotonic(), Duration::ZERO)
        });
    }
}

/// Counts bytes that the caller's thread copied through memory of another process, towards or from
/// `peer`.
pub fn record_copy(
    peer: &str,
    direction: Direction,
    moved: super::counters::Moved,
    took: Duration,
) {
    let (route, took_ns) = (Route::SharedMemory, nanoseconds(took));
    let key = SlotKey::new("", route, direction, SlotKey::CALLER);
    perigee_activity::record(key, moved.bytes, &Stages::whole(took_ns, 0));
    let mut mark = BatchMark::new(route, direction, "", peer, "");
    // A slice that carries the later part of a request only has worked for it, too.
    mark.operations = moved.operations.max(1);
    mark.bytes = moved.bytes;
    mark.wire_ns = took_ns;
    batch_done(&mark);
}

fn nanoseconds(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}
