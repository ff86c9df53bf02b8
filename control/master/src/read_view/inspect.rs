//! What an operator gets to see of an object.
//! Invariant: looking changes nothing, and grants no lease.

use crate::inspected_key::{InspectedObject, InspectedReplica};
use crate::list_name::{Class, LeasePhase, ListName};
use crate::object::Flags;

use super::ReadView;

impl ReadView<'_> {
    pub(crate) fn inspect_object(self, object: u32) -> Option<InspectedObject> {
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

    pub(crate) fn inspect_replica(self, id: u32) -> Option<InspectedReplica> {
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
