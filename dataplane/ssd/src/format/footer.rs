//! What a segment has in it: the entries of all its summaries again, in one piece.

use perigee_schemas::Identity;

use super::entry::Entry;
use super::fields::{FieldReader, FieldWriter};
use super::room::BlockRoom;
use super::seal::{FormatError, Structure, open_plain, seal_plain, sealed_bytes};

const FIXED_BYTES: usize = 24;

/// Bytes of a footer with that many bytes of entries, whole blocks of the log.
pub(crate) fn footer_bytes(entry_bytes: usize, room: BlockRoom) -> usize {
    sealed_bytes(FIXED_BYTES + entry_bytes, room)
}

/// What a segment has in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footer {
    /// The disk's identity.
    pub disk: Identity,
    /// Number of the segment.
    pub sequence: u32,
    /// Of all batches, in their order.
    pub entries: Vec<Entry>,
}

impl Footer {
    /// Whole blocks of the log, from entries that are encoded already.
    pub(crate) fn encode_list(
        (disk, sequence): (Identity, u32),
        (count, list): (u32, &[u8]),
        room: BlockRoom,
    ) -> Vec<u8> {
        let mut body = FieldWriter::default();
        body.u128(disk.0);
        body.u32(sequence);
        body.u32(count);
        body.bytes(list);
        let sealed = seal_plain(Structure::Footer, &body.0, room);
        let kept = footer_bytes(list.len(), room);
        debug_assert_eq!(sealed.len(), kept, "it takes the room that its segment has kept");
        sealed
    }

    /// Whole blocks of the log.
    pub fn encode(&self, room: BlockRoom) -> Vec<u8> {
        let mut list = Vec::new();
        self.entries.iter().for_each(|entry| entry.encode(&mut list));
        let counted = (self.entries.len() as u32, list.as_slice());
        Self::encode_list((self.disk, self.sequence), counted, room)
    }

    /// The footer at the start of `bytes`.
    ///
    /// # Errors
    /// The bytes are not a footer of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut body = FieldReader(open_plain(Structure::Footer, bytes)?);
        let mut read = || {
            let disk = Identity(body.u128()?);
            let (sequence, count) = (body.u32()?, body.u32()?);
            Some(Self { disk, sequence, entries: Entry::decode_list(body.0, count)? })
        };
        read().ok_or(FormatError::Field)
    }
}
