//! Walks over all keys in bounded steps, so that other calls get their turn in between. Invariant:
//! a walk ends after as many steps as it takes to pass the keys that were there when it began; keys
//! that come or go during the walk may be met or not.

use crate::departures::DepartureCause;
use crate::limits::{SCAN_STEP_OBJECTS, SCAN_STEP_WORK};

use super::KeyShard;
use super::listed_key::ListedKey;
use super::scan_position::Scan;
use crate::pattern::Pattern;

/// What is left of one step of a walk.
struct ScanBudget {
    objects: u32,
    work: usize,
}

impl ScanBudget {
    fn of_a_step() -> Self {
        Self { objects: SCAN_STEP_OBJECTS, work: SCAN_STEP_WORK }
    }

    /// The next object that matches. A step looks at one key at least, so that walks end.
    fn next(&mut self, shard: &KeyShard, scan: &mut Scan, pattern: &Pattern) -> Option<u32> {
        while self.objects > 0 && self.work > 0 {
            let id = scan.take()?;
            self.objects -= 1;
            let Some(object) = shard.keys.get(id) else {
                continue;
            };
            self.work = self.work.saturating_sub(pattern.work(object.key()));
            if pattern.matches(object.key()) {
                return Some(id);
            }
        }
        None
    }
}

impl KeyShard {
    /// A walk over the keys of now.
    pub fn scan(&self) -> Scan {
        let end = self.keys.bound();
        Scan { next: 0, end }
    }

    /// The walk that was at this position. Any two numbers are fine: they end within the keys of
    /// now.
    pub fn scan_from(&self, (next, end): (u32, u32)) -> Scan {
        let end = end.min(self.keys.bound());
        Scan { next, end }
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
        self.tombstones.note_pattern();
        self.rebuild.note_pattern();
        if force && scan.next == 0 {
            self.note_pattern_removal(pattern);
        }
        let (mut removed, mut budget) = (0, ScanBudget::of_a_step());
        while let Some(id) = budget.next(self, scan, pattern) {
            // What is leased stays, so only those that go are named.
            let key = (!force).then(|| self.keys[id].key().to_vec());
            let is_removed =
                self.remove_object(id, force, DepartureCause::RemovedByPattern).is_ok();
            key.filter(|_| is_removed).iter().for_each(|key| self.note_removal(key));
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
        let mut budget = ScanBudget::of_a_step();
        while let Some(id) = budget.next(self, scan, pattern) {
            if self.is_complete(id) && !each(self.listed(id)) {
                return;
            }
        }
    }

    fn listed(&self, object: u32) -> ListedKey<'_> {
        let record = &self.keys[object];
        ListedKey {
            key: record.key(),
            payload_bytes: self.bytes_of_object(object, record.first),
            group: self.groups.name(record.group),
            media: self.media_of(record.first),
        }
    }
}
