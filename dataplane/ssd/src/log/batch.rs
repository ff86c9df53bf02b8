//! A batch of objects and tombstones, from its placement to its announcement.

use perigee_schemas::disk_address::DiskAddress;

use crate::format::{Entry, Labels};

/// An object to write. The bytes of its image stay where they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewObject {
    /// Hash of tenant and key.
    pub hash: u128,
    /// The generation that its image ends with.
    pub generation: u64,
    /// Length of the object, without sums and generation.
    pub payload_bytes: u32,
    /// CRC-32C of its payload.
    pub checksum: u32,
    /// Pins and the like.
    pub flags: u8,
    /// How often it was read.
    pub frequency: u8,
    /// Its names.
    pub labels: Labels,
}

impl NewObject {
    pub(crate) fn entry_bytes(&self) -> usize {
        Entry::bytes_with(&self.labels)
    }
}

/// A copy that is void. It is written after the copy itself, so it always lies behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tombstone {
    /// Hash of tenant and key.
    pub hash: u128,
    /// Generation of the copy.
    pub generation: u64,
    /// The last segment that may have it; the same object may be written again later.
    pub sequence: u32,
}

/// Where the image of an object of a batch goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacedImage {
    /// From the start of the segment, in bytes.
    pub offset: u32,
    /// Bytes of the image.
    pub bytes: u32,
}

/// A batch to write: `bytes` at `offset` of the log's segment, in one piece or several. First comes
/// `summary`; what no image covers is zero.
#[derive(Debug)]
pub struct PlacedBatch {
    /// Number among all batches of this log.
    pub number: u64,
    /// Its segment.
    pub sequence: u32,
    /// The file.
    pub slot: u32,
    /// Where it goes.
    pub offset: u32,
    /// Whole blocks of the log.
    pub bytes: u32,
    /// Both copies of the summary.
    pub summary: Vec<u8>,
    /// One per object, in their order.
    pub images: Vec<PlacedImage>,
}

/// An object that is on the disk and may be announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Hash of tenant and key.
    pub hash: u128,
    /// Generation of the copy, as the master allocated it.
    pub generation: u64,
    /// Where it is.
    pub address: DiskAddress,
}
