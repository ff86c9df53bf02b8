//! Batches as C has them: room for so many requests, which are submitted in one call or in several
//! and may have several targets.
//!
//! The invariant: a submission is taken as a whole or leaves nothing under way, and a message that
//! goes with it is sent once, after every request of the batch has completed.

use crate::limits::{OPEN_BATCHES_MAX, TAKE_BACK_WAIT};
use perigee_c::ArgumentError;
use perigee_engine::{
    BATCH_REQUESTS_MAX, BatchError, BatchId, EngineError, Notify, RequestStatus, SubmitOptions,
    TransferEngine, TransferRequest, TransferState,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::failure::Failure;

/// Requests for one segment, with their places among all of the call.
#[derive(Debug)]
pub(crate) struct TargetRequests {
    pub(crate) segment: String,
    pub(crate) places: Vec<usize>,
    pub(crate) requests: Vec<TransferRequest>,
}

/// A message for the owner of a segment.
#[derive(Debug)]
pub(crate) struct OwedNotify {
    pub(crate) segment: String,
    pub(crate) notify: Notify,
}

/// One batch.
#[derive(Debug)]
pub(crate) struct RoomyBatch {
    room: usize,
    state: Mutex<BatchState>,
}

#[derive(Debug, Default)]
struct BatchState {
    freed: bool,
    /// What the engine knows of it.
    parts: Vec<BatchId>,
    /// Part and index there of each request.
    tasks: Vec<(BatchId, usize)>,
    owed: Vec<OwedNotify>,
}

/// Number of the newest batch of all engines: one engine's is never taken for another's.
static NEWEST: AtomicU64 = AtomicU64::new(0);

/// The batches of one engine by number.
#[derive(Debug, Default)]
pub(crate) struct OpenBatches(Mutex<HashMap<u64, Arc<RoomyBatch>>>);

impl OpenBatches {
    /// A new batch with room for so many requests.
    pub(crate) fn allocate(&self, room: usize) -> Result<u64, EngineError> {
        let too_many = |what, limit, remedy| Err(EngineError::TooMany { what, limit, remedy });
        if room > BATCH_REQUESTS_MAX {
            let remedy = "allocate several batches";
            return too_many("requests in one batch", BATCH_REQUESTS_MAX, remedy);
        }
        let mut open = self.lock();
        if open.len() >= OPEN_BATCHES_MAX {
            return too_many("batches", OPEN_BATCHES_MAX, "free those that have ended");
        }
        let number = NEWEST.fetch_add(1, Ordering::Relaxed) + 1;
        open.insert(number, Arc::new(RoomyBatch { room, state: Mutex::default() }));
        Ok(number)
    }

    /// The batch of a number.
    pub(crate) fn find(&self, number: u64) -> Result<Arc<RoomyBatch>, EngineError> {
        let found = self.lock().get(&number).cloned();
        found.ok_or(BatchError::Unknown { batch: number, index: 0 }.into())
    }

    /// Forgets a batch whose requests are over.
    pub(crate) fn free(&self, number: u64, engine: &TransferEngine) -> Result<(), EngineError> {
        self.find(number)?.free(number, engine)?;
        self.lock().remove(&number);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<RoomyBatch>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RoomyBatch {
    /// Submits `count` requests, split by target.
    ///
    /// # Safety
    /// The local ranges must stay valid until every request is final.
    pub(crate) unsafe fn submit(
        &self,
        engine: &TransferEngine,
        targets: &[TargetRequests],
        count: usize,
        owed: Option<OwedNotify>,
    ) -> Result<(), Failure> {
        let mut state = self.lock();
        if state.freed {
            return Err(ArgumentError::Value("batch_id").into());
        }
        if count > self.room - state.tasks.len() {
            return Err(Failure::Engine(EngineError::TooMany {
                what: "requests in this batch",
                limit: self.room,
                remedy: "allocate it with more room",
            }));
        }
        // SAFETY: the caller's promise is the same.
        let parts = unsafe { begin(engine, targets) }?;
        let mut tasks: Vec<(usize, (BatchId, usize))> = Vec::with_capacity(count);
        for (target, part) in targets.iter().zip(&parts) {
            let places = target.places.iter().enumerate();
            tasks.extend(places.map(|(index, place)| (*place, (*part, index))));
        }
        tasks.sort_unstable_by_key(|(place, _)| *place);
        state.tasks.extend(tasks.into_iter().map(|(_, task)| task));
        state.parts.extend(parts);
        state.owed.extend(owed);
        Ok(())
    }

    /// How far a request is. A call that finds the batch completed sends what goes with it.
    pub(crate) fn status(
        &self,
        engine: &TransferEngine,
        task: usize,
    ) -> Result<RequestStatus, Failure> {
        let (part, index) = {
            let state = self.lock();
            *state.tasks.get(task).ok_or(ArgumentError::Value("task_id"))?
        };
        let status = engine.status(part, index)?;
        if status.state == TransferState::Completed {
            self.send_owed(engine);
        }
        Ok(status)
    }

    fn free(&self, number: u64, engine: &TransferEngine) -> Result<(), EngineError> {
        let parts = self.lock().parts.clone();
        for part in &parts {
            if !engine.batch_status(*part)?.state.is_final() {
                return Err(BatchError::Busy { batch: number }.into());
            }
        }
        self.send_owed(engine);
        let mut state = self.lock();
        if state.freed || state.parts.len() > parts.len() {
            return Err(BatchError::Busy { batch: number }.into());
        }
        state.freed = true;
        state.parts.drain(..).try_for_each(|part| engine.release(part))
    }

    /// Sends what is owed if every request has completed.
    fn send_owed(&self, engine: &TransferEngine) {
        let owed = {
            let mut state = self.lock();
            let completed = |part: &BatchId| {
                engine.batch_status(*part).is_ok_and(|it| it.state == TransferState::Completed)
            };
            if state.owed.is_empty() || !state.parts.iter().all(completed) {
                return;
            }
            std::mem::take(&mut state.owed)
        };
        for OwedNotify { segment, notify } in owed {
            if let Err(error) = engine.notify(&segment, notify) {
                tracing::error!(%error, segment, "The bytes are there, but their notify is lost");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BatchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Begins one part per target; if one is refused, the others are taken back.
///
/// # Safety
/// As [`RoomyBatch::submit`].
unsafe fn begin(
    engine: &TransferEngine,
    targets: &[TargetRequests],
) -> Result<Vec<BatchId>, EngineError> {
    let mut parts = Vec::with_capacity(targets.len());
    for TargetRequests { segment, requests, .. } in targets {
        // SAFETY: the caller's promise is the same.
        match unsafe { engine.submit(segment, requests, &SubmitOptions::default()) } {
            Ok(part) => parts.push(part),
            Err(error) => {
                parts.iter().for_each(|part| take_back(engine, *part));
                return Err(error);
            }
        }
    }
    Ok(parts)
}

fn take_back(engine: &TransferEngine, part: BatchId) {
    let ended = engine.cancel(part).and_then(|()| engine.wait(part, TAKE_BACK_WAIT));
    if let Err(error) = ended.and_then(|_| engine.release(part)) {
        tracing::error!(%error, "Part of a refused batch is still under way");
    }
}
