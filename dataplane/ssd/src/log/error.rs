//! Why the log refuses. Invariant: a refusal changes nothing.

/// Why the log does not take what it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// No segment is open.
    #[error("No segment is open; start one")]
    NotOpen,
    /// The open segment has no room for it.
    #[error("The segment is full; seal it and start the next")]
    Full,
    /// It would not fit into an empty segment.
    #[error("An object of {0} bytes does not fit into a segment; make segments larger")]
    TooLarge(u32),
    /// A key or name is empty or too long.
    #[error("The key is empty, or it or another name is too long")]
    Labels,
    /// The oldest segment is still read or written.
    #[error("The oldest segment is in use; try again when that has ended")]
    Busy,
    /// A write that others depend on has failed, or all numbers are used up.
    #[error("The log takes no more writes")]
    Closed,
}
