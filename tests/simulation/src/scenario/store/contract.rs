//! What the store promises its callers, checked against what they saw: every call with its beginning and its end.
//!
//! Puts of a key are ordered by their starts at the master. The model knows only that one started before another if it was
//! answered before the other was asked for; of calls that overlap, any order is right. A call without an answer may have
//! been carried out, or be carried out later. Invariant: what is refused here is wrong under every order.

use crate::world::World;
use perigee_memory::crc32c;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// Longest that bytes stay on their way after their writer has given up, with kernels that send again and again.
const STRAY_BYTES: Duration = Duration::from_secs(300);

/// One put of a key.
#[derive(Debug)]
pub(super) struct Version {
    pub(super) payload: Vec<u8>,
    pub(super) checksum: u32,
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

#[derive(Debug, Default)]
struct History {
    versions: Vec<Rc<Version>>,
    absences: Vec<Absence>,
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
        Self {
            world: world.clone(),
            keys: RefCell::default(),
            is_calm,
            upheaval: Cell::new(None),
        }
    }

    pub(super) fn is_calm(&self) -> bool {
        self.is_calm
    }

    /// A put is about to be asked for.
    pub(super) fn begin_put(&self, key: &str, payload: Vec<u8>) -> Rc<Version> {
        let version = Rc::new(Version {
            checksum: crc32c(&payload),
            payload,
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

    /// The master is about to be told that the bytes are there.
    pub(super) fn note_ending(&self, version: &Version) {
        version.is_ending.set(true);
    }

    /// The master has answered that these bytes, or later ones, can be read.
    pub(super) fn note_ended(&self, version: &Version) {
        version.ended.set(Some(self.world.now()));
    }

    /// A removal is about to be asked for.
    pub(super) fn begin_removal(&self, key: &str) -> Removal {
        let removal = Removal {
            key: key.to_owned(),
            asked: self.world.now(),
            answered: Rc::default(),
        };
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

    /// The master has answered that a key is not there.
    pub(super) fn note_absent(&self, key: &str, asked: Duration) {
        let answered = self.world.now();
        let mut keys = self.keys.borrow_mut();
        let history = keys.entry(key.to_owned()).or_default();
        history.absences.push(Absence { asked, answered });
    }

    /// A lookup that was asked for at that time has found a key with this checksum; returns the version it must be.
    pub(super) fn found(&self, key: &str, checksum: u32, asked: Duration) -> Option<Rc<Version>> {
        let keys = self.keys.borrow();
        let found = keys.get(key).and_then(|history| history.version(checksum));
        let Some((history, version)) = keys.get(key).zip(found) else {
            self.world
                .violate(format!("The master found {key} as nobody has put it"));
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

    /// Whether nothing but eviction can have taken a key that a lookup of that time did not find.
    pub(super) fn must_be_there(&self, key: &str, asked: Duration) -> bool {
        let keys = self.keys.borrow();
        self.is_calm && keys.get(key).is_some_and(|history| history.is_there(asked))
    }

    pub(super) fn note_upheaval(&self) {
        self.upheaval.set(Some(self.world.now()));
    }

    /// Whether nobody can be writing who was given space by an earlier master or membership.
    pub(super) fn is_settled(&self) -> bool {
        let now = self.world.now();
        self.upheaval.get().is_none_or(|at| now - at > STRAY_BYTES)
    }
}

impl Version {
    fn has_ended_by(&self, time: Duration) -> bool {
        self.ended.get().is_some_and(|ended| ended <= time)
    }

    fn has_started_before(&self, other: &Self) -> bool {
        self.started
            .get()
            .is_some_and(|started| started < other.asked)
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

    /// Whether a version had ended by that time and no removal came after its start.
    fn is_there(&self, asked: Duration) -> bool {
        let is_kept = |version: &Rc<Version>| {
            let is_before = |answered: &Cell<Option<Duration>>| {
                answered
                    .get()
                    .is_some_and(|answered| answered < version.asked)
            };
            let mut removals = self.removals.iter();
            version.has_ended_by(asked) && removals.all(|(_, answered)| is_before(answered))
        };
        self.versions.iter().any(is_kept)
    }
}
