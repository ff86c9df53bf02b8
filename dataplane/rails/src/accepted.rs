//! Queue pairs accepted for peers, through which they read and write registered memory.
//!
//! Each is known by who offered it; a new offer takes the place of the old one, and an engine that
//! comes up under a name takes the place of the one before it. So a peer that dies, restarts or
//! takes over an address leaks nothing.

use crate::descriptor::ProofDescriptor;
use crate::slab::SlabKey;
use std::collections::HashMap;
use std::time::Duration;

/// Who offered a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AcceptedKey {
    /// Epoch of the peer.
    pub(crate) epoch: u64,
    pub(crate) shard: u32,
    /// The shard's lane to us.
    pub(crate) lane: u32,
}

/// One accepted queue pair.
#[derive(Clone, Debug)]
pub(crate) struct Accepted {
    pub(crate) endpoint: SlabKey,
    pub(crate) name: String,
    /// Where a liveness write is written.
    pub(crate) proof: ProofDescriptor,
    /// When the other end was last known to be there.
    pub(crate) seen_at: Duration,
    /// Since when a liveness write is on its way.
    pub(crate) asked_at: Option<Duration>,
}

/// All accepted queue pairs of a shard.
#[derive(Debug, Default)]
pub(crate) struct AcceptedTable {
    entries: HashMap<AcceptedKey, Accepted>,
}

impl AcceptedTable {
    pub(crate) fn insert(&mut self, key: AcceptedKey, accepted: Accepted) {
        let before = self.entries.insert(key, accepted);
        debug_assert!(before.is_none(), "the old one was taken down before");
    }

    pub(crate) fn get_mut(&mut self, key: AcceptedKey) -> Option<&mut Accepted> {
        self.entries.get_mut(&key)
    }

    pub(crate) fn get(&self, key: AcceptedKey) -> Option<&Accepted> {
        self.entries.get(&key)
    }

    pub(crate) fn remove(&mut self, key: AcceptedKey) -> Option<Accepted> {
        self.entries.remove(&key)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Queue pairs of engines that ran under this name before.
    pub(crate) fn outlived_by(&self, name: &str, epoch: u64) -> Vec<AcceptedKey> {
        self.keys(|key, accepted| accepted.name == name && key.epoch != epoch)
    }

    /// Queue pairs of one engine.
    pub(crate) fn of_epoch(&self, epoch: u64) -> Vec<AcceptedKey> {
        self.keys(|key, _| key.epoch == epoch)
    }

    /// Whether a shard of an engine has a queue pair.
    pub(crate) fn has_any(&self, epoch: u64, shard: u32) -> bool {
        let mut keys = self.entries.keys();
        keys.any(|key| (key.epoch, key.shard) == (epoch, shard))
    }

    /// Queue pairs whose other end has to answer a liveness write.
    pub(crate) fn silent(&self, now: Duration, longer_than: Duration) -> Vec<AcceptedKey> {
        self.keys(|_, accepted| {
            accepted.asked_at.is_none() && now.saturating_sub(accepted.seen_at) >= longer_than
        })
    }

    /// Queue pairs whose other end did not answer in time.
    pub(crate) fn unanswered(&self, now: Duration, longer_than: Duration) -> Vec<AcceptedKey> {
        self.keys(|_, accepted| {
            let asked_at = accepted.asked_at;
            asked_at.is_some_and(|asked_at| now.saturating_sub(asked_at) >= longer_than)
        })
    }

    fn keys(&self, choose: impl Fn(&AcceptedKey, &Accepted) -> bool) -> Vec<AcceptedKey> {
        let chosen = self.entries.iter().filter(|(key, accepted)| choose(key, accepted));
        chosen.map(|(key, _)| *key).collect()
    }
}
