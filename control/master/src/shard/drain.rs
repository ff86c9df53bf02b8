//! Emptying segments: a walk over the replicas that begins moves, a few at a time.
//! Invariant: one turn looks at a bounded number of replicas, and no more moves are under way than
//! were allowed.

use std::cmp::Reverse;
use std::sync::Arc;

use perigee_allocator::Extent;
use perigee_schemas::extent::extent_bytes;

use crate::draining::{Drain, DrainOrder, DrainReport};
use crate::limits::{
    DRAIN_STEP_REPLICAS, DRAIN_WALK_PAUSE_MS, MOVE_BYTES_PER_MS, MOVE_DEADLINE_MS,
};
use crate::moving::{Purpose, ReplicaMove};

use super::KeyShard;
use crate::loan::Need;

/// What came of one replica that the walk met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DrainStep {
    /// A move of it is under way.
    Moving,
    /// All targets hold the object, so the replica was dropped.
    Redundant,
    /// It has to wait.
    Left,
    /// It was given up before.
    GivenUp,
    /// No target has room for so many bytes.
    NoRoom(u64),
}

/// Where a replica may go.
enum Destination {
    At(u32, Extent),
    NotNeeded,
    Full,
}

impl KeyShard {
    /// Goes on with a drain job; to be called again and again until the job has ended.
    pub fn drain_turn(&mut self, now_ms: u64, order: &DrainOrder) -> DrainReport {
        self.begin(now_ms);
        let mut drain = self.drains.remove(&order.job).unwrap_or_default();
        drain.sources = Arc::clone(&order.sources);
        let short_bytes = self.walk(&mut drain, order);
        debug_assert!(drain.cursor <= self.replicas.bound());
        let mut report = self.report(&drain, order.job);
        if let Some((waiting_bytes, longest_bytes)) = short_bytes {
            report.needs = self.needs_of_moves(&order.targets, waiting_bytes, longest_bytes);
        }
        self.drains.insert(order.job, drain);
        report
    }

    /// Forgets a drain job that has ended.
    pub fn end_drain(&mut self, job: u128) {
        self.drains.remove(&job);
    }

    fn report(&self, drain: &Drain, job: u128) -> DrainReport {
        let replicas = |segment: &u32| self.replicas.count_in(*segment);
        let leased = |segment: &u32| self.space.quarantine().leased_of(*segment);
        let replicas: usize = drain.sources.iter().map(replicas).sum();
        let leased: u64 = drain.sources.iter().map(leased).sum();
        let active = self.moves.count_of(job);
        let left = if replicas == 0 { 0 } else { drain.left_before };
        let nothing_to_try = replicas == drain.given_up() || drain.is_hopeless();
        DrainReport {
            active,
            blocked: left + leased,
            succeeded: drain.succeeded,
            failed: drain.given_up() as u64,
            migrated_bytes: drain.migrated_bytes,
            last_failure: drain.last_failure,
            is_done: active == 0 && leased == 0 && nothing_to_try,
            needs: Vec::new(),
        }
    }

    /// One step of the walk; returns how many bytes found no room, and the longest of them.
    fn walk(&mut self, drain: &mut Drain, order: &DrainOrder) -> Option<(u64, u64)> {
        if drain.is_hopeless() || drain.next_walk_ms > self.now_ms {
            return None;
        }
        let mut short_bytes = None;
        let bound = self.replicas.bound();
        let end = bound.min(drain.cursor.saturating_add(DRAIN_STEP_REPLICAS));
        while drain.cursor < end && self.moves.count_of(order.job) < order.allowance {
            let met = self.meet(drain, order, drain.cursor);
            drain.cursor += 1;
            match met {
                Some(DrainStep::Left) => drain.left += 1,
                Some(DrainStep::NoRoom(bytes)) => {
                    drain.left += 1;
                    let (waiting, longest) = short_bytes.unwrap_or((0u64, 0u64));
                    short_bytes = Some((waiting.saturating_add(bytes), longest.max(bytes)));
                }
                Some(DrainStep::Redundant) => drain.succeeded += 1,
                Some(DrainStep::Moving | DrainStep::GivenUp) | None => {}
            }
        }
        if drain.cursor >= bound {
            drain.cursor = 0;
            drain.next_walk_ms = self.now_ms.saturating_add(DRAIN_WALK_PAUSE_MS);
            drain.left_before = std::mem::take(&mut drain.left);
        }
        short_bytes
    }

