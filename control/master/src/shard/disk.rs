//! Copies of objects on disks: linked when they are written or announced, dropped with a tombstone
//! when what they hold is removed or replaced, forgotten when the log has moved on.
//! Invariant: an object has at most one copy on a disk, last in its chain, and a copy that is
//! void is never linked again.

use perigee_schemas::Status;
use perigee_schemas::disk_address::DiskAddress;

use crate::demotion_task::EndedDemotions;
use crate::departures::DepartureCause;
use crate::key::hash_key;
use crate::list_name::ListName;
use crate::tenant::TenantLane;
use crate::tombstone::{DamagedPlace, Tombstone};

use super::KeyShard;
use super::put_end::code;

impl KeyShard {
    /// Ends demotions: a copy that was written joins the replicas of its object, if that is still
    /// the one it was made of. One status per key.
    ///
    /// Status -1400: the demotion is not under way (any more). If this life of the master has given
    /// it out, a tombstone says that the copy is void; an earlier life may have counted on the
    /// copy, so its owner announces it. -601: another client's demotion; -600: a column has the
    /// wrong length. Repeating is fine.
    pub fn end_demotions(&mut self, now_ms: u64, ended: &EndedDemotions<'_>, out: &mut Vec<i32>) {
        self.begin(now_ms);
        let keys = ended.keys.len();
        out.clear();
        out.resize(keys, Status::InvalidParams.code());
        let lengths = [ended.generations.len(), ended.status.len(), ended.addresses.len()];
        if lengths.iter().any(|length| *length != keys) {
            return;
        }
        for (at, out) in out.iter_mut().enumerate() {
            *out = code(self.end_written(ended, at));
        }
    }

    fn end_written(&mut self, ended: &EndedDemotions<'_>, at: usize) -> Result<(), Status> {
        let (generation, address) = (ended.generations[at], ended.addresses[at]);
        self.drop_stale(hash_key(ended.keys[at]), ended.keys[at]);
        let object = self.stored.find(ended.keys[at]).ok_or(Status::TaskNotFound)?;
        let under_way = self.tier.demotions.of(object).copied();
        let under_way = under_way.filter(|it| it.generation == generation && it.is_taken);
        let Some(under_way) = under_way else {
            let is_it = |id: u32| {
                let copy = &self.stored.replicas[id];
                (copy.generation, copy.offset) == (generation, address)
            };
            return match self.stored.copy_of(object).is_some_and(is_it) {
                true => Ok(()),
                false => Err(Status::TaskNotFound),
            };
        };
        if under_way.client != ended.client {
            return Err(Status::IllegalClient);
        }
        let is_written = ended.status[at] == Status::Ok.code();
        let is_there = self.space.has_address(under_way.disk, DiskAddress::unpack(address));
        let hash = self.stored.keys[object].hash();
        let is_void = self.tier.tombstones.is_void(under_way.disk, hash, generation);
        if is_written && (is_void || !is_there) {
            self.demoting().cancel(object);
            return Err(Status::TaskNotFound);
        }
        if is_written {
            let payload_bytes = self.stored.replicas[under_way.source].payload_bytes;
            self.link_copy(object, under_way.disk, address, payload_bytes, generation);
            self.counters.demotions.ended += 1;
            self.counters.demoted_bytes += payload_bytes;
        } else {
            self.counters.demotions.revoked += 1;
            self.tier.give_budget_back(&self.space, &under_way);
        }
        self.demoting().end(object);
        Ok(())
    }

    /// Drops what a key has in places that are gone: a copy whose place has been used again, a
    /// replica whose segment was unmounted. So the key may have another copy.
    pub(super) fn drop_stale(&mut self, hash: u64, key: &[u8]) {
        while let Some(object) = self.stored.find_hashed(hash, key)
            && let Some(stale) = self.view().stale_of(object)
        {
            match self.stored.replicas[stale].is_on_disk() {
                true => self.drop_recycled(stale),
                false => self.lose_replica(stale),
            }
        }
    }

    pub(super) fn link_copy(
        &mut self,
        object: u32,
        disk: u32,
        address: u64,
        payload_bytes: u64,
        generation: u64,
    ) {
        debug_assert!(self.stored.copy_of(object).is_none(), "one copy per object");
        let id = self.stored.replicas.adopt(
            TenantLane::shared(disk),
            address,
            payload_bytes,
            generation,
        );
        self.stored.replicas.relink(id, ListName::OnDisk);
        self.stored.replicas.assign(id, object);
        let first = self.stored.keys[object].first;
        self.stored.keys[object].first = self.stored.replicas.put_last(id, first);
        self.space.count_copy(disk, payload_bytes as i64);
        self.reports.joined(&self.stored, object, id);
        self.stored.note_disk_only(object);
    }

    /// The number of a mounted disk.
    pub fn disk_number(&self, id: u128) -> Option<u32> {
        let is_it = |disk: &&u32| self.space.get(**disk).is_some_and(|share| share.spec.id == id);
        self.space.disks().iter().find(is_it).copied()
    }

    /// Copies of a disk that are void, the oldest first; for their owner, until they are confirmed.
    ///
    /// # Errors
    /// `SegmentNotFound`: not a mounted disk of the client; `UnavailableInCurrentStatus`: the owner
    /// has to announce first what the disk has.
    pub fn tombstones(
        &self,
        client: u128,
        disk: u32,
        limit: usize,
    ) -> Result<Vec<Tombstone>, Status> {
        self.space.own_disk(client, disk)?;
        self.tier.tombstones.oldest(disk, limit).ok_or(Status::UnavailableInCurrentStatus)
    }

    /// Where a void copy lies, if a reader has found it damaged: its owner is to look at it.
    pub fn suspect(&self, disk: u32, void: &Tombstone) -> Option<DamagedPlace> {
        self.tier.tombstones.suspect(disk, void)
    }

    /// The owner of a disk has made sure that void copies never come back. Numbers of other shards
    /// and unknown ones are ignored.
    pub fn confirm_tombstones(&mut self, now_ms: u64, client: u128, disk: u32, numbers: &[u64]) {
        self.begin(now_ms);
        if self.space.own_disk(client, disk).is_ok() {
            numbers.iter().for_each(|number| self.tier.tombstones.confirm(disk, *number));
        }
    }

    /// Drops a copy whose place on its disk was used again, or whose disk is gone.
    fn drop_recycled(&mut self, id: u32) {
        let is_mounted = self.space.readable(self.stored.replicas[id].segment).is_some();
        self.note_departure(
            id,
            match is_mounted {
                true => DepartureCause::PlaceReused,
                false => DepartureCause::SegmentGone,
            },
        );
        self.drop_complete(id);
    }

    /// Forgets copies in segments of logs that have been used again; returns what is left of the
    /// budget. Logs go on in order, so the oldest copies are the ones.
    pub(super) fn forget_recycled(&mut self, mut budget: usize) -> usize {
        for disk in self.space.disks().to_vec() {
            while budget > 0
                && let Some(recycled) = self.view().recycled_in(disk)
            {
                self.forget_recycled_copy(recycled);
                budget -= 1;
            }
            budget = self.forget_packed(disk, budget);
        }
        budget
    }

    pub(super) fn forget_recycled_copy(&mut self, id: u32) {
        self.drop_recycled(id);
        self.counters.recycled_copies += 1;
    }
}
