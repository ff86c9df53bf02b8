//! What this process knows of its peers' rails. Invariant: with [`FirstLoad::Proven`] load goes
//! over rails only after bytes were read over them; after a fault nothing goes over them before a
//! pause.

use crate::limits::{IDLE, PEERS_MAX, REFRESH, RENEWAL, RETRY};
use crate::remote::PeerRails;
use perigee_shard::{monotonic, poll_interruption, wait_step};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

/// What new rails must have shown before they carry load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstLoad {
    /// Bytes were read over them; until then TCP is used.
    Proven,
    /// Nothing: the first batch is what proves them. For memory that is to go over RDMA from the
    /// first byte.
    AtOnce,
}

#[derive(Debug)]
enum PeerState {
    /// Not asked, or not before this instant.
    Down { until: Duration },
    /// Asked what it has.
    Asked,
    /// The first bytes are on their way.
    Proving(Arc<PeerRails>),
    /// Carries load.
    Proven(Arc<PeerRails>),
}

/// One peer.
#[derive(Debug)]
struct RdmaPeer {
    standing: RwLock<PeerState>,
    /// Held around nothing: pairs with `changed`.
    waiting: Mutex<()>,
    changed: Condvar,
    /// When it was last wanted, in nanoseconds of the monotonic clock.
    wanted_ns: AtomicU64,
    /// When it was last asked for memory that its list lacked.
    refreshed_ns: AtomicU64,
}

/// What is known of a peer's rails.
#[derive(Debug)]
pub(crate) enum PeerLookup {
    /// Load may go there.
    Rails(Arc<PeerRails>),
    /// Not now.
    No,
    /// Not now, and the caller is the one who asks the peer.
    Ask,
}

/// All peers, by endpoint.
#[derive(Debug)]
pub(crate) struct Peers {
    first_load: FirstLoad,
    known: RwLock<HashMap<Arc<str>, Arc<RdmaPeer>>>,
}

