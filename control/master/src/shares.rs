//! The space of a shard: its share of each segment, and which of them take objects.
//! Invariant: a segment is live exactly while its share is; one that is unmounted is remembered
//! until its last replica is forgotten, and its number is never used again.

use perigee_allocator::Extent;

use crate::counters::SegmentGauges;
use crate::loan::SpaceLoan;
use crate::share::{SegmentShare, ShareState};
use crate::slab::NONE;

/// The shares of all segments.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// By segment number; `None` for segments that are forgotten.
    by_segment: Vec<Option<Box<SegmentShare>>>,
    /// Numbers of the segments that take new objects, in order.
    live: Vec<u32>,
    /// Numbers of the unmounted segments whose replicas are not all forgotten.
    gone: Vec<u32>,
    /// Free bytes of segments that this shard has not heard of yet, while the lender has.
    early_loans: Vec<SpaceLoan>,
}

impl Shares {
    pub(crate) fn get(&self, segment: u32) -> Option<&SegmentShare> {
        self.by_segment.get(segment as usize)?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, segment: u32) -> Option<&mut SegmentShare> {
        self.by_segment.get_mut(segment as usize)?.as_deref_mut()
    }

    /// All shares that are not forgotten, in order of segment numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &SegmentShare)> {
        let shares = (0..).zip(&self.by_segment);
        shares.filter_map(|(segment, share)| Some((segment, share.as_deref()?)))
    }

    /// One past the highest segment number there ever was.
    pub(crate) fn bound(&self) -> u32 {
        self.by_segment.len() as u32
    }

    /// Segments that take new objects, in order.
    pub(crate) fn live(&self) -> &[u32] {
        &self.live
    }

    /// Whether replicas in a segment may be read.
    pub(crate) fn is_readable(&self, segment: u32) -> bool {
        self.get(segment).is_some_and(SegmentShare::is_readable)
    }

    /// The state of each readable segment in numbers, in order of segment numbers.
    pub(crate) fn gauges(&self) -> impl Iterator<Item = SegmentGauges> + '_ {
        let readable = self.iter().filter(|(_, share)| share.is_readable());
        readable.map(|(segment, share)| gauges_of(segment, share))
    }

    /// The state of one segment in numbers, if it is readable.
    pub(crate) fn gauges_of(&self, segment: u32) -> Option<SegmentGauges> {
        let share = self.get(segment).filter(|share| share.is_readable())?;
        Some(gauges_of(segment, share))
    }

    /// Adds a share under a number that was never used before; a used one is left as it is.
    pub(crate) fn add(&mut self, segment: u32, share: SegmentShare) -> bool {
        let slot = segment as usize;
        if self.by_segment.len() <= slot {
            self.by_segment.resize_with(slot + 1, || None);
        }
        if self.by_segment[slot].is_some() {
            return false;
        }
        self.by_segment[slot] = Some(Box::new(share));
        self.go_live(segment);
        self.receive_early_loans(segment);
        true
    }

    /// Takes over free bytes of another shard. Bytes of a segment that is not known yet are kept
    /// until it is; those of one that is gone belong to no shard any more.
    pub(crate) fn receive(&mut self, loan: SpaceLoan) {
        if loan.segment >= self.bound() {
            self.early_loans.push(loan);
        } else if let Some(share) = self.get_mut(loan.segment).filter(|share| share.is_readable()) {
            share.dry_until_ms = 0;
            let received = share.allocator.receive(loan.extent);
            debug_assert_eq!(received, Ok(()), "a byte is held by one shard");
        }
    }

    fn receive_early_loans(&mut self, segment: u32) {
        let is_of_it = |loan: &mut SpaceLoan| loan.segment == segment;
        let early: Vec<SpaceLoan> = self.early_loans.extract_if(.., is_of_it).collect();
        early.into_iter().for_each(|loan| self.receive(loan));
    }

    /// From now on a segment takes no new objects.
    pub(crate) fn drain(&mut self, segment: u32) {
        self.set_state(segment, ShareState::Draining);
    }

    /// A segment that was drained takes objects again.
    pub(crate) fn resume(&mut self, segment: u32) {
        let share = self.get_mut(segment);
        if let Some(share) = share.filter(|share| share.state == ShareState::Draining) {
            share.state = ShareState::Live;
            self.go_live(segment);
        }
    }

    /// A segment is gone; its replicas are to be forgotten.
    pub(crate) fn unmount(&mut self, segment: u32) {
        if self.is_readable(segment) {
            self.set_state(segment, ShareState::Gone);
            debug_assert!(!self.gone.contains(&segment));
            self.gone.push(segment);
        }
    }

    /// An unmounted segment, with one of its replicas, or with `None` when all are forgotten.
    pub(crate) fn next_gone(&self) -> Option<(u32, Option<u32>)> {
        let segment = *self.gone.last()?;
        let any = self.get(segment).map_or(NONE, |share| share.recency.any());
        Some((segment, (any != NONE).then_some(any)))
    }

    /// Forgets an unmounted segment without replicas.
    pub(crate) fn forget(&mut self, segment: u32) {
        debug_assert!(!self.is_readable(segment), "it was unmounted");
        self.by_segment[segment as usize] = None;
        self.gone.retain(|gone| *gone != segment);
    }

    /// Gives space of a mounted segment back.
    pub(crate) fn free(&mut self, segment: u32, extent: Extent) {
        let Some(share) = self.get_mut(segment).filter(|share| share.is_readable()) else {
            return;
        };
        let freed = share.allocator.free(extent);
        debug_assert_eq!(freed, Ok(()), "a live extent is allocated");
    }

    /// Space in the least used of some segments that has room.
    pub(crate) fn alloc_least_used(
        &mut self,
        segments: &[u32],
        bytes: u64,
    ) -> Option<(u32, Extent)> {
        let mut segments = segments.to_vec();
        let used_ratio = |segment: &u32| self.get(*segment).map_or(1.0, SegmentShare::used_ratio);
        segments.sort_by(|a, b| used_ratio(a).total_cmp(&used_ratio(b)));
        segments.into_iter().find_map(|segment| {
            let extent = self.get_mut(segment)?.alloc(bytes)?;
            Some((segment, extent))
        })
    }

    /// Panics unless the lists of segments agree with the states of the shares.
    pub(crate) fn check(&self) {
        assert!(self.live.is_sorted_by(|a, b| a < b), "each once, in order");
        let is_early = |loan: &SpaceLoan| loan.segment >= self.bound();
        assert!(self.early_loans.iter().all(is_early), "what is known is taken over");
        for (segment, share) in (0..).zip(&self.by_segment) {
            let state = share.as_ref().map(|share| share.state);
            let is_live = state == Some(ShareState::Live);
            assert_eq!(self.live.contains(&segment), is_live, "{segment}");
            let is_gone = state == Some(ShareState::Gone);
            assert_eq!(self.gone.contains(&segment), is_gone, "{segment}");
            if let Some(share) = share {
                share.allocator.check();
                assert!(share.segment_usable_bytes <= share.spec.bytes, "{segment}");
            }
        }
    }

    fn set_state(&mut self, segment: u32, state: ShareState) {
        if let Some(share) = self.get_mut(segment).filter(|share| share.is_readable()) {
            share.state = state;
            self.live.retain(|live| *live != segment);
        }
    }

    fn go_live(&mut self, segment: u32) {
        debug_assert!(!self.live.contains(&segment));
        self.live.push(segment);
        self.live.sort_unstable();
    }
}

