//! A peer as this process reaches it: where, in which run, in which dialect, and the idle
//! connections to it.
//! Invariant: a target never changes; a peer that restarted or moved is another target.

use crate::breaker::PeerBreaker;
use crate::client::blocking_connection::BlockingConnection;
use crate::error::PeerError;
use crate::limits::IDLE_CONNECTIONS_MAX;
use crate::peer_address::{Dialect, PeerAddress};
use crate::reached_peer::ReachedPeer;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A peer that slices go to.
#[derive(Debug)]
pub struct Target {
    peer: ReachedPeer,
    idle: Mutex<Vec<BlockingConnection>>,
    breaker: PeerBreaker,
    /// How often its host has vanished: connections from before are of no use.
    vanished: AtomicU64,
}

impl Target {
    /// A peer with at least one address; the first is preferred for small transfers.
    pub fn new(name: &str, addresses: Box<[PeerAddress]>, dialect: Dialect) -> Self {
        debug_assert!(!addresses.is_empty(), "{name} can be reached somewhere");
        Self {
            peer: ReachedPeer { name: name.into(), addresses, dialect },
            idle: Mutex::default(),
            breaker: PeerBreaker::default(),
            vanished: AtomicU64::new(0),
        }
    }

    /// What it is called in messages.
    pub fn name(&self) -> &Arc<str> {
        &self.peer.name
    }

    /// Where its data port is.
    pub fn addresses(&self) -> &[PeerAddress] {
        &self.peer.addresses
    }

    /// The protocol of its data port.
    pub fn dialect(&self) -> Dialect {
        self.peer.dialect
    }

    /// What connections need of it.
    pub(crate) fn peer(&self) -> &ReachedPeer {
        &self.peer
    }

    /// What is known against it.
    pub(crate) fn breaker(&self) -> &PeerBreaker {
        &self.breaker
    }

    /// Takes note of a transfer that failed at `now`.
    pub(crate) fn note(&self, error: &PeerError, now: Duration) {
        let PeerError::Vanished { peer, reason } = error else {
            return self.breaker.note(error, now);
        };
        self.vanished.fetch_add(1, Ordering::AcqRel);
        self.close();
        // Nothing is sent of what the breaker refuses.
        let (peer, reason) = (peer.clone(), reason.clone());
        self.breaker.note(&PeerError::Unreachable { peer, reason }, now);
    }

    /// How often its host has vanished.
    pub(crate) fn vanished(&self) -> u64 {
        self.vanished.load(Ordering::Acquire)
    }

    /// The addresses, beginning with the one that falls to the `turn`-th connection.
    pub(crate) fn addresses_from(&self, turn: usize) -> impl Iterator<Item = &PeerAddress> {
        let all = self.peer.addresses.len();
        let first = turn % all.max(1);
        self.peer.addresses.iter().cycle().skip(first).take(all)
    }

    /// An idle connection that is still open.
    pub(crate) fn take_connection(&self) -> Option<BlockingConnection> {
        loop {
            let connection = self.idle().pop()?;
            if connection.is_usable() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection for the next call.
    pub(crate) fn keep_connection(&self, connection: BlockingConnection) {
        let mut idle = self.idle();
        if idle.len() < IDLE_CONNECTIONS_MAX {
            idle.push(connection);
        }
    }

    /// Closes idle connections that the peer has closed.
    pub fn sweep(&self) {
        self.idle().retain(BlockingConnection::is_usable);
    }

    /// Closes the idle connections.
    pub fn close(&self) {
        self.idle().clear();
    }

    fn idle(&self) -> MutexGuard<'_, Vec<BlockingConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
