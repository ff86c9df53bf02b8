//! What the store promises its callers, checked against what they saw: every call with its
//! beginning and its end.
//!
//! Puts of a key are ordered by their starts at the master. The model knows only that one started
//! before another if it was answered before the other was asked for; of calls that overlap, any
//! order is right. A call without an answer may have been carried out, or be carried out later.
//! Invariant: what is refused here is wrong under every order.

use crate::world::World;
use perigee_memory::crc32c;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// Longest that bytes stay on their way after their writer has given up, with kernels that send
/// again and again.
const STRAY_BYTES: Duration = Duration::from_secs(300);

/// One put of a key.
#[derive(Debug)]
pub(super) struct Version {
    pub(super) payload: Vec<u8>,
    pub(super) checksum: u32,
    is_pinned: bool,
    /// When its start was asked for, and when that was answered.
    asked: Duration,
    started: Cell<Option<Duration>>,
    /// Whether its end was asked for: from then on it may be found.
    is_ending: Cell<bool>,
    /// When its end was answered: from then on it, or a later one, is to be found.
    ended: Cell<Option<Duration>>,
}

/// Between these moments a key was not there.
#[derive(Clone, Copy, Debug)]
struct Absence {
    asked: Duration,
    answered: Duration,
}

/// A reader's right to find a key's bytes where a lookup has found it.
#[derive(Debug)]
pub(super) struct Lease {
    asked: Duration,
    answered: Duration,
    pub(super) end: Duration,
    /// Which life of the master has granted it.
    pub(super) epoch: u64,
    is_given_back: Cell<bool>,
}

#[derive(Debug, Default)]
struct History {
    versions: Vec<Rc<Version>>,
    absences: Vec<Absence>,
    leases: Vec<Rc<Lease>>,
    /// When each removal was asked for, whatever came of it, and its answer.
    removals: Vec<(Duration, Rc<Cell<Option<Duration>>>)>,
}

/// All keys.
pub(super) struct Contract {
    world: Rc<World>,
    keys: RefCell<BTreeMap<String, History>>,
    is_calm: bool,
    /// When a master or the membership of a segment began again: writers of before may still write.
    upheaval: Cell<Option<Duration>>,
}

/// A removal that was asked for.
pub(super) struct Removal {
    key: String,
    asked: Duration,
    answered: Rc<Cell<Option<Duration>>>,
}

impl Contract {
    pub(super) fn new(world: &Rc<World>, is_calm: bool) -> Self {
        Self { world: world.clone(), keys: RefCell::default(), is_calm, upheaval: Cell::new(None) }
    }

    pub(super) fn is_calm(&self) -> bool {
        self.is_calm
    }

    /// A put is about to be asked for.
    pub(super) fn begin_put(&self, key: &str, payload: Vec<u8>, is_pinned: bool) -> Rc<Version> {
        let version = Rc::new(Version {
            checksum: crc32c(&payload),
            payload,
            is_pinned,
            asked: self.world.now(),
            started: Cell::new(None),
            is_ending: Cell::new(false),
            ended: Cell::new(None),
        });
        let mut keys = self.keys.borrow_mut();
        let history = keys.entry(key.to_owned()).or_default();
        history.versions.push(version.clone());
        version
    }

    /// The master has reserved space.
    pub(super) fn note_started(&self, version: &Version) {
        version.started.set(Some(self.world.now()));
    }

    /// The client is about to report that the bytes are there.
    pub(super) fn note_ending(&self, version: &Version) {
        version.is_ending.set(true);
    }

    /// The master has answered that these bytes, or later ones, can be read.
    pub(super) fn note_ended(&self, version: &Version) {
        version.ended.set(Some(self.world.now()));
    }

    /// A removal is about to be asked for.
    pub(super) fn begin_removal(&self, key: &str) -> Removal {
        let removal =
            Removal { key: key.to_owned(), asked: self.world.now(), answered: Rc::default() };
        let mut keys = self.keys.borrow_mut();
        let history = keys.entry(key.to_owned()).or_default();
        let noted = (removal.asked, removal.answered.clone());
        history.removals.push(noted);
        removal
    }

    /// The master has answered a removal; then the key is not there, unless it was refused.
    pub(super) fn note_removal(&self, removal: &Removal, is_gone: bool) {
        removal.answered.set(Some(self.world.now()));
        if is_gone {
            self.note_absent(&removal.key, removal.asked);
        }
    }

    /// A lookup that was asked for at that time has granted a lease.
    pub(super) fn note_lease(
        &self,
        key: &str,
        asked: Duration,
        ttl_ms: u64,
        epoch: u64,
    ) -> Rc<Lease> {
        let lease = Rc::new(Lease {
            asked,
            answered: self.world.now(),
            end: asked + Duration::from_millis(ttl_ms),
            epoch,
            is_given_back: Cell::new(false),
        });
        let mut keys = self.keys.borrow_mut();
        let history = keys.entry(key.to_owned()).or_default();
        history.leases.push(lease.clone());
        lease
    }

