//! The states of a queue pair. Invariant: one that has failed stays so.

/// Where a queue pair is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuePairState {
    /// Made, not connected.
    Unconnected,
    /// Connected and usable.
    Connected,
    /// Failed; can only be dropped.
    Failed,
}
