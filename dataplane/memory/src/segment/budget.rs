//! How many pages may still be made. Invariant: what the container and the host have left is looked
//! at often enough that the reserve stays, and rarely enough that a page costs no look.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::limits::{CREDIT_BYTES, CREDIT_MS, REFUSAL_MS};
use crate::meminfo;

/// Bytes that segments of this process have promised and not populated yet.
static PROMISED_BYTES: AtomicU64 = AtomicU64::new(0);

/// There is no memory for more pages: the container or the host is at its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("The memory limit of the segment's owner is reached")]
pub struct Exhausted;

/// What may be taken without looking again.
#[derive(Debug, Default)]
pub(super) struct MemoryBudget {
    credit_bytes: u64,
    looked: Option<Instant>,
}

impl MemoryBudget {
    /// What could be populated now.
    pub(super) fn headroom_bytes() -> u64 {
        meminfo::headroom().map_or(u64::MAX, |room| room.spare_bytes())
    }

    /// Takes bytes out of the credit, unless that would touch the reserve.
    pub(super) fn take(&mut self, bytes: u64) -> Result<(), Exhausted> {
        let age = self.looked.map(|looked| looked.elapsed());
        let old = |limit_ms| age.is_none_or(|age| age >= Duration::from_millis(limit_ms));
        let is_short = self.credit_bytes < bytes;
        // After a refusal every request would look; credit that was used up is renewed at once.
        if old(CREDIT_MS) || (is_short && (self.credit_bytes > 0 || old(REFUSAL_MS))) {
            let spare_bytes = Self::headroom_bytes();
            let is_enough = spare_bytes >= bytes;
            self.credit_bytes =
                if is_enough { spare_bytes.min(CREDIT_BYTES.max(bytes)) } else { 0 };
            self.looked = Some(Instant::now());
        }
        self.credit_bytes = self.credit_bytes.checked_sub(bytes).ok_or(Exhausted)?;
        Ok(())
    }
}

/// The part of a segment that is not populated yet, among those of all segments of the process.
#[derive(Debug)]
pub(super) struct Promise(AtomicU64);

impl Promise {
    pub(super) fn of(bytes: u64) -> Self {
        PROMISED_BYTES.fetch_add(bytes, Ordering::Relaxed);
        Self(AtomicU64::new(bytes))
    }

    /// Bytes of it are populated.
    pub(super) fn keep(&self, bytes: u64) {
        let kept = bytes.min(self.0.load(Ordering::Relaxed));
        self.0.fetch_sub(kept, Ordering::Relaxed);
        let all = PROMISED_BYTES.fetch_sub(kept, Ordering::Relaxed);
        debug_assert!(all >= kept, "a promise is part of all promises");
    }

    /// Bytes promised by all segments of this process.
    pub(super) fn all_bytes() -> u64 {
        PROMISED_BYTES.load(Ordering::Relaxed)
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        let left = self.0.load(Ordering::Relaxed);
        let all = PROMISED_BYTES.fetch_sub(left, Ordering::Relaxed);
        debug_assert!(all >= left, "a promise is part of all promises");
    }
}
