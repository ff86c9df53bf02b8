//! What the shard knows of one key, and of replicas of it that went.
//! Invariant: looking changes nothing, and grants no lease.

use crate::departures::{Departure, DepartureCause, DiskOutcome};
use crate::key::hash_key;
use crate::limits::DEPARTURES_SHOWN_MAX;
use crate::list_name::{Class, LeasePhase, ListName};
use crate::object::Flags;

use super::KeyShard;
use super::admission::DiskWish;
use super::inspected_key::{InspectedKey, InspectedObject, InspectedReplica};
use super::victim::EvictionReason;

impl KeyShard {
    /// What is known of a key of this shard.
    pub fn inspect(&mut self, now_ms: u64, key: &[u8]) -> InspectedKey {
        self.begin(now_ms);
        let object = self.stored.find(key);
        let departures = self.departures.of(hash_key(key), self.stored.clock.now_ms());
        InspectedKey {
            object: object.and_then(|object| self.inspect_object(object)),
            unfinished_puts: object.map_or(0, |object| self.pending.of(object).count()),
            departures: departures.take(DEPARTURES_SHOWN_MAX).collect(),
            reach_ms: self.departures.reach_ms(self.stored.clock.now_ms()),
        }
    }

    fn inspect_object(&self, object: u32) -> Option<InspectedObject> {
        let record = &self.stored.keys[object];
        let left = |end_ms: u64| end_ms.saturating_sub(self.stored.clock.now_ms());
        let readable = self.stored.replicas.chain(record.first).filter(|id| self.is_readable(*id));
        let replicas: Vec<_> = readable.filter_map(|id| self.inspect_replica(id)).collect();
        self.is_complete(object).then(|| InspectedObject {
            writer: record.owner,
            checksum: record.checksum,
            group: self.stored.groups.name(record.group).map(str::to_owned),
            is_hard_pinned: record.flags.has(Flags::PINNED),
            soft_pin_ms: self.stored.soft_pins.end_ms(object).map(left),
            lease_ms: left(self.stored.groups.lease_end_ms(record)),
            was_read: record.flags.has(Flags::HIT),
            idle_ms: self.stored.idle_ms(object),
            replicas,
        })
    }

    fn inspect_replica(&self, id: u32) -> Option<InspectedReplica> {
        let replica = &self.stored.replicas[id];
        let segment = self.space.readable(replica.segment)?.spec.clone();
        Some(InspectedReplica {
            segment,
            offset: replica.offset,
            payload_bytes: replica.payload_bytes,
            generation: replica.generation,
            standing: standing(replica.list(), self.stored.keys[replica.object].flags),
        })
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
            disk: self.disk_outcome(id, cause),
        };
        self.departures.note(record.hash(), departure);
    }

    fn disk_outcome(&self, id: u32, cause: DepartureCause) -> DiskOutcome {
        use DepartureCause::{PutNeededRoom, TenantQuota, Watermark, WithItsGroup};
        if !matches!(cause, PutNeededRoom | TenantQuota | Watermark | WithItsGroup) {
            return DiskOutcome::Settled;
        }
        match self.disk_wish(id) {
            DiskWish::None if !self.is_unsaved(id) => DiskOutcome::Settled,
            DiskWish::None | DiskWish::To(_) | DiskWish::Soon => DiskOutcome::NotWritten,
            DiskWish::Refused(_) => DiskOutcome::OverBudget,
        }
    }
}

impl From<EvictionReason> for DepartureCause {
    fn from(reason: EvictionReason) -> Self {
        match reason {
            EvictionReason::Put(_) => Self::PutNeededRoom,
            EvictionReason::Watermark | EvictionReason::LookAhead => Self::Watermark,
        }
    }
}

/// Where a replica stands in the order of eviction, in words.
fn standing(list: ListName, flags: Flags) -> &'static str {
    match list {
        ListName::Ready => "goes next: a disk has a copy, or none is to have one",
        ListName::Extra => "goes before all others: made because the key is hot",
        ListName::OnDisk => "stays until the log uses its place again",
        ListName::Held if flags.has(Flags::PINNED) => "never goes: pinned hard",
        ListName::Held if flags.has(Flags::DEMOTING) => "held: a disk is being given a copy",
        ListName::Held => "held with its group",
        ListName::Evictable(_, LeasePhase::Read) => {
            "goes in its turn, after the lease of its readers"
        }
        ListName::Evictable(Class::Pinned, _) => "goes last: pinned softly",
        ListName::Evictable(Class::Plain(kind), _) => match kind.reads() {
            0 if kind.is_last() => "goes in its turn, among what ended a prompt and was never read",
            0 => "goes in its turn, among what was never read",
            _ => "goes in its turn, among what was read",
        },
    }
}
