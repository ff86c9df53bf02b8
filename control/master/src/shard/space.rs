//! Replicas and their space: made, linked into chains, given back or quarantined.
//! Invariant: an extent is allocated in its share from `make_replica` until it is freed or its
//! parking ends.

use perigee_allocator::Extent;
use perigee_schemas::Status;

use crate::key_events::KeyChange;
use crate::list_name::ListName;
use crate::object::{Flags, Object};
use crate::pending::PutName;
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
    /// Records a new replica of an object, not part of any chain yet.
    pub(super) fn make_replica(&mut self, segment: u32, extent: Extent, payload_bytes: u64) -> u32 {
        let generation = self.generations.next();
        self.insert_replica(segment, extent.offset, payload_bytes, generation)
    }

    pub(super) fn insert_replica(
        &mut self,
        segment: u32,
        offset: u64,
        payload_bytes: u64,
        generation: u64,
    ) -> u32 {
        debug_assert!(payload_bytes > 0, "a replica has bytes");
        let id = self.replicas.insert(Replica {
            generation,
            offset,
            payload_bytes,
            segment,
            object: NONE,
            sibling: NONE,
            newer: NONE,
            older: NONE,
            list: ListName::Held,
            follows: false,
        });
        debug_assert!(self.shares.is_readable(segment), "it lies in a mounted segment");
        if let Some(share) = self.shares.get_mut(segment) {
            share.recency.link(&mut self.replicas, id, ListName::Held);
        }
        id
    }

    /// Gives a replica to an object; the caller puts it into a chain.
    pub(super) fn assign_chain(&mut self, first: u32, object: u32) {
        let mut id = first;
        while id != NONE {
            debug_assert_eq!(self.replicas[id].object, NONE, "it has no object yet");
            self.replicas[id].object = object;
            id = self.replicas[id].sibling;
        }
    }

    /// Drops all replicas of a chain that is linked nowhere any more.
    pub(super) fn drop_chain(&mut self, first: u32, reuse: Reuse) {
        let version = self.replicas.get(first).map_or(0, |replica| replica.generation);
        let mut id = first;
        while id != NONE {
            let sibling = self.replicas[id].sibling;
            self.drop_of_version(id, version, reuse);
            id = sibling;
        }
    }

    /// Drops one replica that is in no chain any more.
    pub(super) fn drop_replica(&mut self, id: u32, reuse: Reuse) {
        let version = self.replicas[id].generation;
        self.drop_of_version(id, version, reuse);
    }

    /// Drops one replica of a put whose replicas are dropped together under the generation of the
    /// first.
    fn drop_of_version(&mut self, id: u32, version: u64, reuse: Reuse) {
        let Replica { generation, object, .. } = self.replicas[id];
        self.before_drop(id);
        let (segment, extent) = (self.replicas[id].segment, self.replicas[id].extent());
        self.unlist(id);
        debug_assert!(!self.replicas[id].follows, "it is in no list any more");
        self.replicas.remove(id);
        let (release_ms, put, lease) = match reuse {
            Reuse::Now => (0, None, None),
            Reuse::AfterReads(lease) => (lease.end_ms, None, Some(lease)),
            Reuse::At(release_ms, put) | Reuse::Superseded(release_ms, put) => {
                (release_ms, Some(put), None)
            }
        };
        let counted = lease.filter(|lease| lease.readers > 0 && lease.readers < u16::MAX);
        if release_ms > self.now_ms {
            self.quarantine.hold(
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
            self.shares.free(segment, extent);
        }
    }

    /// Drops one complete replica of an object, and the object with its last one.
    pub(super) fn drop_complete(&mut self, id: u32) {
        let object = self.replicas[id].object;
        let first = self.replicas.unchain(self.objects[object].first, id);
        if first == NONE {
            self.report_key(KeyChange::Removed, object, id);
        }
        let lease = match first {
            NONE => self.take_read_lease(object),
            _ => self.read_lease(object),
        };
        self.objects[object].first = first;
        self.drop_replica(id, Reuse::AfterReads(lease));
        self.settle(object);
    }

    /// Drops all complete replicas of an object, and the object if that is all it has.
    pub(super) fn drop_all_complete(&mut self, object: u32) {
        let Some(first) = self.objects.get(object).map(|record| record.first) else {
            return;
        };
        if first == NONE {
            return;
        }
        self.report_key(KeyChange::Removed, object, first);
        let lease = self.take_read_lease(object);
        self.objects[object].first = NONE;
        self.drop_chain(first, Reuse::AfterReads(lease));
        self.settle(object);
    }

    /// A replica vanished with its segment.
    pub(super) fn lose_replica(&mut self, id: u32) {
        let object = self.replicas[id].object;
        if self.moves.get(object).is_some_and(|it| it.target == id) {
            self.fail_move(object, false, Status::SegmentNotFound);
            return;
        }
        let mut unfinished = self.pending.of(object).map(|pending| pending.first);
        let Some(before) =
            unfinished.find(|first| self.replicas.chain(*first).any(|other| other == id))
        else {
            drop(unfinished);
            return self.drop_complete(id);
        };
        drop(unfinished);
        let after = self.replicas.unchain(before, id);
        if let Some(put) = self.pending.with_first_mut(object, before) {
            put.first = after;
        }
        self.drop_replica(id, Reuse::Now);
    }

    /// Forgets an object that has neither complete replicas nor an unfinished put.
    pub(super) fn settle(&mut self, object: u32) {
        let Object { first, flags, hash, group, .. } = self.objects[object];
        if first != NONE {
            return;
        }
        self.forget_overtaken(object);
        self.set_soft_pin(object, None);
        if flags.has(Flags::PENDING) {
            self.refresh_blocking(object);
            return;
        }
        debug_assert!(self.pending.first_of(object).is_none(), "no put is lost");
        debug_assert!(self.moves.get(object).is_none(), "no move is lost");
        self.index.remove(hash, object);
        self.set_blocking(object, false);
        if group != NONE {
            self.groups.leave(group);
        }
        self.objects.remove(object);
    }
}
