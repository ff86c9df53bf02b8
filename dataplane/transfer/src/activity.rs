//! What this process moves, written where the agent of the host reads it.

use crate::route::{Flow, Route};
use perigee_activity::{BatchMark, Direction, Key, Link, batch_done};
use std::time::Duration;

/// A slice that went over a connection.
pub(crate) struct Moved<'a> {
    pub(crate) device: &'a str,
    pub(crate) peer: &'a str,
    pub(crate) direction: Direction,
    pub(crate) lane: u16,
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    pub(crate) queued: Duration,
    pub(crate) on_wire: Duration,
}

impl Moved<'_> {
    fn key(&self) -> Key {
        Key::new(
            self.device,
            perigee_activity::Route::Tcp,
            self.direction,
            self.lane,
        )
    }

    /// Counts it and tells whoever looks at single slices. The side that asked gives its connection, which tells how much
    /// of the time was the peer's.
    pub(crate) fn record(&self, asked_over: Option<&Link>) {
        let (queue_ns, wire_ns) = (nanoseconds(self.queued), nanoseconds(self.on_wire));
        perigee_activity::record(self.key(), self.bytes, wire_ns, queue_ns);
        let tcp = perigee_activity::Route::Tcp;
        let mut mark = BatchMark::new(tcp, self.direction, self.device, self.peer, "");
        mark.operations = self.operations;
        mark.bytes = self.bytes;
        mark.queue_ns = queue_ns;
        mark.wire_ns = wire_ns;
        mark.peer_ns = asked_over.map_or(0, |link| link.record(wire_ns, self.bytes));
        batch_done(&mark);
    }

    /// Counts it as failed.
    pub(crate) fn record_failure(&self) {
        perigee_activity::record_failure(self.key());
    }
}

/// Counts a slice that found no connection to leave over, so that no NIC is named.
pub(crate) fn record_unreachable(direction: Direction, lane: u16) {
    let tcp = perigee_activity::Route::Tcp;
    perigee_activity::record_failure(Key::new("", tcp, direction, lane));
}

/// Counts bytes that the caller's thread copied. What goes over rails and connections is counted there.
pub(crate) fn record_copy(route: Route, flow: Flow, bytes: u64, elapsed: Duration) {
    let route = match route {
        Route::SameProcess => perigee_activity::Route::SameProcess,
        Route::SharedMemory => perigee_activity::Route::SharedMemory,
        Route::Rdma | Route::Tcp => return,
    };
    let direction = match flow {
        Flow::Read => Direction::Read,
        Flow::Write => Direction::Write,
    };
    let key = Key::new("", route, direction, Key::CALLER);
    perigee_activity::record(key, bytes, nanoseconds(elapsed), 0);
}

fn nanoseconds(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}
