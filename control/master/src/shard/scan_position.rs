//! How far a walk over all keys is. Invariant: it goes up in the order of walks, which is that of
//! the keys' hashes, and so it ends.

/// The end of all walks. Of 2^64 keys one has this place; a walk that begins there misses it.
const END: u64 = u64::MAX;

/// How far a walk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    next: u64,
}

impl Scan {
    pub(super) const FIRST: Self = Self { next: 0 };

    /// The walk that was at this position.
    pub(super) fn at((high, low): (u32, u32)) -> Self {
        Self { next: u64::from(high) << 32 | u64::from(low) }
    }

    /// Whether nothing is left to look at.
    pub fn has_ended(&self) -> bool {
        self.next == END
    }

    /// Where it is, for [`Shard::scan_from`].
    pub fn position(&self) -> (u32, u32) {
        ((self.next >> 32) as u32, self.next as u32)
    }

    /// Where it goes on.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// It has passed a place.
    pub(super) fn pass(&mut self, place: u64) {
        self.next = place.saturating_add(1);
    }
}
