//! Opens disks, serves them, and opens those again that have failed.
//! Invariant: a disk is opened again only after the master has heard that the last one there has
//! gone, and offered only while none of its predecessor's objects are under way.

use super::context::{DiskContext, OwnedDisk};
use super::place::{ClosingDisk, DiskPlace, OpenDisk, OpeningDisk, PlaceStage, Trial};
use super::settings::DiskSettings;
use super::shard::DiskShard;
use crate::error::StoreError;
use crate::limits::{DISK_LOOK, DISK_LOOK_SOON, DISK_OPEN_WAIT};
use perigee_activity::DiskPage;
use perigee_rpc::SegmentOffer;
use perigee_schemas::Status;
use perigee_ssd::{DiskOptions, FolderChoice, OpenedDisk, Unanswered};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Has the disks of a client opened.
#[derive(Clone, Debug)]
pub(super) struct Opener {
    pub(super) context: Arc<DiskContext>,
    pub(super) settings: DiskSettings,
}

/// A disk that is served, and what the master is to know of it.
pub(super) struct ServedDisk {
    pub(super) owned: OwnedDisk,
    offer: SegmentOffer,
    /// Of the request that mounts it.
    number: u64,
}

impl Opener {
    /// Begins to open the disk of a place.
    pub(super) fn begin(&self, place: &mut DiskPlace) {
        if let Some(folder) = place.gone() {
            let reason = format!("{} is not mounted any more", folder.display());
            return place.fail(Instant::now(), reason);
        }
        match self.opening(&place.path) {
            Ok(opening) => place.stage = PlaceStage::Opening(opening),
            Err(reason) => place.fail(Instant::now(), reason),
        }
    }

    fn opening(&self, path: &Path) -> Result<OpeningDisk, String> {
        let shard = DiskShard::start().map_err(|error| error.to_string())?;
        let signal = self.context.signal.clone();
        let opened = shard.open(DiskOptions {
            path: path.to_owned(),
            folder: FolderChoice::FirstFree,
            capacity_bytes: self.settings.capacity_bytes,
            segment_bytes: self.settings.segment_bytes,
            cluster: self.settings.cluster.clone(),
            key: self.settings.key.clone(),
            on_event: Arc::new(move |_| signal.ring()),
        });
        Ok(OpeningDisk { shard, opened, began: Instant::now(), is_late: false })
    }

    /// Takes what came of opening a disk, as soon as something has.
    ///
    /// # Errors
    /// The data port is not to be had.
    pub(super) fn take(&self, place: &mut DiskPlace) -> Result<Option<ServedDisk>, StoreError> {
        let PlaceStage::Opening(opening) = &mut place.stage else { return Ok(None) };
        if !opening.opened.is_here(Duration::ZERO) {
            let is_late = opening.began.elapsed() >= DISK_OPEN_WAIT;
            if is_late && !std::mem::replace(&mut opening.is_late, true) {
                let late = Unanswered::Late(DISK_OPEN_WAIT);
                place.fail(Instant::now(), format!("{}: {late}", place.path.display()));
            }
            return Ok(None);
        }
        let stage = std::mem::replace(&mut place.stage, PlaceStage::Failed);
        let PlaceStage::Opening(OpeningDisk { shard, opened, .. }) = stage else { return Ok(None) };
        let failure = match opened.wait(Duration::ZERO) {
            Ok(Ok(opened)) => match self.serve(opened) {
                Ok(served) => {
                    let (id, disk) = (served.owned.id, served.owned.disk.clone());
                    let (trial, read_only) = (Trial::None, None);
                    place.serve(Instant::now(), OpenDisk { id, disk, shard, trial, read_only });
                    return Ok(Some(served));
                }
                Err(error) => Err(error),
            },
            Ok(Err(error)) => Ok(error.to_string()),
            Err(error) => Ok(format!("{}: {error}", place.path.display())),
        };
        shard.stop();
        let reason = failure.as_ref().map_or_else(ToString::to_string, Clone::clone);
        place.fail(Instant::now(), reason);
        failure.map(|_| None)
    }

    /// Serves an open disk.
    fn serve(&self, opened: OpenedDisk) -> Result<ServedDisk, StoreError> {
        let OpenedDisk { disk, spec, survivors } = opened;
        let (offer, number) = self.context.donation.add_disk(&spec, disk.clone())?;
        tracing::info!(
            disk = %spec.id,
            folder = %spec.folder.display(),
            capacity_bytes = spec.capacity_bytes,
            "Objects that memory has no room for go to this disk"
        );
        Ok(ServedDisk { owned: OwnedDisk { id: spec.id, disk, found: survivors }, offer, number })
    }

