//! Why a call failed, and the integer it answers. Invariant: no code of a failure is 0.

use perigee_c::{ArgumentError, guarded};
use perigee_engine::EngineError;
use perigee_settings::SettingError;
use std::ffi::c_int;

/// What calls answer that were given something wrong.
pub(crate) const INVALID: c_int = -1;
/// The same of calls that answer a status.
const INVALID_STATUS: c_int = 1;
/// Code of what is not built, in the codes and in the statuses of Mooncake.
const UNSUPPORTED: c_int = -303;
const UNSUPPORTED_STATUS: c_int = 999;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// An argument.
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl Failure {
    /// The negative code.
    fn code(&self) -> c_int {
        match self {
            Failure::Argument(_) => INVALID,
            Failure::Engine(error) => error.code(),
        }
    }

    /// The positive number of calls that answer a status.
    fn status(&self) -> c_int {
        match self.code() {
            UNSUPPORTED => UNSUPPORTED_STATUS,
            code => code.abs(),
        }
    }

    fn report(&self, name: &str) {
        tracing::error!("{name}() failed: {self}");
    }
}

impl From<SettingError> for Failure {
    fn from(error: SettingError) -> Self {
        Failure::Engine(EngineError::from(error))
    }
}

/// Runs a call that answers 0 or more, or a negative code.
pub(crate) fn answer<R: From<i32> + Copy>(
    name: &str,
    work: impl FnOnce() -> Result<R, Failure>,
) -> R {
    let coded = || {
        let failed = |failure: Failure| {
            failure.report(name);
            R::from(failure.code())
        };
        work().unwrap_or_else(failed)
    };
    guarded(name, R::from(INVALID), coded)
}

/// Runs a call that answers 0 or a positive status.
pub(crate) fn answer_status(name: &str, work: impl FnOnce() -> Result<(), Failure>) -> c_int {
    let coded = || match work() {
        Ok(()) => 0,
        Err(failure) => {
            failure.report(name);
            failure.status()
        }
    };
    guarded(name, INVALID_STATUS, coded)
}

/// Runs a call that answers a value of its own when it fails.
pub(crate) fn answer_or<R: Copy>(
    name: &str,
    failed: R,
    work: impl FnOnce() -> Result<R, Failure>,
) -> R {
    let reported = || {
        work().unwrap_or_else(|failure| {
            failure.report(name);
            failed
        })
    };
    guarded(name, failed, reported)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_engine::BatchError;

    #[test]
    fn codes_are_negative_and_statuses_are_positive() {
        let busy = || Failure::from(EngineError::from(BatchError::Busy { batch: 1 }));
        let unsupported = || Failure::from(EngineError::Unsupported("x".to_owned()));
        assert_eq!((busy().code(), busy().status()), (-4, 4));
        assert_eq!((unsupported().code(), unsupported().status()), (-303, 999));
        let null = Failure::from(ArgumentError::Null("engine"));
        assert_eq!((null.code(), null.status()), (-1, 1));
    }
}
