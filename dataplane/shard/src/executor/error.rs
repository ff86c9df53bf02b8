//! Why an executor did not start. Invariant: each error names the limit to raise.

use perigee_reactor::{ChoiceError, ReactorError};
use std::time::Duration;

/// Why an executor could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecutorError {
    /// The limit of open files is too small.
    #[error(
        "The limit of open files is {limit}, {open} are open, and {needed} more are needed to start: raise it with \
         `ulimit -n 65536`, LimitNOFILE= in the systemd unit, or a container's nofile ulimit"
    )]
    Descriptors {
        /// The present soft limit.
        limit: u64,
        /// How many are open, as far as it is known.
        open: String,
        /// Descriptors that are needed besides.
        needed: u64,
    },
    /// No reactor was chosen.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    /// The kernel refuses a ring or an epoll set.
    #[error(transparent)]
    Reactor(#[from] ReactorError),
    /// The thread or its wake-up descriptor could not be made.
    #[error("Cannot start an executor thread: {0}")]
    Thread(std::io::Error),
    /// glommio refused.
    #[error("Cannot start an executor: {0}")]
    Glommio(String),
    /// The thread ended before it took jobs.
    #[error("The executor thread ended while it started; the log says why")]
    Ended,
    /// The thread did not come up in time.
    #[error("The executor thread did not start within {0:?}")]
    Late(Duration),
}

impl ExecutorError {
    /// Whether the kernel has refused a ring that the probe had got.
    pub(super) fn is_of_io_uring(&self) -> bool {
        matches!(self, Self::Glommio(_) | Self::Reactor(ReactorError::Ring(_)))
    }
}
