//! What callers saw of one key.
//! Invariant: what is judged here is wrong under every order of the calls that overlap.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// One put of a key.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) payload: Vec<u8>,
    pub(crate) checksum: u32,
    pub(super) is_pinned: bool,
    /// Whether the master has heard that a disk has it.
    pub(super) is_demoted: Cell<bool>,
    /// When its start was asked for, and when that was answered.
    pub(super) asked: Duration,
    pub(super) started: Cell<Option<Duration>>,
    /// Whether its end was asked for: from then on it may be found.
    pub(super) is_ending: Cell<bool>,
    /// When its end was answered: from then on it, or a later one, is to be found.
    pub(super) ended: Cell<Option<Duration>>,
}

/// Between these moments a key was not there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Absence {
    pub(super) asked: Duration,
    pub(super) answered: Duration,
    /// Whether no owner can bring it back that has not said yet what it has.
    pub(super) is_firm: bool,
}

/// From when on what was seen of a key binds a restarted master.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Binding {
    /// A master has ended then, and some owner may not have heard its last words.
    pub(super) all: Duration,
    /// An owner has begun then to say what it has.
    pub(super) lookups: Duration,
}

/// A reader's right to find a key's bytes where a lookup has found it.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(super) asked: Duration,
    pub(super) answered: Duration,
    pub(crate) end: Duration,
    /// Which life of the master has granted it.
    pub(crate) epoch: u64,
    pub(super) is_given_back: Cell<bool>,
}

#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) versions: Vec<Rc<Version>>,
    pub(super) absences: Vec<Absence>,
    pub(super) leases: Vec<Rc<Lease>>,
    /// When each removal was asked for, whatever came of it, and its answer.
    pub(super) removals: Vec<(Duration, Rc<Cell<Option<Duration>>>)>,
}

impl Lease {
    /// The reader will not read under it any more.
    pub(crate) fn give_back(&self) {
        self.is_given_back.set(true);
    }

    /// Whether it was running from one moment to another, in this life of the master.
    pub(super) fn holds(&self, from: Duration, to: Duration, epoch: u64) -> bool {
        let is_granted = self.epoch == epoch && self.answered <= from;
        is_granted && to < self.end && !self.is_given_back.get()
    }
}

impl Version {
    fn has_ended_by(&self, time: Duration) -> bool {
        self.ended.get().is_some_and(|ended| ended <= time)
    }

    fn has_started_before(&self, other: &Self) -> bool {
        self.started.get().is_some_and(|started| started < other.asked)
    }
}

impl History {
    pub(super) fn version(&self, checksum: u32) -> Option<Rc<Version>> {
        let is_it =
            |version: &&Rc<Version>| version.checksum == checksum && version.is_ending.get();
        self.versions.iter().rfind(is_it).cloned()
    }

    /// Whether a put that started later had been acknowledged by that time.
    pub(super) fn is_outdated(&self, version: &Version, asked: Duration, from: Binding) -> bool {
        let replaces = |other: &Rc<Version>| {
            let binds = !other.has_ended_by(from.all);
            other.has_ended_by(asked) && version.has_started_before(other) && binds
        };
        self.versions.iter().any(replaces)
    }

    /// Whether the key was not there between the version's end and that time.
    pub(super) fn was_gone(&self, version: &Version, asked: Duration, from: Binding) -> bool {
        let between = |gone: &Absence| {
            let from = if gone.is_firm { from.all } else { from.all.max(from.lookups) };
            let binds = gone.asked >= from;
            gone.answered <= asked && version.has_ended_by(gone.asked) && binds
        };
        self.absences.iter().any(between)
    }

    /// Whether what the key holds is what a lease was granted on: no put can have ended since.
    pub(super) fn is_of(&self, lease: &Lease) -> bool {
        let is_before =
            |version: &Rc<Version>| !version.is_ending.get() || version.has_ended_by(lease.asked);
        self.versions.iter().all(is_before)
    }

    /// Whether the last version had ended by that time, a disk has it and none before, and nothing
    /// that may have replaced or removed it was asked for since it began. Of a key of which a disk
    /// may not know yet that an older copy is void, no copy is believed.
    pub(super) fn is_on_disk(&self, asked: Duration) -> bool {
        let is_kept = |version: &Rc<Version>| {
            let is_before = |other: &Rc<Version>| {
                Rc::ptr_eq(other, version)
                    || !other.is_ending.get()
                    || (other.has_ended_by(version.asked) && !other.is_demoted.get())
            };
            let mut removals = self.removals.iter();
            let is_removed = |answered: &Cell<Option<Duration>>| {
                answered.get().is_none_or(|answered| answered >= version.asked)
            };
            version.is_demoted.get()
                && version.has_ended_by(asked)
                && self.versions.iter().all(is_before)
                && !removals.any(|(_, answered)| is_removed(answered))
        };
        self.versions.iter().any(is_kept)
    }

    /// Whether a version, pinned if need be and put since that moment, had ended by that time and
    /// no removal came after its start.
    pub(super) fn is_there(&self, asked: Duration, is_pinned: bool, since: Duration) -> bool {
        let is_kept = |version: &Rc<Version>| {
            let is_before = |answered: &Cell<Option<Duration>>| {
                answered.get().is_some_and(|answered| answered < version.asked)
            };
            let mut removals = self.removals.iter();
            (version.is_pinned || !is_pinned)
                && version.asked >= since
                && version.has_ended_by(asked)
                && removals.all(|(_, answered)| is_before(answered))
        };
        self.versions.iter().any(is_kept)
    }
}
