//! Why a number of a batch cannot be used. Invariant: every message names the batch.

use perigee_schemas::Status;

/// What is wrong with a batch that a caller named.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// No such batch, or no such request in it.
    #[error("No batch {batch} with a request {index}; it was released or never submitted")]
    Unknown {
        /// Number of the batch.
        batch: u64,
        /// Number of the request.
        index: usize,
    },
    /// It is still under way.
    #[error("Batch {batch} is still under way; wait for it or cancel it, then release it")]
    Busy {
        /// Number of the batch.
        batch: u64,
    },
}

impl BatchError {
    pub(super) fn status(&self) -> Status {
        match self {
            Self::Unknown { .. } => Status::TaskNotFound,
            Self::Busy { .. } => Status::UnavailableInCurrentStatus,
        }
    }
}
