//! Opens disks, serves them, opens those again that have failed, and takes over folders in the
//! shared directory whose clients have gone.
//! Invariant: a disk is opened again only after the master has heard that the last one there has
//! gone, and offered only while none of its predecessor's objects are under way.

use super::adoption::Adoption;
use super::context::{DiskContext, OwnedDisk};
use super::mount_point::disks_beside;
use super::place::{ClosingDisk, DiskPlace, OpenDisk, OpeningDisk, PlaceStage, PlaceUse, Trial};
use super::settings::DiskSettings;
use super::shard::DiskShard;
use super::shared_place::SharedPlace;
use crate::error::StoreError;
use crate::limits::{ADOPTED_DISKS_MAX, DISK_LOOK, DISK_LOOK_SOON, DISK_OPEN_WAIT};
use perigee_activity::DiskPage;
use perigee_rpc::SegmentOffer;
use perigee_schemas::Status;
use perigee_ssd::{DiskEvent, DiskOptions, FolderChoice, OpenedDisk, Unanswered};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Has the disks of a client opened.
#[derive(Clone, Debug)]
pub(super) struct Opener {
    pub(super) context: Arc<DiskContext>,
    pub(super) settings: DiskSettings,
    pub(super) shared: Option<SharedPlace>,
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
        debug_assert!(matches!(place.stage, PlaceStage::Failed), "the last disk there has gone");
        if let Some(folder) = place.gone() {
            let reason = format!("{} is not mounted any more", folder.display());
            return place.fail(Instant::now(), reason);
        }
        match self.opening(place) {
            Ok(opening) => place.stage = PlaceStage::Opening(opening),
            Err(reason) => place.fail(Instant::now(), reason),
        }
    }

    fn opening(&self, place: &DiskPlace) -> Result<OpeningDisk, String> {
        let shard = DiskShard::start().map_err(|error| error.to_string())?;
        let opened = shard.open(self.options(place));
        Ok(OpeningDisk { shard, opened, began: Instant::now(), is_late: false })
    }

    fn options(&self, place: &DiskPlace) -> DiskOptions {
        let (signal, mover) = (self.context.signal.clone(), self.context.mover.clone());
        let shared = self.shared.as_ref().filter(|_| place.is_for != PlaceUse::Named);
        let bytes_of_all = shared.map_or(0, |shared| shared.bytes_of_all);
        let (path, folder) = match (place.is_for, shared) {
            (PlaceUse::Adopted, Some(shared)) => {
                (shared.path.clone(), FolderChoice::Found(place.path.clone()))
            }
            (PlaceUse::Shared, _) => {
                (place.path.clone(), FolderChoice::FirstOfOurs { bytes_of_all })
            }
            _ => (place.path.clone(), FolderChoice::FirstFree),
        };
        DiskOptions {
            path,
            folder,
            capacity_bytes: self.settings.capacity_bytes,
            sharers: match place.is_for {
                PlaceUse::Named => disks_beside(&place.path, &self.settings.paths),
                // Folders there are bounded together.
                PlaceUse::Shared | PlaceUse::Adopted => 1,
            },
            segment_bytes: self.settings.segment_bytes,
            cluster: shared.map_or(&self.settings.cluster, |shared| &shared.cluster).clone(),
            key: self.settings.key.clone(),
            promotes: self.context.promotes.clone(),
            on_event: Arc::new(move |event| match event {
                DiskEvent::Read => mover.ask(),
                _ => signal.notify(),
            }),
        }
    }

    /// Takes what came of opening a disk, as soon as something has.
    ///
    /// # Errors
    /// The data port is taken.
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
            Ok(Ok(opened)) if self.context.donation.offers_segment(opened.spec.id) => {
                Ok(format!("{} is in use here already", opened.spec.folder.display()))
            }
            Ok(Ok(opened)) => match self.serve(opened) {
                Ok((served, folder)) => {
                    place.folder = Some(folder);
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

    /// Serves an open disk, which has this folder.
    fn serve(&self, opened: OpenedDisk) -> Result<(ServedDisk, PathBuf), StoreError> {
        let OpenedDisk { disk, spec, survivors } = opened;
        let (offer, number) = self.context.donation.add_disk(&spec, disk.clone())?;
        tracing::info!(
            disk = %spec.id,
            folder = %spec.folder.display(),
            capacity_bytes = spec.capacity_bytes,
            "Objects that memory has no room for go to this disk"
        );
        let owned = OwnedDisk { id: spec.id, disk, found: survivors };
        Ok((ServedDisk { owned, offer, number }, spec.folder))
    }

    /// Opens disks again that have failed, until the client ends.
    pub(super) fn run(self) {
        let (mut heard, mut pause) = (0, DISK_LOOK);
        let mut adoption = Adoption::new(Instant::now());
        let mut pages: Vec<Option<DiskPage>> = Vec::new();
        self.show(&mut pages);
        while self.context.signal.wait(&mut heard, pause) {
            self.adopt(&mut adoption);
            let count = self.context.places().len();
            (0..count).for_each(|at| self.look(at, &mut adoption));
            self.context.places().retain(|place| !place.is_over());
            let is_soon = self.context.places().iter().any(DiskPlace::is_in_passing);
            pause = if is_soon { DISK_LOOK_SOON } else { DISK_LOOK };
            self.show(&mut pages);
        }
    }

    /// Shows the disks to an agent of this host.
    fn show(&self, pages: &mut Vec<Option<DiskPage>>) {
        let is_tried = !self.context.is_left();
        pages.resize_with(self.context.places().len(), DiskPage::new);
        for (page, place) in pages.iter_mut().zip(self.context.places().iter()) {
            if let Some(page) = page {
                page.show(&place.shown(is_tried));
            }
        }
    }

    /// Looks now and then for folders in the shared directory that no process has, and takes some
    /// over. A client that has no disk there gets the first of them by its next try.
    fn adopt(&self, adoption: &mut Adoption) {
        let now = Instant::now();
        let mut places = self.context.places();
        if self.context.is_left() || self.context.signal.is_over() {
            return;
        }
        let own = places.iter().find(|place| place.is_for == PlaceUse::Shared);
        let Some((place, open)) = own.and_then(|place| Some((place, place.open()?))) else {
            return;
        };
        if adoption.is_due(now) {
            adoption.look = Some(open.shard.free_folders(self.options(place)));
        }
        let Some(look) = adoption.look.take_if(|look| look.is_here(Duration::ZERO)) else {
            return;
        };
        let mut free = match look.wait(Duration::ZERO) {
            Ok(Ok(free)) => free,
            Ok(Err(error)) => {
                tracing::debug!(%error, "The shared directory cannot be looked at");
                Vec::new()
            }
            Err(_) => Vec::new(),
        };
        // Where a lock was lost its own folder looks free, too.
        free.retain(|folder| !places.iter().any(|place| place.has_folder(folder)));
        let adopted = places.iter().filter(|place| place.is_for == PlaceUse::Adopted).count();
        debug_assert!(adopted <= ADOPTED_DISKS_MAX, "a client takes a bounded number over");
        for folder in adoption.note(now, free, adopted) {
            let mut place = DiskPlace::new(&folder, PlaceUse::Adopted);
            self.begin(&mut place);
            places.push(place);
        }
    }

    /// One look at a place: what can be done is done.
    fn look(&self, at: usize, adoption: &mut Adoption) {
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
            self.offer(at, served, adoption);
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
                        self.context.signal.notify();
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
    /// master does not answer, the heartbeat that reaches it mounts the disk. What was taken over
    /// is kept only if the master says so: its last owner may live and have lost its lock.
    fn offer(&self, at: usize, served: ServedDisk, adoption: &mut Adoption) {
        let ServedDisk { owned, offer, number } = served;
        let DiskContext { master, donation, .. } = &*self.context;
        let verdict = match master.knows_disks() {
            true => master.mount(std::slice::from_ref(&offer), false, number),
            false => Ok(vec![Status::UnavailableInCurrentMode]),
        };
        debug_assert!(verdict.iter().all(|it| it.len() == 1), "one verdict on one disk");
        let folder = self.context.places().get(at).and_then(DiskPlace::adopted_folder);
        let (disk, objects) = (owned.id, owned.found.len());
        match (&verdict, &folder) {
            (Ok(verdicts), _) if verdicts.contains(&Status::UnavailableInCurrentMode) => {
                tracing::warn!(
                    "The master takes no disks, so the disks of this client stay unused"
                );
                self.context.leave();
            }
            (Ok(verdicts), Some(folder)) if verdicts[..] == [Status::Ok] => {
                let folder = folder.display();
                tracing::info!(%folder, objects, %disk, "A disk of a client that has gone is taken over");
                return self.context.give_back(owned);
            }
            (_, Some(folder)) => {
                let folder = folder.display();
                tracing::info!(%folder, ?verdict, "The master does not give a disk that has no owner here");
            }
            (Err(error), None) => {
                tracing::debug!(%error, %disk, "A disk is mounted later");
                return self.context.give_back(owned);
            }
            (Ok(_), None) => return self.context.give_back(owned),
        }
        let now = Instant::now();
        folder.into_iter().for_each(|folder| adoption.refuse(now, folder));
        donation.remove(disk);
        if let Some(place) = self.context.places().get_mut(at) {
            place.retire(now, disk);
        }
    }
}
