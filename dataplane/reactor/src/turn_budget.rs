//! What operations may move at once in one turn of a shard, before others get theirs: a peer that
//! is always ready does not keep others waiting.

use crate::limits::{TURN_BYTES, TURN_OPERATION_BYTES};
use std::cell::Cell;

/// What is left of the turn.
#[derive(Debug)]
pub(crate) struct TurnBudget(Cell<usize>);

impl Default for TurnBudget {
    fn default() -> Self {
        Self(Cell::new(TURN_BYTES))
    }
}

impl TurnBudget {
    /// A new turn begins.
    pub(crate) fn renew(&self) {
        self.0.set(TURN_BYTES);
    }

    pub(crate) fn is_left(&self) -> bool {
        self.0.get() > 0
    }

    /// An operation has moved so many bytes.
    pub(crate) fn spend(&self, bytes: usize) {
        let cost = bytes.saturating_add(TURN_OPERATION_BYTES);
        self.0.set(self.0.get().saturating_sub(cost));
    }
}
