//! Removals that outlive the master, as owners say who heard of them, and what is void because of
//! later bytes.
//! Invariant: a removal is noted in the step that removes, so what is written later is later.

use perigee_schemas::record::{Record, RecordOp};

use crate::key::{hash_key, shard_of_hash};
use crate::removals::Removal;
use crate::slab::NONE;

use super::KeyShard;

impl KeyShard {
    /// An object is evicted. Before disks have said what they have, one may have the key as it was
    /// before, and the next life of the master may be the first one to hear of that: older copies
    /// are void from now on, and the one that may be of these bytes is not.
    pub(super) fn note_older_void(&mut self, object: u32) {
        if !self.has_unheard_disks() {
            return;
        }
        let replicas = self.stored.replicas.chain(self.stored.keys[object].first);
        let generation =
            replicas.map(|id| self.stored.replicas[id].generation).max().unwrap_or_default();
        let record = &self.stored.keys[object];
        let (hash, key) = (record.hash(), record.key().to_vec());
        self.removals.note_key(hash, Removal { sequence: 0, generation });
        self.outbox.note_removal(&self.space, generation, &key);
    }

    /// An object is about to get the bytes of a put. A disk may have the key as it was before: one
    /// that hears of that from this life of the master only, or one that is away. Owners hear first
    /// that such copies are void, so that the next life knows also when the new bytes are gone.
    pub(super) fn note_replaced_copies(&mut self, object: u32, first: u32) {
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
        self.outbox.note_removal(&self.space, generation, &key);
    }

    /// Whether disks may still have something to announce that this life of the master knows
    /// better.
    fn has_unheard_disks(&self) -> bool {
        let is_early = self.settings.offload.is_some()
            && self.rebuild.awaits_disks(self.stored.clock.now_ms());
        is_early || self.space.disks().iter().any(|disk| self.space.is_unheard(*disk))
    }

    /// Learns of a removal in an earlier life of the master. What another owner has announced
    /// already of such keys goes again.
    pub(super) fn learn_removal(&mut self, record: &Record<'_>) {
        match record.op {
            RecordOp::Removed => {
                let hash = hash_key(record.key);
                if shard_of_hash(hash, self.settings.count) != self.settings.index {
                    return;
                }
                self.removals.note_key(hash, Removal::of(record));
                if let Some(object) = self.stored.find_hashed(hash, record.key) {
                    self.drop_removed(object, record);
                }
            }
            RecordOp::RemovedPattern => {
                let Some(pattern) = self.removals.note_pattern(record) else { return };
                let keys =
                    self.stored.keys.iter().filter(|(_, object)| pattern.matches(object.key()));
                let matching: Vec<u32> = keys.map(|(object, _)| object).collect();
                let packed = self.stored.keys.packed();
                let older = packed.iter().filter(|(place, kept)| {
                    packed.copy(*place).generation < record.generation
                        && pattern.matches(kept.key())
                });
                let older: Vec<u32> = older.map(|(place, _)| place).collect();
                for object in matching {
                    self.drop_removed(object, record);
                }
                for place in older {
                    let object = self.stored.unpack(place);
                    self.drop_removed(object, record);
                }
            }
            _ => {}
        }
    }

    fn drop_removed(&mut self, object: u32, record: &Record<'_>) {
        if self.stored.keys[object].first != NONE
            && self.rebuild.is_announced_before(&self.stored, object, record)
        {
            self.drop_announced(object);
        }
    }
}
