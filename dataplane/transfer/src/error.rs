//! Why bytes did not move, or may not be used.

use perigee_schemas::Status;
use std::time::Duration;

/// Why one transfer failed. The peer is named by its endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The peer cannot be reached.
    #[error("Peer {peer} cannot be reached: {reason}")]
    Unreachable {
        /// Its endpoint.
        peer: String,
        /// The kernel's answer.
        reason: String,
    },
    /// The connection broke during the transfer.
    #[error("Connection to peer {peer} broke: {reason}")]
    Broken {
        /// Its endpoint.
        peer: String,
        /// What happened.
        reason: String,
    },
    /// The transfer did not finish in time.
    #[error("Peer {peer} did not finish within {deadline:?}")]
    Deadline {
        /// Its endpoint.
        peer: String,
        /// The time it had.
        deadline: Duration,
    },
    /// The peer refused the transfer.
    #[error("Peer {peer} refused: {status}")]
    Refused {
        /// Its endpoint.
        peer: String,
        /// Its verdict.
        status: Status,
    },
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
    /// The extent was given to another object meanwhile.
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
    /// The caller's buffers do not match the object.
    #[error("Buffers of {buffers} bytes for {wanted} bytes")]
    BufferSize {
        /// Bytes of the buffers.
        buffers: u64,
        /// Bytes of the object or range.
        wanted: u64,
    },
    /// The kernel cannot reach the caller's buffers.
    #[error(
        "The buffers are not memory that this process may read and write; pass valid addresses and lengths"
    )]
    LocalMemory,
    /// The engine could not start or has been closed.
    #[error("Transfer engine is not available: {0}")]
    Engine(String),
}

impl TransferError {
    /// The status that callers of the store see. Clients of Mooncake take some codes for a miss and others for a broken
    /// process, so whatever is no more than a lost cache entry has one of the former.
    pub fn status(&self) -> Status {
        match self {
            TransferError::Unreachable { .. }
            | TransferError::Broken { .. }
            | TransferError::Engine(_) => Status::RpcFail,
            TransferError::Deadline { .. } => Status::RpcTimeout,
            TransferError::Exhausted
            | TransferError::Refused {
                status: Status::NoAvailableHandle,
                ..
            } => Status::NoAvailableHandle,
            TransferError::Refused { .. }
            | TransferError::OutOfBounds { .. }
            | TransferError::Checksum { .. } => Status::InvalidReplica,
            TransferError::Stale => Status::LeaseExpired,
            TransferError::BufferSize { .. } | TransferError::LocalMemory => Status::InvalidParams,
        }
    }

    /// Whether bytes may be written elsewhere instead: the owner is likely gone, or has not got this place (any more).
    pub fn is_place_fault(&self) -> bool {
        let refused = matches!(
            self,
            TransferError::Refused { .. }
                | TransferError::OutOfBounds { .. }
                | TransferError::Exhausted
        );
        refused || self.is_peer_fault()
    }

    /// Whether the owner of the segment is likely gone, so that other keys on it will fail as well.
    pub fn is_peer_fault(&self) -> bool {
        matches!(
            self,
            TransferError::Unreachable { .. }
                | TransferError::Broken { .. }
                | TransferError::Deadline { .. }
        )
    }
}
