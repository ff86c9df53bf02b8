//! The lists of replicas in the order of their eviction. Invariant: a replica is in one of them, or
//! in none.

/// One of the lists of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListName {
    /// Evictable, now or when the lease has ended.
    Evictable(Class, LeasePhase),
    /// Evictable, and before the others: a copy lies on a disk, or none is to be had.
    Ready,
    /// Not evictable: hard-pinned, unfinished, being copied to a disk, or in a group with such a
    /// member.
    Held,
    /// Evictable before all others: its key was hot, and has others.
    Extra,
    /// It lies on a disk; the oldest copies come first.
    OnDisk,
}

impl ListName {
    pub(crate) const ALL: [Self; LISTS] = {
        use Class::{Cold, Hot, Pinned};
        use LeasePhase::{Free, Probed, Read};
        [
            Self::Evictable(Cold, Free),
            Self::Evictable(Cold, Probed),
            Self::Evictable(Cold, Read),
            Self::Evictable(Hot, Free),
            Self::Evictable(Hot, Probed),
            Self::Evictable(Hot, Read),
            Self::Evictable(Pinned, Free),
            Self::Evictable(Pinned, Probed),
            Self::Evictable(Pinned, Read),
            Self::Ready,
            Self::Held,
            Self::Extra,
            Self::OnDisk,
        ]
    };

    /// All lists that objects and groups go through.
    pub(crate) fn evictable() -> impl Iterator<Item = Self> {
        let is_other = |list: &Self| matches!(list, Self::Held | Self::Extra | Self::OnDisk);
        Self::ALL.into_iter().filter(move |list| !is_other(list))
    }

    pub(crate) fn slot(self) -> usize {
        match self {
            Self::Evictable(class, phase) => class as usize * 3 + phase as usize,
            Self::Ready => LISTS - 4,
            Self::Held => LISTS - 3,
            Self::Extra => LISTS - 2,
            Self::OnDisk => LISTS - 1,
        }
    }
}

/// How much an object is worth keeping; the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Never read.
    Cold,
    /// Read at least once.
    Hot,
    /// Soft-pinned.
    Pinned,
}

impl Class {
    pub(crate) fn of(pinned: bool, hit: bool) -> Self {
        match (pinned, hit) {
            (true, _) => Self::Pinned,
            (false, true) => Self::Hot,
            (false, false) => Self::Cold,
        }
    }
}

/// Which lease was the last one granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeasePhase {
    /// None since it was put.
    Free,
    /// An existence probe's; may be broken when space is needed.
    Probed,
    /// A reader's; never broken.
    Read,
}

pub(crate) const LISTS: usize = 13;
