//! What every structure on the disk starts with: magic, version, length and checksum. What says how
//! a disk is encrypted has version 2, everything else version 1.
//! Invariant: a later version keeps these twenty bytes, so that an older program can tell a newer
//! disk from a damaged one.

use perigee_memory::{crc32c, crc32c_combine};

use super::room::BlockRoom;

/// The version of structures that say nothing of a key.
pub(super) const PLAIN: u32 = 1;
/// The version of those that do. A program that knows only the other one leaves the disk alone.
pub(super) const ENCRYPTED: u32 = 2;
/// Bytes before the body: magic 8, version 4, body bytes 4, CRC-32C 4.
pub const SEAL_BYTES: usize = 20;
/// The checksum covers what precedes it and the body.
const COVERED_BYTES: usize = 16;

/// Why bytes are not the structure that was looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Other bytes, or none.
    #[error("It does not start with the magic of this structure")]
    Magic,
    /// Fewer bytes than the structure says that it has.
    #[error("It is cut off")]
    Short,
    /// The bytes are not those that were written.
    #[error("Its checksum is wrong")]
    Checksum,
    /// A program of another version wrote it.
    #[error("It has version {0} of the format, and this program knows those up to {ENCRYPTED}")]
    Version(u32),
    /// Sealed by a program that does not keep to the format.
    #[error("A field of it is out of range")]
    Field,
}

/// The kinds of structures on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Structure {
    /// What a folder is: one per disk, twice.
    Superblock,
    /// First block of a segment.
    SegmentHeader,
    /// What a batch has in it, before it.
    Summary,
    /// What a segment has in it, behind the batches.
    Footer,
    /// Last block of a full segment.
    Trailer,
}

impl Structure {
    const fn magic(self) -> [u8; 8] {
        match self {
            Self::Superblock => *b"PRGSUPER",
            Self::SegmentHeader => *b"PRGSEGMT",
            Self::Summary => *b"PRGBATCH",
            Self::Footer => *b"PRGFOOTR",
            Self::Trailer => *b"PRGTRAIL",
        }
    }
}

/// Bytes of a sealed body, rounded up to whole blocks of a log.
pub(super) const fn sealed_bytes(body_bytes: usize, room: BlockRoom) -> usize {
    room.whole(SEAL_BYTES + body_bytes)
}

/// The body with its seal, padded with zeros to whole blocks of a log.
pub(super) fn seal_plain(structure: Structure, body: &[u8], room: BlockRoom) -> Vec<u8> {
    seal(structure, PLAIN, body, room)
}

/// The same with the version that the structure has.
pub fn seal(structure: Structure, version: u32, body: &[u8], room: BlockRoom) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(sealed_bytes(body.len(), room));
    bytes.extend_from_slice(&structure.magic());
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
    let sum = crc32c_combine(crc32c(&bytes), crc32c(body), body.len() as u64);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes.extend_from_slice(body);
    bytes.resize(sealed_bytes(body.len(), room), 0);
    bytes
}

/// The body of a structure that says nothing of a key, at the start of `bytes`.
pub(super) fn open_plain(structure: Structure, bytes: &[u8]) -> Result<&[u8], FormatError> {
    match open(structure, bytes)? {
        (PLAIN, body) => Ok(body),
        (other, _) => Err(FormatError::Version(other)),
    }
}

/// The version and the body of a sealed structure at the start of `bytes`.
pub(super) fn open(structure: Structure, bytes: &[u8]) -> Result<(u32, &[u8]), FormatError> {
    let (head, rest) = bytes.split_first_chunk::<SEAL_BYTES>().ok_or(FormatError::Short)?;
    if head[..8] != structure.magic() {
        return Err(FormatError::Magic);
    }
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let body = rest.get(..word(12) as usize).ok_or(FormatError::Short)?;
    let sum = crc32c_combine(crc32c(&head[..COVERED_BYTES]), crc32c(body), body.len() as u64);
    if sum != word(COVERED_BYTES) {
        return Err(FormatError::Checksum);
    }
    match word(8) {
        version @ (PLAIN | ENCRYPTED) => Ok((version, body)),
        other => Err(FormatError::Version(other)),
    }
}

/// Bytes that the structure at the start of `bytes` says that it takes, whole blocks of a log. The
/// claim is not proven before all of them are read.
pub(crate) fn claimed_bytes(structure: Structure, bytes: &[u8], room: BlockRoom) -> Option<usize> {
    let head = bytes.first_chunk::<SEAL_BYTES>()?;
    let body = u32::from_le_bytes([head[12], head[13], head[14], head[15]]) as usize;
    (head[..8] == structure.magic()).then(|| sealed_bytes(body, room))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_body_comes_back_and_any_changed_bit_of_it_is_noticed() {
        let room = BlockRoom::Whole;
        let sealed = seal_plain(Structure::Footer, b"entries", room);
        assert_eq!(open_plain(Structure::Footer, &sealed), Ok(b"entries".as_slice()));
        assert_eq!(claimed_bytes(Structure::Footer, &sealed, room), Some(sealed.len()));
        for bit in 0..(SEAL_BYTES + 7) * 8 {
            let mut damaged = sealed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(open_plain(Structure::Footer, &damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_newer_version_is_not_taken_for_damage() {
        let mut newer = seal(Structure::Superblock, ENCRYPTED, b"body", BlockRoom::Whole);
        assert_eq!(open_plain(Structure::Superblock, &newer), Err(FormatError::Version(2)));
        newer[8] = 3;
        assert_eq!(open(Structure::Superblock, &newer), Err(FormatError::Checksum));
        let sum = crc32c_combine(crc32c(&newer[..16]), crc32c(b"body"), 4);
        newer[16..20].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(open(Structure::Superblock, &newer), Err(FormatError::Version(3)));
    }
}
