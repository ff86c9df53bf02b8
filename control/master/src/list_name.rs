//! The lists of replicas in the order of their eviction. Invariant: a replica is in one of them, or
//! in none.

use crate::policy::{KINDS, ObjectKind};

/// One of the lists of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListName {
    /// Evictable, now or when the lease has ended.
    Evictable(Class, LeasePhase),
    /// Evictable, and before the others: a copy lies on a disk, or none can be made.
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
        let mut all = [Self::OnDisk; LISTS];
        let mut at = 0;
        while at < EVICTABLE {
            let phase = match at % 3 {
                0 => LeasePhase::Free,
                1 => LeasePhase::Probed,
                _ => LeasePhase::Read,
            };
            let class =
                if at / 3 < KINDS { Class::Plain(ObjectKind::at(at / 3)) } else { Class::Pinned };
            all[at] = Self::Evictable(class, phase);
            at += 1;
        }
        (all[EVICTABLE], all[EVICTABLE + 1], all[EVICTABLE + 2]) =
            (Self::Ready, Self::Held, Self::Extra);
        all
    };

    /// All lists that objects and groups go through.
    pub(crate) fn evictable() -> impl Iterator<Item = Self> {
        let is_other = |list: &Self| matches!(list, Self::Held | Self::Extra | Self::OnDisk);
        Self::ALL.into_iter().filter(move |list| !is_other(list))
    }

    pub(crate) fn slot(self) -> usize {
        match self {
            Self::Evictable(class, phase) => class.index() * 3 + phase as usize,
            Self::Ready => LISTS - 4,
            Self::Held => LISTS - 3,
            Self::Extra => LISTS - 2,
            Self::OnDisk => LISTS - 1,
        }
    }
}

/// How much an object is worth keeping; what is pinned is worth most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// As much as the policy says of its kind.
    Plain(ObjectKind),
    /// Soft-pinned.
    Pinned,
}

impl Class {
    pub(crate) fn of(pinned: bool, kind: ObjectKind) -> Self {
        if pinned { Self::Pinned } else { Self::Plain(kind) }
    }

    /// All that are not pinned.
    pub(crate) fn plain() -> impl Iterator<Item = Self> {
        ObjectKind::all().map(Self::Plain)
    }

    fn index(self) -> usize {
        match self {
            Self::Plain(kind) => kind.index(),
            Self::Pinned => KINDS,
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

impl LeasePhase {
    /// The phase at a time, of leases that end at these.
    pub(crate) fn at(now_ms: u64, read_end_ms: u64, probe_end_ms: u64) -> Self {
        if read_end_ms > now_ms {
            Self::Read
        } else if probe_end_ms > now_ms {
            Self::Probed
        } else {
            Self::Free
        }
    }
}

/// The slots of what is evictable and not pinned...
pub(crate) const PLAIN: u64 = (1 << (KINDS * 3)) - 1;
/// ... and of those the ones whose last lease was a reader's.
pub(crate) const PLAIN_READ: u64 = {
    let (mut slots, mut kind) = (0, 0);
    while kind < KINDS {
        slots |= 1 << (kind * 3 + LeasePhase::Read as usize);
        kind += 1;
    }
    slots
};
/// Lists by class and lease.
const EVICTABLE: usize = (KINDS + 1) * 3;
pub(crate) const LISTS: usize = EVICTABLE + 4;
const _: () = assert!(LISTS <= u64::BITS as usize);
