//! Replicas and objects that go, and what becomes of their space.
//! Invariant: the space of a replica is free, or quarantined while a client may read or write it,
//! from the moment the replica is dropped.

use perigee_schemas::Status;
use perigee_schemas::record::RecordOp;

use crate::departures::DepartureCause;
use crate::key_event::Media;
use crate::object::{Flags, Object, READERS_MAX};
use crate::put_name::PutName;
use crate::quarantine::{Quarantined, ReadHold, Readers};
use crate::replica::Replica;
use crate::slab::NONE;

use super::KeyShard;

/// When the space of a dropped replica may be used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reuse {
    /// At once.
    Now,
    /// When the object's read lease ends.
    AfterReads(ReadHold),
    /// At this time, or when the writer of this put says that it has stopped: it may still be at
    /// work.
    At(u64, PutName),
    /// As `At`, and the put is discarded because one that began later has published its bytes.
    Superseded(u64, PutName),
}

impl KeyShard {
    /// Drops all replicas of a chain that is linked nowhere any more.
    pub(super) fn drop_chain(&mut self, first: u32, reuse: Reuse) {
        let version = self.stored.replicas.get(first).map_or(0, |replica| replica.generation);
        let mut id = first;
        while id != NONE {
            let sibling = self.stored.replicas[id].sibling;
            self.drop_of_version(id, version, reuse);
            id = sibling;
        }
    }

    /// Drops one replica that is in no chain any more.
    pub(super) fn drop_replica(&mut self, id: u32, reuse: Reuse) {
        let version = self.stored.replicas[id].generation;
        self.drop_of_version(id, version, reuse);
    }

    /// Drops one replica of a put whose replicas are dropped together under the generation of the
    /// first.
    fn drop_of_version(&mut self, id: u32, version: u64, reuse: Reuse) {
        let Replica { generation, object, .. } = self.stored.replicas[id];
        self.before_drop(id);
        if self.stored.replicas[id].is_on_disk() {
            return self.demoting().drop_copy(id);
        }
        self.owner_notes().note(id, RecordOp::Free);
        let (segment, extent) =
            (self.stored.replicas[id].segment, self.stored.replicas[id].extent());
        self.quotas.refund(self.stored.replicas[id].tenant, extent.bytes);
        self.stored.remove_replica(id);
        let (release_ms, put, lease) = match reuse {
            Reuse::Now => (0, None, None),
            Reuse::AfterReads(lease) => (lease.end_ms, None, Some(lease)),
            Reuse::At(release_ms, put) | Reuse::Superseded(release_ms, put) => {
                (release_ms, Some(put), None)
            }
        };
        let counted = lease.filter(|lease| lease.readers > 0 && lease.readers < READERS_MAX);
        if release_ms > self.stored.clock.now_ms() {
            self.space.hold(
                release_ms,
                Quarantined {
                    segment,
                    extent,
                    put,
                    readers: counted.map(|lease| Readers {
                        generation,
                        version,
                        count: lease.readers,
                        term: lease.term,
                    }),
                    superseded: matches!(reuse, Reuse::Superseded(..)).then_some(object),
                },
            );
        } else {
            self.space.free(segment, extent);
        }
    }

    /// Drops one complete replica of an object, and the object with its last one, or with the last
    /// one of a part.
    pub(super) fn drop_complete(&mut self, id: u32) {
        let object = self.stored.replicas[id].object;
        if self.stored.is_only_part(id) {
            return self.drop_all_complete(object);
        }
        let gone = &self.stored.replicas[id];
        let is_one_less = self.stored.extras > 0 && !gone.is_extra() && !gone.is_on_disk();
        let is_alone = self.stored.keys[object].first == id && gone.sibling == NONE;
        let wanted = if is_alone {
            0
        } else {
            self.wishes.wanted_replicas(&self.stored, &self.rebuild, object)
        };
        let first = self.stored.replicas.unchain(self.stored.keys[object].first, id);
        self.reports.left(&self.stored, object, id, first);
        let lease = match first {
            NONE => self.stored.take_read_lease(object),
            _ => self.stored.read_lease(object),
        };
        self.stored.keys[object].first = first;
        self.drop_replica(id, Reuse::AfterReads(lease));
        if is_one_less && first != NONE {
            self.stored.adopt_extra(object);
        }
        if first != NONE {
            self.owner_notes().note_wanted(object, wanted);
            self.stored.note_disk_only(object);
        }
        self.settle(object);
    }

    /// Drops all complete replicas of an object, and the object if that is all it has.
    pub(super) fn drop_all_complete(&mut self, object: u32) {
        let Some(first) = self.stored.keys.get(object).map(|record| record.first) else {
            return;
        };
        if first == NONE {
            return;
        }
        self.reports.gone(&self.stored, object, first, Media::default());
        let lease = self.stored.take_read_lease(object);
        self.stored.keys[object].first = NONE;
        self.drop_chain(first, Reuse::AfterReads(lease));
        self.settle(object);
    }

    /// A replica vanished with its segment.
    pub(super) fn lose_replica(&mut self, id: u32) {
        let object = self.stored.replicas[id].object;
        if self.relocation.of(object).is_some_and(|it| it.target == id) {
            self.fail_move(object, false, Status::SegmentNotFound);
            return;
        }
        let mut unfinished = self.pending.of(object).map(|pending| pending.first);
        let Some(before) =
            unfinished.find(|first| self.stored.replicas.chain(*first).any(|other| other == id))
        else {
            drop(unfinished);
            self.wishing().note_loss(id);
            self.note_departure(id, DepartureCause::SegmentGone);
            return self.drop_complete(id);
        };
        drop(unfinished);
        let after = self.stored.replicas.unchain(before, id);
        if let Some(put) = self.pending.with_first_mut(object, before) {
            put.first = after;
        }
        self.drop_replica(id, Reuse::Now);
    }

    /// Forgets an object that has neither complete replicas nor an unfinished put.
    pub(super) fn settle(&mut self, object: u32) {
        let Object { first, flags, .. } = self.stored.keys[object];
        if first != NONE {
            return;
        }
        self.wishes.forget(object);
        self.stored.striped.set(object, None);
        self.pending.unpin_overtaken(&mut self.stored, object);
        if self.rebuild.announced(object).is_some() {
            self.rebuild.note_change(self.stored.keys[object].hash());
        }
        self.rebuild.forget(object);
        self.owner_notes().set_soft_pin(object, None);
        if flags.has(Flags::PENDING) {
            self.stored.refresh_blocking(object);
            return;
        }
        debug_assert!(self.pending.first_of(object).is_none(), "no put is lost");
        debug_assert!(self.relocation.of(object).is_none(), "no move is lost");
        debug_assert!(self.tier.demotions.of(object).is_none(), "no demotion is lost");
        self.quotas.forget_object(self.stored.keys[object].key());
        self.stored.remove(object);
    }
}
