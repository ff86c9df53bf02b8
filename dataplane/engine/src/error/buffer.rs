//! Why memory of this process could not be registered or taken back. Invariant: every message names
//! the buffer and what to do.

use perigee_schemas::Status;
use std::time::Duration;

/// What is wrong with a buffer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BufferError {
    /// No bytes, or bytes that are not memory of this process.
    #[error(
        "The buffer at {address:#x} of {bytes} bytes cannot be registered: {reason}; register memory that exists"
    )]
    Unusable {
        /// First byte.
        address: u64,
        /// Length.
        bytes: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// Part of the buffer is registered already.
    #[error(
        "The buffer at {address:#x} of {bytes} bytes overlaps the one registered at {other_address:#x} of {other_bytes} \
         bytes; unregister that first"
    )]
    Overlap {
        /// First byte of the new buffer.
        address: u64,
        /// Its length.
        bytes: u64,
        /// First byte of the registered buffer.
        other_address: u64,
        /// Its length.
        other_bytes: u64,
    },
    /// No buffer is registered at an address.
    #[error("No buffer is registered at {address:#x}; pass the address it was registered with")]
    NotRegistered {
        /// Address that the caller passed.
        address: u64,
    },
    /// Operations still use a buffer; it takes no new ones.
    #[error(
        "The buffer at {address:#x} is still in use after {waited:?}; keep its memory and unregister it again later"
    )]
    InUse {
        /// First byte.
        address: u64,
        /// How long it was waited for.
        waited: Duration,
    },
}

impl BufferError {
    pub(super) fn status(&self) -> Status {
        match self {
            Self::Unusable { .. } | Self::NotRegistered { .. } => Status::InvalidParams,
            Self::Overlap { .. } => Status::SegmentAlreadyExists,
            Self::InUse { .. } => Status::UnavailableInCurrentStatus,
        }
    }
}
