//! Bounds of this library; those of the engine lie in its own crate.

use std::time::Duration;

/// Most segments that were opened and not removed.
pub(crate) const SEGMENTS_MAX: usize = 1 << 20;
/// Most batches that were allocated and not freed.
pub(crate) const OPEN_BATCHES_MAX: usize = perigee_engine::BATCHES_MAX;
/// Longest wait for the parts of a refused submission to let go of the caller's memory. The engine
/// ends them by their own deadline.
pub(crate) const TAKE_BACK_WAIT: Duration = Duration::from_secs(3600);
/// Room for the name of a NIC with its end.
pub(crate) const NIC_NAME_BYTES: usize = 64;
