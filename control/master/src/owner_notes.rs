//! What owners hear of their segments: each replica that is complete from now on, changes its
//! pins, or is gone; and that older copies of it are void.
//! Invariant: a replica is noted as gone in the step that frees its space, before any other step
//! can hand that out.

#[cfg(test)]
mod tests;

use perigee_schemas::record::{Record, RecordOp};

use crate::disk_tier::DiskTier;
use crate::outbox::Outbox;
use crate::rebuild::Rebuild;
use crate::removals::{Removal, Removals};
use crate::replica::Replica;
use crate::settings::ShardSettings;
use crate::slab::NONE;
use crate::space::Space;
use crate::stored::StoredObjects;
use crate::wishes::Wishes;

/// The notes, and what they are about.
pub(crate) struct OwnerNotes<'a> {
    pub(crate) settings: &'a ShardSettings,
    pub(crate) outbox: &'a mut Outbox,
    pub(crate) wishes: &'a Wishes,
    pub(crate) rebuild: &'a Rebuild,
    pub(crate) removals: &'a mut Removals,
    pub(crate) tier: &'a DiskTier,
    pub(crate) stored: &'a mut StoredObjects,
    pub(crate) space: &'a Space,
}

impl OwnerNotes<'_> {
    /// Notes what becomes of a replica, which has an object, if an owner follows its segment.
    pub(crate) fn note(&mut self, id: u32, op: RecordOp) {
        let Replica { segment, object, .. } = self.stored.replicas[id];
        if !self.outbox.is_followed(segment) || self.stored.keys.get(object).is_none() {
            return;
        }
        let share = self.space.get(segment);
        let replicas = match share.is_some_and(|share| share.spec.keeps_replica_counts) {
            true => Record::flags_of_replicas(self.wishes.wanted_replicas(
                self.stored,
                self.rebuild,
                object,
            )),
            false => 0,
        };
        self.outbox.note_replica(self.stored, id, op, replicas);
    }

    /// Notes that all replicas of a chain are complete.
    pub(crate) fn note_commits(&mut self, first: u32) {
        let mut id = first;
        while id != NONE {
            self.note(id, RecordOp::Commit);
            id = self.stored.replicas[id].sibling;
        }
    }

    /// Notes the pins that an object has now.
    pub(crate) fn note_flags(&mut self, object: u32) {
        let mut id = self.stored.keys[object].first;
        while id != NONE {
            self.note(id, RecordOp::Flags);
            id = self.stored.replicas[id].sibling;
        }
    }

    /// Sets or clears an object's soft pin.
    pub(crate) fn set_soft_pin(&mut self, object: u32, end_ms: Option<u64>) {
        if self.stored.set_soft_pin(object, end_ms) {
            self.note_flags(object);
        }
    }

    /// An object was to have so many replicas: their owners hear of it if that has changed.
    pub(crate) fn note_wanted(&mut self, object: u32, before: usize) {
        if self.wishes.wanted_replicas(self.stored, self.rebuild, object) != before {
            self.note_flags(object);
        }
    }

    /// An object is evicted. Before disks have said what they have, one may have the key as it was
    /// before, and the next life of the master may be the first one to hear of that: older copies
    /// are void from now on, and the one that may be of these bytes is not.
    pub(crate) fn note_older_void(&mut self, object: u32) {
        if !self.has_unheard_disks() {
            return;
        }
        let replicas = self.stored.replicas.chain(self.stored.keys[object].first);
        let generation =
            replicas.map(|id| self.stored.replicas[id].generation).max().unwrap_or_default();
        let record = &self.stored.keys[object];
        let (hash, key) = (record.hash(), record.key().to_vec());
        self.removals.note_key(hash, Removal { sequence: 0, generation });
        self.outbox.note_removal(self.space, generation, &key);
    }

    /// An object is about to get the bytes of a put. A disk may have the key as it was before: one
    /// that hears of that from this life of the master only, or one that is away. Owners hear first
    /// that such copies are void, so that the next life knows also when the new bytes are gone.
    pub(crate) fn note_replaced_copies(&mut self, object: u32, first: u32) {
        let hash = self.stored.keys[object].hash();
        let may_have_copy =
            self.stored.copy_of(object).is_some() || self.tier.tombstones.may_be_away(hash);
        if !may_have_copy && !self.has_unheard_disks() {
            return;
        }
        let replicas = self.stored.replicas.chain(first);
        let generation =
            replicas.map(|id| self.stored.replicas[id].generation).min().unwrap_or_default();
        let key = self.stored.keys[object].key().to_vec();
        self.outbox.note_removal(self.space, generation, &key);
    }

    /// Whether disks may still have something to announce that this life of the master knows
    /// better.
    fn has_unheard_disks(&self) -> bool {
        let is_early = self.settings.offload.is_some()
            && self.rebuild.awaits_disks(self.stored.clock.now_ms());
        is_early || self.space.disks().iter().any(|disk| self.space.is_unheard(*disk))
    }
}
