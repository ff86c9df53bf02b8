//! First block of a segment: whose it is, which one, and what its key is made from.
//! Invariant: it has nothing of what is in the segment, for it is never encrypted.

use perigee_schemas::Identity;

use super::fields::{FieldReader, FieldWriter};
use super::room::BlockRoom;
use super::seal::{ENCRYPTED, FormatError, PLAIN, Structure, open, seal};

/// First block of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The disk's identity.
    pub disk: Identity,
    /// Number of the segment; no other segment of the disk ever had it.
    pub sequence: u32,
    /// Bytes of the segment on the disk, this block included.
    pub segment_bytes: u32,
    /// What its key is made from, besides the key of the disk; none if it is not encrypted. No
    /// two segments have the same.
    pub salt: Option<u128>,
}

impl SegmentHeader {
    /// One block; two with the same in an encrypted segment.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = FieldWriter::default();
        body.u128(self.disk.0);
        body.u32(self.sequence);
        body.u32(self.segment_bytes);
        match self.salt {
            None => seal(Structure::SegmentHeader, PLAIN, &body.0, BlockRoom::Whole),
            Some(salt) => {
                body.u128(salt);
                seal(Structure::SegmentHeader, ENCRYPTED, &body.0, BlockRoom::Whole).repeat(2)
            }
        }
    }

    /// The header at the start of `bytes`.
    ///
    /// # Errors
    /// The bytes are not a header of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let (version, body) = open(Structure::SegmentHeader, bytes)?;
        let mut body = FieldReader(body);
        let mut read = || {
            let disk = Identity(body.u128()?);
            let (sequence, segment_bytes) = (body.u32()?, body.u32()?);
            let salt = if version == ENCRYPTED { Some(body.u128()?) } else { None };
            body.is_empty().then_some(Self { disk, sequence, segment_bytes, salt })
        };
        read().ok_or(FormatError::Field)
    }
}
