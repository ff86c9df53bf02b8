//! The disks of a client: opened with it, announced to the master, written to and cleaned by two
//! threads of their own.
//!
//! Objects of the client's memory are written to them before they are evicted. The master decides
//! which; it alone knows where the copies lie. The invariant: a copy that the master refuses when
//! it is announced is made void, and a tombstone is confirmed only when the disk has it for good. A
//! disk that fails, at the start or later, is not used; memory goes on without it.

mod announcement;
mod context;
mod demotion;
mod keeper;
mod on_thread;
mod owner;
mod settings;
mod shard;
mod signal;
mod writer;

pub use context::OwnedDisk;
pub use keeper::Keeper;
pub use owner::{DiskCalls, DiskOwner};
pub use settings::DiskSettings;
pub use writer::Writer;

use crate::donation::Donation;
use crate::error::StoreError;
use crate::ledger::VoidCopies;
use crate::limits::{DISK_CLOSE_WAIT, DISK_OPEN_WAIT, DISK_STOP};
use context::DiskContext;
use futures_lite::future::block_on;
use on_thread::OnThread;
use perigee_metrics::DiskNumbers;
use perigee_rpc::{DiskReport, MasterClient};
use perigee_schemas::{DiskHealth, Identity, Status};
use perigee_ssd::{Disk, DiskOptions, DiskState, DiskStatus, OpenedDisk};
use shard::DiskShard;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The disks of one client and their threads. Without disks it does nothing.
#[derive(Debug)]
pub(crate) struct Disks {
    context: Arc<DiskContext>,
    running: Mutex<OpenDisks>,
}

#[derive(Debug, Default)]
struct OpenDisks {
    disks: Vec<OpenDisk>,
    failed: Vec<FailedDisk>,
    shards: Vec<DiskShard>,
    /// Closed by each thread when it ends.
    ended: Vec<Receiver<()>>,
}

/// A disk and the folder that its user has named.
#[derive(Debug)]
struct OpenDisk {
    path: PathBuf,
    id: Identity,
    disk: Disk,
}

/// A folder in which no disk could be opened.
#[derive(Debug)]
struct FailedDisk {
    path: PathBuf,
    reason: String,
}

impl Disks {
    pub(crate) fn new(
        master: Arc<MasterClient>,
        donation: Arc<Donation>,
        void: &VoidCopies,
    ) -> Self {
        let context = DiskContext {
            master,
            donation,
            signal: Arc::default(),
            void: void.clone(),
            began: Instant::now(),
            mounts: AtomicU64::new(1),
            order: Mutex::default(),
        };
        Self { context: Arc::new(context), running: Mutex::default() }
    }

    /// Opens the disks and begins to serve and to fill them. One that cannot be used is left out,
    /// and the log says why.
    ///
    /// # Errors
    /// The data port or a thread is not to be had, or the master does not answer.
    pub(crate) fn open(&self, settings: &DiskSettings) -> Result<(), StoreError> {
        let mut running = self.running();
        let mut owned = Vec::with_capacity(settings.paths.len());
        for path in &settings.paths {
            match self.open_one(path, settings) {
                Ok((shard, opened)) => {
                    owned.push(self.take(&mut running, (path, shard), opened)?);
                }
                Err(reason) => {
                    tracing::error!(
                        reason,
                        "A disk cannot be used, and objects that memory has no room for are not kept there"
                    );
                    running.failed.push(FailedDisk { path: path.clone(), reason });
                }
            }
        }
        if owned.is_empty() || !self.mount()? {
            return Ok(());
        }
        let on_thread = OnThread(self.context.clone());
        let writer = Writer::new(on_thread.clone(), &owned);
        let keeper = Keeper::new(on_thread, owned);
        let ended = [
            begin("perigee-demote", move || block_on(writer.run()))?,
            begin("perigee-disks", move || block_on(keeper.run()))?,
        ];
        running.ended.extend(ended);
        Ok(())
    }

    /// Serves an open disk.
    fn take(
        &self,
        running: &mut OpenDisks,
        (path, shard): (&Path, DiskShard),
        OpenedDisk { disk, spec, survivors }: OpenedDisk,
    ) -> Result<OwnedDisk, StoreError> {
        tracing::info!(
            disk = %spec.id,
            folder = %spec.folder.display(),
            capacity_bytes = spec.capacity_bytes,
            "Objects that memory has no room for go to this disk"
        );
        self.context.donation.add_disk(&spec, disk.clone())?;
        running.shards.push(shard);
        running.disks.push(OpenDisk { path: path.to_owned(), id: spec.id, disk: disk.clone() });
        Ok(OwnedDisk { id: spec.id, disk, found: survivors })
    }

