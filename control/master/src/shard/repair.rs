//! Repair: an object that lost a replica with its segment gets another one, and one that is hot
//! gets one more.
//! Invariant: a repair evicts nothing and fills no segment beyond the watermark, and copies lie on
//! hosts without one as long as there are any.

use perigee_schemas::Status;
use perigee_schemas::extent::extent_bytes;

use crate::limits::{
    NEEDS_MAX, REPAIR_MOVES_PER_CLIENT_MAX, REPAIR_STEP_MAX, RETRY_PAUSE_MS, WISHES_MAX,
};
use crate::loan::Need;
use crate::moving::{NO_JOB, Purpose};
use crate::object::Flags;
use crate::wishes::Cause;

use super::KeyShard;
use super::copy::{CopyStep, Destination, MissingRoom};
use super::repair_turn::RepairTurn;

impl KeyShard {
    /// A complete replica is about to go for a reason that its writer does not want: if others
    /// stay, the object is to have as many as before. One that lies in parts is left as it is.
    pub(super) fn note_loss(&mut self, id: u32) {
        let lost = &self.stored.replicas[id];
        let is_repaired = !lost.is_on_disk() && !lost.is_extra() && lost.part().is_none();
        if !self.settings.repairs || !is_repaired {
            return;
        }
        let object = self.stored.replicas[id].object;
        let in_memory = self.stored.replicas.chain(self.stored.keys[object].first);
        let in_memory = in_memory.filter(|other| !self.stored.replicas[*other].is_on_disk());
        let (mut before, mut stays) = (0, false);
        for other in in_memory {
            before += u32::from(!self.stored.replicas[other].is_extra());
            stays |= other != id && self.view().is_readable(other);
        }
        if before < 2 || !stays {
            return;
        }
        self.wish_for(object, before);
    }

    /// An object is to have so many replicas again.
    pub(super) fn wish_for(&mut self, object: u32, replicas: u32) {
        let most = (WISHES_MAX / self.settings.count).max(1);
        if !self.wishes.add(object, Cause::Loss, replicas, self.stored.clock.now_ms(), most) {
            self.counters.repairs_dropped += 1;
        }
    }

    /// Whether a turn of repairs has something to do.
    pub fn wants_repairs(&self, now_ms: u64) -> bool {
        self.wishes.are_due(self.stored.clock.now_ms().max(now_ms))
    }

    /// Goes on with repairs, so far that no more than `allowance` copies for them are under way; to
    /// be called again and again while there are any.
    pub fn repair_turn(&mut self, now_ms: u64, allowance: u32) -> RepairTurn {
        self.begin(now_ms);
        let mut missing = MissingRoom::default();
        for object in self.wishes.next(self.stored.clock.now_ms(), REPAIR_STEP_MAX) {
            if self.relocation.moves().wishes() >= allowance {
                break;
            }
            self.go_on_with_repair(object, &mut missing);
        }
        RepairTurn {
            active: self.relocation.moves().wishes(),
            carriers: self.relocation.moves().wish_carriers().collect(),
            needs: self.needs_of_repairs(&missing),
        }
    }

    /// Begins the next copy of an object that is due.
    fn go_on_with_repair(&mut self, object: u32, missing: &mut MissingRoom) {
        let Some(cause) = self.wishes.cause(object) else {
            return;
        };
        let there = self.view().in_memory(object);
        let counted = there.iter().filter(|id| match cause {
            Cause::Loss => !self.stored.replicas[**id].is_extra(),
            Cause::Heat => true,
        });
        if there.is_empty() || counted.count() >= self.wishes.replicas(object) as usize {
            return self.wishes.forget(object);
        }
        let is_busy = self.relocation.of(object).is_some()
            || self.stored.keys[object].flags.has(Flags::PENDING);
        let Some(source) = self.source_of_repair(object, &there).filter(|_| !is_busy) else {
            return self
                .wishes
                .set_due(object, self.stored.clock.now_ms().saturating_add(RETRY_PAUSE_MS));
        };
        let (purpose, ratio) = match cause {
            Cause::Loss => (Purpose::Repair, self.settings.watermark_ratio),
            Cause::Heat => (Purpose::Heat, self.settings.heat_ratio()),
        };
        let open = self.view().open_beside(&self.pending, object, &there);
        if open.is_empty() && cause == Cause::Loss {
            return self.wishes.put_off(object);
        }
        let bytes = extent_bytes(self.stored.replicas[source].payload_bytes);
        let roomy = open.iter().copied().filter(|it| self.space.stays_below(*it, bytes, ratio));
        let roomy: Vec<u32> = roomy.collect();
        let copied = match roomy.is_empty() {
            true => CopyStep::NoRoom,
            false => self.copy(NO_JOB, purpose, source, Destination::Open(roomy), missing),
        };
        if let CopyStep::Begun(_) = copied {
            return self.wishes.begin(object);
        }
        if cause == Cause::Loss {
            missing.note(open, bytes);
        }
        self.wishes.note_failure(object, self.stored.clock.now_ms(), Status::NoAvailableHandle);
    }

    /// The replica to copy: another one after each failure, and none of an owner that has enough to
    /// do.
    fn source_of_repair(&self, object: u32, there: &[u32]) -> Option<u32> {
        let moves = self.relocation.moves();
        let is_idle =
            |id: &u32| moves.wishes_of(self.view().carrier_of(*id)) < REPAIR_MOVES_PER_CLIENT_MAX;
        let first = self.wishes.failed(object) as usize % there.len();
        there[first..].iter().chain(&there[..first]).copied().find(is_idle)
    }

    /// What to ask the other shards for, so that all are equally full where repairs found no room.
    fn needs_of_repairs(&self, missing: &MissingRoom) -> Vec<Need> {
        let open = missing.segments().into_iter().filter(|segment| self.may_borrow_in(*segment));
        let need = |segment: u32| {
            let allocator = &self.space.get(segment)?.allocator;
            Some(Need {
                segment,
                used_bytes: allocator.used().saturating_add(missing.waiting_bytes()),
                held_bytes: allocator.capacity(),
                waiting_bytes: 0,
                longest_bytes: 0,
                // Nothing is evicted for it.
                victim_idle_ms: u64::MAX,
            })
        };
        open.take(NEEDS_MAX).filter_map(need).collect()
    }
}
