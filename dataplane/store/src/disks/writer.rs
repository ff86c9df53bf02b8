//! Takes demotions from the master and writes them.
//! Invariant: each demotion that is taken is ended with what came of it, or left to the deadline of
//! a master that does not answer.

use super::demotion::{Parted, TakenDemotion, part, status_of};
use super::owner::{DiskCalls, DiskOwner};
use super::saving::SavedRound;
use crate::limits::{
    DEMOTED_BYTES_IN_FLIGHT, DEMOTION_BUSY, DEMOTION_BUSY_PAUSE, DEMOTION_PAUSE,
    DEMOTIONS_PER_FETCH, DISK_WRITE_WAIT, REMOUNT_PAUSE, REPORT_TRIES,
};
use perigee_rpc::{CallError, EndedDemotion};
use perigee_schemas::disk_address::DiskAddress;
use perigee_ssd::{Answer, Disk, Outgoing, WriteError};
use std::collections::VecDeque;
use std::time::Duration;

/// Writes what the master has its owner demote.
#[derive(Debug)]
pub struct Writer<O> {
    owner: O,
    heard: u64,
    last_work: Option<Duration>,
}

/// Objects that a disk has been given.
struct WriteStep {
    disk: Disk,
    demotions: Vec<TakenDemotion>,
    bytes: u64,
    written: Answer<Vec<Result<DiskAddress, WriteError>>>,
}

impl<O: DiskOwner> Writer<O> {
    /// One for the disks that its owner serves, whichever those are at a time.
    pub fn new(owner: O) -> Self {
        Self { owner, heard: 0, last_work: None }
    }

    /// Works until the process ends.
    pub async fn run(mut self) {
        let mut pause = DEMOTION_PAUSE;
        while self.owner.notified(&mut self.heard, pause).await {
            pause = match self.round().await {
                Ok(true) => Duration::ZERO,
                Ok(false) if self.is_busy() => DEMOTION_BUSY_PAUSE,
                Ok(false) => DEMOTION_PAUSE,
                Err(error) => {
                    tracing::debug!(%error, "No demotions could be taken");
                    if self.owner.leaves() {
                        // Who leaves does not wait for a master that does not answer.
                        self.owner
                            .note_saved(SavedRound { is_broken: true, ..SavedRound::default() });
                    }
                    REMOUNT_PAUSE
                }
            };
        }
    }

    /// Whether there was work not long ago, so that more is likely.
    fn is_busy(&self) -> bool {
        self.last_work.is_some_and(|last| self.owner.now().saturating_sub(last) < DEMOTION_BUSY)
    }

    /// Takes some demotions and carries them out; false if there are none.
    async fn round(&mut self) -> Result<bool, CallError> {
        let _in_order = self.owner.in_order().await;
        let leaves = self.owner.leaves();
        if !self.owner.table().has_disks() {
            if leaves {
                self.owner.note_saved(SavedRound { is_broken: true, ..SavedRound::default() });
            }
            return Ok(false);
        }
        let batch = self.owner.master().fetch_demotions(DEMOTIONS_PER_FETCH, leaves).await?;
        let (keys, left) = (batch.keys.len(), batch.left);
        let is_last = keys == 0 && left == 0;
        let mut saved = SavedRound { left, is_last, ..SavedRound::default() };
        if keys == 0 {
            if leaves {
                self.owner.note_saved(saved);
            }
            return Ok(leaves && left > 0);
        }
        self.last_work = Some(self.owner.now());
        if leaves {
            self.owner.note_saved(SavedRound { left: left + keys as u64, ..SavedRound::default() });
        }
        let Parted { outgoing, mut failed } = part(batch, self.owner.table());
        // The master counts on these copies from now on, whatever it had given up before.
        let taken = outgoing.values().flatten().map(|(demotion, _)| demotion.void());
        taken.for_each(|copy| self.owner.void().forget(copy.generation));
        let mut lanes = Vec::with_capacity(outgoing.len());
        for (id, objects) in outgoing {
            match self.owner.table().disk(id) {
                Some(disk) => lanes.push(DiskLane::new(disk, objects)),
                None => failed.extend(objects.into_iter().map(|(demotion, _)| demotion)),
            }
        }
        // Each disk has as much as it takes before any is waited for.
        while !lanes.is_empty() {
            lanes.iter_mut().for_each(DiskLane::fill);
            for lane in &mut lanes {
                if let Some(oldest) = lane.take_oldest() {
                    self.end(oldest, &mut saved).await;
                }
            }
            lanes.retain(|lane| !lane.has_ended());
        }
        self.report(&failed).await;
        if leaves {
            saved.failed = keys as u64 - saved.objects;
            self.owner.note_saved(saved);
        }
        Ok(true)
    }

