//! Space moves between shards: free bytes go to the shard that runs out of them, before anything is evicted.
//! Invariant: only free bytes move, and each byte of a segment is held by one shard or is on its way to one.

use perigee_allocator::Extent;

use crate::limits::{DRY_MS, LOAN_PART, NEEDS_MAX, SHARE_ALIGNMENT_BYTES};

use super::Shard;

/// What a shard short of room tells the others about one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// The segment's number.
    pub segment: u32,
    /// Allocated bytes of the shard, with those of the puts that wait.
    pub used_bytes: u64,
    /// Bytes that it holds.
    pub held_bytes: u64,
    /// Bytes of the puts that wait; 0 if nobody waits.
    pub waiting_bytes: u64,
    /// Longest extent that they take.
    pub longest_bytes: u64,
}

/// Free bytes of a segment that go from one shard to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loan {
    /// The segment's number.
    pub segment: u32,
    /// The bytes, counted from the start of the segment.
    pub extent: Extent,
}

impl Shard {
    /// Whether other shards may have room for this one, as far as it knows.
    pub fn may_borrow(&mut self, now_ms: u64) -> bool {
        self.now_ms = self.now_ms.max(now_ms);
        self.live.iter().any(|segment| self.may_borrow_in(*segment))
    }

    pub(super) fn may_borrow_in(&self, segment: u32) -> bool {
        let share = self.share(segment);
        self.settings.count > 1
            && share.is_some_and(|share| share.is_live() && share.dry_until_ms <= self.now_ms)
    }

    /// What to ask the others for so that waiting puts of `waiting_bytes` in all find room without eviction.
    pub fn needs_of_puts(&self, waiting_bytes: u64, longest_bytes: u64) -> Vec<Need> {
        let open = self.live.iter().filter(|segment| {
            let share = self.share(**segment);
            self.may_borrow_in(**segment)
                && share.is_some_and(|share| share.spec.bytes >= longest_bytes)
        });
        let need = |segment: &u32| self.need(*segment, waiting_bytes, longest_bytes);
        open.filter_map(need).take(NEEDS_MAX).collect()
    }

    /// What to ask the others for so that segments above the watermark need no eviction.
    pub fn needs_of_watermark(&self) -> Vec<Need> {
        let pressed = self
            .live
            .iter()
            .filter(|segment| self.may_borrow_in(**segment) && self.is_above_watermark(**segment));
        let need = |segment: &u32| self.need(*segment, 0, 0);
        pressed.filter_map(need).take(NEEDS_MAX).collect()
    }

    fn need(&self, segment: u32, waiting_bytes: u64, longest_bytes: u64) -> Option<Need> {
        let allocator = &self.share(segment)?.allocator;
        Some(Need {
            segment,
            used_bytes: allocator.used().saturating_add(waiting_bytes),
            held_bytes: allocator.capacity(),
            waiting_bytes,
            longest_bytes,
        })
    }

    /// Gives free bytes away in up to `segments` of the named segments: as many as make both shards equally full, and
    /// what the waiting puts take if a free extent is long enough for each of them.
    pub fn lend(&mut self, now_ms: u64, needs: &[Need], segments: usize) -> Vec<Loan> {
        self.now_ms = self.now_ms.max(now_ms);
        let loans = needs.iter().filter_map(|need| {
            let extent = self.lend_in(need)?;
            Some(Loan {
                segment: need.segment,
                extent,
            })
        });
        loans.take(segments).collect()
    }

    fn lend_in(&mut self, need: &Need) -> Option<Extent> {
        let lenders = self.settings.count.saturating_sub(1).max(1) as u64;
        let share = self.share_mut(need.segment)?;
        let allocator = &mut share.allocator;
        if share.state != crate::share::ShareState::Live
            || allocator.largest_free() < need.longest_bytes
        {
            return None;
        }
        let even_bytes = evening(need, allocator.used(), allocator.capacity()) / lenders;
        let least_bytes = if need.waiting_bytes > 0 {
            need.longest_bytes.max(need.waiting_bytes / lenders)
        } else {
            0
        };
        let bytes = even_bytes.max(least_bytes);
        if need.waiting_bytes == 0 && bytes < share.spec.bytes / LOAN_PART {
            return None;
        }
        allocator.cede(bytes, SHARE_ALIGNMENT_BYTES)
    }

    /// Takes over free bytes of other shards.
    pub fn receive(&mut self, now_ms: u64, loans: &[Loan]) {
        self.now_ms = self.now_ms.max(now_ms);
        for loan in loans {
            let share = self.share_mut(loan.segment);
            let Some(share) = share.filter(|share| share.is_readable()) else {
                continue;
            };
            share.dry_until_ms = 0;
            let received = share.allocator.receive(loan.extent);
            debug_assert_eq!(received, Ok(()), "a byte is held by one shard");
        }
    }

    /// The other shards had nothing to spare in these segments.
    pub fn note_dry(&mut self, now_ms: u64, segments: impl IntoIterator<Item = u32>) {
        self.now_ms = self.now_ms.max(now_ms);
        let until_ms = self.now_ms.saturating_add(DRY_MS);
        for segment in segments {
            if let Some(share) = self.share_mut(segment) {
                share.dry_until_ms = until_ms;
            }
        }
    }
}

/// Bytes that a lender with `used` of `held` bytes gives so that both shards are equally full afterwards.
fn evening(need: &Need, used_bytes: u64, held_bytes: u64) -> u64 {
    let (theirs, own) = (u128::from(need.used_bytes), u128::from(used_bytes));
    let surplus =
        (theirs * u128::from(held_bytes)).saturating_sub(own * u128::from(need.held_bytes));
    match theirs + own {
        0 => 0,
        both => u64::try_from(surplus / both).unwrap_or(u64::MAX),
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
        }
    }

    #[test]
    fn a_loan_makes_both_shards_equally_full() {
        assert_eq!(evening(&need(90, 100), 30, 100), 50);
        assert_eq!(evening(&need(90, 100), 90, 100), 0);
        assert_eq!(evening(&need(30, 100), 90, 100), 0);
        assert_eq!(evening(&need(100, 100), 0, 100), 100);
        assert_eq!(evening(&need(0, 100), 0, 100), 0);
    }
}
