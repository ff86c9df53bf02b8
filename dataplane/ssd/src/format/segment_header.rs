//! First block of a segment: whose it is and which one.

use perigee_schemas::Identity;

use super::fields::{FieldReader, FieldWriter};
use super::seal::{FormatError, Structure, open, seal};

/// First block of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The disk's identity.
    pub disk: Identity,
    /// Number of the segment; no other segment of the disk ever had it.
    pub sequence: u32,
    /// Bytes of the segment, this block included.
    pub segment_bytes: u32,
}

impl SegmentHeader {
    /// One block.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = FieldWriter::default();
        body.u128(self.disk.0);
        body.u32(self.sequence);
        body.u32(self.segment_bytes);
        seal(Structure::SegmentHeader, &body.0)
    }

    /// The header at the start of `bytes`.
    ///
    /// # Errors
    /// The bytes are not a header of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut body = FieldReader(open(Structure::SegmentHeader, bytes)?);
        let mut read = || {
            let disk = Identity(body.u128()?);
            let (sequence, segment_bytes) = (body.u32()?, body.u32()?);
            body.is_empty().then_some(Self { disk, sequence, segment_bytes })
        };
        read().ok_or(FormatError::Field)
    }
}
