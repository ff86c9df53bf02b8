//! A segment whose objects are known already: state rebuilt from descriptors.
//! Invariant: the allocator is rebuilt from all adopted extents before the first new one is handed out.

use std::sync::Arc;

use perigee_allocator::{Extent, OffsetAllocator};
use perigee_schemas::Status;
use perigee_schemas::extent::extent_bytes;

use crate::key::{check_key, hash_key, shard_of_hash};
use crate::limits::{OBJECT_BYTES_MAX, REPLICAS_MAX};
use crate::segment::SegmentSpec;
use crate::share::Share;

use super::Shard;

/// A complete replica that lies in a segment already.
#[derive(Debug, Clone, Copy)]
pub struct AdoptedReplica<'k> {
    /// Its key.
    pub key: &'k [u8],
    /// Offset of the payload from the start of the segment, in bytes.
    pub offset: u64,
    /// Length of the payload in bytes.
    pub payload_bytes: u64,
    /// CRC-32C of the payload.
    pub checksum: u32,
    /// Number of its allocation.
    pub generation: u64,
    /// Client that wrote it.
    pub client: u128,
}

impl Shard {
    /// Mounts a segment in place of [`crate::SegmentEvent::Mounted`] with the replicas that lie in it. Keys of other
    /// shards are skipped, and so are keys that this shard knows in another version. Returns the number of
    /// adopted replicas.
    ///
    /// # Errors
    /// `InvalidParams`: replicas overlap or lie outside the shard's share; `UnavailableInCurrentStatus`: the
    /// number was used before. Nothing has changed then.
    pub fn mount_adopting(
        &mut self,
        now_ms: u64,
        index: u32,
        spec: &Arc<SegmentSpec>,
        replicas: &[AdoptedReplica<'_>],
    ) -> Result<usize, Status> {
        self.begin(now_ms);
        let mut share = Share::new(Arc::clone(spec), self.settings.index, self.settings.count);
        let mut own: Vec<(&AdoptedReplica<'_>, Extent)> = Vec::new();
        for replica in replicas.iter().filter(|replica| self.may_adopt(replica)) {
            own.push((replica, replica.extent(share.offset)?));
        }
        own.sort_by_key(|(replica, _)| replica.key);
        own.dedup_by_key(|(replica, _)| replica.key);
        let extents = own.iter().map(|(_, extent)| *extent);
        share.allocator = OffsetAllocator::rebuild(share.allocator.capacity(), extents)
            .map_err(|_| Status::InvalidParams)?;
        if !self.add_share(index, share) {
            return Err(Status::UnavailableInCurrentStatus);
        }
        for (replica, extent) in &own {
            self.adopt_one(index, replica, extent.offset);
        }
        Ok(own.len())
    }

    fn may_adopt(&self, replica: &AdoptedReplica<'_>) -> bool {
        let hash = hash_key(replica.key);
        let storable = check_key(replica.key).is_ok()
            && (1..=OBJECT_BYTES_MAX).contains(&replica.payload_bytes);
        if !storable || shard_of_hash(hash, self.settings.count) != self.settings.index {
            return false;
        }
        match self.index.find(&self.objects, hash, replica.key) {
            None => true,
            Some(object) => {
                let replicas = self.chain(self.objects[object].first).count();
                replicas < REPLICAS_MAX as usize
                    && self.size(replica.key) == Ok(replica.payload_bytes)
                    && self.objects[object].checksum == replica.checksum
            }
        }
    }

    fn adopt_one(&mut self, segment: u32, adopted: &AdoptedReplica<'_>, offset: u64) {
        let hash = hash_key(adopted.key);
        let object = match self.index.find(&self.objects, hash, adopted.key) {
            Some(object) => object,
            None => self.insert_object(adopted.key, hash, ""),
        };
        let id = self.insert_replica(segment, offset, adopted.payload_bytes, adopted.generation);
        self.clock += 1;
        let record = &mut self.objects[object];
        let before = std::mem::replace(&mut record.first, id);
        record.checksum = adopted.checksum;
        record.owner = adopted.client;
        record.stamp = self.clock;
        self.replicas[id].object = object;
        self.replicas[id].sibling = before;
        let list = self.list_of(object);
        self.relink(object, list);
    }
}

impl AdoptedReplica<'_> {
    fn extent(&self, share_offset: u64) -> Result<Extent, Status> {
        let offset = self
            .offset
            .checked_sub(share_offset)
            .ok_or(Status::InvalidParams)?;
        Ok(Extent::new(offset, extent_bytes(self.payload_bytes)))
    }
}
