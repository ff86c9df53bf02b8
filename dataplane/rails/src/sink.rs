//! Where the ends of requests are reported.
//!
//! Each request is reported exactly once, and only when no device touches its memory any more.

use crate::error::RailError;
use perigee_activity::Request;
use perigee_shard::SpinWait;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Gets the ends of the requests of a batch, on the shard's thread: cheap, and without waiting.
pub trait Sink: Send + Sync {
    /// Bytes of the request with this tag have arrived.
    fn moved(&self, tag: u64, bytes: u64) {
        let _ = (tag, bytes);
    }

    /// What of the program the requests belong to, if that is traced.
    fn traced(&self) -> Option<&Request> {
        None
    }

    /// Whose bytes they are; empty where there are no tenants.
    fn tenant(&self) -> &str {
        ""
    }

    /// The request with this tag is over.
    fn finished(&self, tag: u64, outcome: Result<(), RailError>);
}

/// A sink for one thread that waits for its batch.
#[derive(Debug)]
pub struct ParkSink {
    left: AtomicUsize,
    moved: AtomicU64,
    failure: Mutex<Option<(u64, RailError)>>,
    caller: Thread,
}

impl ParkSink {
    /// A sink for `requests` requests that this thread will wait for.
    pub fn new(requests: usize) -> Self {
        Self {
            left: AtomicUsize::new(requests),
            moved: AtomicU64::new(0),
            failure: Mutex::default(),
            caller: std::thread::current(),
        }
    }

    /// Bytes that have arrived.
    pub fn bytes(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// Requests that are not over.
    pub fn left(&self) -> usize {
        self.left.load(Ordering::Acquire)
    }

    /// Waits until all requests are over, at most for `limit`; `None` if some are not. Watches for
    /// a short time, then sleeps. Only for the thread that made the sink.
    ///
    /// # Errors
    /// Within the result: the tag and cause of the first request that failed.
    pub fn wait(&self, limit: Duration) -> Option<Result<(), (u64, RailError)>> {
        let end = Instant::now() + limit;
        let mut patience = SpinWait::for_device(limit);
        while self.left() > 0 {
            if patience.watch_on() {
                continue;
            }
            let rest = end.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return None;
            }
            std::thread::park_timeout(rest);
        }
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        Some(failure.clone().map_or(Ok(()), Err))
    }
}

impl Sink for ParkSink {
    fn moved(&self, _tag: u64, bytes: u64) {
        self.moved.fetch_add(bytes, Ordering::Relaxed);
    }

    fn finished(&self, tag: u64, outcome: Result<(), RailError>) {
        if let Err(error) = outcome {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert((tag, error));
        }
        // Last: from here on the caller may use its memory again.
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.caller.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn the_caller_wakes_when_the_last_request_is_over_and_learns_the_first_failure() {
        let sink = Arc::new(ParkSink::new(3));
        assert_eq!(sink.wait(Duration::from_millis(1)), None);
        let theirs = sink.clone();
        let other = std::thread::spawn(move || {
            theirs.moved(1, 10);
            theirs.finished(1, Ok(()));
            theirs.finished(2, Err(RailError::Canceled));
            theirs.finished(3, Err(RailError::Closed));
        });
        let outcome = sink.wait(Duration::from_secs(30));
        assert_eq!(outcome, Some(Err((2, RailError::Canceled))));
        assert_eq!(sink.bytes(), 10);
        other.join().unwrap();
    }
}
