//! What went over a route so far: cells that any thread adds to.
//! Invariant: a cell only grows, but for operations under way, which are counted until their mark
//! is dropped.

use perigee_schemas::Direction;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What moved in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Requests whose first byte is among it.
    pub operations: u64,
    /// Payload bytes.
    pub bytes: u64,
}

/// Counts of one route over a NIC.
#[derive(Debug, Default)]
pub struct RouteCounters {
    /// Payload bytes read from others.
    pub bytes_read: AtomicU64,
    /// Payload bytes written to others.
    pub bytes_written: AtomicU64,
    /// Payload bytes that others read from or wrote to this process.
    pub bytes_served: AtomicU64,
    /// Requests of this process whose first byte it carried.
    pub operations: AtomicU64,
    /// Requests of this process that failed.
    pub errors: AtomicU64,
    /// Requests of this process under way.
    pub in_flight: AtomicU64,
    /// Pieces of others that were refused.
    pub refused: AtomicU64,
}

impl RouteCounters {
    /// A peer's request, as it was judged: its bytes, and how many of its pieces were refused.
    pub(crate) fn served(&self, bytes: u64, refused: usize) {
        if refused == 0 {
            self.bytes_served.fetch_add(bytes, Ordering::Relaxed);
        } else {
            self.refused.fetch_add(refused as u64, Ordering::Relaxed);
        }
    }

    /// Operations of this side begin.
    pub fn begin(self: &Arc<Self>, operations: u64) -> UnderWay {
        self.in_flight.fetch_add(operations, Ordering::Relaxed);
        UnderWay(self.clone(), operations)
    }

    /// Bytes of operations of this side are in place.
    pub fn landed(&self, direction: Direction, moved: Moved) {
        let cell = match direction {
            Direction::Read => &self.bytes_read,
            Direction::Write => &self.bytes_written,
        };
        cell.fetch_add(moved.bytes, Ordering::Relaxed);
        self.operations.fetch_add(moved.operations, Ordering::Relaxed);
    }
}

/// Operations of this side that are under way, or about to be; dropped, they are not any more.
#[derive(Debug)]
pub struct UnderWay(Arc<RouteCounters>, u64);

impl UnderWay {
    /// One of them has failed.
    pub fn failed(&self) {
        self.0.errors.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let before = self.0.in_flight.fetch_sub(self.1, Ordering::Relaxed);
        debug_assert!(before >= self.1, "each operation ends once");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_under_way_until_their_batch_is_over_or_was_never_begun() {
        let counters = Arc::new(RouteCounters::default());
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
