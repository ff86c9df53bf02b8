//! The disks of a client: opened, mounted and announced; objects of its memory are written there
//! before they are evicted, and what is void there is erased.
//! Invariant: a copy that the master has not taken is buried, and a tombstone is confirmed only
//! when the disk has it for good. A disk that fails is withdrawn; memory goes on without it.
//!
//! DRAFT against /work/h/door.md, not compiled: the door has not landed yet.

use crate::donation::Donation;
use perigee_memory::Segment;
use perigee_rpc::{CallError, DemotionBatch, EndedDemotion, FoundCopy, MasterClient};
use perigee_schemas::{Identity, Status};
use perigee_ssd::recovery::Survivor;
use perigee_ssd::{Disk, DiskEvent, Health, ImageSource, Outgoing, VoidCopy};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Bytes that are on their way to the disks at a time; the door refuses more than 64 MiB per disk.
const IN_FLIGHT_BYTES_MAX: u64 = 32 << 20;
/// How long the master is asked again and again after it had something.
const BUSY: Duration = Duration::from_secs(10);
/// Pause between two questions while it had something not long ago.
const BUSY_PAUSE: Duration = Duration::from_millis(5);
/// Copies in one announcement, beside the bound of keys per call.
const COPIES_PER_PAGE: usize = 8192;

/// One disk. A master that was restarted must hear of all copies, and the door lists them at
/// opening only: the disk is closed and opened again for that.
struct OwnedDisk {
    disk: Disk,
    id: Identity,
    /// Oldest segment of the log that the master has heard of, and that there is.
    heard_oldest: AtomicU64,
    oldest: AtomicU64,
}

impl DiskOwner {
    /// Mounts, then says what the log has left, then what is there: in this order a copy in a
    /// segment that is gone is refused at once.
    fn bring_up(&self, opened: OpenedDisk) -> Result<(), StoreError> {
        let (offer, number) = self.donation.add_disk(&opened.spec, opened.disk.clone())?;
        self.master.mount(&[offer], false, number)?;
        self.master.tell_recycled(opened.spec.id, opened.spec.oldest)?;
        self.announce(opened.spec.id, &opened.disk, opened.survivors)
    }

    /// Pages; what is refused is void for ever. -101 (the segment has gone) needs no burial.
    fn announce(&self, id: Identity, disk: &Disk, survivors: Vec<Survivor>) -> Result<(), CallError> {
        for (page, is_last) in pages(&survivors) {
            let copies: Vec<FoundCopy<'_>> = page.iter().filter_map(found).collect();
            let verdicts = self.master.announce_copies(id, &copies, is_last)?;
            let void = page.iter().zip(verdicts).filter(|(_, it)| *it == Status::ObjectNotFound);
            disk.bury(void.map(|(it, _)| VoidCopy { hash: it.hash, generation: it.generation }));
        }
        Ok(())
    }

    /// Takes demotions until there are none, several MiB in flight. One thread per client.
    fn demote(&self) {
        let mut last_work = Instant::now() - BUSY;
        while self.signal.wait_for_work(last_work.elapsed() < BUSY, BUSY_PAUSE) {
            match self.master.fetch_demotions(256) {
                Ok(batch) if batch.keys.is_empty() => {}
                Ok(batch) => {
                    last_work = Instant::now();
                    self.write(batch);
                }
                Err(error) => self.signal.pause_after(&error),
            }
        }
    }

    /// By disk; the verdicts of what was written go to the master as each disk answers, and what
    /// the master does not take is buried. `Changed`: the master gave the place away meanwhile.
    fn write(&self, batch: DemotionBatch) {
        let mut by_disk: HashMap<Identity, Vec<(usize, Outgoing)>> = HashMap::new();
        for at in 0..batch.keys.len() {
            let disk = batch.segments[batch.disks[at] as usize].id;
            match self.outgoing(&batch, at) {
                Some(outgoing) => by_disk.entry(disk).or_default().push((at, outgoing)),
                None => self.report_failed(&batch, at),
            }
        }
        // Each disk's objects in steps of IN_FLIGHT_BYTES_MAX: write(step), then, while it is under
        // way, write(next step), then answer of the first step -> end_demotions -> bury refused.
    }

    /// Oldest first; confirmed only after `bury` has answered Ok. `UnavailableInCurrentStatus`:
    /// close, open, announce.
    fn bury(&self, one: &OwnedDisk) -> Result<bool, CallError> {
        let void = match self.master.fetch_tombstones(one.id, 4096)? {
            Ok(void) if void.is_empty() => return Ok(false),
            Ok(void) => void,
            Err(Status::UnavailableInCurrentStatus) => return self.announce_again(one),
            Err(_) => return Ok(false),
        };
        let copies = void.iter().map(|it| VoidCopy { hash: it.hash.into(), generation: it.generation });
        if one.disk.bury(copies.collect()).wait(BURY_WAIT).is_ok_and(|done| done.is_ok()) {
            let numbers: Vec<u64> = void.iter().map(|it| it.number).collect();
            self.master.confirm_tombstones(one.id, &numbers)?;
        }
        Ok(true)
    }
}
