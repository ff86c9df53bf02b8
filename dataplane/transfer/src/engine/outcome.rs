//! What came of jobs, in their order. Invariant: one entry per job.

use crate::error::TransferError;

pub(crate) type Outcome<T> = Vec<Result<T, TransferError>>;
