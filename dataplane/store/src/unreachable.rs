//! Says loudly that the owner of a segment cannot be reached: its objects read as misses, and
//! copies to it fail in the background, so nothing else would show it.
//! Invariant: every such transfer is counted; each endpoint is logged at most once per
//! [`UNREACHABLE_LOG_PAUSE`].

use crate::limits::{UNREACHABLE_LOG_PAUSE, UNREACHABLE_REMEMBERED_MAX};
use perigee_metrics::ClientCells;
use perigee_shard::monotonic;
use perigee_transfer::{PeerError, ReplicaAddress, TransferError};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What calls and the replica mover of one client found out of reach.
#[derive(Debug)]
pub(crate) struct UnreachableOwners {
    cells: Arc<ClientCells>,
    log: UnreachableLog,
}

/// Endpoints that could not be reached: when each was logged last, and the failures that were not
/// logged since.
#[derive(Debug, Default)]
struct UnreachableLog(Mutex<HashMap<String, (Duration, u64)>>);

impl UnreachableOwners {
    pub(crate) fn counted_in(cells: Arc<ClientCells>) -> Self {
        Self { cells, log: UnreachableLog::default() }
    }

    /// Counts and logs a transfer that failed because nothing answers at its segment's endpoint,
    /// and logs one that was not answered in time.
    pub(crate) fn note(&self, place: &ReplicaAddress, error: &TransferError) {
        let segment = &place.segment;
        let reason = match error {
            TransferError::Peer(
                PeerError::Unreachable { reason, .. } | PeerError::Vanished { reason, .. },
            ) => reason,
            TransferError::Peer(PeerError::Deadline { deadline, .. }) => {
                if let Some(unlogged) = self.log.admit(&segment.endpoint, monotonic()) {
                    tracing::error!(
                        segment = %segment.id,
                        endpoint = segment.endpoint,
                        ?deadline,
                        unlogged,
                        "The owner of a segment did not answer in time: what was asked of it is a \
                         miss. Its process may be stopped or short of CPU, or packets do not \
                         arrive; `perigee trace` and `perigee top` show what was waited for"
                    );
                }
                return;
            }
            _ => return,
        };
        self.cells.record_unreachable_owner();
        perigee_activity::count_unreachable_owner();
        if let Some(unlogged) = self.log.admit(&segment.endpoint, monotonic()) {
            tracing::error!(
                segment = %segment.id,
                endpoint = segment.endpoint,
                reason,
                unlogged,
                "The owner of a segment cannot be reached from here: its objects are misses until \
                 it is back or the master has dropped it. If its process runs, its name must be an \
                 address that this host reaches; `perigee status` tries all segments"
            );
        }
    }
}

impl UnreachableLog {
    /// Counts a failure at `now`; if it is to be logged, the number of failures before it that were
    /// not.
    fn admit(&self, endpoint: &str, now: Duration) -> Option<u64> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((logged, unlogged)) = known.get_mut(endpoint) {
            if now < *logged + UNREACHABLE_LOG_PAUSE {
                *unlogged += 1;
                return None;
            }
            *logged = now;
            return Some(std::mem::take(unlogged));
        }
        if known.len() >= UNREACHABLE_REMEMBERED_MAX {
            known.retain(|_, (logged, _)| now < *logged + UNREACHABLE_LOG_PAUSE);
        }
        if known.len() < UNREACHABLE_REMEMBERED_MAX {
            known.insert(endpoint.to_owned(), (now, 0));
        }
        debug_assert!(known.len() <= UNREACHABLE_REMEMBERED_MAX);
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_endpoint_is_logged_once_per_pause_with_the_number_of_the_others() {
        let unreachable = UnreachableLog::default();
        let start = Duration::from_secs(100);
        assert_eq!(unreachable.admit("a:1", start), Some(0));
        assert_eq!(unreachable.admit("b:1", start), Some(0));
        assert_eq!(unreachable.admit("a:1", start + UNREACHABLE_LOG_PAUSE / 2), None);
        assert_eq!(unreachable.admit("a:1", start + UNREACHABLE_LOG_PAUSE), Some(1));
    }

    #[test]
    fn endpoints_are_remembered_up_to_a_bound() {
        let unreachable = UnreachableLog::default();
        for number in 0..2 * UNREACHABLE_REMEMBERED_MAX {
            unreachable.admit(&number.to_string(), Duration::ZERO);
        }
        let known = unreachable.0.lock().unwrap().len();
        assert_eq!(known, UNREACHABLE_REMEMBERED_MAX);
    }
}
