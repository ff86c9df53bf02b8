//! The segments and disks that this process owns.

use perigee_memory::Segment;
use perigee_memory::shared::SegmentSource;
use perigee_schemas::Identity;
use perigee_ssd::Disk;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// Segments by identity. A removed segment lives on until the last transfer on it has ended.
#[derive(Debug, Default)]
pub struct SegmentTable {
    segments: RwLock<HashMap<Identity, Arc<Segment>>>,
    disks: RwLock<HashMap<Identity, Disk>>,
}

impl SegmentTable {
    /// Adds a segment.
    pub fn insert(&self, id: Identity, segment: Arc<Segment>) {
        self.segments.write().unwrap_or_else(PoisonError::into_inner).insert(id, segment);
    }

    /// Takes a segment out: no new transfer finds it.
    pub fn remove(&self, id: Identity) -> Option<Arc<Segment>> {
        self.segments.write().unwrap_or_else(PoisonError::into_inner).remove(&id)
    }

    /// The segment of an identity.
    pub fn get(&self, id: Identity) -> Option<Arc<Segment>> {
        self.segments.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// Adds a disk.
    pub fn insert_disk(&self, id: Identity, disk: Disk) {
        self.disks.write().unwrap_or_else(PoisonError::into_inner).insert(id, disk);
    }

    /// Takes a disk out: no new transfer finds it.
    pub fn remove_disk(&self, id: Identity) -> Option<Disk> {
        self.disks.write().unwrap_or_else(PoisonError::into_inner).remove(&id)
    }

    /// The disk of an identity.
    pub fn disk(&self, id: Identity) -> Option<Disk> {
        self.disks.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// Whether there is a disk.
    pub fn has_disks(&self) -> bool {
        !self.disks.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// All segments.
    pub fn list(&self) -> Vec<(Identity, Arc<Segment>)> {
        let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        segments.iter().map(|(id, segment)| (*id, segment.clone())).collect()
    }
}

impl SegmentSource for SegmentTable {
    fn segments(&self) -> Vec<(u128, Arc<Segment>)> {
        let number = |(id, segment): (Identity, _)| (id.0, segment);
        self.list().into_iter().map(number).collect()
    }
}
