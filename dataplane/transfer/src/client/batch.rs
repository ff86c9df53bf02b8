//! A batch of jobs in flight: what the caller waits for and the shards report to.

use super::part::Part;
use super::staged::StagedSlice;
use crate::error::TransferError;
use perigee_activity::{Request, current_request};
use perigee_memory::crc32c_combine;
use perigee_mover::{BatchWait, SPIN};
use perigee_shard::SpinWait;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Thread;

/// Outcome of the jobs of one call.
#[derive(Debug)]
pub(crate) struct JobBatch {
    pending: AtomicUsize,
    canceled: AtomicBool,
    jobs: Mutex<Vec<JobOutcome>>,
    /// What owners have staged, and the caller has not taken yet.
    staged: Mutex<Vec<StagedSlice>>,
    caller: Thread,
    /// What this thread works at.
    traced: Option<Arc<Request>>,
    /// Whose bytes they are; empty where there are no tenants.
    tenant: Arc<str>,
}

#[derive(Clone, Debug, Default)]
struct JobOutcome {
    error: Option<TransferError>,
    parts: Vec<(u32, u64)>,
}

impl JobBatch {
    /// A batch of a tenant's jobs with these numbers of parts, cut into `slices`, awaited by this
    /// thread.
    pub(crate) fn new(parts_per_job: &[usize], slices: usize, tenant: &Arc<str>) -> Self {
        debug_assert!(parts_per_job.iter().all(|parts| *parts > 0), "each job has an outcome");
        let outcome = |parts: &usize| JobOutcome { error: None, parts: vec![(0, 0); *parts] };
        Self {
            pending: AtomicUsize::new(slices),
            canceled: AtomicBool::new(false),
            jobs: Mutex::new(parts_per_job.iter().map(outcome).collect()),
            staged: Mutex::default(),
            caller: std::thread::current(),
            traced: current_request(),
            tenant: Arc::clone(tenant),
        }
    }

    /// The request of the program that it belongs to.
    pub(crate) fn traced(&self) -> Option<&Request> {
        self.traced.as_deref()
    }

    /// Whose bytes they are.
    pub(crate) fn tenant(&self) -> &str {
        &self.tenant
    }

    /// One slice is through: the checksum of each of its parts, or what went wrong with it.
    pub(crate) fn report(
        &self,
        outcomes: impl Iterator<Item = (Part, Result<u32, TransferError>)>,
    ) {
        {
            let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
            for (part, outcome) in outcomes {
                let job = &mut jobs[part.job];
                match outcome {
                    Ok(checksum) => {
                        let before = &mut job.parts[part.number];
                        debug_assert_eq!(*before, (0, 0), "a part arrives once");
                        *before = (checksum, part.bytes);
                    }
                    Err(error) => job.fail(error),
                }
            }
        }
        // The release pairs with the caller's acquire: it sees all that the slices have written.
        let pending = self.pending.fetch_sub(1, Ordering::AcqRel);
        // The count would never be 0 again, and the caller wait for ever.
        assert!(pending > 0, "a slice reports once");
        if pending == 1 {
            self.caller.unpark();
        }
    }

    /// An owner has staged what a slice has asked for; to be called before the slice reports.
    pub(crate) fn hand_over(&self, staged: StagedSlice) {
        self.staged.lock().unwrap_or_else(PoisonError::into_inner).push(staged);
        self.caller.unpark();
    }

    /// What was staged since the last call.
    pub(crate) fn take_staged(&self) -> Vec<StagedSlice> {
        std::mem::take(&mut *self.staged.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits for all slices; returns each job's checksum. A running shard ends every slice within
    /// its deadline. A stalled shard does not, and this wait must last as long as the stall: until
    /// a slice has reported, the kernel may write to the caller's memory. `complain` is called now
    /// and then, to log that; `cancel` if the caller breaks off, to have the slices end at once.
    pub(crate) fn wait(
        &self,
        complain: impl Fn(),
        cancel: impl Fn(),
    ) -> Vec<Result<u32, TransferError>> {
        let (mut patience, mut wait) = (SpinWait::new(SPIN), BatchWait::default());
        while !self.is_over() {
            if !patience.watch_on() {
                std::thread::park_timeout(wait.step());
                if !self.is_over() {
                    wait.look(&complain, &cancel);
                }
            }
        }
        self.finish()
    }

    /// Takes the batch back: what has not begun need not begin.
    pub(crate) fn cancel(&self) {
        self.canceled.store(true, Ordering::Relaxed);
    }

    /// Whether it was taken back.
    pub(crate) fn is_canceled(&self) -> bool {
        self.canceled.load(Ordering::Relaxed)
    }

    /// Whether every slice has reported.
    pub(crate) fn is_over(&self) -> bool {
        self.pending.load(Ordering::Acquire) == 0
    }

    /// As [`JobBatch::wait`], but never waits; `None` before all slices have reported.
    pub(crate) fn outcome(&self) -> Option<Vec<Result<u32, TransferError>>> {
        self.is_over().then(|| self.finish())
    }

    fn finish(&self) -> Vec<Result<u32, TransferError>> {
        debug_assert!(self.is_over(), "the memory of a batch is the caller's again");
        let jobs = std::mem::take(&mut *self.jobs.lock().unwrap_or_else(PoisonError::into_inner));
        jobs.into_iter().map(JobOutcome::finish).collect()
    }
}

impl JobOutcome {
    /// Notes what went wrong with a part. What remains is an error after which bytes may still
    /// arrive.
    fn fail(&mut self, error: TransferError) {
        if !self.error.as_ref().is_some_and(TransferError::may_still_arrive) {
            self.error = Some(error);
        }
    }

    fn finish(self) -> Result<u32, TransferError> {
        match self.error {
            Some(error) => Err(error),
            None => {
                let join = |whole, (checksum, bytes)| crc32c_combine(whole, checksum, bytes);
                Ok(self.parts.into_iter().fold(0, join))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::trailer::Trailer;
    use perigee_mover::PeerError;
    use std::sync::mpsc::channel;

    fn part() -> Part {
        Part { job: 0, number: 0, bytes: 3, memory: 0..0, pieces: 0..0, trailer: Trailer::None }
    }

    #[test]
    fn a_wait_asks_after_stalled_shards_and_ends_only_with_the_last_slice() {
        let batch = Arc::new(JobBatch::new(&[1], 1, &Arc::default()));
        let (asked, was_asked) = channel();
        let (reporting, waiter) = (batch.clone(), std::thread::current());
        let shard = std::thread::spawn(move || {
            // Each wake-up makes the waiter look at the shards, as the end of its pause does.
            while was_asked.try_recv().is_err() {
                waiter.unpark();
                std::thread::yield_now();
            }
            reporting.report(std::iter::once((part(), Ok(7))));
        });
        let complain = || {
            let _ = asked.send(());
        };
        assert_eq!(batch.wait(complain, || ()), [Ok(7)]);
        shard.join().unwrap();
    }

    #[test]
    fn a_job_that_a_peer_broke_off_is_not_said_to_have_been_refused() {
        let broken =
            TransferError::Peer(PeerError::Broken { peer: String::new(), reason: String::new() });
        let refused = TransferError::Peer(PeerError::Refused {
            peer: String::new(),
            status: perigee_schemas::Status::SegmentNotFound,
        });
        for errors in [[&broken, &refused], [&refused, &broken]] {
            let batch = JobBatch::new(&[1], 2, &Arc::default());
            for error in errors {
                batch.report(std::iter::once((part(), Err(error.clone()))));
            }
            assert_eq!(batch.outcome(), Some(vec![Err(broken.clone())]));
        }
    }
}
