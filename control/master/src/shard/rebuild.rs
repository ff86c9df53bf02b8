//! A segment whose objects are known already: state rebuilt from descriptors.
//! Invariant: space is rebuilt from the extents of all shards before the first new one is handed
//! out.

use std::sync::Arc;

use perigee_allocator::{Extent, OffsetAllocator};
use perigee_schemas::Status;

use crate::key::{hash_key, shard_of_hash};
use crate::key_events::KeyChange;
use crate::limits::REPLICAS_MAX;
use crate::segment::SegmentSpec;
use crate::share::share_range;
use crate::slab::NONE;

use super::KeyShard;
use super::adopted_replica::RebuiltReplica;

impl KeyShard {
    /// Mounts a segment in place of [`crate::SegmentEvent::Mounted`] with the replicas that lie in
    /// it. Every shard is to be given all of them: it adopts those of its own keys, unless it knows
    /// a key in another version, and leaves the bytes of the others to their shards. Returns the
    /// number of adopted replicas.
    ///
    /// # Errors
    /// `InvalidParams`: replicas overlap or lie outside the segment; `UnavailableInCurrentStatus`:
    /// the number was used before. Nothing has changed then.
    pub fn mount_adopting(
        &mut self,
        now_ms: u64,
        index: u32,
        spec: &Arc<SegmentSpec>,
        replicas: &[RebuiltReplica<'_>],
    ) -> Result<usize, Status> {
        self.begin(now_ms);
        let mut known: Vec<&RebuiltReplica<'_>> =
            replicas.iter().filter(|replica| replica.is_storable()).collect();
        known.sort_by_key(|replica| replica.key);
        known.dedup_by_key(|replica| replica.key);
        let (own, space) = self.adopted_space(spec.bytes, &known)?;
        if !self.space.add(index, spec, space) {
            return Err(Status::UnavailableInCurrentStatus);
        }
        self.replicas.open(index);
        for replica in &own {
            debug_assert!(self.owns(replica), "each shard adopts its own keys");
            self.adopt_one(index, replica);
        }
        Ok(own.len())
    }

    /// The replicas to adopt, and the space that this shard holds: what all replicas of its keys
    /// occupy, and its equal part of what is free between the replicas of all shards.
    fn adopted_space<'a, 'k>(
        &self,
        segment_bytes: u64,
        known: &[&'a RebuiltReplica<'k>],
    ) -> Result<(Vec<&'a RebuiltReplica<'k>>, OffsetAllocator), Status> {
        let all = known.iter().map(|replica| replica.extent());
        let whole =
            OffsetAllocator::rebuild(segment_bytes, all).map_err(|_| Status::InvalidParams)?;
        let (from, to) = share_range(segment_bytes, self.settings.index, self.settings.count);
        let mut space = OffsetAllocator::holding_nothing(segment_bytes);
        let free = whole.free_extents().filter_map(|hole| {
            let (start, end) = (hole.offset.max(from), (hole.offset + hole.bytes).min(to));
            (start < end).then(|| Extent::new(start, end - start))
        });
        let mut received: Vec<Extent> = free.collect();
        let mut own = Vec::new();
        for replica in known.iter().copied().filter(|replica| self.owns(replica)) {
            if self.may_adopt(replica) {
                space.receive_allocated(replica.extent()).map_err(|_| Status::InvalidParams)?;
                own.push(replica);
            } else {
                received.push(replica.extent());
            }
        }
        for extent in received {
            space.receive(extent).map_err(|_| Status::InvalidParams)?;
        }
        Ok((own, space))
    }

    fn owns(&self, replica: &RebuiltReplica<'_>) -> bool {
        shard_of_hash(hash_key(replica.key), self.settings.count) == self.settings.index
    }

    /// Whether the key is unknown here or known with these bytes.
    fn may_adopt(&self, replica: &RebuiltReplica<'_>) -> bool {
        match self.keys.find(replica.key) {
            None => true,
            Some(object) => {
                let replicas = self.replicas.chain(self.keys[object].first).count();
                replicas < REPLICAS_MAX as usize
                    && self.size(replica.key) == Ok(replica.payload_bytes)
                    && self.keys[object].checksum == replica.checksum
            }
        }
    }

    fn adopt_one(&mut self, segment: u32, adopted: &RebuiltReplica<'_>) {
        let hash = hash_key(adopted.key);
        let object = match self.keys.find_hashed(hash, adopted.key) {
            Some(object) => object,
            None => self.insert_object(adopted.key, hash, ""),
        };
        let (offset, payload_bytes) = (adopted.offset, adopted.payload_bytes);
        let id = self.replicas.adopt(segment, offset, payload_bytes, adopted.generation);
        let stamp = self.clock.touch();
        let record = &mut self.keys[object];
        let before = std::mem::replace(&mut record.first, id);
        record.checksum = adopted.checksum;
        record.owner = adopted.client;
        record.stamp = stamp;
        self.replicas.assign(id, object);
        self.replicas.put_before(id, before);
        let list = self.list_of(object);
        self.relink(object, list);
        if before == NONE {
            self.report_key(KeyChange::Stored, object, id);
        }
    }
}
