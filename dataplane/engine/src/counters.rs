//! What went over a route so far: cells that any thread adds to.
//! Invariant: a cell only grows, but for operations under way, which are counted until their mark is dropped.

use crate::account::Moved;
use crate::observer::Route;
use crate::request::Direction;
use crate::wire::WirePiece;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of one route and NIC.
#[derive(Debug)]
pub(crate) struct Counters {
    route: Route,
    device: Box<str>,
    pub(crate) bytes_read: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
    pub(crate) bytes_served: AtomicU64,
    pub(crate) operations: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) in_flight: AtomicU64,
    pub(crate) refused: AtomicU64,
}

impl Counters {
    /// Counts of a route and a NIC, whose name is empty where there is none or it cannot be told.
    pub(crate) fn new(route: Route, device: &str) -> Self {
        Self {
            route,
            device: device.into(),
            bytes_read: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
            bytes_served: AtomicU64::new(0),
            operations: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    pub(crate) fn route(&self) -> Route {
        self.route
    }

    /// Name of the NIC.
    pub(crate) fn device(&self) -> &str {
        &self.device
    }

    /// A peer's request, as it was judged.
    pub(crate) fn served(&self, pieces: &[WirePiece], refused: usize) {
        if refused == 0 {
            let bytes = pieces.iter().map(WirePiece::bytes).sum();
            self.bytes_served.fetch_add(bytes, Ordering::Relaxed);
        } else {
            self.refused.fetch_add(refused as u64, Ordering::Relaxed);
        }
    }

    /// A peer's request in Mooncake's dialect, as it was judged.
    pub(crate) fn served_upstream(&self, bytes: u64, fine: bool) {
        let (cell, count) = if fine {
            (&self.bytes_served, bytes)
        } else {
            (&self.refused, 1)
        };
        cell.fetch_add(count, Ordering::Relaxed);
    }

    /// Operations of this side begin.
    pub(crate) fn begin(self: &Arc<Self>, operations: u64) -> UnderWay {
        self.in_flight.fetch_add(operations, Ordering::Relaxed);
        UnderWay(self.clone(), operations)
    }

    /// Bytes of operations of this side are in place.
    pub(crate) fn landed(&self, direction: Direction, moved: Moved) {
        let cell = match direction {
            Direction::Read => &self.bytes_read,
            Direction::Write => &self.bytes_written,
        };
        cell.fetch_add(moved.bytes, Ordering::Relaxed);
        self.operations
            .fetch_add(moved.operations, Ordering::Relaxed);
    }
}

/// Operations of this side that are under way, or about to be; dropped, they are not any more.
#[derive(Debug)]
pub(crate) struct UnderWay(Arc<Counters>, u64);

impl UnderWay {
    /// One of them has failed.
    pub(crate) fn failed(&self) {
        self.0.errors.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(self.1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_under_way_until_their_batch_is_over_or_was_never_begun() {
        let counters = Arc::new(Counters::new(Route::Tcp, "eth0"));
        let seen = || [&counters.in_flight, &counters.errors].map(|it| it.load(Ordering::Relaxed));
        let (begun, refused) = (counters.begin(3), counters.begin(2));
        assert_eq!(seen(), [5, 0]);
        drop(refused);
        begun.failed();
        assert_eq!(seen(), [3, 1]);
        drop(begun);
        assert_eq!(seen(), [0, 1]);
    }
}
