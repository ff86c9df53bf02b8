//! What an operation on a file is counted as.

/// What an operation on a file is counted as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileUse {
    Read,
    Write,
}
