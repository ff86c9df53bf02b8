//! Keeps master and disks of one mind: tells what a disk has and what has gone
//! from it, and makes void there what the master does not want any more.
//! Invariant: a tombstone is confirmed only after the disk has it for good.

use super::context::OwnedDisk;
use super::health_log::HealthLog;
use super::owner::{DiskCalls, DiskOwner};
use crate::limits::{BURIAL_WAIT, EXAMINE_WAIT, EXAMINED_MAX, KEEPER_PAUSE, TOMBSTONES_PER_FETCH};
use perigee_rpc::CallError;
use perigee_schemas::disk_address::DiskAddress;
use perigee_schemas::{DiskHealth, Identity, Status};
use perigee_ssd::recovery::Survivor;
use perigee_ssd::{CopyFinding, Disk, DiskState, ExaminedCopy, VoidCopy};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Keeps master and disks of one mind.
#[derive(Debug)]
pub struct Keeper<O> {
    owner: O,
    disks: Vec<KeptDisk>,
    heard: u64,
}

#[derive(Debug)]
pub(super) struct KeptDisk {
    pub(super) id: Identity,
    pub(super) disk: Disk,
    /// What was there when it was opened, until the master has heard of it.
    pub(super) found: Option<Vec<Survivor>>,
    /// The mount after which all of it was announced last.
    pub(super) announced: u64,
    /// The oldest segment of the log that the master has heard of.
    pub(super) heard_oldest: Option<u32>,
    /// Copies that the master did not take of the last announcement, and that are not void yet.
    pub(super) refused: Vec<VoidCopy>,
    /// Whether the master has heard the end of the last announcement.
    pub(super) is_whole: bool,
    state: DiskState,
    health_log: HealthLog,
    is_withdrawn: bool,
}

impl<O: DiskOwner> Keeper<O> {
    /// One for these disks.
    pub fn new(owner: O, disks: Vec<OwnedDisk>) -> Self {
        Self { owner, disks: disks.into_iter().map(KeptDisk::new).collect(), heard: 0 }
    }

    /// Works until the process ends.
    pub async fn run(mut self) {
        let mut pause = Duration::ZERO;
        while self.owner.notified(&mut self.heard, pause).await {
            pause = KEEPER_PAUSE;
            self.disks.extend(self.owner.take_returned().into_iter().map(KeptDisk::new));
            debug_assert!(self.has_each_once(), "a disk that is back had left before");
            for one in &mut self.disks {
                match one.round(&self.owner).await {
                    Ok(true) => pause = Duration::ZERO,
                    Ok(false) => {}
                    Err(error) => {
                        tracing::debug!(%error, disk = %one.id, "The master does not hear of a disk");
                    }
                }
                one.check();
            }
            self.disks.retain(|one| !one.is_withdrawn);
        }
    }

    fn has_each_once(&self) -> bool {
        let ids: BTreeSet<Identity> = self.disks.iter().map(|one| one.id).collect();
        ids.len() == self.disks.len()
    }
}

impl KeptDisk {
    fn new(owned: OwnedDisk) -> Self {
        Self {
            id: owned.id,
            disk: owned.disk,
            found: Some(owned.found),
            announced: 0,
            heard_oldest: None,
            refused: Vec::new(),
            is_whole: false,
            state: DiskState::default(),
            health_log: HealthLog::default(),
            is_withdrawn: false,
        }
    }

    /// What the notes about announcements have in common.
    fn check(&self) {
        let is_announced = self.announced > 0;
        debug_assert!(!is_announced || self.found.is_none(), "what was found is announced once");
        debug_assert!(!self.is_whole || is_announced, "only an announcement comes to an end");
        debug_assert!(!self.is_whole || self.refused.is_empty(), "what is refused is void by then");
    }