    /// The master, in this life, has removed a key without force: no lease on it may be running.
    pub(super) fn check_no_lease(&self, removal: &Removal, epoch: u64) {
        let keys = self.keys.borrow();
        let history = keys.get(&removal.key);
        let is_broken = history.is_some_and(|history| {
            let now = self.world.now();
            let mut leases = history.leases.iter();
            leases.any(|lease| lease.holds(removal.asked, now, epoch) && history.is_of(lease))
        });
        self.world.check(!is_broken, || {
            format!("{} was removed without force under a lease", removal.key)
        });
    }

    /// The master has answered that a key is not there.
    pub(super) fn note_absent(&self, key: &str, asked: Duration) {
        let answered = self.world.now();
        let mut keys = self.keys.borrow_mut();
        let history = keys.entry(key.to_owned()).or_default();
        history.absences.push(Absence { asked, answered });
    }

    /// A lookup that was asked for at that time has found a key with this checksum; returns the
    /// version it must be.
    pub(super) fn found(&self, key: &str, checksum: u32, asked: Duration) -> Option<Rc<Version>> {
        let keys = self.keys.borrow();
        let found = keys.get(key).and_then(|history| history.version(checksum));
        let Some((history, version)) = keys.get(key).zip(found) else {
            self.world.violate(format!("The master found {key} as no client has put it"));
            return None;
        };
        self.world.check(!history.is_outdated(&version, asked), || {
            format!("The master found {key} as it was before a put that was acknowledged")
        });
        self.world.check(!history.was_gone(&version, asked), || {
            format!("The master found {key} again after it was gone")
        });
        Some(version)
    }

    /// Whether nothing but a fault can have taken a key before a call of that time. Where keys were
    /// evicted, that holds for those that were pinned hard and not removed since.
    pub(super) fn must_be_there(&self, key: &str, asked: Duration, were_evicted: bool) -> bool {
        let keys = self.keys.borrow();
        let is_there = |history: &History| history.is_there(asked, were_evicted);
        self.is_calm && keys.get(key).is_some_and(is_there)
    }

    pub(super) fn note_upheaval(&self) {
        self.upheaval.set(Some(self.world.now()));
    }

    /// Whether no client can still be writing into space from an earlier master or membership.
    pub(super) fn is_settled(&self) -> bool {
        let now = self.world.now();
        self.upheaval.get().is_none_or(|at| now - at > STRAY_BYTES)
    }
}

impl Lease {
    /// The reader will not read under it any more.
    pub(super) fn give_back(&self) {
        self.is_given_back.set(true);
    }

    /// Whether it was running from one moment to another, in this life of the master.
    fn holds(&self, from: Duration, to: Duration, epoch: u64) -> bool {
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
    fn version(&self, checksum: u32) -> Option<Rc<Version>> {
        let is_it =
            |version: &&Rc<Version>| version.checksum == checksum && version.is_ending.get();
        self.versions.iter().rfind(is_it).cloned()
    }

    /// Whether a put that started later had been acknowledged by that time.
    fn is_outdated(&self, version: &Version, asked: Duration) -> bool {
        let replaces =
            |other: &Rc<Version>| other.has_ended_by(asked) && version.has_started_before(other);
        self.versions.iter().any(replaces)
    }

    /// Whether the key was not there between the version's end and that time.
    fn was_gone(&self, version: &Version, asked: Duration) -> bool {
        let between = |gone: &Absence| gone.answered <= asked && version.has_ended_by(gone.asked);
        self.absences.iter().any(between)
    }

    /// Whether what the key holds is what a lease was granted on: no put can have ended since.
    fn is_of(&self, lease: &Lease) -> bool {
        let is_before =
            |version: &Rc<Version>| !version.is_ending.get() || version.has_ended_by(lease.asked);
        self.versions.iter().all(is_before)
    }

    /// Whether a version, pinned if need be, had ended by that time and no removal came after its
    /// start.
    fn is_there(&self, asked: Duration, is_pinned: bool) -> bool {
        let is_kept = |version: &Rc<Version>| {
            let is_before = |answered: &Cell<Option<Duration>>| {
                answered.get().is_some_and(|answered| answered < version.asked)
            };
            let mut removals = self.removals.iter();
            (version.is_pinned || !is_pinned)
                && version.has_ended_by(asked)
                && removals.all(|(_, answered)| is_before(answered))
        };
        self.versions.iter().any(is_kept)
    }
}
