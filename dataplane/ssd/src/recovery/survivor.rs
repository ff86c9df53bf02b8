//! An object of a log that counts, as its owner announces it.

use crate::format::Labels;
use perigee_schemas::disk_address::DiskAddress;

/// An object that has survived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survivor {
    /// Hash of tenant and key.
    pub hash: u128,
    /// Generation of the copy, as the master allocated it.
    pub generation: u64,
    /// Where it is.
    pub address: DiskAddress,
    /// Length of the object, without sums and generation.
    pub payload_bytes: u32,
    /// CRC-32C of its payload.
    pub checksum: u32,
    /// Pins and the like.
    pub flags: u8,
    /// How often it had been read when it was written.
    pub frequency: u8,
    /// Its names.
    pub labels: Labels,
}
