//! What one way to other engines has carried, for people and metrics.

use perigee_mover::RouteCounters;
use perigee_schemas::Route;
use std::sync::atomic::Ordering::Relaxed;

/// Counts of one NIC and route since the engine was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteReport {
    /// The NIC, or what stands for it.
    pub name: String,
    /// The way bytes went.
    pub route: Route,
    /// Payload bytes that this engine read from others.
    pub bytes_read: u64,
    /// Payload bytes that this engine wrote to others.
    pub bytes_written: u64,
    /// Payload bytes that others read from or wrote to this engine, where the route can tell.
    pub bytes_served: u64,
    /// Requests of this engine whose first byte it carried; over RDMA, work requests.
    pub operations: u64,
    /// Requests of this engine that failed.
    pub errors: u64,
    /// Requests of others that were refused.
    pub refused: u64,
    /// Requests of this engine under way; over RDMA, bytes posted and not completed.
    pub in_flight: u64,
    /// Bandwidth as the rails measure it; 0 where the route does not.
    pub bytes_per_second: u64,
    /// What state it is in, in a word.
    pub state: String,
}

impl RouteReport {
    pub(crate) fn of(name: &str, route: Route, counters: &RouteCounters) -> Self {
        Self {
            name: name.to_owned(),
            route,
            bytes_read: counters.bytes_read.load(Relaxed),
            bytes_written: counters.bytes_written.load(Relaxed),
            bytes_served: counters.bytes_served.load(Relaxed),
            operations: counters.operations.load(Relaxed),
            errors: counters.errors.load(Relaxed),
            refused: counters.refused.load(Relaxed),
            in_flight: counters.in_flight.load(Relaxed),
            bytes_per_second: 0,
            state: "up".to_owned(),
        }
    }
}
