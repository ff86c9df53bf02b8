//! Emptying segments: a walk over the replicas that asks for a copy of each one, a few at a time.
//! Invariant: one turn looks at a bounded number of replicas, and no more moves are under way than
//! were allowed.

use crate::draining::{Drain, DrainOrder, DrainReport};
use crate::moving::Purpose;

use super::KeyShard;
use super::copy::{CopyStep, MissingRoom};

impl KeyShard {
    /// Goes on with a drain job; to be called again and again until the job has ended.
    pub fn drain_turn(&mut self, now_ms: u64, order: &DrainOrder) -> DrainReport {
        self.begin(now_ms);
        let mut drain = self.relocation.take_drain(order.job);
        let mut missing = MissingRoom::default();
        let bound = self.stored.replicas.bound();
        if let Some(mut step) = drain.next_step(self.stored.clock.now_ms(), bound) {
            while !step.is_empty() && self.relocation.moves().count_of(order.job) < order.allowance
            {
                self.meet(&mut drain, order, step.start, &mut missing);
                step.start += 1;
            }
            drain.end_step(self.stored.clock.now_ms(), step.start, bound);
        }
        let mut report = self.relocation.report(self.view(), &drain, order);
        report.needs = self.needs_of_copies(&order.targets, &missing);
        self.relocation.put_drain(order.job, drain);
        report
    }

    /// Forgets a drain job that has ended.
    pub fn end_drain(&mut self, job: u128) {
        self.relocation.take_drain(job);
    }

    /// Asks for a copy of a replica if it lies in a source and nothing is in the way.
    fn meet(&mut self, drain: &mut Drain, order: &DrainOrder, id: u32, missing: &mut MissingRoom) {
        let Some(replica) = self.stored.replicas.get(id) else {
            return;
        };
        if !order.sources.contains(&replica.segment) || !self.space.is_readable(replica.segment) {
            return;
        }
        let (object, generation) = (replica.object, replica.generation);
        let under_way = self.relocation.of(object);
        let is_moving = under_way.is_some_and(|under_way| under_way.source == id);
        if is_moving || drain.has_given_up(generation) {
            return;
        }
        let is_complete =
            self.stored.replicas.chain(self.stored.keys[object].first).any(|other| other == id);
        if !is_complete
            || under_way.is_some()
            || !drain.may_try(generation, self.stored.clock.now_ms())
        {
            return drain.leave();
        }
        if self.stored.replicas[id].is_extra() {
            self.drop_complete(id);
            return drain.note_done(0);
        }
        let destination = drain.destination(self.view(), &self.pending, &order.targets, id);
        match self.copy(order.job, Purpose::Drain, id, destination, missing) {
            CopyStep::Begun(_) => {}
            CopyStep::NotNeeded => {
                drain.forget(generation);
                drain.note_done(0);
            }
            CopyStep::NoRoom => {
                drain.note_no_room(generation, self.stored.clock.now_ms());
                drain.leave();
            }
        }
    }
}
