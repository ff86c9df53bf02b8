//! Why a read of an object or range did not end well, as its caller sees it.
//! Invariant: no fault of an owner has a code that speaks of the master, or one that ends clients.

use perigee_schemas::Status;
use perigee_transfer::{PeerError, TransferError};

/// The verdict on one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadFailure {
    pub(crate) status: Status,
    /// The place may just be out of date: the key can have been evicted and put again.
    pub(crate) is_outdated: bool,
}

impl ReadFailure {
    /// The verdict after one more replica could not be read.
    pub(crate) fn and(self, error: &TransferError) -> Self {
        let is_outdated = self.is_outdated || is_outdated(error);
        Self { status: status_of(error), is_outdated }
    }
}

impl From<Status> for ReadFailure {
    fn from(status: Status) -> Self {
        Self { status, is_outdated: false }
    }
}

/// The status that the caller of a read gets. An owner that cannot be reached or broke off is a
/// lost cache entry: clients compute it again. Some of them end their process at -800, and -900
/// says that the master is away.
pub(crate) fn status_of(error: &TransferError) -> Status {
    match error {
        TransferError::Peer(
            PeerError::Unreachable { .. }
            | PeerError::Vanished { .. }
            | PeerError::Broken { .. }
            | PeerError::NoSocket { .. },
        ) => Status::InvalidReplica,
        other => other.status(),
    }
}

/// Whether a new lookup may bring another place. One for an owner that is away brings the same.
fn is_outdated(error: &TransferError) -> bool {
    matches!(
        error,
        TransferError::Stale
            | TransferError::OutOfBounds { .. }
            | TransferError::Checksum { .. }
            | TransferError::Peer(PeerError::Refused { .. } | PeerError::Restarted { .. })
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer_faults() -> [TransferError; 4] {
        let (peer, reason) = (String::new, String::new);
        [
            PeerError::Unreachable { peer: peer(), reason: reason() },
            PeerError::Vanished { peer: peer(), reason: reason() },
            PeerError::Broken { peer: peer(), reason: reason() },
            PeerError::NoSocket { peer: peer(), reason: reason() },
        ]
        .map(TransferError::Peer)
    }

    #[test]
    fn an_owner_that_is_away_is_a_miss_that_no_lookup_mends() {
        for error in peer_faults() {
            let failure = ReadFailure::from(Status::InvalidParams).and(&error);
            assert_eq!(failure, Status::InvalidReplica.into(), "{error}");
        }
    }

    #[test]
    fn one_outdated_replica_is_worth_a_lookup_whatever_failed_after_it() {
        let outdated = ReadFailure::from(Status::InvalidParams).and(&TransferError::Stale);
        assert_eq!(outdated.status, Status::LeaseExpired);
        for error in peer_faults() {
            assert!(outdated.and(&error).is_outdated, "{error}");
        }
    }
}
