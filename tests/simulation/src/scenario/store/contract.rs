//! What the store promises its callers, checked against what they saw: every call with its
//! beginning and its end.
//!
//! Puts of a key are ordered by their starts at the master. The model knows only that one started
//! before another if it was answered before the other was asked for; of calls that overlap, any
//! order is right. A call without an answer may have been carried out, or be carried out later.
//! Invariant: what is refused here is wrong under every order.

mod history;

pub(super) use history::{Lease, Version};

use crate::world::World;
use history::{Absence, Binding, History};
use perigee_memory::crc32c;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// Longest that bytes stay on their way after their writer has given up, with kernels that send
/// again and again.
const STRAY_BYTES: Duration = Duration::from_secs(300);

/// Longest that a new life of the master has lookups wait for what owners have.
const REBUILD_WINDOW: Duration = Duration::from_secs(2);

/// What happens in a run beside the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trials {
    /// Nothing.
    Calm,
    /// The master's process ends and begins again, and nothing else goes wrong.
    Restarts,
    /// The processes of nodes end and begin again, too. They have disks.
    Nodes,
    /// Whatever can go wrong.
    All,
}

/// All keys.
pub(super) struct Contract {
    world: Rc<World>,
    keys: RefCell<BTreeMap<String, History>>,
    trials: Trials,
    binding: Rc<Cell<Binding>>,
    /// What was put before that moment may be gone: its owner has taken it away.
    lost: Cell<Duration>,
    /// Nothing happens any more.
    is_in_peace: Cell<bool>,
    /// Owners that are saying what they have.
    returning: Rc<Cell<u32>>,
    /// When the last life of the master ended.
    master_ended: Cell<Duration>,
    /// When a master or the membership of a segment began again: earlier writers may still write.
    upheaval: Cell<Option<Duration>>,
}

/// A removal that was asked for.
pub(super) struct Removal {
    key: String,
    asked: Duration,
    answered: Rc<Cell<Option<Duration>>>,
}

impl Contract {
    pub(super) fn new(world: &Rc<World>, trials: Trials) -> Self {
        Self {
            world: world.clone(),
            keys: RefCell::default(),
            trials,
            binding: Rc::default(),
            lost: Cell::default(),
            is_in_peace: Cell::new(false),
            returning: Rc::default(),
            master_ended: Cell::default(),
            upheaval: Cell::new(None),
        }
    }

    pub(super) fn trials(&self) -> Trials {
        self.trials
    }

    /// Whether every call is answered.
    pub(super) fn is_calm(&self) -> bool {
        self.trials == Trials::Calm
    }

    /// Whether nothing but the master's process ends: what is acknowledged stays.
    pub(super) fn keeps_all(&self) -> bool {
        matches!(self.trials, Trials::Calm | Trials::Restarts)
    }

    /// Whether every fault is a process that ends.
    pub(super) fn is_fair(&self) -> bool {
        self.trials != Trials::All
    }

    pub(super) fn note_peace(&self) {
        self.is_in_peace.set(true);
    }

    pub(super) fn is_in_peace(&self) -> bool {
        self.is_in_peace.get()
    }

    /// The master's process ends now. Where other things go wrong too, an owner may not have been
    /// following, or its last words do not reach it: then it knows of what was before.
    pub(super) fn note_end_of_master(&self) {
        self.master_ended.set(self.world.now());
        if !self.keeps_all() {
            let all = self.world.now();
            self.binding.set(Binding { all, ..self.binding.get() });
        }
    }

    /// An owner begins to say what it has, until the returned value is dropped: what a lookup did
    /// not find before may be found then.
    pub(super) fn begin_return(&self) -> OwnerReturn {
        let returned = OwnerReturn {
            world: self.world.clone(),
            binding: self.binding.clone(),
            returning: self.returning.clone(),
            keeps_all: self.keeps_all(),
        };
        returned.unbind_lookups();
        self.returning.set(self.returning.get() + 1);
        returned
    }

