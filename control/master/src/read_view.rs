//! What can be read: objects beside the segments where their replicas lie.
//! Invariant: a replica can be read while its segment is mounted, and on a disk while the log has
//! not used its place again; an object while it has such a replica, or one of each of its parts.

mod describe;
mod inspect;

#[cfg(test)]
pub(crate) mod tests;

use perigee_schemas::Identity;
use perigee_schemas::master::UnreadableCopy;

use crate::index::Slot;
use crate::list_name::ListName;
use crate::pending::PendingPuts;
use crate::slab::NONE;
use crate::space::Space;
use crate::stored::StoredObjects;
use crate::tenant::TenantLane;

#[derive(Clone, Copy)]
pub(crate) struct ReadView<'a> {
    pub(crate) stored: &'a StoredObjects,
    pub(crate) space: &'a Space,
}

impl ReadView<'_> {
    /// Whether a complete replica can be read.
    pub(crate) fn is_readable(self, id: u32) -> bool {
        let replica = &self.stored.replicas[id];
        match replica.is_on_disk() {
            true => self.space.has_address(replica.segment, replica.address()),
            false => self.space.is_readable(replica.segment),
        }
    }

    /// Whether an object has a complete replica that can be read.
    pub(crate) fn is_complete(self, object: u32) -> bool {
        let first = self.stored.keys[object].first;
        if self.stored.replicas.get(first).is_some_and(|replica| replica.part().is_some()) {
            return self.is_whole(object);
        }
        self.stored.replicas.chain(first).any(|id| self.is_readable(id))
    }

    /// Whether the complete replicas of an object, of which the first is one of a part, are all of
    /// it.
    pub(crate) fn is_whole(self, object: u32) -> bool {
        let parts = self.stored.striped.get(object).map(|striped| striped.layout.parts());
        parts.is_some_and(|parts| self.has_all_parts(self.stored.keys[object].first, parts))
    }

    /// Whether a chain has a readable replica of each of so many parts.
    pub(crate) fn has_all_parts(self, first: u32, parts: u8) -> bool {
        let readable = self.stored.replicas.chain(first).filter(|id| self.is_readable(*id));
        self.stored.replicas.are_all_parts(readable, parts)
    }

    /// Whether what is kept of a key can be read.
    pub(crate) fn is_slot_complete(self, slot: Slot) -> bool {
        match (slot.as_object(), slot.as_packed()) {
            (Some(object), _) => self.is_complete(object),
            (None, Some(place)) => self.is_packed_readable(place),
            (None, None) => false,
        }
    }

    pub(crate) fn is_packed_readable(self, place: u32) -> bool {
        let packed = self.stored.keys.packed();
        self.space.has_address(packed.disk(place), packed.get(place).address())
    }

    /// Replicas of an object in memory that can be read.
    pub(crate) fn in_memory(self, object: u32) -> Vec<u32> {
        let complete = self.stored.replicas.chain(self.stored.keys[object].first);
        let fits = |id: &u32| !self.stored.replicas[*id].is_on_disk() && self.is_readable(*id);
        complete.filter(fits).collect()
    }

    /// Whether a disk could have a copy of a replica's bytes, which lie nowhere else. Memory that
    /// takes no more objects does not count: it is about to go.
    pub(crate) fn lies_only_there(self, id: u32) -> bool {
        let replica = &self.stored.replicas[id];
        let Some(record) =
            self.stored.keys.get(replica.object).filter(|_| replica.part().is_none())
        else {
            return false;
        };
        let mut others = self.stored.replicas.chain(record.first).filter(|other| *other != id);
        !others.any(|other| self.is_readable(other) && !self.is_in_closed_memory(other))
    }

    fn is_in_closed_memory(self, id: u32) -> bool {
        let share = self.space.get(self.stored.replicas[id].segment);
        share.is_some_and(|share| share.is_memory() && share.is_closed())
    }

    /// Who copies a replica: the owner of its segment.
    pub(crate) fn carrier_of(self, replica: u32) -> u128 {
        self.space.get(self.stored.replicas[replica].segment).map_or(0, |share| share.spec.client)
    }

    /// A copy on a disk whose place in the log has been used again, of those that are not packed.
    pub(crate) fn recycled_in(self, disk: u32) -> Option<u32> {
        let first = self.stored.replicas.oldest(TenantLane::shared(disk), ListName::OnDisk);
        let is_there = |id: &u32| *id != NONE;
        let oldest = [first, self.stored.replicas.oldest_late(disk)].into_iter().filter(is_there);
        oldest.into_iter().find(|id| !self.is_readable(*id))
    }

    pub(crate) fn copy_as_named(self, object: u32, named: &UnreadableCopy) -> Option<u32> {
        let disk = Identity::from_halves(named.segment_high(), named.segment_low());
        self.stored.copy_of(object).filter(|id| {
            let copy = &self.stored.replicas[*id];
            let share = self.space.get(copy.segment);
            (copy.generation, copy.offset) == (named.generation(), named.address())
                && share.is_some_and(|share| share.spec.id == disk.0)
        })
    }

    /// The replica to copy: the one in the segment of that name, or any; another one after each
    /// failure.
    pub(crate) fn source_of(self, object: u32, segment: Option<&str>, failed: u32) -> Option<u32> {
        let complete = self.stored.replicas.chain(self.stored.keys[object].first);
        let fits = |id: &u32| {
            let share = self.space.get(self.stored.replicas[*id].segment);
            share.is_some_and(|share| {
                share.is_memory() && segment.is_none_or(|name| share.spec.name == name)
            })
        };
        let candidates: Vec<u32> = complete.filter(fits).collect();
        let at = (failed as usize).checked_rem(candidates.len())?;
        candidates.get(at).copied()
    }

    /// Where one more replica of an object may go: to hosts that have none, if there are any.
    pub(crate) fn open_beside(self, pending: &PendingPuts, object: u32, there: &[u32]) -> Vec<u32> {
        let held =
            |segment: &u32| there.iter().any(|id| self.stored.replicas[*id].segment == *segment);
        let shared = |segment: &u32| {
            let mut others = there.iter().map(|id| self.stored.replicas[*id].segment);
            others.any(|other| self.space.is_same_host(*segment, other))
        };
        let mut open = self.space.live().to_vec();
        open.retain(|segment| {
            !held(segment) && !pending.is_written_in(self.stored, object, *segment)
        });
        if open.iter().any(|segment| !shared(segment)) {
            open.retain(|segment| !shared(segment));
        }
        open
    }

    /// Where a promoted copy may go: memory of the disk's owner, else any. What is above the
    /// watermark goes by eviction, which is cheap as long as disks have copies.
    pub(crate) fn with_room_for_promotion(self, most_ratio: f64, copy: u32) -> Vec<u32> {
        let owner = self.carrier_of(copy);
        let mut open = self.space.live().to_vec();
        open.retain(|segment| !self.space.is_above(*segment, most_ratio));
        let is_own = |segment: &u32| {
            self.space.get(*segment).is_some_and(|share| share.spec.client == owner)
        };
        let own: Vec<u32> = open.iter().copied().filter(is_own).collect();
        if own.is_empty() { open } else { own }
    }

    /// Panics unless packed records lie on disks, and parts where they may.
    pub(crate) fn check(self) {
        for (place, _) in self.stored.keys.packed().iter() {
            let disk = self.stored.keys.packed().disk(place);
            assert!(self.space.get(disk).is_some_and(|share| share.is_disk()), "{disk} is a disk");
        }
        for (id, replica) in self.stored.replicas.iter().filter(|(_, it)| it.part().is_some()) {
            assert!(self.space.takes_parts(replica.segment), "replica {id}");
        }
    }

    pub(crate) fn is_of_object(self, id: u32, object: u32) -> bool {
        let first = self.stored.keys.get(object).map_or(NONE, |record| record.first);
        self.stored.replicas.chain(first).any(|complete| complete == id)
    }

    /// A replica of an object that cannot be read any more.
    pub(crate) fn stale_of(self, object: u32) -> Option<u32> {
        let mut complete = self.stored.replicas.chain(self.stored.keys[object].first);
        complete.find(|id| !self.is_readable(*id))
    }
}
