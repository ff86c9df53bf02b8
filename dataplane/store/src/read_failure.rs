//! Why a read of an object or range did not end well, as its caller sees it.
//! Invariant: no fault of an owner has a code that speaks of the master, or one that ends clients.

use perigee_schemas::Status;
use perigee_schemas::master::UnreadableCopy;
use perigee_transfer::{PeerError, ReplicaAddress, TransferError};

/// The verdict on one read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ReadFailure {
    pub(crate) status: Status,
    /// The place may just be out of date: the key can have been evicted and put again.
    pub(crate) is_outdated: bool,
    /// A copy on a disk that gave no bytes, or wrong ones.
    pub(crate) suspect: Option<SuspectCopy>,
}

/// A copy on a disk that may be damaged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SuspectCopy {
    copy: UnreadableCopy,
    /// Its owner says so: not only the bytes that arrived.
    is_certain: bool,
}

impl SuspectCopy {
    /// What a failed read says about the place that was read.
    pub(crate) fn of(place: &ReplicaAddress, error: &TransferError) -> Option<Self> {
        // A disk that is there has something else at the place. One that is away is another error.
        let is_certain = matches!(error, TransferError::Stale);
        let is_wrong = is_certain || matches!(error, TransferError::Checksum { .. });
        let (id, generation) = (place.segment.id, place.generation);
        let copy = UnreadableCopy::new(id.high(), id.low(), place.offset, generation);
        (is_wrong && !place.is_in_memory()).then_some(Self { copy, is_certain })
    }

    /// The copy, if it is damaged for certain, or was suspect in the read before too: bytes can
    /// also be damaged on their way.
    pub(crate) fn named(self, before: Option<Self>) -> Option<UnreadableCopy> {
        let again = before.is_some_and(|before| before.copy == self.copy);
        (self.is_certain || again).then_some(self.copy)
    }
}

impl ReadFailure {
    /// The verdict after one more replica could not be read.
    pub(crate) fn and(self, place: &ReplicaAddress, error: &TransferError) -> Self {
        let is_outdated = self.is_outdated || is_outdated(error);
        let suspect = SuspectCopy::of(place, error).or(self.suspect);
        Self { status: status_of(error), is_outdated, suspect }
    }
}

impl From<Status> for ReadFailure {
    fn from(status: Status) -> Self {
        Self { status, is_outdated: false, suspect: None }
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
    use perigee_schemas::{Identity, SegmentKind};
    use perigee_transfer::SegmentAddress;
    use std::sync::Arc;

    fn closed() -> ReadFailure {
        Status::InvalidParams.into()
    }

    fn place(kind: SegmentKind) -> ReplicaAddress {
        let segment = SegmentAddress {
            id: Identity(1),
            bytes: 1 << 20,
            endpoint: String::new(),
            host_id: String::new(),
            rendezvous: String::new(),
            kind: Some(kind),
        };
        ReplicaAddress { segment: Arc::new(segment), offset: 8, payload_bytes: 1, generation: 7 }
    }

    fn failed(place: &ReplicaAddress, error: &TransferError) -> Option<SuspectCopy> {
        closed().and(place, error).suspect
    }

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
            let failure = closed().and(&place(SegmentKind::Memory), &error);
            assert_eq!(failure, Status::InvalidReplica.into(), "{error}");
        }
    }

    #[test]
    fn a_copy_is_damaged_if_its_owner_says_so_or_two_reads_found_other_bytes() {
        let other_bytes = TransferError::Checksum { found: 1, expected: 2 };
        let [memory, disk] = [SegmentKind::Memory, SegmentKind::Disk].map(place);
        let torn = failed(&disk, &TransferError::Stale).expect("a suspect");
        assert_eq!(torn.named(None), Some(UnreadableCopy::new(0, 1, 8, 7)));
        let once = failed(&disk, &other_bytes).expect("a suspect");
        assert_eq!(once.named(None), None, "they may have been damaged on their way");
        assert_eq!(once.named(Some(once)), torn.named(None));
        let elsewhere = ReplicaAddress { offset: 16, ..place(SegmentKind::Disk) };
        assert_eq!(once.named(failed(&elsewhere, &other_bytes)), None, "another copy");
        for error in peer_faults() {
            assert_eq!(failed(&disk, &error), None, "its disk may just be away");
        }
        assert_eq!(failed(&memory, &TransferError::Stale), None);
        assert_eq!(failed(&memory, &other_bytes), None);
    }

    #[test]
    fn one_outdated_replica_is_worth_a_lookup_whatever_failed_after_it() {
        let place = place(SegmentKind::Memory);
        let outdated = closed().and(&place, &TransferError::Stale);
        assert_eq!(outdated.status, Status::LeaseExpired);
        for error in peer_faults() {
            assert!(outdated.and(&place, &error).is_outdated, "{error}");
        }
    }
}