impl RdmaPeer {
    fn new() -> Self {
        Self {
            standing: RwLock::new(PeerState::Down { until: Duration::ZERO }),
            waiting: Mutex::default(),
            changed: Condvar::new(),
            wanted_ns: AtomicU64::new(0),
            refreshed_ns: AtomicU64::new(0),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, PeerState> {
        self.standing.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the standing and wakes who waits for that.
    fn change<T>(&self, change: impl FnOnce(&mut PeerState) -> T) -> T {
        let lock = self.standing.write();
        let mut standing = lock.unwrap_or_else(PoisonError::into_inner);
        let was_down = matches!(*standing, PeerState::Down { .. });
        let changed = change(&mut standing);
        let has_load = matches!(*standing, PeerState::Proven(_));
        // An answer that was under way when the rails were left says nothing about them now.
        assert!(!(was_down && has_load), "rails carry load only after their peer was asked");
        drop(standing);
        // A waiter is either before its look at the standing or asleep.
        drop(self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
        changed
    }

    /// Waits while the peer is being asked, until `end` at most, or until the caller of this thread
    /// breaks off.
    fn wait_for_answer(&self, end: Instant) {
        let mut guard = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while matches!(*self.read(), PeerState::Asked) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || poll_interruption() {
                return;
            }
            let waited = self.changed.wait_timeout(guard, wait_step(left));
            guard = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Peers {
    pub(crate) fn new(first_load: FirstLoad) -> Self {
        Self { first_load, known: RwLock::default() }
    }

    /// The rails of a peer. One caller of several gets [`PeerLookup::Ask`].
    pub(crate) fn find(&self, endpoint: &Arc<str>) -> PeerLookup {
        let Some(peer) = self.peer(endpoint) else {
            return PeerLookup::No;
        };
        let now = monotonic();
        peer.wanted_ns.store(now.as_nanos() as u64, Ordering::Relaxed);
        match &*peer.read() {
            PeerState::Proven(rails) => return PeerLookup::Rails(rails.clone()),
            PeerState::Down { until } if *until <= now => {}
            _ => return PeerLookup::No,
        }
        peer.change(|standing| match standing {
            PeerState::Down { .. } => {
                *standing = PeerState::Asked;
                PeerLookup::Ask
            }
            _ => PeerLookup::No,
        })
    }

    /// As [`Peers::find`] after a wait, until `end` at most, for the answer of a peer that is being
    /// asked.
    pub(crate) fn await_rails(&self, endpoint: &Arc<str>, end: Instant) -> Option<Arc<PeerRails>> {
        let peer = self.peer(endpoint)?;
        peer.wait_for_answer(end);
        match &*peer.read() {
            PeerState::Proven(rails) => Some(rails.clone()),
            _ => None,
        }
    }

    /// What the peer listed last, proven or not.
    pub(crate) fn last(&self, endpoint: &Arc<str>) -> Option<Arc<PeerRails>> {
        match &*self.peer(endpoint)?.read() {
            PeerState::Proving(rails) | PeerState::Proven(rails) => Some(rails.clone()),
            PeerState::Down { .. } | PeerState::Asked => None,
        }
    }

    /// Whether it is worth asking for the list again: the peer may lend more by now. Not often, for
    /// a peer may be asked for what it never had.
    pub(crate) fn wants_refresh(&self, endpoint: &Arc<str>) -> bool {
        let Some(peer) = self.peer(endpoint) else {
            return false;
        };
        let now = monotonic().as_nanos() as u64;
        let before = peer.refreshed_ns.load(Ordering::Relaxed);
        let is_due = now.saturating_sub(before) >= REFRESH.as_nanos() as u64;
        is_due
            && peer
                .refreshed_ns
                .compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// The peer has answered. True if its rails are to be proven now.
    pub(crate) fn learned(&self, endpoint: &Arc<str>, rails: Arc<PeerRails>) -> bool {
        let Some(peer) = self.peer(endpoint) else {
            return false;
        };
        peer.change(|standing| {
            let (next, proves) = match (&*standing, self.first_load) {
                (PeerState::Down { .. }, _) => return false,
                (_, FirstLoad::AtOnce) => (PeerState::Proven(rails), false),
                (PeerState::Proving(before), _) if is_same(before, &rails) => {
                    (PeerState::Proving(rails), false)
                }
                (PeerState::Proven(before), _) if is_same(before, &rails) => {
                    (PeerState::Proven(rails), false)
                }
                _ if rails.regions().is_empty() => {
                    // Its memory is being registered.
                    let until = monotonic() + RENEWAL;
                    (PeerState::Down { until }, false)
                }
                _ => (PeerState::Proving(rails), true),
            };
            *standing = next;
            proves
        })
    }

    /// Whether the first bytes came over the rails of one run of a peer, which say nothing about
    /// another run.
    pub(crate) fn tried(&self, endpoint: &Arc<str>, epoch: u64, is_proven: bool) {
        let Some(peer) = self.peer(endpoint) else {
            return;
        };
        peer.change(|standing| match &*standing {
            PeerState::Proving(rails) if rails.peer().epoch() == epoch => {
                *standing = match is_proven {
                    true => PeerState::Proven(rails.clone()),
                    false => PeerState::Down { until: monotonic() + RETRY },
                };
            }
            _ => {}
        });
    }

    /// Nothing goes over its rails for a while.
    pub(crate) fn suspend(&self, endpoint: &Arc<str>) {
        self.put_down(endpoint, monotonic() + RETRY);
    }

    /// Nothing goes over its rails before it is asked again, which may be at once.
    pub(crate) fn rest(&self, endpoint: &Arc<str>) {
        self.put_down(endpoint, Duration::ZERO);
    }

    fn put_down(&self, endpoint: &Arc<str>, until: Duration) {
        if let Some(peer) = self.peer(endpoint) {
            peer.change(|standing| *standing = PeerState::Down { until });
        }
    }

    /// Whether it has not been wanted for a while, and nothing is on its way to it.
    pub(crate) fn is_idle(&self, endpoint: &Arc<str>) -> bool {
        let Some(peer) = self.peer(endpoint) else {
            return true;
        };
        let wanted = Duration::from_nanos(peer.wanted_ns.load(Ordering::Relaxed));
        let in_use = match &*peer.read() {
            PeerState::Proving(rails) | PeerState::Proven(rails) => rails.is_in_use(),
            PeerState::Down { .. } | PeerState::Asked => false,
        };
        !in_use && monotonic().saturating_sub(wanted) >= IDLE
    }

    fn peer(&self, endpoint: &Arc<str>) -> Option<Arc<RdmaPeer>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(peer) = known.get(endpoint) {
            return Some(peer.clone());
        }
        drop(known);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= PEERS_MAX {
            known.retain(|_, peer| !matches!(*peer.read(), PeerState::Down { .. }));
        }
        if known.len() >= PEERS_MAX {
            return None;
        }
        let peer = known.entry(endpoint.clone());
        let peer = peer.or_insert_with(|| Arc::new(RdmaPeer::new())).clone();
        debug_assert!(known.len() <= PEERS_MAX);
        Some(peer)
    }
}

/// Whether two answers are of the same run of a peer.
fn is_same(before: &PeerRails, after: &PeerRails) -> bool {
    before.peer().epoch() == after.peer().epoch()
}

#[cfg(test)]
mod tests;
