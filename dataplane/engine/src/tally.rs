//! Counting one batch: what it began with, and what became of it.
//! Invariant: every operation that was counted as begun is counted as ended once.

use crate::batch::Batch;
use crate::counters::Counters;
use crate::observer::{Observer, Route};
use crate::request::{Direction, Request, State};
use crate::target::Target;
use perigee_activity::{BatchMark, Key, batch_done, device_towards};
use perigee_shard::monotonic;
use std::sync::Arc;
use std::time::Duration;

/// A batch that is being counted.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Of the route and NIC; rails count their own slices.
    counters: Option<Arc<Counters>>,
    observer: Arc<dyn Observer>,
    route: Route,
    target: Arc<Target>,
    directions: Box<[Direction]>,
    begun: Duration,
}

impl Tally {
    pub(crate) fn begin(
        counters: Option<Arc<Counters>>,
        observer: &Arc<dyn Observer>,
        route: Route,
        target: &Arc<Target>,
        requests: &[Request],
    ) -> Self {
        if let Some(counters) = &counters {
            counters.began(requests.len() as u64);
        }
        Self {
            counters,
            observer: observer.clone(),
            route,
            target: target.clone(),
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
            if let Some(counters) = &self.counters {
                counters.ended(status.state != State::Completed);
            }
            moved[usize::from(*direction == Direction::Write)].1 += status.bytes;
        }
        for (direction, bytes) in moved.into_iter().filter(|(_, bytes)| *bytes > 0) {
            self.observer.moved(self.route, direction, bytes, elapsed);
            self.mark(direction, bytes, elapsed, batch.peer_ns());
        }
        if let Err(error) = batch.outcome() {
            self.observer.failed(self.route, &error);
        }
    }

    /// For the agent of this host: a mark is what one NIC did for one peer. Over TCP that is the batch, which takes one
    /// connection's way; rails mark their own slices, rail by rail.
    fn mark(&self, direction: Direction, bytes: u64, elapsed: Duration, peer_ns: u64) {
        if self.route == Route::Rdma {
            return;
        }
        let operations = self
            .directions
            .iter()
            .filter(|other| **other == direction)
            .count();
        let direction = match direction {
            Direction::Read => perigee_activity::Direction::Read,
            Direction::Write => perigee_activity::Direction::Write,
        };
        let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let (device, route) = match self.route {
            Route::SharedMemory => (String::new(), perigee_activity::Route::SharedMemory),
            Route::Tcp | Route::Rdma => (self.device(), perigee_activity::Route::Tcp),
        };
        let key = Key::new(&device, route, direction, Key::CALLER);
        perigee_activity::record(key, bytes, elapsed_ns, 0);
        let mut mark = BatchMark::new(route, direction, &device, &self.target.name, "");
        mark.operations = operations as u64;
        mark.bytes = bytes;
        mark.wire_ns = elapsed_ns;
        // Connections side by side may each wait for the peer at the same time.
        mark.peer_ns = peer_ns.min(elapsed_ns);
        batch_done(&mark);
    }

    /// The interface that leads to the target, empty if nothing does.
    fn device(&self) -> String {
        let way = self.target.first_way();
        way.map_or_else(String::new, |way| device_towards(way.address))
    }
}
