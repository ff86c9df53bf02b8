//! Objects that are to have more replicas in memory: those that lost some, and those that are hot
//! as long as there is room to spare.
//! Invariant: what lies in parts is left as it is, and a hot key that was given a replica, or lost
//! one that was made for heat, is left alone for a while.

#[cfg(test)]
mod tests;

use perigee_schemas::extent::extent_bytes;

use crate::counters::ShardCounters;
use crate::heat::Heat;
use crate::limits::{HEAT_PAUSE_MS, WISHES_MAX};
use crate::object::Flags;
use crate::pending::PendingPuts;
use crate::read_view::ReadView;
use crate::rebuild::Rebuild;
use crate::relocation::Relocation;
use crate::settings::ShardSettings;
use crate::space::Space;
use crate::stored::StoredObjects;
use crate::wishes::{Cause, Wishes};

/// Wishes, and what decides about them.
pub(crate) struct Wishing<'a> {
    pub(crate) settings: &'a ShardSettings,
    pub(crate) wishes: &'a mut Wishes,
    pub(crate) heat: &'a mut Option<Box<Heat>>,
    pub(crate) rebuild: &'a mut Rebuild,
    pub(crate) relocation: &'a Relocation,
    pub(crate) pending: &'a PendingPuts,
    pub(crate) stored: &'a StoredObjects,
    pub(crate) space: &'a Space,
    pub(crate) counters: &'a mut ShardCounters,
}

impl Wishing<'_> {
    fn view(&self) -> ReadView<'_> {
        ReadView { stored: self.stored, space: self.space }
    }

    /// A complete replica is about to go for a reason that its writer does not want: if others
    /// stay, the object is to have as many as before. One that lies in parts is left as it is.
    pub(crate) fn note_loss(&mut self, id: u32) {
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
    fn wish_for(&mut self, object: u32, replicas: u32) {
        let most = (WISHES_MAX / self.settings.count).max(1);
        if !self.wishes.add(object, Cause::Loss, replicas, self.stored.clock.now_ms(), most) {
            self.counters.repairs_dropped += 1;
        }
    }

    /// The objects whose owners have not announced all replicas in time are to have them again;
    /// returns what is left of the budget.
    pub(crate) fn miss_unannounced(&mut self, mut budget: usize) -> usize {
        while budget > 0
            && let Some((object, wanted)) = self.rebuild.take_missing(self.stored.clock.now_ms())
        {
            budget -= 1;
            if self.settings.repairs {
                self.wish_for(object, wanted.into());
            }
        }
        budget
    }

    /// A key was read. If that makes it hot, it is to have one more replica.
    #[inline(never)]
    pub(crate) fn count_read(&mut self, object: u32) {
        let Some(heat) = self.heat.as_mut() else {
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
        let open = self.view().open_beside(self.pending, object, there);
        open.iter()
            .any(|segment| self.space.stays_below(*segment, bytes, self.settings.heat_ratio()))
    }

    /// Leaves a hot key alone for a while; false if too many are.
    pub(crate) fn pause_heat(&mut self, object: u32, pause_ms: u64) -> bool {
        let (hash, now_ms) = (self.stored.keys[object].hash(), self.stored.clock.now_ms());
        let until_ms = now_ms.saturating_add(pause_ms);
        self.heat.as_mut().is_some_and(|heat| heat.pause(hash, now_ms, until_ms))
    }
}
