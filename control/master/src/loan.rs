//! Bytes that one shard lends to another, and what a shard needs.
//! Invariant: a loan belongs to exactly one shard, or is on its way to one.

use perigee_allocator::Extent;

/// What a shard short of room tells the others about one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// The segment's number.
    pub segment: u32,
    /// Allocated bytes of the shard, with those of the puts that wait.
    pub used_bytes: u64,
    /// Bytes that it holds.
    pub held_bytes: u64,
    /// Bytes of the puts that wait; 0 if none wait.
    pub waiting_bytes: u64,
    /// Longest extent that they take.
    pub longest_bytes: u64,
    /// For how long the object that the shard would evict has been idle.
    pub victim_idle_ms: u64,
}

/// Free bytes of a segment that go from one shard to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpaceLoan {
    /// The segment's number.
    pub segment: u32,
    /// The bytes, counted from the start of the segment.
    pub extent: Extent,
    /// All generations that were given out with these bytes are smaller.
    pub generation_bound: u64,
}

impl Need {
    /// One lender's part of what waits, and room for the longest of it; 0 if nothing waits.
    pub(crate) fn least_bytes(&self, lenders: u64) -> u64 {
        self.longest_bytes.max(self.waiting_bytes / lenders)
    }

    /// Bytes that a lender with `used` of `held` bytes gives so that both shards are equally full
    /// afterwards.
    pub(crate) fn evening(&self, used_bytes: u64, held_bytes: u64) -> u64 {
        let (theirs, own) = (u128::from(self.used_bytes), u128::from(used_bytes));
        let surplus =
            (theirs * u128::from(held_bytes)).saturating_sub(own * u128::from(self.held_bytes));
        match theirs + own {
            0 => 0,
            both => u64::try_from(surplus / both).unwrap_or(u64::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(used_bytes: u64, held_bytes: u64) -> Need {
        Need {
            segment: 0,
            used_bytes,
            held_bytes,
            waiting_bytes: 0,
            longest_bytes: 0,
            victim_idle_ms: 0,
        }
    }

    #[test]
    fn a_loan_makes_both_shards_equally_full() {
        assert_eq!(need(90, 100).evening(30, 100), 50);
        assert_eq!(need(90, 100).evening(90, 100), 0);
        assert_eq!(need(30, 100).evening(90, 100), 0);
        assert_eq!(need(100, 100).evening(0, 100), 100);
        assert_eq!(need(0, 100).evening(0, 100), 0);
    }
}
