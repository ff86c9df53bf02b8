//! Which records of a journal still say where an object lies.
//! Invariant: no two of them overlap.

use perigee_schemas::extent::extent_bytes;
use perigee_schemas::record::{Record, RecordOp};
use std::collections::BTreeMap;

/// The commits that were neither freed nor written over, with the flags that they have now, in
/// order of their offsets. Of two extents that overlap the one with the larger generation is there:
/// the other one was freed before, and only the record of that is missing.
pub fn live_records<'a>(records: impl Iterator<Item = Record<'a>>) -> Vec<Record<'a>> {
    let mut all: Vec<Record<'a>> = records.collect();
    // Keeps the order of the records of one allocation. They were appended nearly in this order.
    all.sort_by_key(|record| record.generation);
    let allocations = all.chunk_by(|a, b| a.generation == b.generation);
    let mut live: Vec<Record<'a>> = allocations.filter_map(outcome).collect();
    live.sort_unstable_by_key(|record| (record.offset, record.generation));
    without_overlaps(live)
}

/// What the records of one allocation say in the end.
fn outcome<'a>(records: &[Record<'a>]) -> Option<Record<'a>> {
    let mut live: Option<Record<'a>> = None;
    for record in records {
        match record.op {
            RecordOp::Commit => live = Some(*record),
            RecordOp::Free => live = None,
            RecordOp::Flags => live = live.map(|commit| Record { flags: record.flags, ..commit }),
        }
    }
    live
}

/// Leaves out what a later allocation overlaps, of records in order of their offsets.
fn without_overlaps(sorted: Vec<Record<'_>>) -> Vec<Record<'_>> {
    let mut kept = Vec::with_capacity(sorted.len());
    let mut run: Vec<Record<'_>> = Vec::new();
    let mut run_end = 0;
    for record in sorted {
        if record.offset >= run_end {
            settle(&mut run, &mut kept);
        }
        run_end = run_end.max(end(&record));
        run.push(record);
    }
    settle(&mut run, &mut kept);
    kept
}

/// Keeps what is valid of a run of records of which each overlaps one before it.
fn settle<'a>(run: &mut Vec<Record<'a>>, kept: &mut Vec<Record<'a>>) {
    if run.len() <= 1 {
        kept.append(run);
        return;
    }
    let from = kept.len();
    run.sort_unstable_by_key(|record| std::cmp::Reverse(record.generation));
    // What later allocations have taken, also those that were overlapped themselves.
    let mut taken: BTreeMap<u64, u64> = BTreeMap::new();
    for record in run.drain(..) {
        if cover(&mut taken, record.offset, end(&record)) {
            kept.push(record);
        }
    }
    kept[from..].sort_unstable_by_key(|record| record.offset);
}

/// Adds a range to disjoint ones; whether it overlaps none of them.
fn cover(taken: &mut BTreeMap<u64, u64>, mut start: u64, mut end: u64) -> bool {
    let mut is_free = true;
    while let Some((&low, &high)) = taken.range(..end).next_back()
        && high > start
    {
        is_free = false;
        taken.remove(&low);
        (start, end) = (start.min(low), end.max(high));
    }
    taken.insert(start, end);
    is_free
}

fn end(record: &Record<'_>) -> u64 {
    record.offset.saturating_add(extent_bytes(record.payload_bytes))
}