fn gauges_of(segment: u32, share: &SegmentShare) -> SegmentGauges {
    SegmentGauges {
        segment,
        capacity_bytes: share.usable_bytes(),
        allocated_bytes: share.allocator.used(),
        largest_free_bytes: share.allocator.largest_free().min(share.free_bytes()),
        replicas: share.recency.len() as u64,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::segment::SegmentSpec;

    const BYTES: u64 = 1 << 20;

    fn share() -> SegmentShare {
        let spec = SegmentSpec::bare(1, 1, BYTES);
        SegmentShare::new(Arc::new(spec), SegmentShare::first_part(BYTES, 0, 1))
    }

    fn three() -> Shares {
        let mut shares = Shares::default();
        for segment in [2, 0, 1] {
            assert!(shares.add(segment, share()));
            shares.check();
        }
        shares
    }

    #[test]
    fn segments_that_take_objects_are_listed_in_order() {
        let mut shares = three();
        assert_eq!(shares.live(), [0, 1, 2]);
        shares.drain(1);
        assert!(shares.is_readable(1), "what lies there can be read");
        assert_eq!(shares.live(), [0, 2]);
        shares.resume(1);
        shares.resume(2);
        assert_eq!(shares.live(), [0, 1, 2]);
        assert!(!shares.add(1, share()), "its number is taken");
        shares.check();
    }

    #[test]
    fn an_unmounted_segment_is_remembered_until_it_is_forgotten() {
        let mut shares = three();
        shares.unmount(1);
        shares.unmount(1);
        shares.resume(1);
        shares.check();
        assert!(!shares.is_readable(1) && shares.get(1).is_some());
        assert_eq!(shares.next_gone(), Some((1, None)));
        shares.forget(1);
        assert_eq!((shares.next_gone(), shares.get(1).is_none()), (None, true));
        assert_eq!((shares.bound(), shares.iter().count()), (3, 2));
        shares.check();
    }

    #[test]
    fn the_least_used_segment_with_room_is_taken() {
        let mut shares = three();
        let first = shares.alloc_least_used(&[0], 4096).unwrap();
        let (segment, _) = shares.alloc_least_used(&[0, 1], 4096).unwrap();
        assert_eq!((first.0, segment), (0, 1));
        shares.free(first.0, first.1);
        assert_eq!(shares.alloc_least_used(&[0, 1], 4096).unwrap().0, 0);
        assert_eq!(shares.alloc_least_used(&[0, 1], 2 * BYTES), None);
        shares.unmount(1);
        shares.free(1, Extent::new(0, 4096));
        shares.check();
    }
}
