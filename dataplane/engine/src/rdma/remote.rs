//! A peer's rails and the keys of its buffers, as its document listed them.
//! Invariant: all keys belong to one life of the peer; a document of another life is not taken over.

use super::{REGIONS_FIELD, Rdma};
use crate::limits::KEYS_REFRESH;
use perigee_discovery::{Extra, SegmentDocument};
use perigee_rails::{PeerDescriptor, PeerHandle, RegionDescriptor, RemoteKeys};
use perigee_shard::monotonic;
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

/// What RDMA needs to know of a peer.
#[derive(Debug)]
pub(crate) struct RemoteRails {
    peer: PeerHandle,
    epoch: String,
    /// By address.
    keys: RwLock<Vec<Arc<RemoteKeys>>>,
    refreshed: Mutex<Duration>,
}

impl RemoteRails {
    /// Opens the peer of a document; `None` if it has no rails, or unusable ones.
    pub(crate) fn open(rdma: &Rdma, name: &str, extra: &Extra, asked_at: Duration) -> Option<Self> {
        let descriptor: PeerDescriptor =
            serde_json::from_value(extra.rails.first()?.clone()).ok()?;
        let opened = rdma.rails().open_peer(name, &descriptor);
        let peer = opened
            .inspect_err(|error| tracing::info!(%error, name, "No rails to this peer"))
            .ok()?;
        Some(Self {
            peer,
            epoch: extra.epoch.clone(),
            keys: RwLock::new(read_keys(extra, asked_at)),
            refreshed: Mutex::new(asked_at),
        })
    }

    /// The peer, as rails know it.
    pub(crate) fn peer(&self) -> &PeerHandle {
        &self.peer
    }

    /// The keys that cover a range.
    pub(crate) fn keys(&self, address: u64, bytes: u64) -> Option<Arc<RemoteKeys>> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.iter()
            .find(|keys| keys.contains(address, bytes))
            .cloned()
    }

    /// Whether it is worth asking for the document again: the peer may have registered more since. Not asked often, for a
    /// peer may be asked for what it never had.
    pub(crate) fn wants_refresh(&self) -> bool {
        let mut refreshed = self
            .refreshed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let now = monotonic();
        let due = now.saturating_sub(*refreshed) >= KEYS_REFRESH;
        if due {
            *refreshed = now;
        }
        due
    }

    /// Takes the keys of a newer document of the same life.
    pub(crate) fn refresh(&self, document: &SegmentDocument, asked_at: Duration) {
        if let Some(extra) = document
            .perigee
            .as_ref()
            .filter(|extra| extra.epoch == self.epoch)
        {
            let keys = read_keys(extra, asked_at);
            *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
        }
    }
}

fn read_keys(extra: &Extra, asked_at: Duration) -> Vec<Arc<RemoteKeys>> {
    let listed = extra.unknown.get(REGIONS_FIELD).and_then(Value::as_array);
    let read = |value: &Value| {
        let descriptor: RegionDescriptor = serde_json::from_value(value.clone()).ok()?;
        RemoteKeys::new(&descriptor, asked_at).ok().map(Arc::new)
    };
    listed.into_iter().flatten().filter_map(read).collect()
}
