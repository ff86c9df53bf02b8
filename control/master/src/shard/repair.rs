//! Repair: an object that lost a replica with its segment gets another one, and one that is hot
//! gets one more.
//! Invariant: a repair evicts nothing and fills no segment beyond the watermark, and copies lie on
//! hosts without one as long as there are any.

use perigee_schemas::Status;
use perigee_schemas::extent::extent_bytes;

use crate::destination::Destination;
use crate::limits::{NEEDS_MAX, REPAIR_STEP_MAX, RETRY_PAUSE_MS};
use crate::loan::Need;
use crate::moving::{NO_JOB, Purpose};
use crate::object::Flags;
use crate::wishes::Cause;

use super::KeyShard;
use super::copy::{CopyStep, MissingRoom};
use super::repair_turn::RepairTurn;

impl KeyShard {
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
        let failed = self.wishes.failed(object);
        let source = self.relocation.source_for_wish(self.view(), &there, failed);
        let Some(source) = source.filter(|_| !is_busy) else {
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
