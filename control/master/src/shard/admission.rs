//! Which disk is to have a copy of what memory loses, if any.
//! Invariant: what is refused for the budget of its disk goes without a copy and without an error;
//! without budgets nothing is refused.

use crate::write_budget::BudgetState;

use super::KeyShard;

impl KeyShard {
    /// How this shard's part of a disk's write budget stands; `None` without one.
    pub fn write_budget(&self, disk: u128) -> Option<BudgetState> {
        self.tier.budgets.as_ref()?.state(disk)
    }
}