    /// One look; true if there may be more to do at once.
    async fn round(&mut self, owner: &impl DiskOwner) -> Result<bool, CallError> {
        self.note_state();
        if self.state.health == DiskHealth::Withdrawn || owner.must_leave(self.id) {
            return self.withdraw(owner).await;
        }
        if self.announced != owner.mounts() {
            return self.announce(owner).await;
        }
        if !self.is_whole {
            self.end_announcement(owner).await?;
        }
        let oldest = self.disk.oldest();
        if self.heard_oldest.is_some_and(|heard| heard != oldest) {
            self.tell_oldest(owner, oldest).await?;
        }
        match owner.master().fetch_tombstones(self.id, TOMBSTONES_PER_FETCH).await? {
            Ok(void) if void.is_empty() => Ok(false),
            Ok(void) => self.bury(owner, &void).await,
            // The master has lost track.
            Err(Status::UnavailableInCurrentStatus) => self.announce(owner).await,
            // Not mounted yet, or not any more: heartbeats see to that.
            Err(_) => Ok(false),
        }
    }

    /// Tells the master from which segment on the log can be read; false if it does not know the
    /// disk.
    pub(super) async fn tell_oldest(
        &mut self,
        owner: &impl DiskOwner,
        oldest: u32,
    ) -> Result<bool, CallError> {
        let is_later = self.heard_oldest.is_none_or(|heard| heard <= oldest);
        debug_assert!(is_later, "what has gone from a log does not come back");
        let is_known = owner.master().tell_recycled(self.id, oldest).await? == Status::Ok;
        self.heard_oldest = is_known.then_some(oldest);
        Ok(is_known)
    }

    async fn bury(
        &self,
        owner: &impl DiskOwner,
        void: &[perigee_rpc::Tombstone],
    ) -> Result<bool, CallError> {
        self.examine(owner, void).await;
        let copies =
            void.iter().map(|one| VoidCopy { hash: one.hash.into(), generation: one.generation });
        let buried = owner.answered(self.disk.bury(copies.collect()), BURIAL_WAIT).await;
        let error = match buried {
            Ok(Ok(())) => {
                let numbers: Vec<u64> = void.iter().map(|one| one.number).collect();
                owner.master().confirm_tombstones(self.id, &numbers).await?;
                void.iter().for_each(|one| owner.void().forget(one.generation));
                return Ok(true);
            }
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        // The master keeps them, and a copy that is void is not read.
        tracing::debug!(error, disk = %self.id, "Copies could not be made void yet");
        Ok(false)
    }

    /// Has the disk look at copies that readers have found damaged, as long as they are there.
    async fn examine(&self, owner: &impl DiskOwner, void: &[perigee_rpc::Tombstone]) {
        let suspect = |one: &perigee_rpc::Tombstone| {
            let place = one.suspect?;
            Some(ExaminedCopy {
                hash: one.hash,
                generation: one.generation,
                address: DiskAddress::unpack(place.address),
                payload_bytes: place.payload_bytes,
            })
        };
        let suspects: Vec<_> = void.iter().filter_map(suspect).take(EXAMINED_MAX).collect();
        if suspects.is_empty() {
            return;
        }
        let findings = owner.answered(self.disk.examine(suspects), EXAMINE_WAIT).await;
        let intact = findings.iter().flatten().filter(|it| **it == CopyFinding::Intact).count();
        if intact > 0 {
            tracing::warn!(disk = %self.id, copies = intact, "Readers found other bytes than the disk has: they were damaged on their way");
        }
    }

    fn note_state(&mut self) {
        self.state = self.disk.status().state;
        self.health_log.note(self.id, &self.state, Instant::now());
    }

    /// Takes the disk out of use: no copy there is read any more, until it is opened again.
    async fn withdraw(&mut self, owner: &impl DiskOwner) -> Result<bool, CallError> {
        debug_assert!(!self.is_withdrawn, "a disk is taken out of use once");
        owner.withdraw(self.id);
        owner.master().unmount_disk(self.id).await?;
        self.is_withdrawn = true;
        owner.note_left(self.id);
        tracing::warn!(disk = %self.id, "A disk is out of use, and its objects are gone until it is back");
        Ok(false)
    }
}
