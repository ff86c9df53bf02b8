//! The side that hands segments out, and takes them back.
//! Invariant: [`Owner::revoke`] returns true only when no guest that was let in is still copying.

use super::acceptor::Acceptor;
use super::connection::GuestConnection;
use super::source::SegmentSource;
use crate::limits::COPY_LOOK;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Hands the segments of this process to its guests.
#[derive(Debug)]
pub struct Owner {
    socket: String,
    source: Arc<dyn SegmentSource>,
    state: Mutex<OwnerState>,
}

#[derive(Debug, Default)]
struct OwnerState {
    /// From the first segment on.
    acceptor: Option<Acceptor>,
    /// Guests that were revoked while they were copying.
    leaving: Vec<GuestConnection>,
}

impl Owner {
    /// An owner that will listen under `socket` in the abstract namespace, a name that no other
    /// process ever had.
    pub fn new(socket: String, source: Arc<dyn SegmentSource>) -> Self {
        Self { socket, source, state: Mutex::default() }
    }

    /// The name under which it listens.
    #[must_use]
    pub fn socket(&self) -> &str {
        &self.socket
    }

    /// The source has a new segment: begins to listen if that was not done, and tells the guests.
    /// Without a socket or a thread peers on this host use TCP, and the next call tries again.
    pub fn extend(&self) {
        let mut state = self.lock();
        if let Some(acceptor) = &state.acceptor {
            return acceptor.announce();
        }
        match Acceptor::open(&self.socket, self.source.clone()) {
            Ok(acceptor) => state.acceptor = Some(acceptor),
            Err(error) => tracing::warn!(%error, "Peers on this host use TCP"),
        }
    }

    /// Takes the segments back from all guests; what the source lists then can be asked for again.
    /// Copies under way go on.
    pub fn withdraw(&self) {
        let mut state = self.lock();
        let revoked = state.acceptor.as_ref().map(Acceptor::revoke_all);
        state.leaving.extend(revoked.into_iter().flatten());
        state.leaving.retain(GuestConnection::may_copy);
    }

    /// As [`Owner::withdraw`], and waits until no copy is under way; false if one still is after
    /// `limit`.
    #[must_use]
    pub fn revoke(&self, limit: Duration) -> bool {
        self.withdraw();
        self.await_copies(limit)
    }

    /// Ends the socket, and waits for copies as [`Owner::revoke`]: also for those of guests that
    /// came a moment ago.
    pub fn close(&self, limit: Duration) {
        let acceptor = self.lock().acceptor.take();
        let revoked = acceptor.map(Acceptor::stop);
        self.lock().leaving.extend(revoked.into_iter().flatten());
        if !self.await_copies(limit) {
            tracing::warn!("A peer on this host still copies from or to memory that was closed");
        }
    }

    fn await_copies(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            if self.has_no_copies() {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(COPY_LOOK);
        }
    }

    fn has_no_copies(&self) -> bool {
        let leaving = &mut self.lock().leaving;
        leaving.retain(GuestConnection::may_copy);
        leaving.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, OwnerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
