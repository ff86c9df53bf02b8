//! Puts that their writer ends or takes back. Invariant: one generation per key.

use crate::put_name::PutName;

/// A batch of puts to end or to revoke; all keys must belong to the shard.
#[derive(Debug, Clone, Copy)]
pub struct StartedPuts<'a> {
    /// The writer.
    pub client: u128,
    /// The keys.
    pub keys: &'a [&'a [u8]],
    /// Generation of the first location that each put was given.
    pub generations: &'a [u64],
    /// CRC-32C of each part of each object; empty for an object that lies in one piece, and for
    /// all keys if all objects do.
    pub parts: &'a [&'a [u32]],
}

impl StartedPuts<'_> {
    pub(super) fn name(&self, at: usize) -> PutName {
        PutName { client: self.client, generation: self.generations[at] }
    }

    pub(super) fn parts_of(&self, at: usize) -> &[u32] {
        self.parts.get(at).copied().unwrap_or_default()
    }
}
