//! What faults of rails mean to callers. Invariant: each maps to the error that the same fault over
//! TCP has.

use perigee_mover::PeerError;
use perigee_rails::RailError;
use std::time::Duration;

/// What a fault of rails means for a transfer with `peer` that had `deadline`.
pub fn peer_error(error: &RailError, peer: &str, deadline: Duration) -> PeerError {
    let peer = peer.to_owned();
    match error {
        RailError::Canceled => PeerError::Canceled,
        RailError::Closed => PeerError::Closed,
        RailError::PeerRestarted { .. } => PeerError::Restarted { peer },
        RailError::Deadline { .. } => PeerError::Deadline { peer, deadline },
        RailError::Unreachable { reason, .. } => {
            PeerError::Unreachable { peer, reason: reason.clone() }
        }
        other => PeerError::Broken { peer, reason: other.to_string() },
    }
}
