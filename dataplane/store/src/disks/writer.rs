//! Takes demotions from the master and writes them.
//! Invariant: each demotion that is taken is ended with what came of it, or left to the deadline of
//! a master that does not answer.

use super::demotion::{Parted, TakenDemotion, part, status_of};
use super::owner::{DiskCalls, DiskOwner};
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
        if !self.owner.table().has_disks() {
            return Ok(false);
        }
        let batch = self.owner.master().fetch_demotions(DEMOTIONS_PER_FETCH).await?;
        if batch.keys.is_empty() {
            return Ok(false);
        }
        self.last_work = Some(self.owner.now());
        let Parted { outgoing, mut failed } = part(batch, self.owner.table());
        let mut under_way = VecDeque::new();
        let mut bytes = 0;
        for (id, objects) in outgoing {
            let Some(disk) = self.owner.table().disk(id) else {
                failed.extend(objects.into_iter().map(|(demotion, _)| demotion));
                continue;
            };
            for step in steps(&disk, objects) {
                bytes += step.bytes;
                under_way.push_back(step);
                while bytes > DEMOTED_BYTES_IN_FLIGHT
                    && let Some(oldest) = under_way.pop_front()
                {
                    bytes -= oldest.bytes;
                    self.end(oldest).await;
                }
            }
        }
        for step in under_way {
            bytes -= step.bytes;
            self.end(step).await;
        }
        debug_assert_eq!(bytes, 0, "what was given to a disk has ended");
        self.report(&failed).await;
        Ok(true)
    }

    /// Waits for a disk and tells the master. What the master does not take stays in the log until
    /// a tombstone or the refusal of an announcement says that it is void: a master that was
    /// started again in between does not know of copies that the last one has counted on already.
    async fn end(&self, step: WriteStep) {
        let WriteStep { disk, mut demotions, written, .. } = step;
        match self.owner.answered(written, DISK_WRITE_WAIT).await {
            Ok(written) => {
                debug_assert_eq!(written.len(), demotions.len(), "one outcome per object");
                for (demotion, written) in demotions.iter_mut().zip(written) {
                    if let Err(error) = &written {
                        tracing::debug!(key = demotion.key, %error, "An object was not written to its disk");
                    }
                    demotion.outcome = written.map_err(|error| status_of(&error));
                }
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

/// Gives a disk its objects in steps of bounded size.
fn steps(disk: &Disk, objects: Vec<(TakenDemotion, Outgoing)>) -> impl Iterator<Item = WriteStep> {
    let mut objects = objects.into_iter().peekable();
    std::iter::from_fn(move || {
        objects.peek()?;
        let (mut demotions, mut outgoing, mut bytes) = (Vec::new(), Vec::new(), 0);
        while bytes < DEMOTED_BYTES_IN_FLIGHT / 4
            && let Some((demotion, object)) = objects.next()
        {
            bytes += u64::from(object.object.payload_bytes);
            demotions.push(demotion);
            outgoing.push(object);
        }
        debug_assert!(!outgoing.is_empty(), "each step writes some");
        debug_assert_eq!(outgoing.len(), demotions.len(), "each object has its demotion");
        let written = disk.write(outgoing);
        Some(WriteStep { disk: disk.clone(), demotions, bytes, written })
    })
}
