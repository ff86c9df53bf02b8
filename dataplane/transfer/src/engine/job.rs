//! Whole objects to write or to read. Invariant: both are moved by the same code; what differs is
//! here.

use crate::client::{Content, FarJob};
use crate::error::TransferError;
use crate::extent::MappedExtent;
use crate::place::ReplicaAddress;
use perigee_memory::{ByteRange, ByteRangeMut};
use perigee_schemas::Direction;

/// One object to write.
#[derive(Clone, Copy, Debug)]
pub struct WriteJob<'a> {
    /// Where it goes.
    pub place: &'a ReplicaAddress,
    /// Its payload.
    pub pieces: &'a [ByteRange],
}

/// One object to read whole.
#[derive(Clone, Copy, Debug)]
pub struct ReadJob<'a> {
    /// Where it lies.
    pub place: &'a ReplicaAddress,
    /// CRC-32C of the object.
    pub checksum: u32,
    /// Where the payload goes; the pieces have exactly its length.
    pub pieces: &'a [ByteRangeMut],
}

/// One object on its way.
pub(super) trait ObjectJob {
    const DIRECTION: Direction;

    /// Where it goes or lies.
    fn place(&self) -> &ReplicaAddress;

    /// Bytes of the caller's pieces.
    fn bytes(&self) -> u64;

    /// The same over TCP.
    fn far_job(&self) -> FarJob;

    /// Copies in memory that this process can touch; the CRC-32C of the payload.
    fn in_memory(&self, extent: MappedExtent) -> Result<u32, TransferError>;

    /// The CRC-32C of what came over TCP, if it is the right one.
    fn judge(&self, found: u32) -> Result<u32, TransferError>;
}

impl ObjectJob for WriteJob<'_> {
    const DIRECTION: Direction = Direction::Write;

    fn place(&self) -> &ReplicaAddress {
        self.place
    }

    fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len as u64).sum()
    }

    fn far_job(&self) -> FarJob {
        // A write only reads them.
        let memory = self.pieces.iter().map(|piece| piece.cast_mut());
        FarJob { place: self.place.clone(), content: Content::Write, memory: memory.collect() }
    }

    fn in_memory(&self, extent: MappedExtent) -> Result<u32, TransferError> {
        extent.write(self.place.generation, self.pieces)
    }

    fn judge(&self, found: u32) -> Result<u32, TransferError> {
        Ok(found)
    }
}

impl ObjectJob for ReadJob<'_> {
    const DIRECTION: Direction = Direction::Read;

    fn place(&self) -> &ReplicaAddress {
        self.place
    }

    fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len as u64).sum()
    }

    fn far_job(&self) -> FarJob {
        let (place, memory) = (self.place.clone(), self.pieces.to_vec());
        FarJob { place, content: Content::Read(0), memory }
    }

    fn in_memory(&self, extent: MappedExtent) -> Result<u32, TransferError> {
        extent.read(self.place.generation, self.checksum, self.pieces)?;
        Ok(self.checksum)
    }

    fn judge(&self, found: u32) -> Result<u32, TransferError> {
        if found == self.checksum {
            return Ok(found);
        }
        let expected = self.checksum;
        Err(TransferError::Checksum { found, expected })
    }
}
