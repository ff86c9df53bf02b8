//! The allocator against a bitmap model: same space accounting, never two live extents on one byte.
//! Invariant checked: an allocation fails only if no run of free bytes is long enough.

use perigee_allocator::{AllocatorError, Extent, OffsetAllocator};
use proptest::prelude::*;

const CAPACITY: usize = 96;
/// Bytes that one entry of the bitmap stands for; extents of one unit count as small.
const UNIT: u64 = 128 << 10;

#[derive(Debug, Clone)]
enum Op {
    Alloc(u64),
    FreeLive(prop::sample::Index),
    FreeAny(u64, u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => (0_u64..40).prop_map(Op::Alloc),
        3 => any::<prop::sample::Index>().prop_map(Op::FreeLive),
        1 => (0_u64..110, 0_u64..30).prop_map(|(offset, bytes)| Op::FreeAny(offset, bytes)),
    ];
    prop::collection::vec(op, 1..200)
}

fn units(extent: Extent) -> Extent {
    assert_eq!((extent.offset % UNIT, extent.bytes % UNIT), (0, 0));
    Extent::new(extent.offset / UNIT, extent.bytes / UNIT)
}

fn scaled(extent: Extent) -> Extent {
    Extent::new(extent.offset * UNIT, extent.bytes * UNIT)
}

fn free_runs(taken: &[bool]) -> Vec<Extent> {
    let mut runs: Vec<Extent> = Vec::new();
    for (offset, _) in taken.iter().enumerate().filter(|(_, taken)| !**taken) {
        match runs.last_mut() {
            Some(run) if run.offset + run.bytes == offset as u64 => run.bytes += 1,
            _ => runs.push(Extent::new(offset as u64, 1)),
        }
    }
    runs
}

fn mark(taken: &mut [bool], extent: Extent, value: bool) {
    for byte in &mut taken[extent.offset as usize..(extent.offset + extent.bytes) as usize] {
        assert_ne!(*byte, value, "{extent} marked twice");
        *byte = value;
    }
}

fn expect_alloc(allocator: &mut OffsetAllocator, taken: &mut [bool], bytes: u64) -> Option<Extent> {
    let runs = free_runs(taken);
    let fits = runs.iter().filter(|run| bytes > 0 && run.bytes >= bytes);
    let best = fits.clone().min_by_key(|run| (run.bytes, run.offset));
    let small = bytes * UNIT < 256 << 10;
    let exact = best.is_some_and(|run| run.bytes == bytes);
    let hole = if small && !exact { fits.clone().next() } else { best };
    let got = allocator.alloc(bytes * UNIT).map(units);
    assert_eq!(got, hole.map(|run| Extent::new(run.offset, bytes)));
    if let Some(extent) = got {
        mark(taken, extent, true);
    }
    got
}

fn expect_free_any(allocator: &mut OffsetAllocator, taken: &mut [bool], extent: Extent) -> bool {
    let end = extent.offset + extent.bytes;
    let inside = extent.bytes > 0 && end <= CAPACITY as u64;
    let all_taken = inside && taken[extent.offset as usize..end as usize].iter().all(|byte| *byte);
    assert_eq!(allocator.free(scaled(extent)).is_ok(), all_taken);
    if all_taken {
        mark(taken, extent, false);
    }
    all_taken
}

proptest! {
    #[test]
    fn agrees_with_a_bitmap(ops in ops()) {
        let mut allocator = OffsetAllocator::new(CAPACITY as u64 * UNIT);
        let mut taken = vec![false; CAPACITY];
        let mut live: Vec<Extent> = Vec::new();
        for op in ops {
            match op {
                Op::Alloc(bytes) => live.extend(expect_alloc(&mut allocator, &mut taken, bytes)),
                Op::FreeLive(index) if !live.is_empty() => {
                    let extent = live.swap_remove(index.index(live.len()));
                    prop_assert_eq!(allocator.free(scaled(extent)), Ok(()));
                    mark(&mut taken, extent, false);
                }
                Op::FreeLive(_) => {}
                Op::FreeAny(offset, bytes) => {
                    let extent = Extent::new(offset, bytes);
                    if expect_free_any(&mut allocator, &mut taken, extent) {
                        live.retain(|other| {
                            other.offset + other.bytes <= offset || offset + bytes <= other.offset
                        });
                        // Pieces that were freed in part have no owner from here on.
                    }
                }
            }
            let runs = free_runs(&taken);
            let free: Vec<Extent> = allocator.free_extents().map(units).collect();
            prop_assert_eq!(&free, &runs);
            let longest = runs.iter().map(|run| run.bytes).max().unwrap_or(0);
            prop_assert_eq!(allocator.largest_free(), longest * UNIT);
            let used = taken.iter().filter(|byte| **byte).count() as u64;
            prop_assert_eq!(allocator.used(), used * UNIT);
            allocator.check();
        }
    }

    #[test]
    fn rebuilding_from_live_extents_gives_the_same_state(
        sizes in prop::collection::vec(1_u64..30, 1..20),
                                                         drop_every in 2_usize..5) {
        let mut allocator = OffsetAllocator::new(256);
        let live: Vec<Extent> = sizes.iter().filter_map(|bytes| allocator.alloc(*bytes)).collect();
        let (dropped, kept): (Vec<_>, Vec<_>) =
            live.iter().enumerate().partition(|(index, _)| index % drop_every == 0);
        for (_, extent) in dropped {
            prop_assert_eq!(allocator.free(*extent), Ok(()));
        }
        let rebuilt = OffsetAllocator::rebuild(256, kept.iter().rev().map(|(_, extent)| **extent));
        let rebuilt = rebuilt.expect("live extents are disjoint");
        prop_assert_eq!(rebuilt.used(), allocator.used());
        prop_assert!(rebuilt.free_extents().eq(allocator.free_extents()));
    }
}

