//! The space of a shard: its share of each segment, which of them take objects, and what must not
//! be used again yet.
//! Invariant: each byte of a readable segment that the shard holds is given out, quarantined or
//! free, and only one of them. A segment that is unmounted is remembered until its last replica is
//! forgotten, and its number is never used again.

mod check;
mod disks;
mod rebuild;

use std::sync::Arc;

use perigee_allocator::{Extent, OffsetAllocator};

use crate::counters::SegmentGauges;
use crate::limits::{LOANS_MAX, SHARE_ALIGNMENT_BYTES};
use crate::loan::SpaceLoan;
use crate::put_name::PutName;
use crate::quarantine::{Quarantine, Quarantined};
use crate::segment::SegmentSpec;
use crate::share::{SegmentShare, ShareState};

#[derive(Debug, Default)]
pub(crate) struct Space {
    /// By segment number; `None` for segments that are forgotten.
    by_segment: Vec<Option<Box<SegmentShare>>>,
    /// Numbers of the segments that take new objects, in order.
    live: Vec<u32>,
    /// Numbers of the disks that are mounted, in order.
    disks: Vec<u32>,
    /// Numbers of the unmounted segments whose replicas are not all forgotten.
    gone: Vec<u32>,
    /// Free bytes of segments that this shard has not heard of yet, while the lender has.
    early_loans: Vec<SpaceLoan>,
    quarantine: Quarantine,
}

impl Space {
    pub(crate) fn get(&self, segment: u32) -> Option<&SegmentShare> {
        self.by_segment.get(segment as usize)?.as_deref()
    }

    fn get_mut(&mut self, segment: u32) -> Option<&mut SegmentShare> {
        self.by_segment.get_mut(segment as usize)?.as_deref_mut()
    }

    /// The share of a segment that is mounted.
    pub(crate) fn readable(&self, segment: u32) -> Option<&SegmentShare> {
        self.get(segment).filter(|share| share.is_readable())
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
        self.readable(segment).is_some()
    }

    /// Whether the owner of a segment keeps records of parts.
    pub(crate) fn takes_parts(&self, segment: u32) -> bool {
        self.get(segment).is_some_and(|share| share.spec.keeps_parts)
    }

    /// The readable segments of a name.
    pub(crate) fn named(&self, name: &str) -> Vec<u32> {
        let named = |share: &SegmentShare| share.is_memory() && share.spec.name == name;
        let shares = self.iter().filter(|(_, share)| named(share));
        shares.map(|(segment, _)| segment).collect()
    }

    /// Whether a segment that takes objects is used up to a part of it only.
    pub(crate) fn has_some_below(&self, ratio: f64) -> bool {
        self.live.iter().any(|segment| !self.is_above(*segment, ratio))
    }

    /// Whether two segments lie on one host, as far as their owners name it.
    pub(crate) fn is_same_host(&self, segment: u32, other: u32) -> bool {
        let host = |segment| self.get(segment).map_or("", |share| share.spec.host());
        !host(segment).is_empty() && host(segment) == host(other)
    }

    /// The state of one segment of memory in numbers, if it is readable; `replicas` lie there.
    pub(crate) fn gauges_of(&self, segment: u32, replicas: usize) -> Option<SegmentGauges> {
        let share = self.readable(segment).filter(|share| !share.is_disk())?;
        Some(SegmentGauges {
            segment,
            capacity_bytes: share.usable_bytes(),
            allocated_bytes: share.allocator.used(),
            largest_free_bytes: share.allocator.largest_free().min(share.free_bytes()),
            replicas: replicas as u64,
        })
    }

