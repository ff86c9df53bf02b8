//! Which records of a journal still say where an object lies.
//! Invariant: no two of them overlap.

use perigee_schemas::extent::extent_bytes;
use perigee_schemas::record::{Record, RecordOp};
use std::collections::BTreeMap;

/// A commit: what is sorted is small, and records stay where they are.
#[derive(Clone, Copy)]
struct Commit {
    offset: u64,
    end: u64,
    generation: u64,
    /// Place of its record among all.
    at: u32,
    /// What the flags are now.
    flags: u8,
    is_freed: bool,
}

/// The commits that were neither freed nor written over, with the flags that they have now, in
/// order of their offsets. Of two extents that overlap the one with the larger generation was there
/// last: the other one was freed before, and only the record of that is missing. It does not come
/// back when the last one is freed.
pub fn live_records<'a>(records: impl Iterator<Item = Record<'a>>) -> Vec<Record<'a>> {
    let all: Vec<Record<'a>> = records.take(u32::MAX as usize).collect();
    let live = without_overlaps(outcomes(&all));
    live.into_iter().map(|live| Record { flags: live.flags, ..all[live.at as usize] }).collect()
}

/// What the records of each allocation say in the end, in order of offsets.
fn outcomes(all: &[Record<'_>]) -> Vec<Commit> {
    // The place keeps the order of the records of one allocation.
    let mut order: Vec<(u64, u32)> =
        (0..).zip(all).map(|(at, record)| (record.generation, at)).collect();
    order.sort_unstable();
    let allocations = order.chunk_by(|a, b| a.0 == b.0);
    let mut commits: Vec<Commit> =
        allocations.filter_map(|allocation| outcome(all, allocation)).collect();
    commits.sort_unstable_by_key(|commit| (commit.offset, commit.generation));
    commits
}

/// What the records of one allocation say in the end.
fn outcome(all: &[Record<'_>], allocation: &[(u64, u32)]) -> Option<Commit> {
    let mut known: Option<Commit> = None;
    for (_, at) in allocation {
        let record = &all[*at as usize];
        match (record.op, &mut known) {
            (RecordOp::Commit, _) => known = Some(commit(record, *at)),
            (RecordOp::Free, Some(known)) => known.is_freed = true,
            (RecordOp::Flags, Some(known)) => known.flags = record.flags,
            // What is not about extents is no entry of a journal.
            _ => {}
        }
    }
    known
}

fn commit(record: &Record<'_>, at: u32) -> Commit {
    Commit {
        offset: record.offset,
        end: record.offset.saturating_add(extent_bytes(record.payload_bytes)),
        generation: record.generation,
        at,
        flags: record.flags,
        is_freed: false,
    }
}

/// Leaves out what was freed, and what a later allocation overlaps, of commits in order of their
/// offsets.
fn without_overlaps(sorted: Vec<Commit>) -> Vec<Commit> {
    let mut kept = Vec::with_capacity(sorted.len());
    let mut run: Vec<Commit> = Vec::new();
    let mut run_end = 0;
    for commit in sorted {
        if commit.offset >= run_end {
            settle(&mut run, &mut kept);
        }
        run_end = run_end.max(commit.end);
        run.push(commit);
    }
    settle(&mut run, &mut kept);
    kept
}

/// Keeps what is valid of a run of commits of which each overlaps one before it.
fn settle(run: &mut Vec<Commit>, kept: &mut Vec<Commit>) {
    if run.len() <= 1 {
        kept.extend(run.drain(..).filter(|commit| !commit.is_freed));
        return;
    }
    let from = kept.len();
    run.sort_unstable_by_key(|commit| std::cmp::Reverse(commit.generation));
    // What later allocations have taken, also those that were overlapped themselves.
    let mut taken: BTreeMap<u64, u64> = BTreeMap::new();
    for commit in run.drain(..) {
        if cover(&mut taken, commit.offset, commit.end) && !commit.is_freed {
            kept.push(commit);
        }
    }
    kept[from..].sort_unstable_by_key(|commit| commit.offset);
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
