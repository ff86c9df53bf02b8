//! What a shard says after a turn of its tasks. Invariant: news are in the order in which they
//! happened.

use crate::loan::Need;
use crate::shard_task::TaskUpdate;

/// What a shard says after a turn of its tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskTurn {
    /// Copies for tasks that wait for a client or are under way.
    pub active: u32,
    /// What happened to tasks, in order.
    pub news: Vec<(u128, TaskUpdate)>,
    /// Room in target segments to be borrowed from other shards.
    pub needs: Vec<Need>,
}