    /// Adds a segment under a number that was never used before, with the bytes of it that this
    /// shard holds; a used number is left as it is.
    pub(crate) fn add(
        &mut self,
        segment: u32,
        spec: &Arc<SegmentSpec>,
        held: OffsetAllocator,
        now_ms: u64,
    ) -> bool {
        let slot = segment as usize;
        if self.by_segment.len() <= slot {
            self.by_segment.resize_with(slot + 1, || None);
        }
        if self.by_segment[slot].is_some() {
            return false;
        }
        let share = SegmentShare::new(Arc::clone(spec), held, now_ms);
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

    /// An unmounted segment whose replicas are to be forgotten.
    pub(crate) fn next_gone(&self) -> Option<u32> {
        self.gone.last().copied()
    }

    /// Forgets an unmounted segment without replicas.
    pub(crate) fn forget(&mut self, segment: u32) {
        debug_assert!(!self.is_readable(segment), "it was unmounted");
        self.by_segment[segment as usize] = None;
        self.gone.retain(|gone| *gone != segment);
    }

    /// The owner of a segment has memory for so many of its bytes.
    pub(crate) fn set_usable(&mut self, segment: u32, bytes: u64) {
        if let Some(share) = self.get_mut(segment) {
            share.segment_usable_bytes = bytes;
        }
    }

    /// The owner of a segment has memory for all but these ranges.
    pub(crate) fn set_unbacked(&mut self, segment: u32, ranges: &Arc<[Extent]>) {
        if let Some(share) = self.get_mut(segment) {
            share.set_unbacked(ranges);
        }
    }

    /// Takes `bytes` bytes of a segment, if there is a hole and the owner has memory for them.
    pub(crate) fn alloc(&mut self, segment: u32, bytes: u64) -> Option<Extent> {
        self.get_mut(segment)?.alloc(bytes)
    }

    /// Gives space back that the caller was given.
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

    /// Gives space back that may not be used again before a time, or before its writer or its
    /// readers say that they have finished.
    pub(crate) fn hold(&mut self, release_ms: u64, quarantined: Quarantined) {
        self.quarantine.hold(release_ms, quarantined);
    }

    /// Frees one extent whose time has come.
    pub(crate) fn release_due(&mut self, now_ms: u64) -> Option<Quarantined> {
        let due = self.quarantine.pop_due(now_ms);
        self.free_released(due)
    }

    /// Frees one extent of a discarded put whose writer has stopped.
    pub(crate) fn release_put(&mut self, put: PutName) -> Option<Quarantined> {
        let of_put = self.quarantine.pop_of_put(put);
        self.free_released(of_put)
    }

    fn free_released(&mut self, released: Option<Quarantined>) -> Option<Quarantined> {
        if let Some(released) = &released {
            self.free(released.segment, released.extent);
        }
        released
    }

    /// One reader of a dropped replica less; after the last one its space is free.
    pub(crate) fn give_back(&mut self, generation: u64, term: u8) {
        for released in self.quarantine.give_back(generation, term) {
            self.free(released.segment, released.extent);
        }
    }

    /// What is quarantined, in numbers and by put.
    pub(crate) fn quarantine(&self) -> &Quarantine {
        &self.quarantine
    }

    /// Whether more of a segment is used than a part of it. What is quarantined comes back by
    /// itself: evicting more does not bring it back sooner.
    pub(crate) fn is_above(&self, segment: u32, ratio: f64) -> bool {
        let quarantined_bytes = self.quarantine.bytes_of(segment);
        // A segment that takes nothing new gets no emptier for it.
        self.get(segment).filter(|share| share.is_live()).is_some_and(|share| {
            let pressure_bytes = share.allocator.used().saturating_sub(quarantined_bytes);
            pressure_bytes as f64 > ratio * share.usable_bytes() as f64
        })
    }

    /// Whether `bytes` more bytes fill no more of a segment than a part of it.
    pub(crate) fn stays_below(&self, segment: u32, bytes: u64, ratio: f64) -> bool {
        self.get(segment).filter(|share| share.is_live()).is_some_and(|share| {
            let used_bytes = share.allocator.used().saturating_add(bytes);
            used_bytes as f64 <= ratio * share.usable_bytes() as f64
        })
    }

    /// Gives up to `bytes` free bytes of a segment away, in one piece.
    pub(crate) fn cede(&mut self, segment: u32, bytes: u64) -> Option<Extent> {
        let share = self.get_mut(segment).filter(|share| share.is_readable())?;
        share.allocator.cede(bytes, SHARE_ALIGNMENT_BYTES)
    }

    /// Gives up to `bytes` free bytes of a segment away, the longest pieces first.
    /// All generations given out with them are smaller than `generation_bound`.
    pub(crate) fn cede_pieces(
        &mut self,
        segment: u32,
        mut bytes: u64,
        generation_bound: u64,
    ) -> Vec<SpaceLoan> {
        let mut loans = Vec::new();
        while loans.len() < LOANS_MAX
            && let Some(extent) = self.cede(segment, bytes)
        {
            bytes = bytes.saturating_sub(extent.bytes);
            loans.push(SpaceLoan { segment, extent, generation_bound });
        }
        loans
    }

    /// The other shards have no room to spare in a segment, for a while.
    pub(crate) fn note_dry(&mut self, segment: u32, until_ms: u64) {
        if let Some(share) = self.get_mut(segment) {
            share.dry_until_ms = until_ms;
        }
    }

    fn set_state(&mut self, segment: u32, state: ShareState) {
        if let Some(share) = self.get_mut(segment).filter(|share| share.is_readable()) {
            share.state = state;
            self.live.retain(|live| *live != segment);
            if state == ShareState::Gone {
                self.disks.retain(|disk| *disk != segment);
            }
        }
    }

    fn go_live(&mut self, segment: u32) {
        if self.get(segment).is_some_and(SegmentShare::is_rebuilding) {
            return;
        }
        let is_disk = self.get(segment).is_some_and(SegmentShare::is_disk);
        let list = if is_disk { &mut self.disks } else { &mut self.live };
        if let Err(at) = list.binary_search(&segment) {
            list.insert(at, segment);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = 1 << 20;

    fn add(space: &mut Space, segment: u32) -> bool {
        let spec = Arc::new(SegmentSpec::bare(1, 1, BYTES));
        space.add(segment, &spec, SegmentShare::first_part(BYTES, 0, 1), 0)
    }

    fn three() -> Space {
        let mut space = Space::default();
        for segment in [2, 0, 1] {
            assert!(add(&mut space, segment));
            check(&space, &[]);
        }
        space
    }

    fn check(space: &Space, live: &[(u32, Extent)]) {
        space.check(live.iter().copied());
    }

    fn held(segment: u32, extent: Extent) -> Quarantined {
        Quarantined { segment, extent, put: None, readers: None, superseded: None }
    }

    #[test]
    fn segments_that_take_objects_are_listed_in_order() {
        let mut space = three();
        assert_eq!(space.live(), [0, 1, 2]);
        space.drain(1);
        assert!(space.is_readable(1), "what lies there can be read");
        assert_eq!(space.live(), [0, 2]);
        space.resume(1);
        space.resume(2);
        assert_eq!(space.live(), [0, 1, 2]);
        assert!(!add(&mut space, 1), "its number is taken");
        check(&space, &[]);
    }

    #[test]
    fn an_unmounted_segment_is_remembered_until_it_is_forgotten() {
        let mut space = three();
        space.unmount(1);
        space.unmount(1);
        space.resume(1);
        check(&space, &[]);
        assert!(!space.is_readable(1) && space.get(1).is_some());
        assert_eq!(space.next_gone(), Some(1));
        space.forget(1);
        assert_eq!((space.next_gone(), space.get(1).is_none()), (None, true));
        assert_eq!((space.bound(), space.iter().count()), (3, 2));
        check(&space, &[]);
    }

    #[test]
    fn the_least_used_segment_with_room_is_taken() {
        let mut space = three();
        let first = space.alloc_least_used(&[0], 4096).unwrap();
        let (segment, _) = space.alloc_least_used(&[0, 1], 4096).unwrap();
        assert_eq!((first.0, segment), (0, 1));
        space.free(first.0, first.1);
        let again = space.alloc_least_used(&[0, 1], 4096).unwrap();
        assert_eq!(again.0, 0);
        assert_eq!(space.alloc_least_used(&[0, 1], 2 * BYTES), None);
        space.unmount(1);
        space.free(1, Extent::new(0, 4096));
        check(&space, &[again]);
    }
    #[test]
    fn quarantined_space_is_free_when_its_time_comes_or_its_writer_stops() {
        let mut space = three();
        let extents = [(); 3].map(|()| space.alloc(0, 4096).unwrap());
        let put = PutName { client: 7, generation: 9 };
        space.hold(100, held(0, extents[0]));
        space.hold(200, Quarantined { put: Some(put), ..held(0, extents[1]) });
        check(&space, &[(0, extents[2])]);
        assert!(space.release_due(99).is_none());
        assert_eq!(space.release_due(100).map(|it| it.extent), Some(extents[0]));
        assert_eq!(space.release_put(put).map(|it| it.extent), Some(extents[1]));
        assert!(space.release_put(put).is_none() && space.release_due(u64::MAX).is_none());
        check(&space, &[(0, extents[2])]);
    }

    #[test]
    fn what_is_quarantined_is_no_pressure() {
        let mut space = three();
        let extent = space.alloc(0, BYTES / 2).unwrap();
        assert!(space.is_above(0, 0.4) && !space.is_above(0, 0.5));
        space.hold(100, held(0, extent));
        assert!(!space.is_above(0, 0.4), "eviction would not bring it back sooner");
    }

    #[test]
    fn what_one_shard_cedes_another_one_holds() {
        let (mut lender, mut borrower) = (three(), three());
        let whole = borrower.cede(1, u64::MAX).unwrap();
        assert_eq!((whole.bytes, borrower.alloc(1, 4096)), (BYTES, None));
        let loans = lender.cede_pieces(1, BYTES / 4, 0);
        check(&lender, &[]);
        assert_eq!(loans.iter().map(|loan| loan.extent.bytes).sum::<u64>(), BYTES / 4);
        loans.iter().for_each(|loan| borrower.receive(*loan));
        check(&borrower, &[]);
        assert!(borrower.alloc(1, BYTES / 4).is_some() && borrower.alloc(1, 4096).is_none());
    }

    #[test]
    fn a_loan_of_a_segment_that_is_not_known_yet_is_kept() {
        let (mut lender, mut late) = (three(), Space::default());
        let extent = lender.cede(0, BYTES).unwrap();
        let loan = SpaceLoan { segment: 0, extent, generation_bound: 0 };
        late.receive(loan);
        check(&late, &[]);
        let spec = Arc::new(SegmentSpec::bare(1, 1, BYTES));
        assert!(late.add(0, &spec, OffsetAllocator::holding_nothing(BYTES), 0));
        check(&late, &[]);
        assert_eq!(late.alloc(0, BYTES), Some(loan.extent));
    }
}
