//! Counting one batch: what it began with, and what became of it.
//! Invariant: every operation that was counted as begun is counted as ended once.

use crate::batch::Batch;
use crate::counters::Counters;
use crate::observer::{Observer, Route};
use crate::request::{Direction, Request, State};
use perigee_shard::monotonic;
use std::sync::Arc;
use std::time::Duration;

/// A batch that is being counted.
#[derive(Debug)]
pub(crate) struct Tally {
    counters: Arc<Counters>,
    observer: Arc<dyn Observer>,
    route: Route,
    directions: Box<[Direction]>,
    begun: Duration,
}

impl Tally {
    pub(crate) fn begin(
        counters: &Arc<Counters>,
        observer: &Arc<dyn Observer>,
        route: Route,
        requests: &[Request],
    ) -> Self {
        counters.began(requests.len() as u64);
        Self {
            counters: counters.clone(),
            observer: observer.clone(),
            route,
            directions: requests.iter().map(|request| request.direction).collect(),
            begun: monotonic(),
        }
    }

    /// The batch is over.
    pub(crate) fn end(self, batch: &Batch) {
        let elapsed = monotonic().saturating_sub(self.begun);
        let mut moved = [(Direction::Read, 0), (Direction::Write, 0)];
        for (index, direction) in self.directions.iter().enumerate() {
            let Some(status) = batch.request(index) else {
                continue;
            };
            self.counters
                .ended(*direction, status.bytes, status.state != State::Completed);
            moved[usize::from(*direction == Direction::Write)].1 += status.bytes;
        }
        for (direction, bytes) in moved.into_iter().filter(|(_, bytes)| *bytes > 0) {
            self.observer.moved(self.route, direction, bytes, elapsed);
        }
        if let Err(error) = batch.outcome() {
            self.observer.failed(self.route, &error);
        }
    }
}
