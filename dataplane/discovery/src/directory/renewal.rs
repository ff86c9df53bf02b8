//! The entries of this process, and the thread that keeps them alive.
//!
//! Invariant: an entry that another process has replaced is given up, never fought over; a server
//! that lost everything gets all entries again with the next renewal. No caller waits beyond its
//! deadline, neither for the server nor for other callers.

use super::backend::{EntryClaim, EntryState, PublishedEntry};
use super::server::NamedBackend;
use super::timed_mutex::{TimedGuard, TimedMutex};
use crate::error::DiscoveryError;
use crate::limits::{BEAT_RETRY, BEATS_PER_LIFE, CLOSE_DEADLINE};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct EntryRenewer {
    shared: Arc<RenewerState>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct RenewerState {
    server: NamedBackend,
    entry_life: Duration,
    /// Taken during calls for own entries, so that they keep their order.
    entries: TimedMutex<Vec<PublishedEntry>>,
    /// Keys that another engine took.
    lost: Mutex<Vec<String>>,
    /// The last renewal arrived.
    well: AtomicBool,
    /// A publication failed: what the server has may be older or newer than what was composed
    /// since.
    stale: AtomicBool,
    renewal: OnceLock<FailedEntry>,
    closed: Mutex<bool>,
    wake: Condvar,
}

/// The entry to compose again after a publication has failed.
struct FailedEntry {
    key: String,
    compose: Newest,
}

/// The newest value of an entry, if there is one.
pub(super) type Newest = Box<dyn Fn() -> Option<String> + Send + Sync>;

impl fmt::Debug for FailedEntry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Renewal");
        shown.field("key", &self.key).finish_non_exhaustive()
    }
}

impl EntryRenewer {
    pub(super) fn new(server: NamedBackend, entry_life: Duration) -> Self {
        Self {
            shared: Arc::new(RenewerState {
                server,
                entry_life,
                entries: TimedMutex::new(Vec::new()),
                lost: Mutex::default(),
                well: AtomicBool::new(true),
                stale: AtomicBool::new(false),
                renewal: OnceLock::new(),
                closed: Mutex::new(false),
                wake: Condvar::new(),
            }),
            thread: Mutex::default(),
        }
    }

    pub(super) fn server(&self) -> &NamedBackend {
        &self.shared.server
    }

    /// Allows writing keys that another engine took: their name was claimed again.
    pub(super) fn reclaim(&self, keys: [&str; 2]) {
        lock(&self.shared.lost).retain(|lost| !keys.contains(&lost.as_str()));
    }

    /// Writes an entry if the stored value is still the one that was seen, and keeps it alive from
    /// now on; false = it is not.
    pub(super) fn claim(
        &self,
        claim: &EntryClaim<'_>,
        until: Instant,
    ) -> Result<bool, DiscoveryError> {
        let mut entries = self.shared.entries(until)?;
        self.check_open()?;
        if !self.shared.server.claim(claim, until)? {
            return Ok(false);
        }
        entries.retain(|entry| entry.key != claim.key);
        entries.push(PublishedEntry::written(claim.key, claim.value));
        self.start()?;
        Ok(true)
    }

    /// Composes and writes an entry again after any publication has failed.
    pub(super) fn renew_with(&self, key: &str, compose: Newest) {
        let key = key.to_owned();
        // An engine publishes its own document once, when it starts.
        let _ = self.shared.renewal.set(FailedEntry { key, compose });
    }

    /// Writes an entry, composed when its turn has come, and keeps it alive from now on. One that
    /// another engine took stays that engine's.
    pub(super) fn publish(
        &self,
        key: &str,
        until: Instant,
        compose: impl FnOnce() -> Result<String, DiscoveryError>,
    ) -> Result<(), DiscoveryError> {
        let published = self.try_publish(key, until, compose);
        if published.is_err() {
            self.renew_soon();
        }
        published
    }

    /// Writes the composed entry again with the next renewal, which comes soon.
    pub(super) fn renew_soon(&self) {
        // The renewing thread holds it before it sleeps, and must not miss this.
        let _awake = lock(&self.shared.closed);
        self.shared.stale.store(true, Relaxed);
        self.shared.wake.notify_all();
    }

