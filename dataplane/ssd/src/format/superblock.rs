//! What a folder of the log is: two copies in one file, of which the later one that verifies holds.
//! Invariant: a copy is only written over while the other one is safe on the disk.

use perigee_schemas::Identity;

use super::fields::{FieldReader, FieldWriter};
use super::room::BlockRoom;
use super::seal::{ENCRYPTED, FormatError, PLAIN, Structure, open, seal};
use crate::limits::{
    BLOCK_BYTES, CLUSTER_BYTES_MAX, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SEGMENTS_MAX,
};

/// Bytes of the file with both copies.
pub const SUPERBLOCK_FILE_BYTES: u32 = 2 * BLOCK_BYTES;

/// Why a folder is left as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SuperblockError {
    /// Neither copy verifies.
    #[error(
        "Its superblock does not verify ({0}); move the folder away to begin with an empty one"
    )]
    Damaged(FormatError),
    /// A newer program wrote it.
    #[error(
        "It has version {0} of the format, and this program knows those up to {ENCRYPTED}; \
         use the newer program, or move the folder away"
    )]
    Version(u32),
    /// It belongs to others.
    #[error("It belongs to cluster {found:?}, not to {expected:?}; give it another folder")]
    Cluster {
        /// Name in the superblock.
        found: String,
        /// Name of the cluster that this program is of.
        expected: String,
    },
    /// It is encrypted, and there is no key.
    #[error("Its objects are encrypted; name the file of their key, or another folder")]
    NoKey,
    /// It is encrypted with another key.
    #[error(
        "Its objects are encrypted with another key; name the file of that key, or another folder"
    )]
    OtherKey,
    /// It is not encrypted, and there is a key.
    #[error(
        "Its objects are not encrypted, and a key is set; name another folder, or take the key \
         out of the settings"
    )]
    NotEncrypted,
}

/// What a folder of the log is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// Identity of the disk; it is made with the folder and stays.
    pub disk: Identity,
    /// Cluster whose objects these are, at most [`CLUSTER_BYTES_MAX`] bytes.
    pub cluster: String,
    /// Counts the superblocks of this disk; of two copies the higher one holds.
    pub serial: u64,
    /// Bytes of each segment on the disk.
    pub segment_bytes: u32,
    /// Segments of the disk, at most.
    pub segments: u32,
    /// Segments of lower numbers are void: all that was there when everything was removed.
    pub void_before: u32,
    /// What its key is known by; none if it is not encrypted.
    pub key_check: Option<u128>,
}

impl Superblock {
    /// What the blocks of its segments have of the log.
    pub fn room(&self) -> BlockRoom {
        if self.key_check.is_some() { BlockRoom::BesideTag } else { BlockRoom::Whole }
    }

    /// Bytes of the log in each segment.
    pub fn log_bytes(&self) -> u32 {
        self.room().in_log(self.segment_bytes)
    }

    /// Where this superblock goes in the file: not over the one before it.
    pub fn offset(&self) -> u32 {
        (self.serial % 2) as u32 * BLOCK_BYTES
    }

    /// One block.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = FieldWriter::default();
        body.u128(self.disk.0);
        body.u64(self.serial);
        body.u32(self.segment_bytes);
        body.u32(self.segments);
        body.u32(self.void_before);
        debug_assert!(self.cluster.len() <= CLUSTER_BYTES_MAX);
        body.u16(self.cluster.len() as u16);
        body.bytes(self.cluster.as_bytes());
        self.key_check.into_iter().for_each(|check| body.u128(check));
        let version = if self.key_check.is_some() { ENCRYPTED } else { PLAIN };
        let sealed = seal(Structure::Superblock, version, &body.0, BlockRoom::Whole);
        debug_assert_eq!(sealed.len(), BLOCK_BYTES as usize, "one copy leaves the other alone");
        sealed
    }

    /// The copy at the start of `bytes`.
    ///
    /// # Errors
    /// The bytes are not a superblock of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let (version, body) = open(Structure::Superblock, bytes)?;
        let mut body = FieldReader(body);
        let mut read = || {
            let disk = Identity(body.u128()?);
            let serial = body.u64()?;
            let (segment_bytes, segments) = (body.u32()?, body.u32()?);
            let void_before = body.u32()?;
            let cluster = usize::from(body.u16()?);
            let cluster = std::str::from_utf8(body.bytes(cluster)?).ok()?.to_owned();
            let key_check = if version == ENCRYPTED { Some(body.u128()?) } else { None };
            let is_valid = body.is_empty()
                && cluster.len() <= CLUSTER_BYTES_MAX
                && (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&segment_bytes)
                && segment_bytes % BLOCK_BYTES == 0
                && segments <= SEGMENTS_MAX;
            is_valid.then_some(Self {
                disk,
                cluster,
                serial,
                segment_bytes,
                segments,
                void_before,
                key_check,
            })
        };
        read().ok_or(FormatError::Field)
    }

    /// The superblock that holds, of the file's bytes.
    ///
    /// # Errors
    /// The folder is damaged, of another version or of another cluster: it must be left alone.
    pub fn choose(file: &[u8], cluster: &str) -> Result<Self, SuperblockError> {
        let mid = file.len().min(BLOCK_BYTES as usize);
        let (first, second) = file.split_at(mid);
        let copies = [Self::decode(first), Self::decode(second)];
        // A newer program that has written one copy may have put anything behind it.
        for copy in &copies {
            if let Err(FormatError::Version(version)) = copy {
                return Err(SuperblockError::Version(*version));
            }
        }
        let first_error = copies[0].as_ref().err().copied();
        let latest = copies.into_iter().flatten().max_by_key(|copy| copy.serial);
        let Some(latest) = latest else {
            return Err(SuperblockError::Damaged(first_error.unwrap_or(FormatError::Short)));
        };
        if latest.cluster != cluster {
            let (found, expected) = (latest.cluster, cluster.to_owned());
            return Err(SuperblockError::Cluster { found, expected });
        }
        Ok(latest)
    }
}
