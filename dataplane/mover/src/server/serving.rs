//! What is kept for one connection of a data port. Invariant: memory that its present request uses
//! is listed.

use crate::stats::RouteCounters;
use std::cell::RefCell;
use std::sync::Arc;

/// What is kept for one connection.
#[derive(Debug)]
pub struct Serving {
    /// Counts of the NIC that it came through.
    pub(super) counters: Arc<RouteCounters>,
    /// Numbers of the memory that its present request uses.
    pub(super) memory: RefCell<Vec<usize>>,
}

impl Serving {
    /// From now on memory of these numbers is in use, and no other.
    pub(super) fn uses(&self, memory: impl Iterator<Item = usize>) {
        let mut used = self.memory.borrow_mut();
        used.clear();
        used.extend(memory);
        used.dedup();
    }
}
