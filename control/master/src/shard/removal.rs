//! Removals in earlier lives of the master, as owners say who heard of them.
//! Invariant: what was written later than a removal stays.

use perigee_schemas::record::{Record, RecordOp};

use crate::key::{hash_key, shard_of_hash};
use crate::removals::Removal;
use crate::slab::NONE;

use super::KeyShard;

impl KeyShard {
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