    fn try_publish(
        &self,
        key: &str,
        until: Instant,
        compose: impl FnOnce() -> Result<String, DiscoveryError>,
    ) -> Result<(), DiscoveryError> {
        let mut entries = self.shared.entries(until)?;
        self.check_open()?;
        if entries.iter().any(|entry| entry.key == key) {
            let held = self.shared.beat_one(&mut entries, key, until)?;
            if held == EntryState::Restored {
                // The server has lost everything, and a peer may ask for the other entries now.
                self.shared.beat_all(&mut entries, until)?;
            }
        }
        if lock(&self.shared.lost).iter().any(|lost| lost == key) {
            return Err(DiscoveryError::Lost { key: key.to_owned() });
        }
        let value = compose()?;
        let known = entries.iter_mut().find(|entry| entry.key == key);
        let Some(entry) = known else {
            self.shared.server.put(key, &value, until)?;
            entries.push(PublishedEntry::written(key, &value));
            return self.start();
        };
        self.shared.put(entry, value, until)
    }

    fn check_open(&self) -> Result<(), DiscoveryError> {
        match *lock(&self.shared.closed) {
            true => Err(DiscoveryError::Closed),
            false => Ok(()),
        }
    }

    /// Starts the thread if it does not run.
    fn start(&self) -> Result<(), DiscoveryError> {
        let mut thread = lock(&self.thread);
        if thread.is_none() {
            let shared = Arc::clone(&self.shared);
            let spawned = Builder::new()
                .name("perigee-lease".to_owned())
                .spawn(move || shared.beat_until_closed());
            *thread = Some(spawned.map_err(|error| DiscoveryError::System {
                what: "starting the thread that keeps entries alive",
                reason: error.to_string(),
            })?);
        }
        Ok(())
    }

