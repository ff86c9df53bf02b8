//! Slow batches, one by one.
#![expect(unsafe_code, reason = "it reads what a probe wrote")]

use crate::error::ProbeError;
use aya::maps::{MapData, RingBuf};
use perigee_probe_types::SlowBatch;

/// The ring of slow batches; who reads takes.
pub struct SlowBatches(RingBuf<MapData>);

impl SlowBatches {
    pub(crate) fn new(map: aya::maps::Map) -> Result<Self, ProbeError> {
        let ring = RingBuf::try_from(map);
        ring.map(Self).map_err(|error| ProbeError::Map { map: "SLOW", error })
    }

    /// The next slow batch, if there is one.
    pub fn take(&mut self) -> Option<SlowBatch> {
        let item = self.0.next()?;
        if item.len() < size_of::<SlowBatch>() {
            return None;
        }
        // SAFETY: the probe wrote a whole value, which is made of integers; the copy does not ask
        // for alignment.
        Some(unsafe { std::ptr::read_unaligned(item.as_ptr().cast()) })
    }
}
