//! What this client knows of its peers' rails. Invariant: load goes over rails only after bytes were read over them, and
//! after a fault not before a pause.

use crate::limits::{RAIL_PEERS_MAX, RAIL_RENEWAL, RAIL_RETRY};
use perigee_rails::{PeerHandle, RemoteKeys};
use perigee_schemas::Identity;
use perigee_shard::monotonic;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// A peer's rails and the memory behind them.
#[derive(Debug)]
pub(crate) struct Reached {
    pub(crate) peer: PeerHandle,
    pub(crate) regions: HashMap<Identity, Region>,
}

/// A segment of a peer.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    pub(crate) keys: Arc<RemoteKeys>,
    /// Address of its first byte at the peer.
    pub(crate) base: u64,
}

/// The way to one segment.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub(crate) endpoint: Arc<str>,
    pub(crate) peer: PeerHandle,
    pub(crate) region: Region,
}

#[derive(Debug)]
enum Standing {
    /// Not asked, or not before this instant.
    Down { until: Duration },
    /// Asked what it has.
    Asked,
    /// The first bytes are on their way.
    Proving(Arc<Reached>),
    /// Carries load.
    Proven(Arc<Reached>),
}

/// One peer.
#[derive(Debug)]
struct Peer {
    standing: RwLock<Standing>,
    /// When it was last wanted, in nanoseconds of the monotonic clock.
    wanted_ns: AtomicU64,
}

/// What is known of a segment's rails.
#[derive(Debug)]
pub(crate) enum Found {
    /// Load may go there.
    Way(Way),
    /// Not now.
    No,
    /// Not now, and the peer is to be asked.
    Ask,
}

/// All peers, by endpoint.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    known: RwLock<HashMap<Arc<str>, Arc<Peer>>>,
}

impl Peer {
    fn read(&self) -> RwLockReadGuard<'_, Standing> {
        self.standing.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Standing> {
        let lock = self.standing.write();
        lock.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Peers {
    /// The way to a segment; who gets [`Found::Ask`] is the one who asks the peer.
    pub(crate) fn find(&self, endpoint: &Arc<str>, segment: Identity) -> Found {
        let Some(peer) = self.peer(endpoint) else {
            return Found::No;
        };
        let now = monotonic();
        peer.wanted_ns
            .store(now.as_nanos() as u64, Ordering::Relaxed);
        match &*peer.read() {
            Standing::Proven(reached) => {
                let region = reached.regions.get(&segment);
                let way = |region: &Region| Way {
                    endpoint: endpoint.clone(),
                    peer: reached.peer.clone(),
                    region: region.clone(),
                };
                let usable = |region: &&Region| region.keys.is_valid(now);
                return region
                    .filter(usable)
                    .map_or(Found::No, |region| Found::Way(way(region)));
            }
            Standing::Down { until } if *until <= now => {}
            _ => return Found::No,
        }
        let mut standing = peer.write();
        match &*standing {
            Standing::Down { .. } => {
                *standing = Standing::Asked;
                Found::Ask
            }
            _ => Found::No,
        }
    }

    /// The peer has answered. True if its rails are to be proven now.
    pub(crate) fn learned(&self, endpoint: &Arc<str>, reached: Arc<Reached>) -> bool {
        let Some(peer) = self.peer(endpoint) else {
            return false;
        };
        let mut standing = peer.write();
        match &*standing {
            Standing::Asked if reached.regions.is_empty() => {
                // Its memory is being registered.
                let until = monotonic() + RAIL_RENEWAL;
                *standing = Standing::Down { until };
                false
            }
            Standing::Asked => {
                *standing = Standing::Proving(reached);
                true
            }
            Standing::Proving(_) => {
                *standing = Standing::Proving(reached);
                false
            }
            Standing::Proven(before) => {
                let is_same = before.peer.epoch() == reached.peer.epoch();
                *standing = if is_same {
                    Standing::Proven(reached)
                } else {
                    Standing::Proving(reached)
                };
                !is_same
            }
            Standing::Down { .. } => false,
        }
    }

    /// The first bytes came over its rails.
    pub(crate) fn proven(&self, endpoint: &Arc<str>) {
        let Some(peer) = self.peer(endpoint) else {
            return;
        };
        let mut standing = peer.write();
        if let Standing::Proving(reached) = &*standing {
            let reached = reached.clone();
            *standing = Standing::Proven(reached);
        }
    }

    /// Nothing goes over its rails for a while.
    pub(crate) fn suspend(&self, endpoint: &Arc<str>) {
        if let Some(peer) = self.peer(endpoint) {
            let until = monotonic() + RAIL_RETRY;
            *peer.write() = Standing::Down { until };
        }
    }

    /// How long nobody has wanted it.
    pub(crate) fn idle(&self, endpoint: &Arc<str>) -> Duration {
        let wanted = self
            .peer(endpoint)
            .map_or(0, |peer| peer.wanted_ns.load(Ordering::Relaxed));
        monotonic().saturating_sub(Duration::from_nanos(wanted))
    }

    fn peer(&self, endpoint: &Arc<str>) -> Option<Arc<Peer>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(peer) = known.get(endpoint) {
            return Some(peer.clone());
        }
        drop(known);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= RAIL_PEERS_MAX {
            known.retain(|_, peer| !matches!(*peer.read(), Standing::Down { .. }));
        }
        if known.len() >= RAIL_PEERS_MAX {
            return None;
        }
        let peer = known.entry(endpoint.clone()).or_insert_with(|| {
            Arc::new(Peer {
                standing: RwLock::new(Standing::Down {
                    until: Duration::ZERO,
                }),
                wanted_ns: AtomicU64::new(0),
            })
        });
        Some(peer.clone())
    }
}
