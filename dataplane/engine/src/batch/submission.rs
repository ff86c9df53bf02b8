//! An asynchronous batch as its caller sees it: one attempt, and a second one if the peer was not
//! where it was.
//!
//! The invariant: what a second attempt may still move is not final, there are two attempts at most
//! and never two at a time, and a waiting caller gets the end of the last one.

use super::Batch;
use crate::error::EngineError;
use crate::request::{RequestStatus, TransferState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Attempts at one batch.
#[derive(Debug)]
pub(crate) struct Submission {
    stage: Mutex<AttemptStage>,
    /// Whether the caller has got its end.
    heard: AtomicBool,
    changed: Condvar,
}

#[derive(Clone, Debug)]
enum AttemptStage {
    /// The first attempt is under way.
    First(Arc<Batch>),
    /// It has failed, and the peer is being looked up again. The caller's memory is not touched.
    Between(Arc<Batch>),
    /// The second attempt is being prepared; it may be taken back already.
    Resuming(Arc<Batch>),
    /// No other attempt follows.
    Last(Arc<Batch>),
}

impl AttemptStage {
    fn batch(&self) -> &Arc<Batch> {
        match self {
            AttemptStage::First(batch)
            | AttemptStage::Between(batch)
            | AttemptStage::Resuming(batch)
            | AttemptStage::Last(batch) => batch,
        }
    }

    /// Whether the batch is not the last word on requests that have failed.
    fn is_open(&self) -> bool {
        let may_follow = !matches!(self, AttemptStage::Last(_));
        may_follow && self.batch().has_moved_nothing()
    }
}

impl Submission {
    /// A submission whose first attempt is this batch.
    pub(crate) fn new(first: Arc<Batch>) -> Self {
        // An empty batch was over before its end could be reported.
        let stage = match first.is_over() {
            true => AttemptStage::Last(first),
            false => AttemptStage::First(first),
        };
        Self { stage: Mutex::new(stage), heard: AtomicBool::new(false), changed: Condvar::new() }
    }

    /// The first attempt is over, and another one is worth it: true if there will be one. In that
    /// case [`Submission::give_up`] or [`Submission::go_on`] must follow.
    pub(crate) fn pause(&self) -> bool {
        let mut stage = self.lock();
        let AttemptStage::First(first) = &*stage else {
            return false;
        };
        if first.is_canceled() {
            return false;
        }
        *stage = AttemptStage::Between(first.clone());
        self.changed.notify_all();
        true
    }

    /// The first attempt is over, and was the only one.
    pub(crate) fn settle(&self) {
        let mut stage = self.lock();
        if let AttemptStage::First(first) = &*stage {
            *stage = AttemptStage::Last(first.clone());
            self.changed.notify_all();
        }
    }

    /// The peer was found: whether a second attempt is still wanted. From now on the caller's
    /// memory may be touched.
    pub(crate) fn resume(&self) -> bool {
        let mut stage = self.lock();
        let AttemptStage::Between(first) = &*stage else {
            return false;
        };
        *stage = AttemptStage::Resuming(first.clone());
        true
    }

    /// This is the second attempt; it may begin.
    pub(crate) fn go_on(&self, second: &Arc<Batch>) {
        let mut stage = self.lock();
        let is_prepared = matches!(&*stage, AttemptStage::Resuming(_));
        debug_assert!(is_prepared, "a second attempt begins after the first, once");
        if stage.batch().is_canceled() {
            second.cancel();
        }
        *stage = AttemptStage::Last(second.clone());
        self.changed.notify_all();
    }

    /// There is no second attempt, for this reason. What has its end already keeps it.
    pub(crate) fn give_up(&self, reason: &EngineError) {
        let stage = self.lock();
        if matches!(*stage, AttemptStage::Between(_) | AttemptStage::Resuming(_)) {
            self.end(stage, reason);
        }
    }

    /// Whether it waits for its peer to be looked up.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(*self.lock(), AttemptStage::Between(_))
    }

    /// Ends it if it waits for its peer to be looked up: then the caller's memory is not touched.
    pub(crate) fn give_up_waiting(&self, reason: &EngineError) {
        let stage = self.lock();
        if matches!(*stage, AttemptStage::Between(_)) {
            self.end(stage, reason);
        }
    }

    fn end(&self, mut stage: MutexGuard<'_, AttemptStage>, reason: &EngineError) {
        let first = stage.batch().clone();
        first.overrule(reason);
        *stage = AttemptStage::Last(first);
        self.changed.notify_all();
    }

    /// Takes it back; returns the batch that may be under way.
    pub(crate) fn cancel(&self) -> Arc<Batch> {
        let stage = self.lock();
        let batch = stage.batch().clone();
        // An attempt that is made later sees it here.
        batch.cancel();
        if matches!(*stage, AttemptStage::Between(_)) {
            self.end(stage, &EngineError::Canceled);
        }
        batch
    }

    /// Whether every request is final.
    pub(crate) fn is_over(&self) -> bool {
        self.status().state.is_final()
    }

    /// How far one request is.
    pub(crate) fn request(&self, index: usize) -> Option<RequestStatus> {
        let stage = self.lock();
        let status = stage.batch().request(index)?;
        Some(so_far(&stage, status))
    }

    /// How far the whole batch is: pending until all requests are final, then the worst of them.
    pub(crate) fn status(&self) -> RequestStatus {
        let stage = self.lock();
        so_far(&stage, stage.batch().status())
    }

    /// The first error, or that all went well. Meant for batches that are over.
    pub(crate) fn outcome(&self) -> Result<(), EngineError> {
        let stage = self.lock();
        match stage.is_open() && stage.batch().outcome().is_err() {
            true => Ok(()),
            false => stage.batch().outcome(),
        }
    }

    /// The first error of a finished batch; only the first call returns it.
    pub(crate) fn news(&self) -> Option<EngineError> {
        if self.heard.load(Ordering::Relaxed) || !self.is_over() {
            return None;
        }
        self.heard.store(true, Ordering::Relaxed);
        self.outcome().err()
    }

    /// Waits for the end, at most `limit`; true if it was reached.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let due = Instant::now().checked_add(limit);
        let left = || due.map_or(limit, |due| due.saturating_duration_since(Instant::now()));
        loop {
            let stage = self.lock().clone();
            match stage {
                AttemptStage::Last(batch) => return batch.wait(left()),
                // The end of an attempt says what follows before any waiter wakes.
                AttemptStage::First(batch) => {
                    if !batch.wait(left()) {
                        return false;
                    }
                }
                AttemptStage::Between(_) | AttemptStage::Resuming(_) => {
                    if !self.sleep(left()) {
                        return false;
                    }
                }
            }
        }
    }

    /// Sleeps while the peer is looked up; false if that takes longer than `limit`.
    fn sleep(&self, limit: Duration) -> bool {
        let between = |stage: &mut AttemptStage| {
            matches!(stage, AttemptStage::Between(_) | AttemptStage::Resuming(_))
        };
        let waited = self.changed.wait_timeout_while(self.lock(), limit, between);
        let (stage, result) = waited.unwrap_or_else(PoisonError::into_inner);
        drop(stage);
        !result.timed_out()
    }

    fn lock(&self) -> MutexGuard<'_, AttemptStage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A failure is reported only when no other attempt can make it good.
fn so_far(stage: &AttemptStage, status: RequestStatus) -> RequestStatus {
    let is_failure = status.state.is_final() && status.state != TransferState::Completed;
    match is_failure && stage.is_open() {
        true => RequestStatus { state: TransferState::Pending, ..status },
        false => status,
    }
}

#[cfg(test)]
mod tests;