    /// Begins to move a replica if it lies in a source; nothing if it does not.
    fn meet(&mut self, drain: &mut Drain, order: &DrainOrder, id: u32) -> Option<DrainStep> {
        let replica = self.replicas.get(id)?;
        if !order.sources.contains(&replica.segment) || !self.space.is_readable(replica.segment) {
            return None;
        }
        let (object, generation) = (replica.object, replica.generation);
        if self.moves.get(object).is_some_and(|under_way| under_way.source == id) {
            return Some(DrainStep::Moving);
        }
        if drain.has_given_up(generation) {
            return Some(DrainStep::GivenUp);
        }
        let first = self.keys[object].first;
        let complete = self.replicas.chain(first).any(|other| other == id);
        let free = complete && self.moves.get(object).is_none();
        if !free || !drain.may_try(generation, self.now_ms) {
            return Some(DrainStep::Left);
        }
        let bytes = extent_bytes(self.replicas[id].payload_bytes);
        match self.destination(drain, &order.targets, object, bytes) {
            Destination::At(segment, extent) => {
                self.begin_move(order.job, Purpose::Drain, id, segment, extent);
                Some(DrainStep::Moving)
            }
            Destination::NotNeeded => {
                drain.forget(generation);
                self.drop_complete(id);
                Some(DrainStep::Redundant)
            }
            Destination::Full => {
                drain.note_no_room(generation, self.now_ms);
                Some(DrainStep::NoRoom(bytes))
            }
        }
    }

    /// Space in the least used target that does not hold the object and is not left alone.
    fn destination(
        &mut self,
        drain: &Drain,
        targets: &[u32],
        object: u32,
        bytes: u64,
    ) -> Destination {
        let mut open = self.open_targets(targets);
        if open.is_empty() {
            return Destination::Full;
        }
        let complete = self.keys[object].first;
        let held = |segment: &u32| {
            self.replicas.chain(complete).any(|id| self.replicas[id].segment == *segment)
        };
        if open.iter().all(held) {
            return Destination::NotNeeded;
        }
        let now_ms = self.now_ms;
        open.retain(|segment| {
            let taken = held(segment) || self.is_written_in(object, *segment);
            !taken && drain.may_use(*segment, now_ms)
        });
        match self.space.alloc_least_used(&open, bytes) {
            Some((segment, extent)) => Destination::At(segment, extent),
            None => Destination::Full,
        }
    }

    fn open_targets(&self, targets: &[u32]) -> Vec<u32> {
        let wanted = |segment: &u32| targets.is_empty() || targets.contains(segment);
        self.space.live().iter().copied().filter(wanted).collect()
    }

    /// Notes a move for the owner of the source's segment to take; returns who that is.
    pub(super) fn begin_move(
        &mut self,
        job: u128,
        purpose: Purpose,
        source: u32,
        segment: u32,
        extent: Extent,
    ) -> u128 {
        let (object, payload_bytes) = {
            let replica = &self.replicas[source];
            (replica.object, replica.payload_bytes)
        };
        debug_assert!(self.moves.get(object).is_none(), "one move per object");
        let client = self.carrier_of(source);
        let target = self.replicas.make(segment, extent, payload_bytes);
        self.replicas.assign(target, object);
        let under_way = ReplicaMove {
            job,
            purpose,
            client,
            source,
            target,
            generation: self.replicas[target].generation,
            taken_ms: None,
            deadline_ms: self.move_deadline_ms(payload_bytes),
        };
        self.moves.insert(object, under_way);
        client
    }

    /// Who copies a replica: the owner of its segment.
    pub(super) fn carrier_of(&self, replica: u32) -> u128 {
        self.space.get(self.replicas[replica].segment).map_or(0, |share| share.spec.client)
    }

    /// When a move that is handed out now must have ended.
    pub(super) fn move_deadline_ms(&self, payload_bytes: u64) -> u64 {
        let span_ms = MOVE_DEADLINE_MS + payload_bytes / MOVE_BYTES_PER_MS;
        self.now_ms.saturating_add(span_ms)
    }

    pub(super) fn needs_of_moves(
        &mut self,
        targets: &[u32],
        waiting: u64,
        longest: u64,
    ) -> Vec<Need> {
        let mut needs = self.needs_of_puts(waiting, longest);
        needs.retain(|need| targets.is_empty() || targets.contains(&need.segment));
        needs.sort_by_key(|need| Reverse(need.held_bytes.saturating_sub(need.used_bytes)));
        needs
    }
}