    /// Ends the thread and removes the entries, both within [`CLOSE_DEADLINE`]: a thread that waits
    /// for a server then ends when that is over.
    pub(super) fn close(&self) {
        if std::mem::replace(&mut *lock(&self.shared.closed), true) {
            return;
        }
        self.shared.wake.notify_all();
        let thread = lock(&self.thread).take();
        let until = self.shared.server.until(CLOSE_DEADLINE);
        let Ok(entries) = self.shared.entries(until) else {
            tracing::warn!("The metadata server is waited for; its entries are left to expire");
            return;
        };
        self.shared.remove_all(entries, until);
        // The thread itself may be the last to let an engine go whose document it composed.
        let other = thread.filter(|thread| thread.thread().id() != std::thread::current().id());
        if let Some(thread) = other {
            // A panic of the thread has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

impl RenewerState {
    fn entries(
        &self,
        until: Instant,
    ) -> Result<TimedGuard<'_, Vec<PublishedEntry>>, DiscoveryError> {
        let taken = self.entries.take(until);
        taken.ok_or_else(|| self.server.busy())
    }

    fn is_closed(&self) -> bool {
        *lock(&self.closed)
    }

    fn beat_until_closed(&self) {
        let mut pause = self.interval();
        while self.sleep(pause) {
            let beat = self.beat();
            let was_well = self.well.swap(beat.is_ok(), Relaxed);
            pause = self.interval();
            match beat {
                Ok(()) if was_well => {}
                Ok(()) => tracing::info!("Entries are kept alive again"),
                Err(error) => {
                    pause = pause.min(BEAT_RETRY);
                    if was_well {
                        tracing::warn!(%error, "Entries cannot be kept alive; trying again");
                    }
                }
            }
        }
    }

    /// Time between two renewals. Where nothing expires, they only find out whether the server
    /// forgot the entries.
    fn interval(&self) -> Duration {
        let beats = if self.server.expires() { BEATS_PER_LIFE } else { 1 };
        self.entry_life / beats
    }

    /// Waits, not for long after a publication has failed; false = the keeper was closed.
    fn sleep(&self, pause: Duration) -> bool {
        let mut deadline = Instant::now() + pause;
        let mut closed = lock(&self.closed);
        loop {
            if self.stale.load(Relaxed) {
                deadline = deadline.min(Instant::now() + BEAT_RETRY);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if *closed || left.is_zero() {
                return !*closed;
            }
            let woken = self.wake.wait_timeout(closed, left);
            closed = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// One renewal for every entry; the first failure ends it.
    fn beat(&self) -> Result<(), DiscoveryError> {
        let until = self.server.until(Duration::MAX);
        let mut entries = self.entries(until)?;
        if self.is_closed() {
            return Ok(());
        }
        self.server.begin_beat(until)?;
        self.beat_all(&mut entries, until)?;
        if !self.stale.swap(false, Relaxed) {
            return Ok(());
        }
        let renewed = self.renew(&mut entries, until);
        if renewed.is_err() {
            self.stale.store(true, Relaxed);
        }
        renewed
    }

    fn beat_all(
        &self,
        entries: &mut Vec<PublishedEntry>,
        until: Instant,
    ) -> Result<(), DiscoveryError> {
        let keys: Vec<String> = entries.iter().map(|entry| entry.key.clone()).collect();
        keys.iter().try_for_each(|key| self.beat_one(entries, key, until).map(drop))
    }

    /// Writes what each entry should be, if what is stored may be something else.
    fn renew(&self, entries: &mut [PublishedEntry], until: Instant) -> Result<(), DiscoveryError> {
        for entry in entries {
            let renewal = self.renewal.get().filter(|it| it.key == entry.key);
            let newest = renewal.and_then(|renewal| (renewal.compose)());
            let wanted = newest.unwrap_or_else(|| entry.value.clone());
            if entry.tried.is_some() || wanted != entry.value {
                self.put(entry, wanted, until)?;
            }
        }
        Ok(())
    }

    /// Writes a value over another one of this process.
    fn put(
        &self,
        entry: &mut PublishedEntry,
        value: String,
        until: Instant,
    ) -> Result<(), DiscoveryError> {
        entry.tried = Some(value);
        let tried = entry.tried.as_deref().unwrap_or_default();
        self.server.put(&entry.key, tried, until)?;
        *entry = PublishedEntry::written(&entry.key, tried);
        Ok(())
    }

    /// Renews one entry, which is given up if another engine took it.
    fn beat_one(
        &self,
        entries: &mut Vec<PublishedEntry>,
        key: &str,
        until: Instant,
    ) -> Result<EntryState, DiscoveryError> {
        let Some(index) = entries.iter().position(|entry| entry.key == key) else {
            return Ok(EntryState::Lost);
        };
        let held = self.server.refresh(&entries[index], until)?;
        match held {
            EntryState::Kept => {}
            EntryState::Restored => tracing::info!(key, "An entry was gone and was written again"),
            EntryState::Lost if !self.is_taken(&entries[index], until)? => {}
            EntryState::Lost => {
                tracing::warn!(key, "Another engine took this entry; it is given up");
                entries.remove(index);
                lock(&self.lost).push(key.to_owned());
            }
        }
        Ok(held)
    }

    /// A second look at an entry that seems lost. A write whose answer did not arrive makes the
    /// repetition find its own value, and one that has just expired has no owner: the next renewal
    /// writes it again.
    fn is_taken(&self, entry: &PublishedEntry, until: Instant) -> Result<bool, DiscoveryError> {
        let stored = self.server.get(&entry.key, until)?;
        Ok(stored.is_some_and(|stored| !entry.wrote(&stored)))
    }

    /// Removes all entries, unless the server does not answer: closing must not hang on it.
    fn remove_all(&self, mut entries: TimedGuard<'_, Vec<PublishedEntry>>, until: Instant) {
        let entries = std::mem::take(&mut *entries);
        if !self.well.load(Relaxed) {
            return;
        }
        for entry in entries {
            if let Err(error) = self.server.remove(&entry, until) {
                tracing::warn!(%error, key = entry.key, "An entry could not be removed");
                return;
            }
        }
        self.server.end(until);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
