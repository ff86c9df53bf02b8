//! Whether a consumer wants the events of a shard; without one a shard makes none.
//! Invariant: if an event was not wanted, the next consumer that begins to listen learns that some
//! were missed.

use std::sync::atomic::{AtomicU8, Ordering};

/// A consumer listens.
const WANTED: u8 = 0;
/// No consumer listens, and nothing has happened since.
const UNWANTED: u8 = 1;
/// No consumer listens, and something has happened.
const MISSED: u8 = 2;

/// Set by the publisher's thread, looked at by the shard's.
#[derive(Default)]
pub(crate) struct Attention(AtomicU8);

impl Attention {
    /// Whether the event that comes next is wanted. If not, it is missed.
    pub(crate) fn is_wanted(&self) -> bool {
        match self.0.load(Ordering::Acquire) {
            WANTED => true,
            MISSED => false,
            _ => {
                let missed =
                    self.0.compare_exchange(UNWANTED, MISSED, Ordering::AcqRel, Ordering::Acquire);
                missed == Err(WANTED)
            }
        }
    }

    /// A consumer listens from now on; whether events were missed before.
    pub(crate) fn begin(&self) -> bool {
        self.0.swap(WANTED, Ordering::AcqRel) == MISSED
    }

    /// No consumer listens any more.
    pub(crate) fn end(&self) {
        // It stays as it is where none has listened before.
        let _ = self.0.compare_exchange(WANTED, UNWANTED, Ordering::AcqRel, Ordering::Acquire);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_missed_is_said_once_to_the_next_who_listens() {
        let attention = Attention::default();
        assert!(attention.is_wanted());
        attention.end();
        assert!(!attention.begin(), "nothing has happened in between");
        attention.end();
        assert!(!attention.is_wanted() && !attention.is_wanted());
        attention.end();
        assert!(attention.begin() && attention.is_wanted());
        assert!(!attention.begin());
    }
}
