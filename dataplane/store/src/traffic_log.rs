//! The line about what a client has read and written. Invariant: it is written even where the log
//! is otherwise quiet, because the operator has asked for it.

use perigee_metrics::{ClientCells, TrafficReport};
use perigee_shard::{Periodic, monotonic};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Begins to write the line, each interval in which something moved.
pub(crate) fn begin(cells: &Arc<ClientCells>, interval: Duration) -> io::Result<Periodic> {
    let mut report = TrafficReport::new("Store metrics", cells.traffic());
    let mut last = monotonic();
    let cells = cells.clone();
    Periodic::start("perigee-report", interval, move || {
        let now = monotonic();
        if let Some(line) = report.line(cells.traffic(), now - last) {
            tracing::info!(target: "perigee_report", "{line}");
        }
        last = now;
    })
}
