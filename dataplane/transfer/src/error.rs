//! Why bytes did not move, or may not be used.

use perigee_mover::{PeerError, ShardsError};
use perigee_schemas::Status;
use perigee_ssd::ReadError;

/// Why one transfer failed. The peer is named by its endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The owner of the segment cannot be reached, broke off, was late or refused.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// The owner of the segment is at its memory limit and can make no page for the place.
    #[error("The owner of the segment has no memory for this place")]
    Exhausted,
    /// The place lies outside its segment.
    #[error("Range at {offset} of {bytes} bytes lies outside the segment")]
    OutOfBounds {
        /// First byte.
        offset: u64,
        /// Length.
        bytes: u64,
    },
    /// The extent has been given to another object.
    #[error("The extent holds another generation than the descriptor")]
    Stale,
    /// The bytes are not the ones that were put.
    #[error("Checksum {found:#010x} is not {expected:#010x}")]
    Checksum {
        /// Of the bytes read.
        found: u32,
        /// Of the bytes put.
        expected: u32,
    },
    /// A disk of this process has not read it.
    #[error(transparent)]
    OwnDisk(#[from] ReadError),
    /// The caller's buffers do not match the object.
    #[error("Buffers of {buffers} bytes for {wanted} bytes")]
    BufferSize {
        /// Bytes of the buffers.
        buffers: u64,
        /// Bytes of the object or range.
        wanted: u64,
    },
    /// The engine could not start or has been closed.
    #[error("Transfer engine is not available: {0}")]
    Engine(String),
}

impl TransferError {
    /// The status as it is known everywhere in the project. Bytes or places that are not the ones
    /// asked for have a code that clients of Mooncake take for a miss.
    pub fn status(&self) -> Status {
        match self {
            TransferError::Engine(_) => Status::RpcFail,
            TransferError::Exhausted
            | TransferError::Peer(PeerError::Refused {
                status: Status::NoAvailableHandle, ..
            }) => Status::NoAvailableHandle,
            TransferError::Peer(PeerError::Refused { .. })
            | TransferError::OutOfBounds { .. }
            | TransferError::Checksum { .. }
            | TransferError::OwnDisk(_) => Status::InvalidReplica,
            TransferError::Peer(error) if error.is_away() => Status::TransferFail,
            TransferError::Peer(error) => error.status(),
            TransferError::Stale => Status::LeaseExpired,
            TransferError::BufferSize { .. } => Status::InvalidParams,
        }
    }

    /// Whether bytes may be written elsewhere instead: the owner is likely gone, or has not got
    /// this place (any more).
    pub fn is_place_fault(&self) -> bool {
        let refused = matches!(
            self,
            TransferError::Peer(PeerError::Refused { .. })
                | TransferError::OutOfBounds { .. }
                | TransferError::Exhausted
        );
        refused || self.is_peer_fault()
    }

    /// Whether bytes of a write may still arrive: the owner broke off or was late, or the caller
    /// did not wait for it.
    pub fn may_still_arrive(&self) -> bool {
        self.is_canceled() || self.is_peer_fault()
    }

    /// Whether the caller has broken off.
    pub fn is_canceled(&self) -> bool {
        matches!(self, TransferError::Peer(PeerError::Canceled))
    }

    /// Whether the owner of the segment is likely gone, so that other keys on it will fail as well.
    pub fn is_peer_fault(&self) -> bool {
        let TransferError::Peer(error) = self else {
            return false;
        };
        let failed = matches!(error, PeerError::Broken { .. } | PeerError::Deadline { .. });
        failed || error.is_away()
    }
}

impl From<ShardsError> for TransferError {
    fn from(error: ShardsError) -> Self {
        TransferError::Engine(error.to_string())
    }
}
