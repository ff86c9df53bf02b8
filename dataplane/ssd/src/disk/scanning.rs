//! Recovery with its I/O: all files of a folder are scanned, several at once, and made safe.
//! Invariant: a file that cannot be read ends the recovery: without its tombstones removed objects
//! would come back.

use super::change_notify::ChangeNotify;
use super::error::OpenError;
use super::folder::DiskFolder;
use crate::cipher::LogKey;
use crate::format::Superblock;
use crate::limits::SCANS_AT_ONCE;
use crate::recovery::{Found, SegmentScan};
use crate::stage::StagePool;
use perigee_shard::{Environment, File};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// What all scans together have to do, and have done.
struct Scans {
    left: RefCell<Vec<u32>>,
    found: RefCell<Vec<(u32, Found)>>,
    failed: RefCell<Option<OpenError>>,
    wanted: usize,
    changes: ChangeNotify,
}

impl Scans {
    fn is_over(&self) -> bool {
        self.failed.borrow().is_some() || self.found.borrow().len() == self.wanted
    }
}

/// What the files of these slots are.
pub(super) async fn scan_all<E: Environment>(
    environment: &E,
    folder: &Rc<DiskFolder<E>>,
    stages: &Arc<StagePool>,
    (superblock, key): (&Superblock, Option<&LogKey>),
    slots: Vec<u32>,
) -> Result<Vec<(u32, Found)>, OpenError> {
    let scans = Rc::new(Scans {
        wanted: slots.len(),
        left: RefCell::new(slots),
        found: RefCell::default(),
        failed: RefCell::default(),
        changes: ChangeNotify::default(),
    });
    for _ in 0..SCANS_AT_ONCE.min(scans.wanted) {
        let (folder, scans) = (folder.clone(), scans.clone());
        let (stages, superblock, key) = (stages.clone(), superblock.clone(), key.cloned());
        let own = environment.clone();
        environment.spawn(async move {
            loop {
                let next = scans.left.borrow_mut().pop();
                let Some(slot) = next.filter(|_| !scans.is_over()) else { return };
                let scanning = SegmentScan::new(&superblock, key.as_ref());
                match scan(&own, &folder, &stages, (scanning, slot)).await {
                    Ok(found) => scans.found.borrow_mut().push((slot, found)),
                    Err(error) => *scans.failed.borrow_mut() = Some(error),
                }
                let known = scans.left.borrow().len() + scans.found.borrow().len();
                debug_assert!(known <= scans.wanted, "a file is scanned once");
                scans.changes.notify();
            }
        });
    }
    scans.changes.until(|| scans.is_over().then_some(())).await;
    let failed = scans.failed.borrow_mut().take();
    failed.map_or_else(|| Ok(std::mem::take(&mut *scans.found.borrow_mut())), Err)
}

async fn scan<E: Environment>(
    environment: &E,
    folder: &DiskFolder<E>,
    stages: &Arc<StagePool>,
    (mut scan, slot): (SegmentScan, u32),
) -> Result<Found, OpenError> {
    let at = |step| move |error| OpenError::io(folder.slot_path(slot), step, error);
    let file = folder.open_slot(slot, false).await.map_err(at("open it"))?;
    while let Some(read) = scan.next_read() {
        let reading = DiskFolder::read(environment, stages, &file, read.bytes, read.offset);
        let (stage, found) = reading.await.map_err(at("read it"))?;
        scan.take(stage.as_slice(0, found));
    }
    let found = scan.into_found();
    if found == Found::Foreign {
        tracing::warn!(
            file = %folder.slot_path(slot).display(),
            "This file is no segment of its disk: it is left as it is"
        );
        folder.slots.borrow_mut().remove(&slot);
        return Ok(found);
    }
    // What a dead process left unsynced decides what is found now, and must decide the same later.
    file.sync().await.map_err(at("sync it"))?;
    Ok(found)
}
