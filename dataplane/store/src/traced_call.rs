//! A call of the program as its trace tells of it. Invariant: a call within another one of the same
//! thread is part of that one, so every public call may begin one.

use perigee_activity::{CallOutcome, OpenCall, Operation, begin_call};
use perigee_schemas::Status;
use perigee_shard::monotonic;
use std::time::Duration;

/// A call under way.
pub(crate) struct TracedCall(OpenCall);

impl TracedCall {
    pub(crate) fn begin(operation: Operation) -> Self {
        Self::begin_at(operation, monotonic())
    }

    /// The same at a moment that is known already.
    pub(crate) fn begin_at(operation: Operation, now: Duration) -> Self {
        Self(begin_call(operation, now))
    }

    /// It is over, with a status per key and so many payload bytes.
    pub(crate) fn end(
        self,
        key: Option<&str>,
        statuses: impl ExactSizeIterator<Item = Status>,
        bytes: u64,
    ) {
        self.end_at(key, statuses, bytes, monotonic());
    }

    pub(crate) fn end_at(
        self,
        key: Option<&str>,
        mut statuses: impl ExactSizeIterator<Item = Status>,
        bytes: u64,
        now: Duration,
    ) {
        let keys = statuses.len();
        let failed = statuses.find(|status| *status != Status::Ok);
        let status = failed.map_or(0, Status::code);
        self.0.end(&CallOutcome { key: key.unwrap_or_default(), keys, bytes, status }, now);
    }
}

/// The status of a result.
pub(crate) fn verdict_on<T>(result: &Result<T, Status>) -> Status {
    result.as_ref().err().copied().unwrap_or(Status::Ok)
}
