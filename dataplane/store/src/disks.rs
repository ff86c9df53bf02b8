//! The disks of a client: opened with it, announced to the master, written to and cleaned by two
//! threads of their own; a third one opens those again that have failed, and takes over what
//! clients that have gone had in the directory that all hosts share.
//!
//! Objects of the client's memory are written to them before they are evicted. The master decides
//! which; it alone knows where the copies lie. The invariant: a copy that the master refuses when
//! it is announced is made void, and a tombstone is confirmed only when the disk has it for good. A
//! disk that fails, at the start or later, is not used until it is open again; memory goes on
//! without it.

mod adoption;
mod announcement;
mod context;
mod demotion;
mod health_log;
mod keeper;
mod mount_point;
mod on_thread;
mod opener;
mod owner;
mod place;
mod retry;
mod saving;
mod settings;
mod shard;
mod shared_place;
mod signal;
mod writer;

pub use context::OwnedDisk;
pub use keeper::Keeper;
pub use owner::{DiskCalls, DiskOwner};
pub use saving::{SavedObjects, SavedRound};
pub use settings::DiskSettings;
pub use writer::Writer;

use crate::donation::Donation;
use crate::error::StoreError;
use crate::ledger::VoidCopies;
use crate::limits::{DISK_CLOSE_WAIT, DISK_LOOK_SOON, DISK_OPEN_WAIT, DISK_STOP};
use crate::mover::MoverSignal;
use context::DiskContext;
use futures_lite::future::block_on;
use on_thread::OnThread;
use opener::{Opener, ServedDisk};
use perigee_metrics::DiskNumbers;
use perigee_rpc::{DiskReport, MasterClient, OfferedDirectory};
use perigee_schemas::{DiskHealth, Status};
use perigee_shard::poll_interruption;
use place::{ClosingDisk, DiskPlace, OpenDisk, OpeningDisk, PlaceStage, PlaceUse};
use saving::Saving;
use shared_place::SharedPlace;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The disks of one client and their threads. Without disks it does nothing.
#[derive(Debug)]
pub(crate) struct Disks {
    context: Arc<DiskContext>,
    /// Closed by each thread when it ends.
    ended: Mutex<Vec<Receiver<()>>>,
}

impl Disks {
    pub(crate) fn new(
        master: Arc<MasterClient>,
        donation: Arc<Donation>,
        void: &VoidCopies,
        mover: Arc<MoverSignal>,
    ) -> Self {
        let context = DiskContext {
            master,
            donation,
            signal: Arc::default(),
            void: void.clone(),
            began: Instant::now(),
            mounts: AtomicU64::new(1),
            order: Mutex::default(),
            places: Mutex::default(),
            returned: Mutex::default(),
            saving: Saving::default(),
            promotes: Arc::default(),
            mover,
            is_left: AtomicBool::new(false),
        };
        Self { context: Arc::new(context), ended: Mutex::default() }
    }

