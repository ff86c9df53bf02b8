//! A segment whose objects are known already: state rebuilt from what its owner announces.
//! Invariant: no byte of the segment is handed out before its owner has announced all that lies
//! there, and of what is announced no byte is taken twice.

use perigee_allocator::Extent;
use perigee_schemas::Status;
use perigee_schemas::extent::extent_bytes;
use perigee_schemas::record::{Record, RecordOp};
use perigee_schemas::tenant::is_same_tenant;

use crate::key::{check_key, hash_key, shard_of_hash};
use crate::key_event::Media;
use crate::limits::REPLICAS_MAX;
use crate::object::Flags;
use crate::quarantine::{Quarantined, ReadHold};
use crate::slab::NONE;
use crate::tenant::TenantLane;

use super::KeyShard;
use super::announcement::Announcement;
use super::space::Reuse;

impl KeyShard {
    /// Learns what lies in a segment that is being rebuilt; returns how many objects were taken
    /// over. What overlaps, or does not belong here, is left out.
    ///
    /// A key that was written or removed in this life of the master stays as it is. Of two
    /// announced versions of a key the one that was recorded later wins; the same bytes in several
    /// segments are replicas of one object. Space of what loses is free after the time of a lease.
    ///
    /// # Errors
    /// `SegmentNotFound`: not a mounted segment; `UnavailableInCurrentStatus`: all of it was
    /// announced.
    pub fn announce(
        &mut self,
        now_ms: u64,
        segment: u32,
        announced: &Announcement<'_>,
    ) -> Result<usize, Status> {
        self.begin(now_ms);
        self.announced_until(segment)?;
        for removal in announced.removed {
            self.learn_removal(removal);
        }
        let mut free = announced.free.iter().peekable();
        let mut adopted = 0;
        for record in announced.records {
            while let Some(hole) = free.next_if(|hole| hole.offset < record.offset) {
                self.space.receive_announced(segment, *hole, false);
            }
            adopted += usize::from(self.adopt(segment, record));
        }
        free.for_each(|hole| {
            self.space.receive_announced(segment, *hole, false);
        });
        if announced.is_last {
            self.space.end_rebuild(segment);
            self.wishes.recall();
        }
        Ok(adopted)
    }

    /// Up to which offset of a segment its owner has announced what lies there.
    ///
    /// # Errors
    /// As [`KeyShard::announce`].
    pub fn announced_until(&self, segment: u32) -> Result<u64, Status> {
        let share = self.space.readable(segment).ok_or(Status::SegmentNotFound)?;
        share.announced_until.ok_or(Status::UnavailableInCurrentStatus)
    }

    /// Number of segments and disks with objects that their owners are still to announce. An owner
    /// that takes too long is not waited for.
    pub fn awaited(&self, now_ms: u64) -> usize {
        self.space.iter().filter(|(_, share)| share.may_have_more(now_ms)).count()
    }

    /// Whether no segment takes puts, and one will when its owner has announced what lies there.
    pub fn awaits_room(&self, now_ms: u64) -> bool {
        !self.has_room() && self.space.iter().any(|(_, share)| share.is_awaited(now_ms))
    }

    /// Whether each of some keys can be read, without touching it: 0, or -704.
    pub fn known(&self, keys: &[&[u8]], out: &mut Vec<i32>) {
        out.clear();
        out.extend(keys.iter().map(|key| {
            let slot =
                self.stored.keys.find(key).filter(|slot| self.view().is_slot_complete(*slot));
            slot.map_or(Status::ObjectNotFound, |_| Status::Ok).code()
        }));
    }

    /// Whether some segment takes puts.
    pub fn has_room(&self) -> bool {
        !self.space.live().is_empty()
    }

    fn adopt(&mut self, segment: u32, record: &Record<'_>) -> bool {
        let hash = hash_key(record.key);
        let is_own = shard_of_hash(hash, self.settings.count) == self.settings.index;
        let extent = Extent::new(record.offset, extent_bytes(record.payload_bytes));
        let is_new = is_own && record.op == RecordOp::Commit && check_key(record.key).is_ok();
        if !is_new || !self.space.receive_announced(segment, extent, true) {
            return false;
        }
        let object = self.stored.find_hashed(hash, record.key);
        let is_taken = match object {
            _ if self.removals.is_record_void(hash, record) => false,
            None => !self.rebuild.may_have_changed(hash),
            Some(object) => self.gives_way(object, segment, record),
        };
        if !is_taken {
            // Readers of the master's earlier life may still read it.
            let parked =
                Quarantined { segment, extent, put: None, readers: None, superseded: None };
            self.space.hold(self.stored.lease_end_ms(), parked);
            return false;
        }
        self.link_announced(segment, hash, record);
        true
    }

