//! What lies where of an object: its copy on a disk, and replicas by what they hold.
//! Invariant: an object has at most one copy on a disk, last in its chain.

use perigee_schemas::record::Record;

use crate::demotion_task::AnnouncedCopy;

use super::StoredObjects;

impl StoredObjects {
    /// The copy of an object on a disk, if it has one.
    pub(crate) fn copy_of(&self, object: u32) -> Option<u32> {
        let mut complete = self.replicas.chain(self.keys[object].first);
        complete.find(|id| self.replicas[*id].is_on_disk())
    }

    /// Whether a copy has the bytes that its key has by the master's record, though all that the
    /// record names may be gone: the key was not written or removed since, whatever is noted of it.
    pub(crate) fn is_current(&self, object: u32, copy: &AnnouncedCopy<'_>) -> bool {
        if self.is_striped(object) {
            return false;
        }
        let mut complete = self.replicas.chain(self.keys[object].first);
        self.keys[object].checksum == copy.checksum
            && complete.any(|id| self.replicas[id].generation == copy.generation)
    }

    /// Replicas of an object in memory that were not made for heat alone.
    pub(crate) fn kept_replicas(&self, object: u32) -> usize {
        let complete = self.replicas.chain(self.keys[object].first);
        let fits = |id: &u32| {
            let replica = &self.replicas[*id];
            !replica.is_on_disk() && !replica.is_extra() && replica.part().is_none()
        };
        complete.filter(fits).count()
    }

    /// Copies on a disk, or replicas in a segment.
    pub(crate) fn replicas_in(&self, segment: u32) -> usize {
        self.replicas.count_in(segment) + self.keys.packed().count_in(segment)
    }

    /// Whether a record is of the bytes that are known of an object.
    pub(crate) fn is_same(&self, object: u32, record: &Record<'_>) -> bool {
        let known = &self.keys[object];
        match (record.part, self.striped.get(object)) {
            (None, None) => {
                known.checksum == record.checksum
                    && self.replicas[known.first].payload_bytes == record.payload_bytes
            }
            (Some(part), Some(striped)) => {
                known.checksum == part.checksum && striped.layout == part.layout
            }
            _ => false,
        }
    }

    /// Whether all that is known of an object are copies on disks, older than this generation: of
    /// those no sequence is known.
    pub(crate) fn is_older_on_disk(&self, object: u32, generation: u64) -> bool {
        let mut replicas = self.replicas.chain(self.keys[object].first);
        replicas.all(|id| {
            let replica = &self.replicas[id];
            replica.is_on_disk() && replica.generation < generation
        })
    }
}