    /// Opens the disk in a folder, or says why that cannot be done and what to do.
    fn open_one(
        &self,
        path: &Path,
        settings: &DiskSettings,
    ) -> Result<(DiskShard, OpenedDisk), String> {
        let shard = DiskShard::start().map_err(|error| error.to_string())?;
        let signal = self.context.signal.clone();
        let options = DiskOptions {
            path: path.to_owned(),
            capacity_bytes: settings.capacity_bytes,
            segment_bytes: settings.segment_bytes,
            cluster: settings.cluster.clone(),
            key: settings.key.clone(),
            on_event: Arc::new(move |_| signal.ring()),
        };
        let opened = match shard.open(options).wait(DISK_OPEN_WAIT) {
            Ok(Ok(opened)) => Ok(opened),
            Ok(Err(error)) => Err(error.to_string()),
            Err(error) => Err(format!("{}: {error}", path.display())),
        };
        match opened {
            Ok(opened) => Ok((shard, opened)),
            Err(reason) => {
                shard.stop();
                Err(reason)
            }
        }
    }

    /// Offers the disks; false if the master takes none at all. One may be refused for a while: as
    /// long as the master takes an earlier process with it to be alive. Heartbeats try again.
    fn mount(&self) -> Result<bool, StoreError> {
        let DiskContext { donation, master, .. } = &*self.context;
        let knows_disks = master.knows_disks();
        let (disks, number) = donation.disk_offers();
        if knows_disks {
            let verdicts = master.mount(&disks, false, number)?;
            if !verdicts.contains(&Status::UnavailableInCurrentMode) {
                return Ok(true);
            }
        }
        let why = if knows_disks { "has no --enable_offload" } else { "is too old to know disks" };
        tracing::warn!("The master {why}, so the disks of this client stay unused");
        disks.iter().for_each(|offer| donation.remove(offer.id));
        Ok(false)
    }

    /// Reads that they have served.
    pub(crate) fn reads(&self) -> u64 {
        self.running().disks.iter().map(|one| one.disk.status().counters.read_pieces).sum()
    }

    /// How each disk is, also those that could not be opened.
    pub(crate) fn reports(&self) -> Vec<DiskReport> {
        let running = self.running();
        let open = running.disks.iter().map(|one| {
            let DiskState { health, reason } = one.disk.status().state;
            DiskReport { disk: one.id, health, path: shown(&one.path), reason }
        });
        let failed = running.failed.iter().map(|one| DiskReport {
            disk: Identity(0),
            health: DiskHealth::Failed,
            path: shown(&one.path),
            reason: one.reason.clone(),
        });
        open.chain(failed).collect()
    }

    /// What each disk has done.
    pub(crate) fn numbers(&self) -> Vec<DiskNumbers> {
        let running = self.running();
        let open = running.disks.iter().map(|one| numbers(&one.path, one.disk.status()));
        let failed = running.failed.iter().map(|one| DiskNumbers {
            path: shown(&one.path),
            health: DiskHealth::Failed,
            ..DiskNumbers::default()
        });
        open.chain(failed).collect()
    }

    /// The master has mounted all of this client's segments and disks again.
    pub(crate) fn note_mounted(&self) {
        self.context.mounts.fetch_add(1, Ordering::AcqRel);
        self.context.signal.ring();
    }

    /// The master has something to be done for the disks.
    pub(crate) fn ring(&self) {
        self.context.signal.ring();
    }

    /// Tells the threads to end, and waits for that for a bounded time. What they have in hand is
    /// left to the master's deadlines.
    pub(crate) fn stop(&self) {
        self.context.signal.stop();
        for ended in std::mem::take(&mut self.running().ended) {
            // An error is a thread that has ended, or one that is left to end by itself.
            let _ = ended.recv_timeout(DISK_STOP);
        }
    }

    /// Closes the disks, so that the next start is quick. Call after the last reader has gone.
    pub(crate) fn close(&self) {
        let OpenDisks { disks, shards, .. } = std::mem::take(&mut *self.running());
        let closing: Vec<_> = disks.iter().map(|one| one.disk.close()).collect();
        for closed in closing {
            if let Err(error) = closed.wait(DISK_CLOSE_WAIT) {
                tracing::warn!(%error, "A disk was not closed; its next start looks at all that it has");
            }
        }
        drop(disks);
        shards.into_iter().for_each(DiskShard::stop);
    }

    fn running(&self) -> MutexGuard<'_, OpenDisks> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn numbers(path: &Path, status: DiskStatus) -> DiskNumbers {
    let counters = status.counters;
    DiskNumbers {
        path: shown(path),
        health: status.state.health,
        capacity_bytes: status.capacity_bytes,
        used_bytes: status.used_bytes,
        written_objects: counters.written_objects,
        object_bytes: counters.image_bytes,
        written_bytes: counters.written_bytes,
        reads: counters.read_pieces,
        read_bytes: counters.read_bytes,
        voided: counters.buried,
        errors: counters.errors,
        read_times: status.reads,
        write_times: status.writes,
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
