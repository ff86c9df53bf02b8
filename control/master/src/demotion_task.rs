//! An object for its owner to write to a disk.

use crate::columns::ReplicaLocation;

/// An object in a client's memory that is to be written to one of its disks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DemotionTask {
    /// Its key.
    pub key: Box<[u8]>,
    /// Its group; empty for none.
    pub group: Box<str>,
    /// CRC-32C of the payload as the writer gave it.
    pub checksum: u32,
    /// Where it lies in memory. The copy keeps its generation.
    pub source: ReplicaLocation,
    /// Number of the disk.
    pub disk: u32,
}

/// How a client's demotions went: columns with one entry per key.
#[derive(Debug, Clone, Copy)]
pub struct EndedDemotions<'a> {
    /// Who wrote.
    pub client: u128,
    /// The keys.
    pub keys: &'a [&'a [u8]],
    /// Generations of the sources, which name the demotions.
    pub generations: &'a [u64],
    /// 0, or why there is no copy: then nothing of it may ever be announced.
    pub status: &'a [i32],
    /// Where the copies lie, as packed disk addresses.
    pub addresses: &'a [u64],
}

/// An object that a disk has, as its owner finds it in the log.
#[derive(Debug, Clone, Copy)]
pub struct AnnouncedCopy<'k> {
    /// Its key.
    pub key: &'k [u8],
    /// Its group; empty for none.
    pub group: &'k str,
    /// Number of the allocation in memory that it was written from.
    pub generation: u64,
    /// Length of the payload in bytes.
    pub payload_bytes: u64,
    /// CRC-32C of the payload.
    pub checksum: u32,
    /// Client that put it; 0 if that is not known.
    pub writer: u128,
    /// Where it lies, as a packed disk address.
    pub address: u64,
}
