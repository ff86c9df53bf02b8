//! Where the ends of requests are noted while their caller waits. Invariant: a caller that has
//! waited to the end may touch the memory of all requests again.

use perigee_activity::{Request, current_request};
use perigee_mover::{BatchWait, STALL_CHECK};
use perigee_rails::{RailError, Sink};
use perigee_shard::SpinWait;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Thread;
use std::time::Duration;

/// The requests of one batch; a request's tag names the job it belongs to.
#[derive(Debug)]
pub(super) struct CompletionWait {
    left: AtomicUsize,
    failures: Mutex<Vec<(u64, RailError)>>,
    caller: Thread,
    /// What the caller works at.
    traced: Option<Arc<Request>>,
    /// Whose bytes they are; empty where there are no tenants.
    tenant: Arc<str>,
}

impl CompletionWait {
    /// For `requests` requests of a tenant that this thread will wait for.
    pub(super) fn new(requests: usize, tenant: &Arc<str>) -> Self {
        debug_assert!(requests > 0, "the last one wakes the caller");
        Self {
            left: AtomicUsize::new(requests),
            failures: Mutex::default(),
            caller: std::thread::current(),
            traced: current_request(),
            tenant: Arc::clone(tenant),
        }
    }

    /// Waits until all requests are over; returns the failures by tag. A running shard ends each
    /// soon after its deadline. A stalled one does not, and this wait must last as long: until then
    /// devices may touch the memory. `cancel` is called if the caller breaks off, to have the
    /// requests end at once.
    pub(super) fn wait(
        &self,
        stalled: impl Fn() -> Option<(usize, Duration)>,
        cancel: impl Fn(),
    ) -> Vec<(u64, RailError)> {
        let complain = || {
            if let Some((shard, silent)) = stalled() {
                tracing::error!(shard, ?silent, "A transfer waits for a stalled shard of rails");
            }
        };
        let mut patience = SpinWait::for_device(STALL_CHECK);
        let mut wait = BatchWait::default();
        while !self.is_over() {
            if !patience.watch_on() {
                std::thread::park_timeout(wait.step());
                wait.look(complain, &cancel);
            }
        }
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *failures)
    }

    /// Whether all requests are over.
    pub(super) fn is_over(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }
}

impl Sink for CompletionWait {
    fn traced(&self) -> Option<&Request> {
        self.traced.as_deref()
    }

    fn tenant(&self) -> &str {
        &self.tenant
    }

    fn finished(&self, tag: u64, outcome: Result<(), RailError>) {
        if let Err(error) = outcome {
            let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
            failures.push((tag, error));
        }
        // The release pairs with the caller's acquire: devices are done before it looks.
        let left = self.left.fetch_sub(1, Ordering::AcqRel);
        // The caller would take memory back that a device still writes.
        assert!(left > 0, "a request ends once");
        if left == 1 {
            self.caller.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn the_caller_wakes_after_the_last_request_and_learns_what_failed() {
        let completions = Arc::new(CompletionWait::new(3, &Arc::default()));
        let theirs = completions.clone();
        let shard = std::thread::spawn(move || {
            theirs.finished(1, Ok(()));
            theirs.finished(2, Err(RailError::Canceled));
            theirs.finished(3, Err(RailError::Closed));
        });
        let failures = completions.wait(|| None, || ());
        assert_eq!(failures, [(2, RailError::Canceled), (3, RailError::Closed)]);
        shard.join().unwrap();
    }
}