    /// Waits for a disk and tells the master. What the master does not take stays in the log until
    /// a tombstone or the refusal of an announcement says that it is void: a master that was
    /// started again in between does not know of copies that the last one has counted on already.
    async fn end(&self, step: WriteStep, saved: &mut SavedRound) {
        let WriteStep { disk, mut demotions, written, bytes } = step;
        match self.owner.answered(written, DISK_WRITE_WAIT).await {
            Ok(written) => {
                debug_assert_eq!(written.len(), demotions.len(), "one outcome per object");
                for (demotion, written) in demotions.iter_mut().zip(written) {
                    if let Err(error) = &written {
                        tracing::debug!(key = demotion.key, %error, "An object was not written to its disk");
                    }
                    demotion.outcome = written.map_err(|error| status_of(&error));
                }
                let there = demotions.iter().filter(|demotion| demotion.outcome.is_ok()).count();
                saved.objects += there as u64;
                // Those that were not written are few, and this is for the log only.
                saved.bytes += bytes * there as u64 / demotions.len().max(1) as u64;
            }
            Err(error) => {
                tracing::warn!(%error, "Objects were not written to their disk");
                // The disk may still come to it. Nothing waits for the burial: a copy that outlives
                // this process is announced, refused and made void by the next.
                drop(disk.bury(demotions.iter().map(TakenDemotion::void).collect()));
            }
        }
        self.report(&demotions).await;
    }

    /// Tells the master, a few times if it does not answer; not a later life of it, which does not
    /// know them and waits for the announcement that comes after this.
    async fn report(&self, demotions: &[TakenDemotion]) {
        if demotions.is_empty() {
            return;
        }
        let ended: Vec<EndedDemotion<'_>> = demotions.iter().map(TakenDemotion::ended).collect();
        let mounts = self.owner.mounts();
        for _ in 0..REPORT_TRIES {
            if self.owner.mounts() != mounts {
                return;
            }
            match self.owner.master().end_demotions(&ended).await {
                Ok(_) => return,
                Err(error) => {
                    tracing::debug!(%error, "The master did not hear what became of demotions");
                }
            }
            self.owner.sleep(REMOUNT_PAUSE).await;
        }
    }
}

/// What one disk is given in a round: some of it is under way, the rest waits.
struct DiskLane {
    disk: Disk,
    waiting: std::vec::IntoIter<(TakenDemotion, Outgoing)>,
    under_way: VecDeque<WriteStep>,
    bytes: u64,
}

impl DiskLane {
    fn new(disk: Disk, objects: Vec<(TakenDemotion, Outgoing)>) -> Self {
        Self { disk, waiting: objects.into_iter(), under_way: VecDeque::new(), bytes: 0 }
    }

    /// Gives the disk its objects in steps of bounded size, as many as may be under way.
    fn fill(&mut self) {
        while self.bytes < DEMOTED_BYTES_IN_FLIGHT && self.waiting.len() > 0 {
            let (mut demotions, mut outgoing, mut bytes) = (Vec::new(), Vec::new(), 0);
            while bytes < DEMOTED_BYTES_IN_FLIGHT / 4
                && let Some((demotion, object)) = self.waiting.next()
            {
                bytes += u64::from(object.object.payload_bytes);
                demotions.push(demotion);
                outgoing.push(object);
            }
            debug_assert!(!outgoing.is_empty(), "each step writes some");
            debug_assert_eq!(outgoing.len(), demotions.len(), "each object has its demotion");
            let written = self.disk.write(outgoing);
            self.bytes += bytes;
            let disk = self.disk.clone();
            self.under_way.push_back(WriteStep { disk, demotions, bytes, written });
        }
    }

    fn take_oldest(&mut self) -> Option<WriteStep> {
        let oldest = self.under_way.pop_front()?;
        self.bytes -= oldest.bytes;
        Some(oldest)
    }

    fn has_ended(&self) -> bool {
        debug_assert!(!self.under_way.is_empty() || self.bytes == 0, "what is given has ended");
        self.under_way.is_empty() && self.waiting.len() == 0
    }
}
