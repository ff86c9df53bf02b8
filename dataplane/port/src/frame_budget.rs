//! Bytes that unfinished frames of a process hold, over all its connections.
//! Invariant: what is held never exceeds the budget, and large frames leave a part of it to smaller
//! ones.

use crate::limits::{FREE_FRAME_BYTES, MEDIUM_FRAME_BYTES, SMALL_FRAME_BYTES};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The budget; clones share it.
#[derive(Clone, Debug)]
pub struct FrameBudget {
    bytes_max: usize,
    held: Arc<AtomicUsize>,
}

/// A part of the budget; given back when it is dropped.
#[derive(Debug)]
pub struct HeldBytes {
    bytes: usize,
    held: Arc<AtomicUsize>,
}

impl FrameBudget {
    /// A budget of so many bytes; frames that are larger than half of it are never taken.
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, held: Arc::default() }
    }

    /// Room for a frame of so many bytes, if there is some now.
    pub fn take(&self, bytes: usize) -> Option<HeldBytes> {
        let counted = if bytes <= FREE_FRAME_BYTES { 0 } else { bytes };
        let ceiling = self.ceiling(bytes);
        let grant = |held: usize| {
            let after = held.saturating_add(counted);
            (counted == 0 || after <= ceiling).then_some(after)
        };
        let granted = self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grant);
        granted.is_ok().then(|| HeldBytes { bytes: counted, held: self.held.clone() })
    }

    /// Bytes held now.
    pub fn held_bytes(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    fn ceiling(&self, bytes: usize) -> usize {
        if bytes <= SMALL_FRAME_BYTES {
            self.bytes_max
        } else if bytes <= MEDIUM_FRAME_BYTES {
            self.bytes_max / 4 * 3
        } else {
            self.bytes_max / 2
        }
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_frames_leave_room_for_smaller_ones() {
        let budget = FrameBudget::new(64 << 20);
        let large = budget.take(32 << 20).unwrap();
        assert!(budget.take(MEDIUM_FRAME_BYTES + 1).is_none(), "half is taken");
        let medium: Vec<_> = (0..16).map(|_| budget.take(1 << 20).unwrap()).collect();
        assert!(budget.take(1 << 20).is_none(), "three quarters are taken");
        let small: Vec<_> = (0..256).map(|_| budget.take(64 << 10).unwrap()).collect();
        assert_eq!(budget.held_bytes(), 64 << 20);
        assert!(budget.take(FREE_FRAME_BYTES + 1).is_none());
        assert!(budget.take(FREE_FRAME_BYTES).is_some(), "costs nothing");
        drop((large, medium, small));
        assert_eq!(budget.held_bytes(), 0);
        assert!(budget.take((32 << 20) + 1).is_none(), "more than half");
    }
}