    /// An owner has taken a segment away that was not empty.
    pub(super) fn note_loss(&self) {
        self.lost.set(self.world.now());
    }

    /// A put is about to be asked for.
    pub(super) fn begin_put(&self, key: &str, payload: Vec<u8>, is_pinned: bool) -> Rc<Version> {
        let version = Rc::new(Version {
            checksum: crc32c(&payload),
            payload,
            is_pinned,
            is_demoted: Cell::new(false),
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

    /// The master has heard that a disk has these bytes.
    pub(super) fn note_demoted(&self, key: &str, checksum: u32) {
        let keys = self.keys.borrow();
        let version = keys.get(key).and_then(|history| history.version(checksum));
        if let Some(version) = version {
            version.is_demoted.set(true);
        }
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
            self.add_absence(&removal.key, removal.asked, true);
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
            // What an owner has brought back is another object to the master.
            let since = self.binding.get().lookups;
            leases.any(|lease| {
                let is_seen = lease.asked >= since;
                is_seen && lease.holds(removal.asked, now, epoch) && history.is_of(lease)
            })
        });
        self.world.check(!is_broken, || {
            format!("{} was removed without force under a lease", removal.key)
        });
    }

    /// A lookup has not found a key. A new life of the master waits for owners, but no longer than
    /// its window: what a later one says to have is found again.
    pub(super) fn note_absent(&self, key: &str, asked: Duration) {
        let is_over = self.world.now() >= self.master_ended.get() + REBUILD_WINDOW;
        if self.returning.get() > 0 && is_over {
            return;
        }
        if self.keeps_all() || self.returning.get() == 0 {
            self.add_absence(key, asked, self.keeps_all());
        }
    }

    fn add_absence(&self, key: &str, asked: Duration, is_firm: bool) {
        let answered = self.world.now();
        let mut keys = self.keys.borrow_mut();
        let history = keys.entry(key.to_owned()).or_default();
        history.absences.push(Absence { asked, answered, is_firm });
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
        let from = self.binding.get();
        self.world.check(!history.is_outdated(&version, asked, from), || {
            format!("The master found {key} as it was before a put that was acknowledged")
        });
        self.world.check(!history.was_gone(&version, asked, from), || {
            format!("The master found {key} again after it was gone")
        });
        Some(version)
    }

    /// Keys that were ever put.
    pub(super) fn keys(&self) -> Vec<String> {
        self.keys.borrow().keys().cloned().collect()
    }

    /// Whether nothing but a fault can have taken a key before a call of that time. Where keys were
    /// evicted, that holds for those that were pinned hard and not removed since.
    pub(super) fn must_be_there(&self, key: &str, asked: Duration, were_evicted: bool) -> bool {
        let keys = self.keys.borrow();
        let Some(history) = keys.get(key) else {
            return false;
        };
        let is_in_memory =
            self.keeps_all() && history.is_there(asked, were_evicted, self.lost.get());
        let is_on_disk = self.is_fair() && self.is_in_peace() && history.is_on_disk(asked);
        is_in_memory || is_on_disk
    }

    /// Whether nothing but a fault can keep a version that was found from being read.
    pub(super) fn must_be_readable(&self, version: &Version) -> bool {
        self.keeps_all() && version.asked >= self.lost.get()
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

/// An owner that is saying what it has.
pub(super) struct OwnerReturn {
    world: Rc<World>,
    binding: Rc<Cell<Binding>>,
    returning: Rc<Cell<u32>>,
    keeps_all: bool,
}

impl OwnerReturn {
    /// What a lookup that was asked for up to now does not find may be found later.
    fn unbind_lookups(&self) {
        if !self.keeps_all {
            let lookups = self.world.now();
            self.binding.set(Binding { lookups, ..self.binding.get() });
        }
    }
}

impl Drop for OwnerReturn {
    fn drop(&mut self) {
        self.returning.set(self.returning.get() - 1);
        // Also one whose answer is still on its way.
        self.unbind_lookups();
    }
}
