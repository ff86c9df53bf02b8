//! How much fits into a queue pair. Invariant: fixed when it is made.

/// What a queue pair was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePairCapacity {
    /// Work requests that may wait: posted and not yet covered by a completion.
    pub send_entries: u32,
    /// Pieces of one work request.
    pub pieces: u32,
    /// Bytes of one inline write.
    pub inline_bytes: u32,
}
