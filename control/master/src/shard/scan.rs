//! Walks over all keys in bounded steps, so that other calls get their turn in between.
//! Invariant: a walk goes up in the keys' hashes, whatever becomes of their objects, so it meets
//! each key once that is there all the time; keys that come or go during a walk may be met or not.

use crate::departures::DepartureCause;
use crate::index::Slot;
use crate::limits::{SCAN_STEP_OBJECTS, SCAN_STEP_WORK};
use crate::listed_key::ListedKey;
use crate::pattern::Pattern;

use super::KeyShard;
use super::scan_position::Scan;

/// One step of a walk: what it has before it, and what is left of its budget.
struct Step {
    /// What stands in the part of the walk where it is, the next one last.
    ahead: Vec<(u64, Slot)>,
    /// Where that part ends.
    last: u64,
    /// The place that was looked at last.
    place: Option<u64>,
    objects: u32,
    parts: u32,
    work: usize,
}

impl Step {
    fn new() -> Self {
        Self {
            ahead: Vec::new(),
            last: 0,
            place: None,
            objects: SCAN_STEP_OBJECTS,
            parts: SCAN_STEP_OBJECTS,
            work: SCAN_STEP_WORK,
        }
    }

    /// The next key that matches. A step looks at one key at least, so that walks end.
    fn next(&mut self, shard: &KeyShard, scan: &mut Scan, pattern: &Pattern) -> Option<Slot> {
        loop {
            let Some(&(place, slot)) = self.ahead.last() else {
                if self.is_over() || scan.has_ended() {
                    return None;
                }
                self.parts -= 1;
                (self.ahead, self.last) = shard.stored.keys.around(scan.next());
                self.ahead.reverse();
                if self.ahead.is_empty() {
                    scan.pass(self.last);
                }
                continue;
            };
            // What stands at one place is looked at in one step.
            if self.is_over() && self.place != Some(place) {
                return None;
            }
            self.ahead.pop();
            self.place = Some(place);
            scan.pass(if self.ahead.is_empty() { self.last } else { place });
            self.objects = self.objects.saturating_sub(1);
            let Some(key) = shard.stored.keys.key(slot) else {
                continue;
            };
            self.work = self.work.saturating_sub(pattern.work(key));
            if pattern.matches(key) {
                return Some(slot);
            }
        }
    }

    fn is_over(&self) -> bool {
        self.objects == 0 || self.parts == 0 || self.work == 0
    }
}

impl KeyShard {
    /// A walk over the keys.
    pub fn scan(&self) -> Scan {
        Scan::FIRST
    }

    /// The walk that was at this position. Any two numbers are fine.
    pub fn scan_from(&self, position: (u32, u32)) -> Scan {
        Scan::at(position)
    }

    /// One step of a removal: of the keys met, those that can be removed are; returns how many.
    /// `force` ignores leases.
    pub fn remove_step(
        &mut self,
        now_ms: u64,
        scan: &mut Scan,
        pattern: &Pattern,
        force: bool,
    ) -> u64 {
        self.begin(now_ms);
        self.tier.tombstones.note_pattern();
        self.rebuild.note_pattern();
        if force && *scan == Scan::FIRST {
            self.outbox.note_pattern_removal(
                &self.space,
                self.stored.replicas.generation_bound(),
                pattern,
            );
        }
        let (mut removed, mut walk) = (0, Step::new());
        while let Some(slot) = walk.next(self, scan, pattern) {
            let Some(id) = self.stored.object_of(slot) else {
                continue;
            };
            // What is leased stays, so only those that go are named.
            let key = (!force).then(|| self.stored.keys[id].key().to_vec());
            let is_removed =
                self.remove_object(id, force, DepartureCause::RemovedByPattern).is_ok();
            key.filter(|_| is_removed).iter().for_each(|key| {
                let bound = self.stored.replicas.generation_bound();
                self.outbox.note_removal(&self.space, bound, key);
            });
            removed += u64::from(is_removed);
        }
        removed
    }

    /// One step of a listing: calls `each` with the readable keys met, until it says that it has
    /// enough.
    pub fn list_step(
        &self,
        scan: &mut Scan,
        pattern: &Pattern,
        mut each: impl FnMut(ListedKey<'_>) -> bool,
    ) {
        let mut walk = Step::new();
        while let Some(slot) = walk.next(self, scan, pattern) {
            if self.view().is_slot_complete(slot) && !each(self.view().listed(slot)) {
                return;
            }
        }
    }
}
