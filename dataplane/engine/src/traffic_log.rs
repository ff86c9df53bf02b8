//! The line about what an engine has read and written. Invariant: it is written even where the log
//! is otherwise quiet, because the operator has asked for it.

use crate::error::EngineError;
use crate::observer::BatchObserver;
use crate::request::Direction;
use perigee_metrics::{TrafficCells, TrafficReport};
use perigee_schemas::Route;
use perigee_shard::{Periodic, monotonic};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Counts batches for the line, and for the observer that the options name.
#[derive(Debug)]
struct TrafficObserver {
    /// What was read and what was written.
    cells: Arc<[TrafficCells; 2]>,
    next: Arc<dyn BatchObserver>,
}

impl BatchObserver for TrafficObserver {
    fn moved(&self, route: Route, direction: Direction, bytes: u64, elapsed: Duration) {
        self.cells[usize::from(direction == Direction::Write)].record(bytes, elapsed);
        self.next.moved(route, direction, bytes, elapsed);
    }

    fn failed(&self, route: Route, error: &EngineError) {
        self.next.failed(route, error);
    }
}

/// Begins to write the line, each interval in which something moved; the observer that counts for
/// it, in front of `next`.
pub(crate) fn begin(
    interval: Duration,
    next: Arc<dyn BatchObserver>,
) -> io::Result<(Periodic, Arc<dyn BatchObserver>)> {
    let cells = Arc::<[TrafficCells; 2]>::default();
    let observer = Arc::new(TrafficObserver { cells: cells.clone(), next });
    let totals = move || [cells[0].totals(), cells[1].totals()];
    let mut report = TrafficReport::new("Transfer engine metrics", totals());
    let mut last = monotonic();
    let periodic = Periodic::start("perigee-report", interval, move || {
        let now = monotonic();
        if let Some(line) = report.line(totals(), now - last) {
            tracing::info!(target: "perigee_report", "{line}");
        }
        last = now;
    })?;
    Ok((periodic, observer))
}
