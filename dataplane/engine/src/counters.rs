//! What went over a route so far: cells that any thread adds to.
//! Invariant: a cell only grows.

use crate::request::Direction;
use crate::slice::Piece;
use crate::wire::WirePiece;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of one route.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) bytes_read: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
    pub(crate) bytes_served: AtomicU64,
    pub(crate) operations: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) in_flight: AtomicU64,
    pub(crate) refused: AtomicU64,
}

impl Counters {
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
    pub(crate) fn began(&self, operations: u64) {
        self.in_flight.fetch_add(operations, Ordering::Relaxed);
    }

    /// An operation of this side is over.
    pub(crate) fn ended(&self, failed: bool) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        if failed {
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A piece of an operation of this side is in place.
    pub(crate) fn landed(&self, direction: Direction, piece: &Piece) {
        let cell = match direction {
            Direction::Read => &self.bytes_read,
            Direction::Write => &self.bytes_written,
        };
        cell.fetch_add(piece.bytes, Ordering::Relaxed);
        self.operations
            .fetch_add(u64::from(piece.is_first), Ordering::Relaxed);
    }
}