#[test]
fn a_second_free_of_the_same_extent_is_refused() {
    let mut allocator = OffsetAllocator::new(100);
    let extent = allocator.alloc(10).expect("100 bytes are free");
    assert_eq!(allocator.free(extent), Ok(()));
    let free = Extent::new(0, 100);
    assert_eq!(allocator.free(extent), Err(AllocatorError::AlreadyFree { extent, free }));
    assert_eq!(allocator.used(), 0);
}

#[test]
fn an_extent_that_wraps_around_is_refused() {
    let mut allocator = OffsetAllocator::new(100);
    let extent = Extent::new(u64::MAX, 2);
    assert_eq!(allocator.free(extent), Err(AllocatorError::OutOfRange { extent, capacity: 100 }));
}

#[test]
fn rebuilding_from_overlapping_extents_is_refused() {
    let extents = [Extent::new(10, 10), Extent::new(15, 1)];
    let refused = OffsetAllocator::rebuild(100, extents).expect_err("15 lies in 10..20");
    assert_eq!(refused, AllocatorError::Overlap { first: extents[0], second: extents[1] });
}

#[test]
fn an_allocator_without_capacity_gives_nothing() {
    let mut allocator = OffsetAllocator::new(0);
    assert_eq!(allocator.alloc(1), None);
    assert_eq!(allocator.largest_free(), 0);
}

/// Two holders of one range: the one that gives bytes away can no longer hand them out, the one
/// that takes them can.
#[derive(Debug, Clone)]
enum Shared {
    Alloc(usize, u64),
    Free(prop::sample::Index),
    Cede { from: usize, bytes: u64, alignment: u64 },
    CedeWithin { from: usize, range: Extent },
}

fn shared() -> impl Strategy<Value = Vec<Shared>> {
    let cede = (0_usize..2, 0_u64..60, 1_u64..8);
    let op = prop_oneof![
        4 => (0_usize..2, 1_u64..30).prop_map(|(holder, bytes)| Shared::Alloc(holder, bytes)),
        3 => any::<prop::sample::Index>().prop_map(Shared::Free),
        2 => (0_usize..2, 0_u64..90, 0_u64..40).prop_map(|(from, offset, bytes)| {
            Shared::CedeWithin { from, range: Extent::new(offset, bytes) }
        }),
        3 => cede.prop_map(|(from, bytes, alignment)| Shared::Cede { from, bytes, alignment }),
    ];
    prop::collection::vec(op, 1..200)
}

proptest! {
    #[test]
    fn each_byte_has_one_holder_whatever_they_cede(ops in shared()) {
        let limit = CAPACITY as u64;
        let mut holders = [OffsetAllocator::new(limit), OffsetAllocator::holding_nothing(limit)];
        let mut live: Vec<(usize, Extent)> = Vec::new();
        for op in ops {
            match op {
                Shared::Alloc(holder, bytes) => {
                    let longest = holders[holder].largest_free();
                    let got = holders[holder].alloc(bytes);
                    prop_assert_eq!(got.is_some(), longest >= bytes);
                    live.extend(got.map(|extent| (holder, extent)));
                }
                Shared::Free(index) => {
                    if !live.is_empty() {
                        let (holder, extent) = live.swap_remove(index.index(live.len()));
                        prop_assert_eq!(holders[holder].free(extent), Ok(()));
                    }
                }
                Shared::CedeWithin { from, range } => {
                    let end = range.offset + range.bytes;
                    let overlap = |free: Extent| {
                        let to = end.min(free.offset + free.bytes);
                        to.saturating_sub(range.offset.max(free.offset))
                    };
                    let free_bytes: u64 = holders[from].free_extents().map(overlap).sum();
                    let ceded = holders[from].cede_within(range);
                    prop_assert_eq!(ceded.iter().map(|it| it.bytes).sum::<u64>(), free_bytes);
                    prop_assert_eq!(holders[from].free_extents().map(overlap).sum::<u64>(), 0);
                    for extent in ceded {
                        prop_assert_eq!(overlap(extent), extent.bytes, "it lies in the range");
                        prop_assert_eq!(holders[1 - from].receive(extent), Ok(()));
                    }
                }
                Shared::Cede { from, bytes, alignment } => {
                    let longest = holders[from].largest_free();
                    let ceded = holders[from].cede(bytes, alignment);
                    prop_assert_eq!(ceded.is_some(), longest > 0 && bytes > 0);
                    if let Some(extent) = ceded {
                        prop_assert!(extent.bytes >= bytes.min(longest));
                        prop_assert_eq!(holders[1 - from].receive(extent), Ok(()));
                        prop_assert!(holders[1 - from].receive(extent).is_err(), "held already");
                    }
                }
            }
            holders.iter().for_each(OffsetAllocator::check);
            prop_assert_eq!(holders[0].capacity() + holders[1].capacity(), limit);
            let taken = live.iter().map(|(_, extent)| *extent);
            let free = holders.iter().flat_map(OffsetAllocator::free_extents);
            let whole = OffsetAllocator::rebuild(limit, taken.chain(free)).expect("no overlap");
            prop_assert_eq!(whole.free_bytes(), 0, "nothing is lost");
        }
    }
}