    /// Opens disks again that have failed, until the client ends.
    pub(super) fn run(self) {
        let (mut heard, mut pause) = (0, DISK_LOOK);
        let places = self.context.places().len();
        let mut pages: Vec<Option<DiskPage>> = (0..places).map(|_| DiskPage::new()).collect();
        self.show(&mut pages);
        while self.context.signal.wait(&mut heard, pause) {
            let count = self.context.places().len();
            (0..count).for_each(|at| self.look(at));
            let is_soon = self.context.places().iter().any(DiskPlace::is_in_passing);
            pause = if is_soon { DISK_LOOK_SOON } else { DISK_LOOK };
            self.show(&mut pages);
        }
    }

    /// Shows the disks to an agent of this host.
    fn show(&self, pages: &mut [Option<DiskPage>]) {
        let is_tried = !self.context.is_left();
        for (page, place) in pages.iter_mut().zip(self.context.places().iter()) {
            if let Some(page) = page {
                page.show(&place.shown(is_tried));
            }
        }
    }

    /// One look at a place: what can be done is done.
    fn look(&self, at: usize) {
        self.end_closing(at);
        if !self.context.is_left() {
            self.try_again(at);
        }
        // What its predecessor had in hand must not be taken for what this one has written.
        let order = self.context.places().get(at).is_some_and(DiskPlace::has_opened);
        let order = order.then(|| self.context.in_order());
        let mut places = self.context.places();
        if self.context.signal.is_over() {
            return;
        }
        let Some(place) = places.get_mut(at) else { return };
        // Where there is no data port the place says so, and it is tried again.
        let served = self.take(place).ok().flatten();
        drop((places, order));
        if let Some(served) = served {
            self.offer(at, served);
        }
    }

    /// Begins to open a disk again if it is time, or to look whether it takes writes again.
    fn try_again(&self, at: usize) {
        let now = Instant::now();
        let mut places = self.context.places();
        let Some(place) = places.get_mut(at) else { return };
        let is_due = place.retry.is_due(now);
        let open = match &mut place.stage {
            PlaceStage::Failed if is_due => return self.begin(place),
            PlaceStage::Open(open) => open,
            _ => return,
        };
        match std::mem::replace(&mut open.trial, Trial::None) {
            Trial::None if !open.is_read_only_for_good(now) => {
                if place.retry.left(now).is_some() {
                    place.retry.note_service(now);
                }
            }
            Trial::None if is_due => {
                open.trial = Trial::UnderWay(open.shard.try_path(place.path.clone()));
            }
            Trial::None if place.retry.left(now).is_none() => place.retry.note_failure(now),
            Trial::UnderWay(tried) if tried.is_here(Duration::ZERO) => {
                match tried.wait(Duration::ZERO) {
                    Ok(Ok(())) => {
                        open.trial = Trial::Passed;
                        self.context.signal.ring();
                    }
                    _ => {
                        place.retry.note_failure(now);
                        // Its reads count: one that cannot be read either is given up, and its
                        // file system can be mended only after it has closed its files.
                        drop(open.disk.list(None));
                    }
                }
            }
            other => open.trial = other,
        }
    }

    /// Ends the shard of a disk that has closed.
    fn end_closing(&self, at: usize) {
        let mut places = self.context.places();
        let Some(place) = places.get_mut(at) else { return };
        let is_closed = |closing: &ClosingDisk| closing.closed.is_here(Duration::ZERO);
        if !matches!(&place.stage, PlaceStage::Closing(closing) if is_closed(closing)) {
            return;
        }
        let stage = std::mem::replace(&mut place.stage, PlaceStage::Failed);
        drop(places);
        if let PlaceStage::Closing(closing) = stage {
            closing.shard.stop();
        }
    }

    /// Offers a disk that is back to the master, and has the keeper announce what it has. If the
    /// master does not answer, the heartbeat that reaches it mounts the disk.
    fn offer(&self, at: usize, served: ServedDisk) {
        let ServedDisk { owned, offer, number } = served;
        let DiskContext { master, donation, .. } = &*self.context;
        let is_refused = |verdicts: &[Status]| verdicts.contains(&Status::UnavailableInCurrentMode);
        let is_taken = master.knows_disks()
            && match master.mount(std::slice::from_ref(&offer), false, number) {
                Ok(verdicts) => !is_refused(&verdicts),
                Err(error) => {
                    tracing::debug!(%error, disk = %owned.id, "A disk is mounted later");
                    true
                }
            };
        if is_taken {
            return self.context.give_back(owned);
        }
        tracing::warn!("The master takes no disks, so the disks of this client stay unused");
        self.context.leave();
        donation.remove(owned.id);
        if let Some(place) = self.context.places().get_mut(at) {
            place.retire(Instant::now(), owned.id);
        }
    }
}
