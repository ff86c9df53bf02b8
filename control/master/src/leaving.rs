//! What a client that leaves has in memory, to be written to its disks most worth first.
//! Invariant: replicas are named with their generation, so that one that has gone since then, and
//! whose number another one has, is passed over.

use std::collections::BinaryHeap;

/// A replica that may be worth a copy. Larger is written sooner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LastDemotion {
    /// Hard pins come first, then soft ones.
    pub(crate) rank: u8,
    /// What it is worth keeping, as eviction has it.
    pub(crate) worth: u64,
    pub(crate) replica: u32,
    pub(crate) generation: u64,
}

/// The memory of one client that leaves, as far as a shard has looked through it.
#[derive(Debug, Default)]
pub(crate) struct LeavingClient {
    /// Number of the replica that is looked at next.
    pub(crate) cursor: u32,
    /// A put into its memory was under way, whose end may lie behind the cursor.
    pub(crate) awaits_puts: bool,
    found: BinaryHeap<LastDemotion>,
}

impl LeavingClient {
    pub(crate) fn push(&mut self, last_demotion: LastDemotion) {
        self.found.push(last_demotion);
    }

    /// The one that is worth most of those that were found.
    pub(crate) fn pop(&mut self) -> Option<LastDemotion> {
        self.found.pop()
    }

    /// All is to be looked at once more, for what was put in between.
    pub(crate) fn look_again(&mut self) {
        debug_assert!(self.found.is_empty(), "what was found is given first");
        (self.cursor, self.awaits_puts) = (0, false);
    }

    /// What is still to come, of replicas with numbers below `bound`.
    pub(crate) fn left(&self, bound: u32) -> u64 {
        u64::from(bound.saturating_sub(self.cursor)) + self.found.len() as u64
    }
}
