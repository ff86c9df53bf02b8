//! Last block of a full segment: it says that the footer is there, and where.

use perigee_schemas::Identity;

use super::fields::{FieldReader, FieldWriter};
use super::room::BlockRoom;
use super::seal::{FormatError, Structure, open_plain, seal_plain};

/// Last block of a full segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentTrailer {
    /// The disk's identity.
    pub disk: Identity,
    /// Number of the segment.
    pub sequence: u32,
    /// Where the footer starts, in bytes of the log from the start of the segment.
    pub footer_offset: u32,
    /// Bytes of the footer, whole blocks of the log.
    pub footer_bytes: u32,
}

impl SegmentTrailer {
    /// One block of the log.
    pub fn encode(&self, room: BlockRoom) -> Vec<u8> {
        let mut body = FieldWriter::default();
        body.u128(self.disk.0);
        body.u32(self.sequence);
        body.u32(self.footer_offset);
        body.u32(self.footer_bytes);
        let sealed = seal_plain(Structure::Trailer, &body.0, room);
        debug_assert_eq!(sealed.len(), room.bytes() as usize, "a segment ends with one block");
        sealed
    }

    /// The trailer at the start of `bytes`.
    ///
    /// # Errors
    /// The bytes are not a trailer of this version.
    pub fn decode(bytes: &[u8], room: BlockRoom) -> Result<Self, FormatError> {
        let mut body = FieldReader(open_plain(Structure::Trailer, bytes)?);
        let mut read = || {
            let disk = Identity(body.u128()?);
            let (sequence, footer_offset) = (body.u32()?, body.u32()?);
            let footer_bytes = body.u32()?;
            let block = room.bytes();
            let is_aligned = footer_offset % block == 0 && footer_bytes % block == 0;
            let is_whole = is_aligned && footer_offset.checked_add(footer_bytes).is_some();
            let trailer = Self { disk, sequence, footer_offset, footer_bytes };
            (body.is_empty() && is_whole).then_some(trailer)
        };
        read().ok_or(FormatError::Field)
    }
}
