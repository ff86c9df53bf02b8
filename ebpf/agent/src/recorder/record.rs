//! One record of the history, packed.

use std::sync::Arc;

/// A record and when it was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Milliseconds since 1970.
    pub(super) at_ms: u64,
    pub(super) packed: Arc<[u8]>,
}