    /// Opens the disks and begins to serve and to fill them, with one in the directory that all
    /// hosts share if there is one. One that cannot be used is left out, the log says why, and it
    /// is tried again later.
    ///
    /// # Errors
    /// The data port is taken, a thread cannot be started, or the master does not answer.
    pub(crate) fn open(
        &self,
        settings: &DiskSettings,
        offered: Option<&OfferedDirectory>,
    ) -> Result<(), StoreError> {
        let shared = offered.and_then(SharedPlace::of);
        if offered.is_some() && shared.is_none() {
            tracing::warn!(
                ?offered,
                "The shared directory of the master is no path that can be used"
            );
        }
        let settings = match &shared {
            Some(shared) if !settings.paths.contains(&shared.path) => settings.with_one_more(),
            _ => settings.clone(),
        };
        if settings.paths.is_empty() && shared.is_none() {
            return Ok(settings.refuse_without_disk()?);
        }
        let opener = Opener { context: self.context.clone(), settings, shared };
        let owned = self.open_all(&opener)?;
        if !owned.is_empty() && !self.mount()? {
            self.context.leave();
            return Ok(());
        }
        let on_thread = OnThread(self.context.clone());
        let writer = Writer::new(on_thread.clone());
        let keeper = Keeper::new(on_thread, owned);
        let ended = [
            begin("perigee-demote", move || block_on(writer.run()))?,
            begin("perigee-disks", move || block_on(keeper.run()))?,
            begin("perigee-opener", move || opener.run())?,
        ];
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).extend(ended);
        Ok(())
    }

    /// Opens all disks side by side; those that can be used.
    fn open_all(&self, opener: &Opener) -> Result<Vec<OwnedDisk>, StoreError> {
        let mut places = self.context.places();
        debug_assert!(places.is_empty(), "the disks of a client are opened once");
        let shared = opener.shared.as_ref().map(|shared| &shared.path);
        let named = opener.settings.paths.iter().filter(|path| Some(*path) != shared);
        places.extend(named.map(|path| DiskPlace::new(path, PlaceUse::Named)));
        places.extend(shared.map(|path| DiskPlace::new(path, PlaceUse::Shared)));
        places.iter_mut().for_each(|place| opener.begin(place));
        let mut owned = Vec::with_capacity(places.len());
        for place in places.iter_mut() {
            if let PlaceStage::Opening(opening) = &place.stage {
                wait_for(opening);
            }
            owned.extend(opener.take(place)?.map(|ServedDisk { owned, .. }| owned));
        }
        Ok(owned)
    }
    /// Offers the disks; false if the master takes none at all. One may be refused for a while: as
    /// long as the master takes an earlier process with it to be alive. Heartbeats try again.
    fn mount(&self) -> Result<bool, StoreError> {
        let DiskContext { donation, master, .. } = &*self.context;
        let knows_disks = master.knows_disks();
        let (disks, number) = donation.disk_offers();
        if knows_disks {
            let verdicts = master.mount(&disks, false, number)?;
            debug_assert_eq!(verdicts.len(), disks.len(), "one verdict per disk");
            if !verdicts.contains(&Status::UnavailableInCurrentMode) {
                return Ok(true);
            }
        }
        let why = if knows_disks { "has no --enable_offload" } else { "is too old to know disks" };
        tracing::warn!("The master {why}, so the disks of this client stay unused");
        disks.iter().for_each(|offer| donation.remove(offer.id));
        Ok(false)
    }

    /// Writes what memory alone has, most worth first, until then at most; `None` without a disk
    /// that is open.
    pub(crate) fn save(&self, until: Instant) -> Option<SavedObjects> {
        if !self.context.donation.table().has_disks() {
            return None;
        }
        self.context.saving.ask();
        self.context.signal.notify();
        let saved = self.context.saving.wait(until);
        // The master gives none for a disk that is not well.
        let is_well = self.numbers().iter().all(|disk| disk.health == DiskHealth::Healthy);
        Some(SavedObjects { is_all: saved.is_all && is_well, ..saved })
    }

    /// How each disk is, also those that could not be opened.
    pub(crate) fn reports(&self) -> Vec<DiskReport> {
        let now = (!self.context.is_left()).then(Instant::now);
        self.context.places().iter().map(|place| place.report(now)).collect()
    }

    /// What each disk has done.
    pub(crate) fn numbers(&self) -> Vec<DiskNumbers> {
        self.context.places().iter().map(DiskPlace::numbers).collect()
    }

    /// Their user withdraws them: none that has failed is tried again.
    pub(crate) fn leave(&self) {
        self.context.leave();
    }

    /// The master has mounted all of this client's segments and disks again.
    pub(crate) fn note_mounted(&self) {
        self.context.mounts.fetch_add(1, Ordering::AcqRel);
        self.context.signal.notify();
    }

    /// Whether the master has what is read from disks moved to memory.
    pub(crate) fn set_promotes(&self, promotes: bool) {
        self.context.promotes.store(promotes, Ordering::Relaxed);
    }

    /// The master has something to be done for the disks.
    pub(crate) fn notify(&self) {
        self.context.signal.notify();
    }

    /// Tells the threads to end, and waits for that for a bounded time. What they have in hand is
    /// left to the master's deadlines.
    pub(crate) fn stop(&self) {
        self.context.stop();
        let ended = std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner));
        for ended in ended {
            // An error is a thread that has ended, or one that is left to end by itself.
            let _ = ended.recv_timeout(DISK_STOP);
        }
    }

    /// Closes the disks, so that the next start is quick. Call after the last reader has gone.
    pub(crate) fn close(&self) {
        debug_assert!(self.context.signal.is_over(), "no thread opens a disk any more");
        let places = std::mem::take(&mut *self.context.places());
        let closing = places.into_iter().filter_map(|place| match place.stage {
            PlaceStage::Open(OpenDisk { disk, shard, .. }) => Some((shard, Some(disk.close()))),
            PlaceStage::Closing(ClosingDisk { shard, closed }) => Some((shard, Some(closed))),
            PlaceStage::Opening(OpeningDisk { shard, .. }) => Some((shard, None)),
            PlaceStage::Failed => None,
        });
        // All at once, and only then one after the other.
        for (shard, closed) in closing.collect::<Vec<_>>() {
            if let Some(Err(error)) = closed.map(|closed| closed.wait(DISK_CLOSE_WAIT)) {
                tracing::warn!(%error, "A disk was not closed; its next start looks at all that it has");
            }
            shard.stop();
        }
    }
}

/// Waits until a disk has opened, within bounds.
fn wait_for(opening: &OpeningDisk) {
    while !opening.opened.is_here(DISK_LOOK_SOON) {
        if opening.began.elapsed() >= DISK_OPEN_WAIT || poll_interruption() {
            return;
        }
    }
}

fn begin(name: &str, run: impl FnOnce() + Send + 'static) -> Result<Receiver<()>, StoreError> {
    let (end, ended) = channel::<()>();
    let thread = std::thread::Builder::new().name(name.to_owned());
    let started = thread.spawn(move || {
        run();
        drop(end);
    });
    started.map_err(|error| StoreError::System(format!("No thread {name}: {error}")))?;
    Ok(ended)
}
