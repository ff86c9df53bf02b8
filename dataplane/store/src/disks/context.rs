//! What the threads of the disks share, and one disk as they know it.

use super::signal::DiskSignal;
use crate::donation::Donation;
use crate::ledger::VoidCopies;
use perigee_rpc::MasterClient;
use perigee_schemas::Identity;
use perigee_ssd::Disk;
use perigee_ssd::recovery::Survivor;
use std::sync::atomic::AtomicU64;
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
}
