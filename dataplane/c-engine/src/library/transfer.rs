//! Batches of transfers.

use crate::batch::{OwedNotify, TargetRequests};
use crate::entry::{NotifyEntry, RequestEntry, StatusEntry};
use crate::failure::{Failure, answer_or, answer_status};
use crate::handle::{NativeEngine, with};
use crate::library::notify::notify_of;
use perigee_c::{ArgumentError, Handle, array, slot};
use perigee_engine::{Direction, TransferRequest};
use std::ffi::c_int;

const READ: c_int = 0;
const WRITE: c_int = 1;
/// What `allocateBatchID` answers when it fails.
const NO_BATCH: u64 = u64::MAX;

/// A batch with room for so many requests.
#[unsafe(no_mangle)]
pub extern "C" fn allocateBatchID(engine: Handle, batch_size: usize) -> u64 {
    answer_or("allocateBatchID", NO_BATCH, || {
        with(engine, |engine| Ok(engine.batches.allocate(batch_size)?))
    })
}

/// Frees a batch whose requests are over.
#[unsafe(no_mangle)]
pub extern "C" fn freeBatchID(engine: Handle, batch_id: u64) -> c_int {
    answer_status("freeBatchID", || {
        with(engine, |engine| Ok(engine.batches.free(batch_id, &engine.engine())?))
    })
}

/// Submits requests.
///
/// # Safety
/// `entries` has `count` entries. Their memory stays valid, and is not written by others, until
/// each is final.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn submitTransfer(
    engine: Handle,
    batch_id: u64,
    entries: *mut RequestEntry,
    count: usize,
) -> c_int {
    answer_status("submitTransfer", || {
        with(engine, |engine| {
            // SAFETY: the caller's promise is the same.
            unsafe { submit(engine, batch_id, array("entries", entries, count)?, None) }
        })
    })
}

/// Submits requests; the owner of the first one's target gets a message when the batch has
/// completed.
///
/// # Safety
/// As `submitTransfer`; the texts of the message end with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn submitTransferWithNotify(
    engine: Handle,
    batch_id: u64,
    entries: *mut RequestEntry,
    count: usize,
    notify_msg: NotifyEntry,
) -> c_int {
    answer_status("submitTransferWithNotify", || {
        with(engine, |engine| {
            // SAFETY: the caller's promise.
            let (entries, notify) =
                unsafe { (array("entries", entries, count)?, notify_of(&notify_msg)?) };
            let first = entries.first().ok_or(ArgumentError::Value("count"))?;
            let segment = engine.segment_name(first.target_id)?;
            let owed = Some(OwedNotify { segment, notify });
            // SAFETY: the caller's promise is the same.
            unsafe { submit(engine, batch_id, entries, owed) }
        })
    })
}

/// How far a request is.
///
/// # Safety
/// `status` is null or has room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getTransferStatus(
    engine: Handle,
    batch_id: u64,
    task_id: usize,
    status: *mut StatusEntry,
) -> c_int {
    answer_status("getTransferStatus", || {
        with(engine, |engine| {
            // SAFETY: the caller's promise.
            let status = unsafe { slot("status", status) }?;
            let batch = engine.batches.find(batch_id)?;
            let found = batch.status(&engine.engine(), task_id)?;
            let found =
                StatusEntry { status: found.state as c_int, transferred_bytes: found.bytes };
            status.write(found);
            Ok(())
        })
    })
}

/// # Safety
/// The memory of the entries stays valid until each is final.
unsafe fn submit(
    engine: &NativeEngine,
    batch: u64,
    entries: &[RequestEntry],
    owed: Option<OwedNotify>,
) -> Result<(), Failure> {
    let targets = by_target(engine, entries)?;
    let batch = engine.batches.find(batch)?;
    // SAFETY: the caller's promise is the same.
    unsafe { batch.submit(&engine.engine_in_use(), &targets, entries.len(), owed) }
}

/// The requests of each target, in the order in which targets come first.
fn by_target(
    engine: &NativeEngine,
    entries: &[RequestEntry],
) -> Result<Vec<TargetRequests>, Failure> {
    let mut numbers: Vec<i32> = Vec::new();
    let mut targets: Vec<TargetRequests> = Vec::new();
    for (place, entry) in entries.iter().enumerate() {
        let request = request(entry)?;
        // Callers give the requests of a target one after the other.
        let known = numbers.iter().rposition(|number| *number == entry.target_id);
        let index = match known {
            Some(index) => index,
            None => {
                let segment = engine.segment_name(entry.target_id)?;
                numbers.push(entry.target_id);
                let (places, requests) = (Vec::new(), Vec::new());
                targets.push(TargetRequests { segment, places, requests });
                targets.len() - 1
            }
        };
        targets[index].places.push(place);
        targets[index].requests.push(request);
    }
    Ok(targets)
}

fn request(entry: &RequestEntry) -> Result<TransferRequest, ArgumentError> {
    let direction = match entry.opcode {
        READ => Direction::Read,
        WRITE => Direction::Write,
        _ => return Err(ArgumentError::Value("opcode")),
    };
    if entry.source.is_null() && entry.length > 0 {
        return Err(ArgumentError::Null("source"));
    }
    Ok(TransferRequest {
        direction,
        local: entry.source.addr() as u64,
        remote: entry.target_offset,
        bytes: entry.length,
    })
}
