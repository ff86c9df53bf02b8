//! An operation that was handed to the kernel. Invariant: its memory outlives it.

use crate::operation::Finished;

/// What became of an operation when it was submitted.
pub(crate) enum Submitted {
    /// It is under way in this slot.
    Flying(u32),
    /// It was carried out or refused at once.
    Finished(Finished),
}
