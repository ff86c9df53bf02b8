//! Why a node could not start. Invariant: each error has one exit code, taken from the one table of
//! statuses or from the flags.

use perigee_flags::FlagError;
use perigee_http::HttpStartError;
use perigee_schemas::Status;
use perigee_store::StoreError;
use std::time::Duration;

/// Why a node could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// A setting is wrong.
    #[error(transparent)]
    Config(#[from] FlagError),
    /// The store could not be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What the node needs did not come up in time.
    #[error(
        "Gave up after {} s: {reason}; start what is missing, or raise --max_wait_time",
        .waited.as_secs()
    )]
    GaveUp {
        /// Time since the start.
        waited: Duration,
        /// The last obstacle.
        reason: String,
        /// Status with which the master refused.
        status: Status,
    },
    /// The HTTP port cannot be listened on.
    #[error(transparent)]
    Http(#[from] HttpStartError),
    /// Signals cannot be caught or a thread cannot be started.
    #[error("The system refused: {0}")]
    System(#[from] std::io::Error),
}

impl NodeError {
    /// The exit code of the program.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Config(error) => error.exit_code(),
            Self::Store(error) => error.status().exit(),
            Self::GaveUp { status, .. } => status.exit(),
            Self::Http(_) => Status::RpcFail.exit(),
            Self::System(_) => Status::InternalError.exit(),
        }
    }
}
