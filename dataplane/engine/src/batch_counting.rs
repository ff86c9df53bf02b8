//! Counting one batch: what it began with, and what became of it.
//! Invariant: every operation that was counted as begun is counted as ended once, also if its batch
//! never set off.

use crate::batch::Batch;
use crate::observer::BatchObserver;
use crate::request::{Direction, TransferRequest, TransferState};
use perigee_mover::{RouteCounters, UnderWay};
use perigee_schemas::Route;
use perigee_shard::monotonic;
use std::sync::Arc;
use std::time::Duration;

/// A batch that is being counted.
#[derive(Debug)]
pub(crate) struct BatchCounting {
    /// Of the route and the NIC of its first address: operations under way and failed ones. Rails
    /// count their own slices.
    under_way: Option<UnderWay>,
    observer: Arc<dyn BatchObserver>,
    route: Route,
    directions: Box<[Direction]>,
    begun: Duration,
}

impl BatchCounting {
    pub(crate) fn begin(
        counters: Option<Arc<RouteCounters>>,
        observer: &Arc<dyn BatchObserver>,
        route: Route,
        requests: &[TransferRequest],
    ) -> Self {
        Self {
            under_way: counters.map(|counters| counters.begin(requests.len() as u64)),
            observer: observer.clone(),
            route,
            directions: requests.iter().map(|request| request.direction).collect(),
            begun: monotonic(),
        }
    }

    /// The batch is over.
    pub(crate) fn end(self, batch: &Batch) {
        debug_assert!(batch.is_over(), "what is counted is final");
        let elapsed = monotonic().saturating_sub(self.begun);
        let mut moved = Direction::ALL.map(|direction| (direction, 0));
        for (index, direction) in self.directions.iter().enumerate() {
            let Some(status) = batch.request(index) else {
                continue;
            };
            if let Some(under_way) = &self.under_way
                && status.state != TransferState::Completed
            {
                under_way.failed();
            }
            moved[*direction as usize].1 += status.bytes;
        }
        for (direction, bytes) in moved.into_iter().filter(|(_, bytes)| *bytes > 0) {
            self.observer.moved(self.route, direction, bytes, elapsed);
        }
        if let Err(error) = batch.outcome() {
            self.observer.failed(self.route, &error);
        }
    }
}
