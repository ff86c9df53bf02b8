//! What each key must hold, kept at the moments at which the master decides.
//! Invariant: a version becomes the present one when its put is ended at the master, whether or not its writer hears of it.

use crate::world::World;
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
}

/// All keys.
pub(super) struct Ledger {
    world: Rc<World>,
    present: RefCell<BTreeMap<String, Rc<Version>>>,
    is_calm: bool,
    /// When a master or the membership of a segment began anew: writers of before may still write.
    upheaval: Cell<Option<Duration>>,
}

impl Ledger {
    pub(super) fn new(world: &Rc<World>, is_calm: bool) -> Self {
        Self {
            world: world.clone(),
            present: RefCell::default(),
            is_calm,
            upheaval: Cell::new(None),
        }
    }

    pub(super) fn is_calm(&self) -> bool {
        self.is_calm
    }

    /// The master has made a version visible.
    pub(super) fn ended(&self, key: &str, version: &Rc<Version>) {
        self.present
            .borrow_mut()
            .insert(key.to_owned(), version.clone());
    }

    /// The master has removed a key.
    pub(super) fn removed(&self, key: &str) {
        self.present.borrow_mut().remove(key);
    }

    /// The master knows nothing any more.
    pub(super) fn forgotten(&self) {
        self.present.borrow_mut().clear();
    }

    /// The master has found a key with this checksum; returns the version it must be.
    pub(super) fn found(&self, key: &str, checksum: u32) -> Option<Rc<Version>> {
        let version = self.present.borrow().get(key).cloned();
        let is_present = version
            .as_ref()
            .is_some_and(|found| found.checksum == checksum);
        self.world.check(is_present, || {
            format!("The master found {key}, but not as it was put last")
        });
        version
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
