//! Puts that are begun, and how hard the shard tries. Invariant: one payload length per key.

use crate::limits::HEAD_KEYS;
use crate::placement::PutConfig;
use crate::settings::ShardSettings;
use perigee_schemas::Status;

/// A batch of puts to start; all keys must belong to the shard.
#[derive(Debug, Clone, Copy)]
pub struct PutStart<'a> {
    /// The writer.
    pub client: u128,
    /// The keys.
    pub keys: &'a [&'a [u8]],
    /// Payload length in bytes, one per key.
    pub payload_bytes: &'a [u64],
    /// Place of each key in its batch; empty if the keys are all of it.
    pub positions: &'a [usize],
    /// Keys of the whole batch; 0 if the keys are all of it.
    pub batch_keys: usize,
    /// Empty, or one group name per key; an empty name is no group.
    pub groups: &'a [&'a str],
    /// Placement and pins of all keys.
    pub config: &'a PutConfig<'a>,
    /// Replace existing objects instead of refusing with `ObjectAlreadyExists`.
    pub upsert: bool,
    /// How far to go for space.
    pub effort: Effort,
}

/// How far a put goes for space. A master with several shards goes up in steps, so that nothing is
/// evicted while another shard has room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// What is free here.
    Free,
    /// Evict here if need be.
    Evict,
    /// As `Evict`; nothing comes after it, so that a failure counts as one.
    Last,
}

impl PutStart<'_> {
    /// Whether a key begins its batch, and so a prefix.
    pub(super) fn is_head(&self, at: usize) -> bool {
        self.positions.get(at).copied().unwrap_or(at) < HEAD_KEYS
    }

    /// Place of a key in its batch, and how many keys that has.
    pub(super) fn place_of(&self, at: usize) -> (usize, usize) {
        let place = self.positions.get(at).copied().unwrap_or(at);
        (place, self.batch_keys.max(self.keys.len()))
    }

    /// Whether the columns fit and the settings allow it.
    pub(super) fn check(&self, settings: &ShardSettings) -> Result<(), Status> {
        let keys = self.keys.len();
        let columns_ok = self.payload_bytes.len() == keys;
        let groups_ok = self.groups.is_empty() || self.groups.len() == keys;
        let positions_ok = self.positions.is_empty() || self.positions.len() == keys;
        if columns_ok && groups_ok && positions_ok {
            self.config.check(settings)
        } else {
            Err(Status::InvalidParams)
        }
    }
}
