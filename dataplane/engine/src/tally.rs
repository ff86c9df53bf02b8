//! Counting one batch: what it began with, and what became of it.
//! Invariant: every operation that was counted as begun is counted as ended once, also if its batch never set off.

use crate::account::{Account, Moved};
use crate::batch::Batch;
use crate::counters::{Counters, UnderWay};
use crate::observer::{Observer, Route};
use crate::request::{Direction, Request, State};
use crate::target::Target;
use perigee_activity::{BatchMark, Key, batch_done};
use perigee_shard::monotonic;
use std::sync::Arc;
use std::time::Duration;

/// A batch that is being counted.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Of the route and the NIC of its first way: operations under way and failed ones. Rails count their own slices.
    under_way: Option<UnderWay>,
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
        Self {
            under_way: counters.map(|counters| counters.begin(requests.len() as u64)),
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
            if let Some(under_way) = &self.under_way
                && status.state != State::Completed
            {
                under_way.failed();
            }
            moved[usize::from(*direction == Direction::Write)].1 += status.bytes;
        }
        for (direction, bytes) in moved.into_iter().filter(|(_, bytes)| *bytes > 0) {
            self.observer.moved(self.route, direction, bytes, elapsed);
        }
        for account in batch.accounts().take() {
            self.mark(&account, Direction::Read, account.read, elapsed);
            self.mark(&account, Direction::Write, account.written, elapsed);
        }
        if let Err(error) = batch.outcome() {
            self.observer.failed(self.route, &error);
        }
    }

    /// For the agent of this host: a mark is what one NIC did for one peer. Rails mark their own slices, rail by rail.
    fn mark(&self, account: &Account, direction: Direction, moved: Moved, elapsed: Duration) {
        if moved.bytes == 0 {
            return;
        }
        let direction = match direction {
            Direction::Read => perigee_activity::Direction::Read,
            Direction::Write => perigee_activity::Direction::Write,
        };
        let route = match account.counters.route() {
            Route::SharedMemory => perigee_activity::Route::SharedMemory,
            Route::Tcp => perigee_activity::Route::Tcp,
            Route::Rdma => perigee_activity::Route::Rdma,
        };
        let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let device = account.counters.device();
        let key = Key::new(device, route, direction, Key::CALLER);
        perigee_activity::record(key, moved.bytes, elapsed_ns, 0);
        let mut mark = BatchMark::new(route, direction, device, &self.target.name, "");
        // A NIC that carried the later part of a request only has worked for it, too.
        mark.operations = moved.operations.max(1);
        mark.bytes = moved.bytes;
        mark.wire_ns = elapsed_ns;
        // Connections side by side may each wait for the peer at the same time.
        mark.peer_ns = account.peer_ns.min(elapsed_ns);
        batch_done(&mark);
    }
}
