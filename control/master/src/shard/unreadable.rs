//! Copies on disks that their readers could not read: torn by a loss of power, or damaged since.
//! Invariant: only a copy that lies exactly where the reader looked is forgotten; what was written
//! or moved since stays.

use perigee_schemas::master::UnreadableCopy;

use crate::departures::DepartureCause;
use crate::tombstone::DamagedPlace;

use super::KeyShard;

impl KeyShard {
    /// Forgets the copy of each key that a reader could not read; a generation of 0 names none.
    /// Without it the key could never be read again, nor put, for it exists.
    pub fn forget_unreadable(&mut self, now_ms: u64, keys: &[&[u8]], copies: &[UnreadableCopy]) {
        debug_assert_eq!(keys.len(), copies.len(), "one copy or none per key");
        self.begin(now_ms);
        for (key, named) in keys.iter().zip(copies) {
            let object = self.stored.find(key);
            if let Some(id) = object.and_then(|object| self.view().copy_as_named(object, named)) {
                self.forget_copy(id);
            }
        }
    }

    fn forget_copy(&mut self, id: u32) {
        let copy = &self.stored.replicas[id];
        let hash = self.stored.keys[copy.object].hash();
        let named = (copy.segment, hash, copy.generation);
        let place = DamagedPlace { address: copy.offset, payload_bytes: copy.payload_bytes };
        self.tier.tombstones.note_suspect(named, place);
        self.note_departure(id, DepartureCause::Unreadable);
        self.tier.tombstones.note_change(hash);
        self.rebuild.note_change(hash);
        self.counters.unreadable_copies += 1;
        self.drop_complete(id);
    }
}
