//! What holds for all connections of a shard. Invariant: fixed for the life of the client.

use std::time::Duration;

/// What holds for all slices of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// When it was submitted, on the monotonic clock of its environment.
    pub submitted: Duration,
    /// When it must be over, on the same clock.
    pub due: Duration,
    /// The time it has in all, for messages.
    pub length: Duration,
    /// Whether both sides sum the bytes of each piece.
    pub with_checksum: bool,
}
