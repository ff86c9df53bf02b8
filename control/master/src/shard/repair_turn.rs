//! What a shard says after a turn of its repairs. Invariant: each client that has a copy in hand,
//! or is to take one, is named.

use crate::loan::Need;

/// What a shard says after a turn of its repairs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepairTurn {
    /// Copies that wait for a client or are under way.
    pub active: u32,
    /// The clients that make them, or are to.
    pub carriers: Vec<u128>,
    /// Room to be borrowed from other shards, where they have more than this one.
    pub needs: Vec<Need>,
}
