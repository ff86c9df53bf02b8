//! Last block of a full segment: it says that the footer is there, and where.

use perigee_schemas::Identity;

use super::fields::{FieldReader, FieldWriter};
use super::seal::{FormatError, Structure, open, seal};
use crate::limits::BLOCK_BYTES;

/// Last block of a full segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentTrailer {
    /// The disk's identity.
    pub disk: Identity,
    /// Number of the segment.
    pub sequence: u32,
    /// Where the footer starts, in bytes from the start of the segment.
    pub footer_offset: u32,
    /// Bytes of the footer, whole blocks.
    pub footer_bytes: u32,
}

impl SegmentTrailer {
    /// One block.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = FieldWriter::default();
        body.u128(self.disk.0);
        body.u32(self.sequence);
        body.u32(self.footer_offset);
        body.u32(self.footer_bytes);
        seal(Structure::Trailer, &body.0)
    }

    /// The trailer at the start of `bytes`.
    ///
    /// # Errors
    /// The bytes are not a trailer of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut body = FieldReader(open(Structure::Trailer, bytes)?);
        let mut read = || {
            let disk = Identity(body.u128()?);
            let (sequence, footer_offset) = (body.u32()?, body.u32()?);
            let footer_bytes = body.u32()?;
            let is_aligned = footer_offset % BLOCK_BYTES == 0 && footer_bytes % BLOCK_BYTES == 0;
            let is_whole = is_aligned && footer_offset.checked_add(footer_bytes).is_some();
            let trailer = Self { disk, sequence, footer_offset, footer_bytes };
            (body.is_empty() && is_whole).then_some(trailer)
        };
        read().ok_or(FormatError::Field)
    }
}
