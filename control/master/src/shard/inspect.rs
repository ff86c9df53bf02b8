//! What the shard knows of one key, and of replicas of it that went.
//! Invariant: looking changes nothing, and grants no lease.

use crate::departures::{Departure, DepartureCause};
use crate::inspected_key::InspectedKey;
use crate::key::hash_key;
use crate::limits::DEPARTURES_SHOWN_MAX;
use crate::object::Flags;

use super::KeyShard;

impl KeyShard {
    /// What is known of a key of this shard.
    pub fn inspect(&mut self, now_ms: u64, key: &[u8]) -> InspectedKey {
        self.begin(now_ms);
        let object = self.stored.find(key);
        let departures = self.departures.of(hash_key(key), self.stored.clock.now_ms());
        InspectedKey {
            object: object.and_then(|object| self.view().inspect_object(object)),
            unfinished_puts: object.map_or(0, |object| self.pending.of(object).count()),
            departures: departures.take(DEPARTURES_SHOWN_MAX).collect(),
            reach_ms: self.departures.reach_ms(self.stored.clock.now_ms()),
        }
    }

    /// A complete replica is about to go.
    pub(super) fn note_departure(&mut self, id: u32, cause: DepartureCause) {
        let replica = &self.stored.replicas[id];
        let record = &self.stored.keys[replica.object];
        let others = self.stored.replicas.chain(record.first).filter(|other| *other != id);
        let is_alone = matches!(cause, DepartureCause::Removed | DepartureCause::RemovedByPattern);
        // An object in parts goes with the last replica of any of them.
        let is_last = is_alone || self.stored.is_only_part(id);
        let left = if is_last { 0 } else { others.count() as u32 };
        let departure = Departure {
            ago_ms: self.stored.clock.now_ms(),
            cause,
            payload_bytes: self.stored.bytes_of_object(replica.object, id),
            idle_ms: self.stored.idle_ms(replica.object),
            was_read: record.flags.has(Flags::HIT),
            was_on_disk: replica.is_on_disk(),
            left,
            disk: self.tier.outcome(self.view(), id, cause),
        };
        self.departures.note(record.hash(), departure);
    }
}
