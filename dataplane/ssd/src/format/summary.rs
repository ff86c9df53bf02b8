//! What a batch has in it, in whole blocks before the images of the batch, written twice.
//! Invariant: the summary of another segment, or of another place in this one, differs from the
//! right one by its sequence and number.

use perigee_schemas::Identity;

use super::entry::Entry;
use super::fields::{FieldReader, FieldWriter};
use super::room::BlockRoom;
use super::seal::{FormatError, Structure, open_plain, seal_plain, sealed_bytes};
use crate::limits::{BATCH_ENTRY_BYTES_MAX, SEGMENT_BYTES_MAX};

const FIXED_BYTES: usize = 32;
/// A batch that has lost its summary would take the tombstones of later ones with it, so each
/// summary lies there twice.
pub(crate) const SUMMARY_COPIES: u64 = 2;

/// Bytes of a summary with that many bytes of entries, whole blocks of the log.
pub fn summary_bytes(entry_bytes: usize, room: BlockRoom) -> usize {
    sealed_bytes(FIXED_BYTES + entry_bytes, room)
}

/// What a batch has in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The disk's identity.
    pub disk: Identity,
    /// Number of the segment.
    pub sequence: u32,
    /// Number of the batch in its segment, from 0.
    pub batch: u32,
    /// Bytes of the batch: both copies of the summary, and the images; whole blocks.
    pub batch_bytes: u32,
    /// In the order of the images.
    pub entries: Vec<Entry>,
}

impl Summary {
    /// Whole blocks of the log.
    pub fn encode(&self, room: BlockRoom) -> Vec<u8> {
        let mut body = FieldWriter::default();
        body.u128(self.disk.0);
        body.u32(self.sequence);
        body.u32(self.batch);
        body.u32(self.batch_bytes);
        body.u32(self.entries.len() as u32);
        self.entries.iter().for_each(|entry| entry.encode(&mut body.0));
        debug_assert!(body.0.len() - FIXED_BYTES <= BATCH_ENTRY_BYTES_MAX as usize);
        let sealed = seal_plain(Structure::Summary, &body.0, room);
        let kept = summary_bytes(body.0.len() - FIXED_BYTES, room);
        debug_assert_eq!(sealed.len(), kept, "images begin behind it");
        sealed
    }

    /// The summary at the start of `bytes`.
    ///
    /// # Errors
    /// The bytes are not a summary of this version.
    pub fn decode(bytes: &[u8], room: BlockRoom) -> Result<Self, FormatError> {
        let mut body = FieldReader(open_plain(Structure::Summary, bytes)?);
        let mut read = || {
            let disk = Identity(body.u128()?);
            let (sequence, batch) = (body.u32()?, body.u32()?);
            let (batch_bytes, count) = (body.u32()?, body.u32()?);
            let own = summary_bytes(body.0.len(), room) as u64;
            let is_short = body.0.len() <= BATCH_ENTRY_BYTES_MAX as usize;
            let is_whole =
                is_short && batch_bytes % room.bytes() == 0 && batch_bytes <= SEGMENT_BYTES_MAX;
            (is_whole && SUMMARY_COPIES * own <= u64::from(batch_bytes)).then_some(())?;
            let entries = Entry::decode_list(body.0, count)?;
            Some(Self { disk, sequence, batch, batch_bytes, entries })
        };
        read().ok_or(FormatError::Field)
    }
}
