//! Objects that lie in parts: how each is cut, and the checksums of its parts.
//! Invariant: it has an object exactly while the object's complete replicas are of parts.

use std::collections::HashMap;

use perigee_schemas::PartLayout;
use perigee_schemas::record::RecordPart;

/// What is known of an object that lies in parts.
#[derive(Debug)]
pub(crate) struct StripedObject {
    pub(crate) layout: PartLayout,
    /// CRC-32C of each part; 0 of one that its owner has not announced.
    checksums: Box<[u32]>,
}

impl StripedObject {
    /// One with all its parts.
    pub(crate) fn new(layout: PartLayout, checksums: &[u32]) -> Self {
        debug_assert_eq!(checksums.len(), usize::from(layout.parts()), "one per part");
        Self { layout, checksums: checksums.into() }
    }

    /// One of which nothing was announced yet.
    pub(crate) fn unknown(layout: PartLayout) -> Self {
        Self { layout, checksums: vec![0; usize::from(layout.parts())].into() }
    }

    /// CRC-32C of a part.
    pub(crate) fn checksum_of(&self, part: u8) -> u32 {
        self.checksums.get(usize::from(part)).copied().unwrap_or_default()
    }

    /// A part has this CRC-32C.
    pub(crate) fn note(&mut self, part: u8, checksum: u32) {
        if let Some(known) = self.checksums.get_mut(usize::from(part)) {
            *known = checksum;
        }
    }
}

/// The objects of a shard that lie in parts.
#[derive(Debug, Default)]
pub(crate) struct StripedObjects(HashMap<u32, StripedObject>);

impl StripedObjects {
    pub(crate) fn get(&self, object: u32) -> Option<&StripedObject> {
        self.0.get(&object)
    }

    pub(crate) fn get_mut(&mut self, object: u32) -> Option<&mut StripedObject> {
        self.0.get_mut(&object)
    }

    /// What is readable of an object from now on lies in parts, or not.
    pub(crate) fn set(&mut self, object: u32, striped: Option<StripedObject>) {
        match striped {
            Some(striped) => {
                self.0.insert(object, striped);
            }
            None if self.0.is_empty() => {}
            None => {
                self.0.remove(&object);
            }
        }
    }

    /// What the record of one part says of its object.
    pub(crate) fn record_part(&self, object: u32, part: u8, checksum: u32) -> Option<RecordPart> {
        let layout = self.get(object)?.layout;
        Some(RecordPart { layout, checksum, number: part })
    }

    /// The objects, in order.
    pub(crate) fn objects(&self) -> Vec<u32> {
        let mut objects: Vec<u32> = self.0.keys().copied().collect();
        objects.sort_unstable();
        objects
    }
}
