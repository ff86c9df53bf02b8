//! The thread that takes demotions from the master and writes them.
//! Invariant: each demotion that is taken is ended with what came of it, or left to the deadline of
//! a master that does not answer.

use super::context::{DiskContext, OwnedDisk};
use super::demotion::{Parted, TakenDemotion, part, status_of};
use crate::limits::{
    DEMOTED_BYTES_IN_FLIGHT, DEMOTION_BUSY, DEMOTION_BUSY_PAUSE, DEMOTION_PAUSE,
    DEMOTIONS_PER_FETCH, DISK_WRITE_WAIT, REMOUNT_PAUSE, REPORT_TRIES,
};
use perigee_rpc::{CallError, EndedDemotion};
use perigee_schemas::disk_address::DiskAddress;
use perigee_schemas::{Identity, Status};
use perigee_ssd::{Answer, Disk, Outgoing, VoidCopy, WriteError};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Writer {
    context: Arc<DiskContext>,
    disks: HashMap<Identity, Disk>,
    heard: u64,
    last_work: Option<Instant>,
}

/// Objects that a disk has been given.
struct WriteStep {
    disk: Disk,
    demotions: Vec<TakenDemotion>,
    bytes: u64,
    written: Answer<Vec<Result<DiskAddress, WriteError>>>,
}

impl Writer {
    pub(super) fn new(context: Arc<DiskContext>, disks: &[OwnedDisk]) -> Self {
        let disks = disks.iter().map(|one| (one.id, one.disk.clone())).collect();
        Self { context, disks, heard: 0, last_work: None }
    }

    pub(super) fn run(mut self, end: Sender<()>) {
        let mut pause = DEMOTION_PAUSE;
        while self.context.signal.wait(&mut self.heard, pause) {
            pause = match self.round() {
                Ok(true) => Duration::ZERO,
                Ok(false) if self.is_busy() => DEMOTION_BUSY_PAUSE,
                Ok(false) => DEMOTION_PAUSE,
                Err(error) => {
                    tracing::debug!(%error, "No demotions could be taken");
                    REMOUNT_PAUSE
                }
            };
        }
        drop(end);
    }

    /// Whether there was work not long ago, so that more is likely.
    fn is_busy(&self) -> bool {
        self.last_work.is_some_and(|last| last.elapsed() < DEMOTION_BUSY)
    }

    /// Takes some demotions and carries them out; false if there are none.
    fn round(&mut self) -> Result<bool, CallError> {
        let context = self.context.clone();
        let _in_order = context.in_order();
        let batch = context.master.fetch_demotions(DEMOTIONS_PER_FETCH)?;
        if batch.keys.is_empty() {
            return Ok(false);
        }
        self.last_work = Some(Instant::now());
        let Parted { outgoing, mut failed } = part(batch, &context.donation);
        let mut under_way = VecDeque::new();
        let mut bytes = 0;
        for (id, objects) in outgoing {
            let Some(disk) = self.disks.get(&id) else {
                failed.extend(objects.into_iter().map(|(demotion, _)| demotion));
                continue;
            };
            for step in steps(disk, objects) {
                bytes += step.bytes;
                under_way.push_back(step);
                while bytes > DEMOTED_BYTES_IN_FLIGHT
                    && let Some(oldest) = under_way.pop_front()
                {
                    bytes -= oldest.bytes;
                    self.end(oldest);
                }
            }
        }
        under_way.into_iter().for_each(|step| self.end(step));
        self.report(&failed);
        Ok(true)
    }

    /// Waits for a disk, tells the master, and makes void what it does not take.
    fn end(&self, step: WriteStep) {
        let WriteStep { disk, mut demotions, written, .. } = step;
        let mut void: Vec<VoidCopy> = Vec::new();
        match written.wait(DISK_WRITE_WAIT) {
            Ok(written) => {
                for (demotion, written) in demotions.iter_mut().zip(written) {
                    if let Err(error) = &written {
                        tracing::debug!(key = demotion.key, %error, "An object was not written to its disk");
                    }
                    demotion.outcome = written.map_err(|error| status_of(&error));
                }
            }
            Err(error) => {
                tracing::warn!(%error, "Objects were not written to their disk");
                // The disk may still come to it.
                void.extend(demotions.iter().map(TakenDemotion::void));
            }
        }
        if let Some(verdicts) = self.report(&demotions) {
            let refused = demotions
                .iter()
                .zip(verdicts)
                .filter(|(demotion, verdict)| demotion.outcome.is_ok() && *verdict != Status::Ok);
            void.extend(refused.map(|(demotion, _)| demotion.void()));
        }
        if !void.is_empty() {
            // Nothing waits for it: a copy that outlives this process is announced, refused and
            // made void by the next.
            drop(disk.bury(void));
        }
    }

    /// Tells the master, a few times if it does not answer.
    fn report(&self, demotions: &[TakenDemotion]) -> Option<Vec<Status>> {
        if demotions.is_empty() {
            return None;
        }
        let ended: Vec<EndedDemotion<'_>> = demotions.iter().map(TakenDemotion::ended).collect();
        for _ in 0..REPORT_TRIES {
            match self.context.master.end_demotions(&ended) {
                Ok(verdicts) => return Some(verdicts),
                Err(error) => {
                    tracing::debug!(%error, "The master did not hear what became of demotions");
                }
            }
            std::thread::sleep(REMOUNT_PAUSE);
        }
        None
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
        let written = disk.write(outgoing);
        Some(WriteStep { disk: disk.clone(), demotions, bytes, written })
    })
}
