//! What any thread can see of a disk. Invariant: the disk's shard writes it, others read it.

use super::file_use::FileUse;
use super::health::DiskState;
use perigee_metrics::DiskTimes;
use perigee_metrics::disk::DiskTimeCells;
use perigee_schemas::DiskHealth;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How a disk does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskStatus {
    /// How far it can be used, and why.
    pub state: DiskState,
    /// Whether nothing can be written there until it is opened again.
    pub must_reopen: bool,
    /// Most bytes of its segments.
    pub capacity_bytes: u64,
    /// Bytes of segments that can be read.
    pub used_bytes: u64,
    /// The first segment that can be read.
    pub oldest: u32,
    /// What it has done since it was opened.
    pub counters: DiskCounters,
    /// How long reads of its files took.
    pub reads: DiskTimes,
    /// How long writes and syncs of its files took.
    pub writes: DiskTimes,
}

/// What a disk has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounters {
    /// Objects that were written.
    pub written_objects: u64,
    /// Bytes of their images.
    pub image_bytes: u64,
    /// All bytes that were written.
    pub written_bytes: u64,
    /// Pieces that were read, not for promotions.
    pub read_pieces: u64,
    /// Those of them whose bytes a read of another call has brought.
    pub joined_pieces: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// Objects to be promoted that were read for that.
    pub promotions_read: u64,
    /// The same whose bytes a read for a client has brought.
    pub promotions_joined: u64,
    /// Copies that were made void.
    pub buried: u64,
    /// Copies that were found to be other bytes than were written.
    pub damaged: u64,
    /// Operations that failed.
    pub errors: u64,
}

macro_rules! cells {
    ($($name:ident),*) => {
        /// Counters as the shard writes them.
        #[derive(Debug, Default)]
        pub(super) struct CounterCells { $(pub(super) $name: AtomicU64),* }

        impl CounterCells {
            fn read(&self) -> DiskCounters {
                DiskCounters { $($name: self.$name.load(Ordering::Relaxed)),* }
            }
        }
    };
}

cells!(
    written_objects,
    image_bytes,
    written_bytes,
    read_pieces,
    joined_pieces,
    read_bytes,
    promotions_read,
    promotions_joined,
    buried,
    damaged,
    errors
);

/// Adds to a counter.
pub(super) fn count(cell: &AtomicU64, more: u64) {
    cell.fetch_add(more, Ordering::Relaxed);
}

/// What the shard of a disk shares with its door.
#[derive(Debug, Default)]
pub(super) struct DiskCells {
    state: Mutex<DiskState>,
    oldest: AtomicU32,
    pub(super) must_reopen: AtomicBool,
    pub(super) capacity_bytes: AtomicU64,
    pub(super) used_bytes: AtomicU64,
    pub(super) counters: CounterCells,
    reads: DiskTimeCells,
    writes: DiskTimeCells,
}

impl DiskCells {
    /// An operation on a file has taken so long.
    pub(super) fn note_time(&self, work: FileUse, took: Duration) {
        match work {
            FileUse::Read => self.reads.record(took),
            FileUse::Write => self.writes.record(took),
        }
    }

    pub(super) fn state(&self) -> DiskState {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes note of a state; true if its health is another one. A reason may count seconds.
    pub(super) fn set_state(&self, state: DiskState) -> bool {
        let is_well = state.health == DiskHealth::Healthy;
        debug_assert_eq!(is_well, state.reason.is_empty(), "what is wrong has a reason in words");
        let mut known = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_other = known.health != state.health;
        *known = state;
        is_other
    }

    pub(super) fn oldest(&self) -> u32 {
        self.oldest.load(Ordering::Acquire)
    }

    pub(super) fn set_oldest(&self, oldest: u32) {
        debug_assert!(self.oldest() <= oldest, "what has gone does not come back");
        self.oldest.store(oldest, Ordering::Release);
    }

    pub(super) fn status(&self) -> DiskStatus {
        DiskStatus {
            state: self.state(),
            must_reopen: self.must_reopen.load(Ordering::Relaxed),
            capacity_bytes: self.capacity_bytes.load(Ordering::Relaxed),
            used_bytes: self.used_bytes.load(Ordering::Relaxed),
            oldest: self.oldest(),
            counters: self.counters.read(),
            reads: self.reads.totals(),
            writes: self.writes.totals(),
        }
    }
}
