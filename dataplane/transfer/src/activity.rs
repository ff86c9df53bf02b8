//! What this process copies through memory, written where the agent of the host reads it. What goes
//! over connections and rails is counted there.
//! Invariant: a copy is counted once.

use crate::route::{Flow, Route};
use perigee_activity::{Direction, SlotKey};
use std::time::Duration;

/// Counts bytes that the caller's thread copied.
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
    let key = SlotKey::new("", route, direction, SlotKey::CALLER);
    perigee_activity::record(key, bytes, nanoseconds(elapsed), 0);
}

fn nanoseconds(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}
