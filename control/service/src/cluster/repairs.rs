//! Repairs of objects that lost a replica: every shard leads those of its keys, turn by turn, when
//! the first one says so.
//! Invariant: all shards together have no more copies for repairs under way than a constant.

use super::control_shard::ControlShard;
use super::copy_turns::CopiesFor;
use perigee_master::limits::REPAIR_MOVES_MAX;
use perigee_shard::Environment;
use std::collections::BTreeSet;

impl<E: Environment> ControlShard<E> {
    /// Says so if a key of this shard is due for a repair.
    pub(super) fn notify_of_repairs(&self) {
        if self.keys.borrow().wants_repairs(self.now_ms()) {
            self.repairs.notify();
        }
    }

    /// Makes a turn of repairs if one is due; returns whether copies for them are under way. Runs
    /// on the first shard.
    pub(super) async fn turn_repairs(&self) -> bool {
        if !self.repairs.take() && !self.copies.is_active(CopiesFor::Repairs) {
            return false;
        }
        debug_assert!(self.registry.is_some(), "the first shard shares the allowance out");
        let shards = self.members().len();
        let mut repairers = BTreeSet::new();
        for index in 0..shards {
            let copies_for = CopiesFor::Repairs;
            let allowance = self.copies.allowance(copies_for, index, shards, REPAIR_MOVES_MAX);
            let turn = move |shard: &Self| {
                let mut keys = shard.keys.borrow_mut();
                keys.repair_turn(shard.now_ms(), allowance)
            };
            let Some(turn) = self.on(index, turn).await.flatten() else {
                // The shard is gone, so the master is ending.
                return false;
            };
            self.copies.note(copies_for, index, turn.active);
            repairers.extend(turn.carriers);
            let segments = turn.needs.len();
            self.borrow_room(index, turn.needs, segments).await;
        }
        self.ask_registry(|registry| registry.note_repairers(repairers));
        self.copies.is_active(CopiesFor::Repairs)
    }
}
