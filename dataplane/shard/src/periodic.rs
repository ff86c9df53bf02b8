//! Work that is done again and again on a thread of its own. Invariant: none is done after the
//! [`Periodic`] was dropped.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub struct Periodic {
    stop: Arc<StopNotify>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct StopNotify {
    is_stopped: Mutex<bool>,
    changed: Condvar,
}

impl StopNotify {
    /// Waits for the interval; false when it is time to stop.
    fn waits(&self, interval: Duration) -> bool {
        let is_stopped = self.is_stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let waited =
            self.changed.wait_timeout_while(is_stopped, interval, |is_stopped| !*is_stopped);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn notify(&self) {
        *self.is_stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }
}

impl Periodic {
    /// Does `work` at the end of each interval. It must be short: dropping waits for it.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(
        name: &str,
        interval: Duration,
        mut work: impl FnMut() + Send + 'static,
    ) -> io::Result<Self> {
        let stop = Arc::<StopNotify>::default();
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            while stopped.waits(interval) {
                work();
            }
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Periodic {
    fn drop(&mut self) {
        self.stop.notify();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("A periodic thread ended with a panic");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn work_is_done_again_and_again_until_it_is_dropped() {
        let (done, seen) = channel();
        let work = move || {
            let _ = done.send(());
        };
        let periodic = Periodic::start("test", Duration::from_millis(1), work).unwrap();
        for _ in 0..3 {
            seen.recv_timeout(Duration::from_secs(30)).unwrap();
        }
        drop(periodic);
        // It ends because the thread has gone with its end of the channel.
        let _late = seen.iter().count();
    }

    #[test]
    fn dropping_does_not_wait_for_the_interval() {
        let long = Duration::from_secs(3600);
        drop(Periodic::start("test", long, || {}).unwrap());
    }
}
