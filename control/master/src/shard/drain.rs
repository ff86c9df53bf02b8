//! Emptying segments: a walk over the replicas that asks for a copy of each one, a few at a time.
//! Invariant: one turn looks at a bounded number of replicas, and no more moves are under way than
//! were allowed.

use perigee_schemas::extent::extent_bytes;

use crate::draining::{Drain, DrainOrder, DrainReport};
use crate::moving::Purpose;
use crate::share::SegmentShare;

use super::KeyShard;
use super::copy::{CopyStep, Destination, MissingRoom};

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
        let mut report = self.report(&drain, order);
        report.needs = self.needs_of_copies(&order.targets, &missing);
        self.relocation.put_drain(order.job, drain);
        report
    }

    /// Forgets a drain job that has ended.
    pub fn end_drain(&mut self, job: u128) {
        self.relocation.take_drain(job);
    }

    fn report(&self, drain: &Drain, order: &DrainOrder) -> DrainReport {
        let replicas = order.sources.iter().map(|segment| self.stored.replicas.count_in(*segment));
        let quarantine = self.space.quarantine();
        let leased = order.sources.iter().map(|segment| quarantine.leased_of(*segment));
        let active = self.relocation.moves().count_of(order.job);
        // What their owners are still to announce lies there, too.
        let unheard = order
            .sources
            .iter()
            .filter(|segment| self.space.get(**segment).is_some_and(SegmentShare::is_rebuilding));
        drain.report(replicas.sum(), leased.sum::<u64>() + unheard.count() as u64, active)
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
        let destination = self.destination(drain, &order.targets, id);
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

    /// The targets for a replica: those that do not hold its object, or its part of it, and are not
    /// left alone, on hosts without another replica if there is room.
    fn destination(&self, drain: &Drain, targets: &[u32], id: u32) -> Destination {
        let live = self.space.live().iter().copied();
        let mut open: Vec<u32> =
            live.filter(|segment| targets.is_empty() || targets.contains(segment)).collect();
        let (object, part) = (self.stored.replicas[id].object, self.stored.replicas[id].part());
        open.retain(|segment| part.is_none() || self.space.takes_parts(*segment));
        let complete = self.stored.keys[object].first;
        let alike = || {
            let complete = self.stored.replicas.chain(complete);
            complete.filter(move |other| self.stored.replicas[*other].part() == part)
        };
        let held = |segment: &u32| alike().any(|id| self.stored.replicas[id].segment == *segment);
        if !open.is_empty() && open.iter().all(held) {
            return Destination::Held;
        }
        open.retain(|segment| {
            let taken = held(segment) || self.pending.is_written_in(&self.stored, object, *segment);
            !taken && drain.may_use(*segment, self.stored.clock.now_ms())
        });
        let source = self.stored.replicas[id].segment;
        let others = alike().map(|id| self.stored.replicas[id].segment);
        let others: Vec<u32> = others.filter(|segment| *segment != source).collect();
        let bytes = extent_bytes(self.stored.replicas[id].payload_bytes);
        let is_better = |segment: &u32| {
            let is_apart = others.iter().all(|other| !self.space.is_same_host(*segment, *other));
            is_apart && self.space.stays_below(*segment, bytes, 1.0)
        };
        if open.iter().any(is_better) {
            open.retain(is_better);
        }
        Destination::Open(open)
    }
}
