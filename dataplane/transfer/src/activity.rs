//! What this process copies through memory, written where the agent of the host reads it. What goes
//! over connections and rails is counted there.
//! Invariant: a copy is counted once.

use perigee_activity::{SlotKey, SpanKind, Stages, add_span};
use perigee_schemas::{Direction, Route, Status};
use perigee_shard::monotonic;
use std::time::Duration;

/// Counts bytes that the caller's thread copied.
pub(crate) fn record_copy(route: Route, direction: Direction, bytes: u64, elapsed: Duration) {
    if matches!(route, Route::SameProcess | Route::SharedMemory) {
        let key = SlotKey::new("", route, direction, SlotKey::CALLER);
        perigee_activity::record(key, bytes, &Stages::whole(nanoseconds(elapsed), 0));
        add_span(SpanKind::Transfer, ("", ""), |span| {
            span.go_over(route, direction);
            (span.parts, span.bytes) = (1, bytes);
            (monotonic(), elapsed)
        });
    }
}

/// Adds what a disk of this process has read, with the time that its caller waited for it.
pub(crate) fn trace_own_disk(bytes: u64, asked: Duration, went_well: bool) {
    add_span(SpanKind::Transfer, ("", "disk"), |span| {
        let now = monotonic();
        let took = now.saturating_sub(asked);
        span.go_over(Route::SameProcess, Direction::Read);
        (span.parts, span.bytes, span.disk_ns) = (1, bytes, nanoseconds(took));
        span.status = if went_well { 0 } else { Status::TransferFail.code() };
        (now, took)
    });
}

fn nanoseconds(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}
