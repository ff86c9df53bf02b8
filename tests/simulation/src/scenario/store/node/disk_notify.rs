//! What the tasks of a disk wait for. Invariant: a notice between two looks is not lost.

use crate::scenario::store::contract::{Contract, OwnerReturn};
use perigee_ssd::Disk;
use perigee_store::disks::OwnedDisk;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the tasks of a disk wait for, and what they share.
pub(super) struct DiskNotify {
    pub(super) notices: Arc<AtomicU64>,
    /// How often all was mounted.
    pub(super) mounts: Cell<u64>,
    pub(super) is_open: Cell<bool>,
    /// Objects are on their way, or the disk is being announced.
    pub(super) is_taken: Cell<bool>,
    pub(super) is_over: Cell<bool>,
    /// Until all that it has is announced.
    pub(super) returning: RefCell<Option<OwnerReturn>>,
    /// The disk is to be taken out of use.
    pub(super) must_leave: Cell<bool>,
    /// It is not served any more, and the master may not have heard of that.
    pub(super) leaving: RefCell<Option<Disk>>,
    /// The master has heard of it.
    pub(super) left: RefCell<Option<Disk>>,
    /// It is back, and the keeper does not know.
    pub(super) returned: RefCell<Vec<OwnedDisk>>,
}

impl Default for DiskNotify {
    fn default() -> Self {
        Self {
            notices: Arc::default(),
            mounts: Cell::new(1),
            is_open: Cell::new(false),
            is_taken: Cell::new(false),
            is_over: Cell::new(false),
            returning: RefCell::default(),
            must_leave: Cell::new(false),
            leaving: RefCell::default(),
            left: RefCell::default(),
            returned: RefCell::default(),
        }
    }
}

impl DiskNotify {
    pub(super) fn notify(&self) {
        self.notices.fetch_add(1, Ordering::Relaxed);
    }

    /// All was mounted again.
    pub(super) fn note_mounted(&self, contract: &Contract) {
        self.mounts.set(self.mounts.get() + 1);
        if self.is_open.get() {
            *self.returning.borrow_mut() = Some(contract.begin_return());
        }
        self.notify();
    }

    pub(super) fn stop(&self) {
        self.is_over.set(true);
    }
}