    /// Whether an announced replica of a known object joins it or replaces it.
    fn gives_way(&mut self, object: u32, segment: u32, record: &Record<'_>) -> bool {
        let first = self.stored.keys[object].first;
        if first == NONE {
            // It is being written, and what is announced is older than that.
            return !self.rebuild.may_have_changed(self.stored.keys[object].hash());
        }
        if self.stored.is_same(object, record) {
            let part = record.part.map(|part| part.number);
            let alike = || {
                let replicas = self.stored.replicas.chain(first);
                replicas.filter(|id| self.stored.replicas[*id].part() == part)
            };
            return alike().all(|id| self.stored.replicas[id].segment != segment)
                && alike().count() < REPLICAS_MAX as usize
                && self.stored.replicas.chain(first).count() < usize::from(u8::MAX);
        }
        let is_older = self.rebuild.is_announced_before(&self.stored, object, record);
        if is_older {
            self.drop_announced(object);
        }
        is_older
    }

    /// Drops what was announced of an object: there is something newer, or nothing. That is no
    /// change of this life: another owner may still announce what is newer.
    pub(super) fn drop_announced(&mut self, object: u32) {
        self.rebuild.forget(object);
        let first = self.stored.keys[object].first;
        self.reports.gone(&self.stored, object, first, Media::default());
        let lease = self.stored.take_read_lease(object);
        let end_ms = lease.end_ms.max(self.stored.lease_end_ms());
        self.stored.keys[object].first = NONE;
        self.drop_chain(first, Reuse::AfterReads(ReadHold { end_ms, ..lease }));
        self.settle(object);
    }

    fn link_announced(&mut self, segment: u32, hash: u64, record: &Record<'_>) {
        let is_own = is_same_tenant(record.key, record.group);
        let group = std::str::from_utf8(record.group).ok().filter(|_| is_own).unwrap_or_default();
        let object = match self.stored.find_hashed(hash, record.key) {
            Some(object) => object,
            None => self.insert_object(record.key, hash, group),
        };
        let (offset, bytes) = (record.offset, record.payload_bytes);
        let tenant = self.quotas.charge_announced(record.key, extent_bytes(bytes));
        let lane = TenantLane { segment, tenant };
        let id = self.stored.replicas.adopt(lane, offset, bytes, record.generation);
        let was_complete = self.view().is_complete(object);
        self.stored.replicas.set_part(id, record.part.map(|part| part.number));
        let stamp = self.stored.clock.touch();
        let known = &mut self.stored.keys[object];
        let before = std::mem::replace(&mut known.first, id);
        if before == NONE {
            known.checksum = record.part.map_or(record.checksum, |part| part.checksum);
            known.owner = record.client.0;
            known.stamp = stamp;
            known.flags.set(Flags::HARD_PIN, record.flags & Record::HARD_PIN != 0);
        }
        if let Some(part) = record.part {
            self.stored.note_part(object, before == NONE, &part, record.checksum);
        }
        self.stored.replicas.assign(id, object);
        self.stored.replicas.put_before(id, before);
        if before == NONE {
            let soft = record.flags & Record::SOFT_PIN != 0;
            let end_ms = self.stored.clock.now_ms().saturating_add(self.settings.soft_pin_ttl_ms);
            self.owner_notes().set_soft_pin(object, soft.then_some(end_ms));
        }
        self.rebuild.note_announced(object, record.sequence);
        let kept = self.stored.kept_replicas(object);
        self.rebuild.note_wanted(object, record.replicas(), kept);
        self.stored.refresh_blocking(object);
        let list = self.stored.list_of(object);
        self.stored.relink(object, list);
        match record.part {
            None => self.reports.joined(&self.stored, object, id),
            Some(_) if !was_complete && self.view().is_complete(object) => {
                self.reports.stored(&self.stored, object, id);
            }
            Some(_) => {}
        }
    }
}
