//! What the threads of the disks share, and one disk as they know it.

use super::place::{DiskPlace, PlaceStage, Trial};
use super::saving::Saving;
use super::signal::DiskSignal;
use crate::donation::Donation;
use crate::ledger::VoidCopies;
use crate::mover::MoverSignal;
use perigee_rpc::MasterClient;
use perigee_schemas::Identity;
use perigee_ssd::Disk;
use perigee_ssd::recovery::Survivor;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What both threads work with.
#[derive(Debug)]
pub(super) struct DiskContext {
    pub(super) master: Arc<MasterClient>,
    pub(super) donation: Arc<Donation>,
    pub(super) signal: Arc<DiskSignal>,
    /// Void copies that the master has named.
    pub(super) void: VoidCopies,
    pub(super) began: Instant,
    /// How often all was mounted; after each time all copies must be announced.
    pub(super) mounts: AtomicU64,
    /// Held while objects are on their way to a disk and while one is announced: a copy must not
    /// be announced before the master has heard of its demotion.
    pub(super) order: Mutex<()>,
    /// The folders that the user has named. To be locked after `order`.
    pub(super) places: Mutex<Vec<DiskPlace>>,
    /// Disks that are in use again and that the keeper does not know yet.
    pub(super) returned: Mutex<Vec<OwnedDisk>>,
    /// What the disks get before the process ends.
    pub(super) saving: Saving,
    /// Whether the master has what is read from disks moved to memory.
    pub(super) promotes: Arc<AtomicBool>,
    /// Asks for what is to be moved.
    pub(super) mover: Arc<MoverSignal>,
    /// The user or the master wants no disks: none that has failed is tried again.
    pub(super) is_left: AtomicBool,
}

/// One disk in use.
#[derive(Debug)]
pub struct OwnedDisk {
    /// Its name at the master.
    pub id: Identity,
    /// Its door.
    pub disk: Disk,
    /// What was there when it was opened.
    pub found: Vec<Survivor>,
}

impl DiskContext {
    /// As [`super::DiskOwner::in_order`].
    pub(super) fn in_order(&self) -> MutexGuard<'_, ()> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn places(&self) -> MutexGuard<'_, Vec<DiskPlace>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn returned(&self) -> MutexGuard<'_, Vec<OwnedDisk>> {
        self.returned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The master has been offered a disk that is back.
    pub(super) fn give_back(&self, disk: OwnedDisk) {
        let mut returned = self.returned();
        debug_assert!(returned.iter().all(|it| it.id != disk.id), "a disk comes back once");
        returned.push(disk);
        drop(returned);
        self.signal.notify();
    }

    /// As [`super::DiskOwner::take_returned`].
    pub(super) fn take_returned(&self) -> Vec<OwnedDisk> {
        std::mem::take(&mut *self.returned())
    }

    /// As [`super::DiskOwner::must_leave`].
    pub(super) fn must_leave(&self, id: Identity) -> bool {
        let places = self.places();
        let mut open = places.iter().filter_map(|place| match &place.stage {
            PlaceStage::Open(open) => Some(open),
            _ => None,
        });
        open.any(|open| open.id == id && matches!(open.trial, Trial::Passed))
    }

    /// As [`super::DiskOwner::note_left`].
    pub(super) fn note_left(&self, id: Identity) {
        let now = Instant::now();
        self.places().iter_mut().for_each(|place| place.retire(now, id));
        self.signal.notify();
    }

    /// No disk that has failed is tried again.
    pub(super) fn leave(&self) {
        self.is_left.store(true, Ordering::Release);
    }

    pub(super) fn is_left(&self) -> bool {
        self.is_left.load(Ordering::Acquire)
    }

    /// Tells the threads to end. No disk is taken into use after that.
    pub(super) fn stop(&self) {
        let _no_disk_is_taken = self.places();
        self.signal.stop();
    }
}
