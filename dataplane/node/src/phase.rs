//! How far the start is, shared by the thread that opens the store and the one that hears signals.
//! Invariant: after [`NodePhase::stop`] no new attempt to join begins, and an attempt under way
//! reports its outcome.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const WAITING: u8 = 0;
const JOINING: u8 = 1;
const STOPPED: u8 = 2;

/// Nothing is mounted while waiting; something may be while joining.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodePhase(Arc<AtomicU8>);

impl NodePhase {
    /// Begins an attempt; false when the program is to stop.
    pub(crate) fn join(&self) -> bool {
        self.change(WAITING, JOINING)
    }

    /// Ends an attempt that left nothing behind; false when the program is to stop.
    pub(crate) fn wait_on(&self) -> bool {
        self.change(JOINING, WAITING)
    }

    /// Stops; true if an attempt is under way whose outcome must be awaited.
    pub(crate) fn stop(&self) -> bool {
        self.0.swap(STOPPED, Ordering::AcqRel) == JOINING
    }

    fn change(&self, from: u8, to: u8) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_while_waiting_ends_the_attempts_and_needs_no_outcome() {
        let phase = NodePhase::default();
        assert!(phase.join());
        assert!(phase.wait_on());
        assert!(!phase.stop());
        assert!(!phase.join());
    }

    #[test]
    fn a_stop_during_an_attempt_awaits_its_outcome_and_forbids_the_next() {
        let phase = NodePhase::default();
        assert!(phase.join());
        assert!(phase.stop());
        assert!(!phase.wait_on());
        assert!(!phase.join());
    }
}
