//! What a disk has is learnt after its owner or the master has started again.
//! Invariant: a copy that is void is never linked again.

use perigee_schemas::Status;
use perigee_schemas::disk_address::DiskAddress;

use crate::demotion_task::AnnouncedCopy;
use crate::key::{check_key, hash_key};
use crate::limits::OBJECT_BYTES_MAX;
use crate::slab::NONE;

use super::KeyShard;
use super::put_end::code;

impl KeyShard {
    /// Learns what a disk has, after its owner or the master has started again. One status per
    /// copy; `is_last` if the owner has nothing more to announce.
    ///
    /// Status -704: the copy is void, and its owner must never announce it again: the key has other
    /// bytes, or it was removed, or may have been; -600: no valid key or size; -101: not a mounted
    /// disk of the client, or its log has moved on.
    pub fn announce_copies(
        &mut self,
        now_ms: u64,
        client: u128,
        disk: u32,
        copies: &[AnnouncedCopy<'_>],
        is_last: bool,
        out: &mut Vec<i32>,
    ) {
        self.begin(now_ms);
        out.clear();
        let refused = self.space.own_disk(client, disk).err();
        for copy in copies {
            let learnt = refused.map_or_else(|| self.learn(disk, copy), Err);
            out.push(code(learnt));
        }
        if is_last
            && refused.is_none()
            && let Some(share) = self.space.get(disk)
        {
            let id = share.spec.id;
            self.tier.tombstones.has_returned(disk, id);
            self.space.note_heard(disk);
        }
    }

    fn learn(&mut self, disk: u32, copy: &AnnouncedCopy<'_>) -> Result<(), Status> {
        let is_size = (1..=OBJECT_BYTES_MAX).contains(&copy.payload_bytes);
        if check_key(copy.key).is_err() || !is_size {
            return Err(Status::InvalidParams);
        }
        if !self.space.has_address(disk, DiskAddress::unpack(copy.address)) {
            return Err(Status::SegmentNotFound);
        }
        let hash = hash_key(copy.key);
        if self.removals.is_copy_void(hash, copy.key, copy.generation) {
            return Err(Status::ObjectNotFound);
        }
        let known = self.stored.find_hashed(hash, copy.key);
        let is_current = known.is_some_and(|object| self.stored.is_current(object, copy));
        if known.is_some() {
            self.drop_stale(hash, copy.key);
        }
        let object = match known.and_then(|_| self.stored.find_hashed(hash, copy.key)) {
            Some(object) if self.stored.keys[object].first != NONE => {
                return self.learn_of(object, disk, copy, is_current);
            }
            _ if (!is_current && self.tier.has_changed_for(&self.space, disk, hash))
                || self.tier.tombstones.is_void(disk, hash, copy.generation) =>
            {
                return Err(Status::ObjectNotFound);
            }
            // A put that is under way may come to nothing.
            Some(object) => object,
            None if self.learn_packed(hash, disk, copy) => return Ok(()),
            None => self.insert_object(copy.key, hash, copy.group),
        };
        let stamp = self.stored.clock.touch();
        let record = &mut self.stored.keys[object];
        record.checksum = copy.checksum;
        record.owner = copy.writer;
        record.stamp = stamp;
        self.link_copy(object, disk, copy.address, copy.payload_bytes, copy.generation);
        self.stored.refresh_blocking(object);
        Ok(())
    }

    /// A copy of a key that has bytes already: it is one of them, or void.
    fn learn_of(
        &mut self,
        object: u32,
        disk: u32,
        copy: &AnnouncedCopy<'_>,
        is_current: bool,
    ) -> Result<(), Status> {
        let place_of =
            |id: u32| (self.stored.replicas[id].segment, self.stored.replicas[id].generation);
        let known = self.stored.copy_of(object).map(place_of);
        // Also where the disk has it twice: a refusal would make both void.
        if known == Some((disk, copy.generation)) {
            return Ok(());
        }
        let is_long = self.stored.replicas.chain(self.stored.keys[object].first).any(|id| {
            let replica = &self.stored.replicas[id];
            replica.payload_bytes == copy.payload_bytes && replica.part().is_none()
        });
        // What was moved or promoted has another generation than its copy, and the same bytes.
        let is_of_it = is_current
            || !self.tier.has_changed_for(&self.space, disk, self.stored.keys[object].hash());
        let is_same = self.stored.keys[object].checksum == copy.checksum && is_long && is_of_it;
        let is_void =
            self.tier.tombstones.is_void(disk, self.stored.keys[object].hash(), copy.generation);
        if !is_same || known.is_some() || is_void {
            return Err(Status::ObjectNotFound);
        }
        self.link_copy(object, disk, copy.address, copy.payload_bytes, copy.generation);
        self.demoting().end_needless(object, (disk, copy.generation));
        Ok(())
    }
}
