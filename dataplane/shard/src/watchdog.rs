//! Notices a shard that no longer takes jobs: it would answer no peer, and nothing else would
//! say why.
//! Invariant: a process that stood still as a whole (SIGSTOP, a frozen or throttled group) is not
//! taken for one whose shards are stalled.

use crate::clock::monotonic_ms;
use crate::mailbox::Mailbox;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Pause between two questions to each shard.
const QUESTION: Duration = Duration::from_millis(500);
/// A shard that has not answered for this long is stalled.
const STALLED: Duration = Duration::from_secs(3);
/// Looks that are further apart than this show that the process stood still.
const STOOD_STILL: Duration = Duration::from_secs(2);

/// A thread that asks every shard now and then whether it is there. Dropping it ends the thread.
#[derive(Debug)]
pub struct Watchdog {
    shared: Arc<WatchdogState>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct WatchdogState {
    name: &'static str,
    answered_ms: Vec<Arc<AtomicU64>>,
    /// When shards were asked last.
    asked_ms: AtomicU64,
    /// When the process last went on after it had stood still.
    resumed_ms: AtomicU64,
    stopping: Mutex<bool>,
    stop_changed: Condvar,
}

impl Watchdog {
    /// Watches shards, by the way jobs reach them; `name` says what they are in the log.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(name: &'static str, shards: Vec<Mailbox>) -> std::io::Result<Self> {
        let answered = || Arc::new(AtomicU64::new(monotonic_ms()));
        let shared = Arc::new(WatchdogState {
            name,
            answered_ms: shards.iter().map(|_| answered()).collect(),
            asked_ms: AtomicU64::new(monotonic_ms()),
            resumed_ms: AtomicU64::default(),
            stopping: Mutex::default(),
            stop_changed: Condvar::new(),
        });
        let theirs = shared.clone();
        let builder = std::thread::Builder::new().name("perigee-watch".to_owned());
        let thread = builder.spawn(move || theirs.watch(&shards))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// The first shard that does not answer, and for how long it has not.
    pub fn stalled(&self) -> Option<(usize, Duration)> {
        self.shared.stalled(monotonic_ms())
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        *self.shared.stopping.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.stop_changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl WatchdogState {
    fn watch(&self, shards: &[Mailbox]) {
        let mut reported = false;
        while !self.pause() {
            self.note_question(monotonic_ms());
            for (shard, answered) in shards.iter().zip(&self.answered_ms) {
                let answered = answered.clone();
                shard.post(Box::new(move |_| {
                    answered.store(monotonic_ms(), Ordering::Relaxed);
                }));
            }
            let stalled = self.stalled(monotonic_ms());
            if let (Some((shard, silent)), false) = (stalled, reported) {
                tracing::error!(shards = self.name, shard, ?silent, "A shard is stalled");
            }
            reported = stalled.is_some();
        }
    }

    /// Shards are asked at `now_ms`.
    fn note_question(&self, now_ms: u64) {
        if self.stands_still(now_ms) {
            self.resumed_ms.store(now_ms, Ordering::Relaxed);
        }
        self.asked_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Whether this thread has not asked when it should have.
    fn stands_still(&self, now_ms: u64) -> bool {
        let asked_ms = self.asked_ms.load(Ordering::Relaxed);
        Duration::from_millis(now_ms.saturating_sub(asked_ms)) > STOOD_STILL
    }

    fn stalled(&self, now_ms: u64) -> Option<(usize, Duration)> {
        if self.stands_still(now_ms) {
            return None;
        }
        let resumed_ms = self.resumed_ms.load(Ordering::Relaxed);
        let silent = |answered: &Arc<AtomicU64>| {
            let heard_ms = answered.load(Ordering::Relaxed).max(resumed_ms);
            Duration::from_millis(now_ms.saturating_sub(heard_ms))
        };
        let mut shards = self.answered_ms.iter().map(silent).enumerate();
        shards.find(|(_, silent)| *silent > STALLED)
    }

    /// True when the watch is over.
    fn pause(&self) -> bool {
        let stopping = self.stopping.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.stop_changed.wait_timeout_while(stopping, QUESTION, |stop| !*stop);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Shard, ShardOptions};
    use std::sync::mpsc::channel;

    #[test]
    fn a_process_that_was_paused_has_no_stalled_shard_at_first() {
        let stalled_ms = STALLED.as_millis() as u64 + 1;
        let watch = WatchdogState {
            name: "test",
            answered_ms: vec![Arc::new(AtomicU64::new(10))],
            asked_ms: AtomicU64::new(10),
            resumed_ms: AtomicU64::default(),
            stopping: Mutex::default(),
            stop_changed: Condvar::new(),
        };
        let resumed = 60_000;
        assert_eq!(watch.stalled(resumed), None, "it was not asked");
        watch.note_question(resumed);
        assert_eq!(watch.stalled(resumed), None);
        for later in (resumed..=resumed + stalled_ms).step_by(500) {
            watch.note_question(later);
        }
        let silent = Duration::from_millis(stalled_ms);
        assert_eq!(watch.stalled(resumed + stalled_ms), Some((0, silent)));
    }

    #[test]
    fn a_blocked_shard_is_noticed_and_a_free_one_is_not() {
        let (end, ended) = channel::<()>();
        let shard = Shard::start(ShardOptions::named("test-watch"), |_| async {}).unwrap();
        let watchdog = Watchdog::start("test", vec![shard.mailbox()]).unwrap();
        assert_eq!(watchdog.stalled(), None);
        shard.post(Box::new(move |_| {
            let _ = ended.recv_timeout(Duration::from_secs(60));
        }));
        let deadline = monotonic_ms() + 30_000;
        while watchdog.stalled().is_none() {
            assert!(monotonic_ms() < deadline, "the stall is noticed");
            std::thread::park_timeout(Duration::from_millis(20));
        }
        end.send(()).unwrap();
        while watchdog.stalled().is_some() {
            assert!(monotonic_ms() < deadline, "the end of the stall is noticed");
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }
}
