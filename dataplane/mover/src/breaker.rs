//! A peer that could not be reached or did not greet: what is asked of it fails at once for a short
//! while, on calling threads and on shards. Invariant: only an error that was met lately refuses,
//! and looking costs one load without one.

use crate::error::PeerError;
use crate::limits::PEER_BREAKER_OPEN;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What is known against a peer.
#[derive(Debug, Default)]
pub(crate) struct PeerBreaker {
    is_open: AtomicBool,
    /// Until when, on the monotonic clock of its environment, and why.
    reason: Mutex<Option<(Duration, PeerError)>>,
}

impl PeerBreaker {
    /// Why the peer need not be tried now.
    pub(crate) fn refusal(&self, now: impl FnOnce() -> Duration) -> Option<PeerError> {
        // Without the lock, because most peers have no fault and each call asks.
        if !self.is_open.load(Ordering::Acquire) {
            return None;
        }
        let mut reason = self.lock();
        let now = now();
        if reason.as_ref().is_some_and(|(until, _)| now >= *until) {
            *reason = None;
            self.is_open.store(false, Ordering::Release);
        }
        reason.as_ref().map(|(_, error)| error.clone())
    }

    /// Takes note of an error, if others would meet it, too.
    pub(crate) fn note(&self, error: &PeerError, now: Duration) {
        if error.is_lasting() {
            *self.lock() = Some((now + PEER_BREAKER_OPEN, error.clone()));
            self.is_open.store(true, Ordering::Release);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Duration, PeerError)>> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::CONNECT_DEADLINE;
    use std::io;

    #[test]
    fn a_lasting_error_refuses_for_a_while_and_others_do_not() {
        let (breaker, at) = (PeerBreaker::default(), Duration::from_secs(7));
        let peer = || "peer".to_owned();
        let late = PeerError::Deadline { peer: peer(), deadline: at };
        let of_connecting = |error: &io::Error, limit| {
            let port = std::net::SocketAddr::from(([10, 0, 0, 7], 9));
            PeerError::of_connecting(error, ("peer", port), (limit, CONNECT_DEADLINE * 2))
        };
        let silence = io::ErrorKind::TimedOut.into();
        let cut_short = of_connecting(&silence, CONNECT_DEADLINE / 2);
        let no_socket = io::Error::from_raw_os_error(libc::EMFILE);
        let no_socket = of_connecting(&no_socket, CONNECT_DEADLINE);
        for error in [PeerError::Canceled, late, cut_short, no_socket] {
            breaker.note(&error, at);
            assert_eq!(breaker.refusal(|| at), None, "{error}");
        }
        let silent = of_connecting(&silence, CONNECT_DEADLINE);
        assert!(silent.to_string().ends_with("at its data port 10.0.0.7:9"), "{silent}");
        breaker.note(&silent, at);
        let last = at + PEER_BREAKER_OPEN - Duration::from_nanos(1);
        assert_eq!(breaker.refusal(|| last), Some(silent.clone()));
        assert_eq!(breaker.refusal(|| at + PEER_BREAKER_OPEN), None);
        breaker.note(&silent, at);
        assert_eq!(breaker.refusal(|| at), Some(silent), "it opens again");
    }
}
