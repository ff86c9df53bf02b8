//! What becomes of a slice whose work request failed: again on another rail, or the end of its
//! request.
//!
//! Two budgets: tries that failed by the slice's own fault or its rail's, and times it was flushed
//! because another work request broke the queue pair. The deadline bounds both.

use crate::limits::FLUSHES_MAX;
use std::time::Duration;

/// Why a work request ended without moving its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WorkFault {
    /// The peer did not acknowledge: its port, the wire or the peer is down.
    Unanswered,
    /// The peer's device refused key or range.
    RemoteAccess,
    /// Our device refused the local memory.
    LocalAccess,
    /// Another work request on the queue pair failed first, or the queue pair was taken down.
    Flushed,
    /// Anything else on this rail: a device error, a refused post.
    Rail,
}

/// What is done about a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryDecision {
    /// Send it again, rather over another rail.
    Again,
    /// Its request fails: no rail would do better, or the tries are used up.
    GiveUp,
    /// Its request fails because its time is up.
    Late,
}

/// Tries of one slice so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tries {
    failed: u16,
    flushed: u16,
}

impl Tries {
    /// Judges a fault at `now` for a slice that may fail `most` times and must be through by
    /// `deadline`.
    pub(crate) fn judge(
        &mut self,
        fault: WorkFault,
        now: Duration,
        (most, deadline): (u16, Duration),
    ) -> RetryDecision {
        if now >= deadline {
            return RetryDecision::Late;
        }
        let used_up = match fault {
            WorkFault::RemoteAccess | WorkFault::LocalAccess => true,
            WorkFault::Flushed => {
                self.flushed += 1;
                self.flushed >= FLUSHES_MAX
            }
            WorkFault::Unanswered | WorkFault::Rail => {
                self.failed += 1;
                self.failed >= most
            }
        };
        if used_up { RetryDecision::GiveUp } else { RetryDecision::Again }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::ATTEMPTS_MAX;
    use proptest::prelude::*;

    const LATER: Duration = Duration::from_secs(60);

    #[test]
    fn a_refused_key_is_not_tried_elsewhere() {
        for fault in [WorkFault::RemoteAccess, WorkFault::LocalAccess] {
            let verdict = Tries::default().judge(fault, Duration::ZERO, (ATTEMPTS_MAX, LATER));
            assert_eq!(verdict, RetryDecision::GiveUp);
        }
    }

    #[test]
    fn a_victim_of_others_is_tried_more_often_than_a_culprit() {
        let count = |fault| {
            let mut tries = Tries::default();
            (1u16..).find(|_| {
                tries.judge(fault, Duration::ZERO, (ATTEMPTS_MAX, LATER)) == RetryDecision::GiveUp
            })
        };
        assert_eq!(count(WorkFault::Unanswered), Some(ATTEMPTS_MAX));
        assert_eq!(count(WorkFault::Flushed), Some(FLUSHES_MAX));
    }

    proptest! {
        #[test]
        fn no_sequence_of_faults_is_retried_for_ever_or_past_the_deadline(
            faults in proptest::collection::vec(0usize..5, 200),
        ) {
            use WorkFault::{Flushed, LocalAccess, Rail, RemoteAccess, Unanswered};
            let kinds = [Unanswered, RemoteAccess, LocalAccess, Flushed, Rail];
            let mut tries = Tries::default();
            let again = faults.iter()
                .map(|kind| tries.judge(kinds[*kind], Duration::ZERO, (ATTEMPTS_MAX, LATER)))
                .take_while(|verdict| *verdict == RetryDecision::Again)
                .count();
            prop_assert!(again < usize::from(ATTEMPTS_MAX + FLUSHES_MAX));
            let late = Tries::default().judge(WorkFault::Flushed, LATER, (ATTEMPTS_MAX, LATER));
            prop_assert_eq!(late, RetryDecision::Late);
        }
    }
}
