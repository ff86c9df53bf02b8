//! Hot keys: what is read often gets one more replica in memory, as long as there is room to spare.
//! Invariant: a replica that was made for heat goes before all others of its segment, and is never
//! the only one in memory that its object has.

use perigee_schemas::extent::extent_bytes;

use crate::departures::DepartureCause;
use crate::limits::{HEAT_PAUSE_AFTER_EVICTION_MS, HEAT_PAUSE_MS, WISHES_MAX};
use crate::object::Flags;
use crate::wishes::Cause;

use super::KeyShard;

impl KeyShard {
    /// A key was read. If that makes it hot, it is to have one more replica.
    #[inline(never)]
    pub(super) fn count_read(&mut self, object: u32) {
        let Some(heat) = &mut self.heat else {
            return;
        };
        let hash = self.stored.keys[object].hash();
        if !heat.note(hash, self.stored.clock.now_ms()) {
            return;
        }
        let (settings, is_paused) =
            (*heat.settings(), heat.is_paused(hash, self.stored.clock.now_ms()));
        if is_paused {
            self.counters.heat.paused += 1;
            return;
        }
        let there = self.view().in_memory(object);
        let is_busy = self.relocation.of(object).is_some()
            || self.stored.keys[object].flags.has(Flags::PENDING);
        // What lies on a disk alone is promoted first, and what lies in parts is read from several
        // segments as it is.
        if there.is_empty() || is_busy || self.stored.is_striped(object) {
            return;
        }
        if there.len() >= settings.replicas_max as usize {
            self.counters.heat.enough += 1;
            return;
        }
        if !self.has_room_beside(object, &there) || !self.pause_heat(object, HEAT_PAUSE_MS) {
            self.counters.heat.no_room += 1;
            return;
        }
        self.counters.heat.wanted += 1;
        if settings.enforce {
            let most = (WISHES_MAX / self.settings.count).max(1);
            let replicas = there.len() as u32 + 1;
            self.wishes.add(object, Cause::Heat, replicas, self.stored.clock.now_ms(), most);
        }
    }

    /// Whether one more replica of an object finds room to spare.
    fn has_room_beside(&self, object: u32, there: &[u32]) -> bool {
        let bytes =
            there.first().map_or(0, |id| extent_bytes(self.stored.replicas[*id].payload_bytes));
        let open = self.view().open_beside(&self.pending, object, there);
        open.iter()
            .any(|segment| self.space.stays_below(*segment, bytes, self.settings.heat_ratio()))
    }

    /// Leaves a hot key alone for a while; false if too many are.
    fn pause_heat(&mut self, object: u32, pause_ms: u64) -> bool {
        let (hash, now_ms) = (self.stored.keys[object].hash(), self.stored.clock.now_ms());
        let until_ms = now_ms.saturating_add(pause_ms);
        self.heat.as_mut().is_some_and(|heat| heat.pause(hash, now_ms, until_ms))
    }

    /// Evicts a replica that was made for heat; its key is not given another one soon.
    pub(super) fn evict_extra(&mut self, id: u32) {
        let object = self.stored.replicas[id].object;
        self.counters.heat.evicted += 1;
        self.counters.evicted_bytes += self.stored.replicas[id].payload_bytes;
        self.quotas.count_evicted(&self.stored.replicas[id]);
        self.pause_heat(object, HEAT_PAUSE_AFTER_EVICTION_MS);
        self.note_departure(id, DepartureCause::Extra);
        self.drop_complete(id);
    }
}
