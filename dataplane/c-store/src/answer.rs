//! How calls answer. Invariant: what could not be done is a negative code, and a line in the log
//! where the code alone does not say why.

use perigee_c::{ArgumentError, guarded};
use perigee_schemas::Status;
use perigee_store::StoreError;
use std::ffi::c_int;

/// What calls answer that were given a null pointer, a handle that is not open, or a text that is
/// none.
pub(crate) const INVALID: c_int = Status::InternalError.code();

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallFailure {
    /// An argument.
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    /// A store that cannot be opened.
    #[error(transparent)]
    Open(#[from] StoreError),
    /// A verdict of the store.
    #[error("{}", .0.name())]
    Status(Status),
}

impl From<Status> for CallFailure {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl CallFailure {
    fn code(&self) -> c_int {
        match self {
            Self::Argument(_) => INVALID,
            Self::Open(error) => error.status().code(),
            Self::Status(status) => status.code(),
        }
    }
}

/// Runs a call that answers 0 or more, or a negative code.
pub(crate) fn answer<R: From<c_int> + Copy>(
    name: &str,
    work: impl FnOnce() -> Result<R, CallFailure>,
) -> R {
    guarded(name, R::from(INVALID), || {
        work().unwrap_or_else(|failure| {
            // A miss is an answer like others, and a store counts what it refuses.
            if !matches!(failure, CallFailure::Status(_)) {
                tracing::error!("{name}() failed: {failure}");
            }
            R::from(failure.code())
        })
    })
}
