//! How a packed record is written: fixed fields, then the key.
//! Invariant: what is decoded is what was encoded.

use perigee_schemas::disk_address::DiskAddress;

use crate::columns::{ReplicaLocation, ReplicaState};
use crate::policy::ObjectKind;

/// Records lie at multiples of so many bytes.
pub(super) const UNIT_BYTES: usize = 4;
/// Bytes before the key.
pub(crate) const HEAD_BYTES: usize = 36;
/// A stamp has so many bytes.
const STAMP_BYTES: usize = 6;
/// Marks above the kind: it was read...
const HIT: u8 = 1 << 4;
/// ... the touch that its stamp is of was a probe...
const PROBED: u8 = 1 << 5;
/// ... it is removed.
const GONE: u8 = 1 << 7;
const KINDS: u8 = HIT - 1;
/// Where the fields begin.
const ADDRESS: usize = 8;
const PAYLOAD: usize = 16;
const CHECKSUM: usize = 20;
const STAMP: usize = 24;
const WRITER: usize = STAMP + STAMP_BYTES;
const MARKS: usize = 32;
const TERM: usize = 33;
const KEY_LENGTH: usize = 34;

/// What is kept of an object that lies on a disk alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskCopy {
    pub(crate) disk: u32,
    /// The packed address on it.
    pub(crate) address: u64,
    pub(crate) generation: u64,
    pub(crate) payload_bytes: u64,
    pub(crate) checksum: u32,
    /// Client that finished the last put.
    pub(crate) writer: u128,
    /// When it was last touched, counted in touches.
    pub(crate) stamp: u64,
    /// Whether that was a probe.
    pub(crate) is_probed: bool,
    pub(crate) kind: ObjectKind,
    pub(crate) is_hit: bool,
    /// Number of the last lease that readers had.
    pub(crate) term: u8,
}

impl DiskCopy {
    /// What clients see.
    pub(crate) fn location(&self) -> ReplicaLocation {
        ReplicaLocation {
            segment: self.disk,
            state: ReplicaState::Complete,
            offset: self.address,
            payload_bytes: self.payload_bytes,
            generation: self.generation,
            part: None,
            part_checksum: 0,
        }
    }
}

/// The bytes of a record, without those that fill its last unit; `None` if a field is too long.
pub(super) fn encode(key: &[u8], copy: &DiskCopy, writer: u16) -> Option<Vec<u8>> {
    let payload_bytes = u32::try_from(copy.payload_bytes).ok()?;
    let key_bytes = u16::try_from(key.len()).ok()?;
    if copy.stamp >> (8 * STAMP_BYTES) != 0 {
        return None;
    }
    let mark = |is_set: bool, mark: u8| if is_set { mark } else { 0 };
    let marks = copy.kind.index() as u8 | mark(copy.is_hit, HIT) | mark(copy.is_probed, PROBED);
    let mut record = Vec::with_capacity(HEAD_BYTES + key.len() + UNIT_BYTES);
    record.extend_from_slice(&copy.generation.to_le_bytes());
    record.extend_from_slice(&copy.address.to_le_bytes());
    record.extend_from_slice(&payload_bytes.to_le_bytes());
    record.extend_from_slice(&copy.checksum.to_le_bytes());
    record.extend_from_slice(&copy.stamp.to_le_bytes()[..STAMP_BYTES]);
    record.extend_from_slice(&writer.to_le_bytes());
    record.extend_from_slice(&[marks, copy.term]);
    record.extend_from_slice(&key_bytes.to_le_bytes());
    debug_assert_eq!(record.len(), HEAD_BYTES);
    record.extend_from_slice(key);
    Some(record)
}

/// A record where it lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PackedRecord<'a> {
    bytes: &'a [u8],
}

impl<'a> PackedRecord<'a> {
    /// The record that begins these bytes.
    pub(super) fn begins(bytes: &'a [u8]) -> Self {
        let key_bytes = u16::from_le_bytes(array(bytes, KEY_LENGTH));
        Self { bytes: &bytes[..HEAD_BYTES + usize::from(key_bytes)] }
    }

    pub(super) fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    pub(crate) fn key(self) -> &'a [u8] {
        &self.bytes[HEAD_BYTES..]
    }

    pub(crate) fn address(self) -> DiskAddress {
        DiskAddress::unpack(u64::from_le_bytes(array(self.bytes, ADDRESS)))
    }

    pub(super) fn sequence(self) -> u32 {
        self.address().sequence
    }

    pub(super) fn writer(self) -> u16 {
        u16::from_le_bytes(array(self.bytes, WRITER))
    }

    pub(super) fn is_gone(self) -> bool {
        self.bytes[MARKS] & GONE != 0
    }

    /// All of it, which lies on a disk and has a writer.
    pub(super) fn copy(self, disk: u32, writer: u128) -> DiskCopy {
        let mut stamp = [0; 8];
        stamp[..STAMP_BYTES].copy_from_slice(&self.bytes[STAMP..STAMP + STAMP_BYTES]);
        let marks = self.bytes[MARKS];
        DiskCopy {
            disk,
            address: self.address().pack(),
            generation: u64::from_le_bytes(array(self.bytes, 0)),
            payload_bytes: u32::from_le_bytes(array(self.bytes, PAYLOAD)).into(),
            checksum: u32::from_le_bytes(array(self.bytes, CHECKSUM)),
            writer,
            stamp: u64::from_le_bytes(stamp),
            is_probed: marks & PROBED != 0,
            kind: ObjectKind::at(usize::from(marks & KINDS)),
            is_hit: marks & HIT != 0,
            term: self.bytes[TERM],
        }
    }
}

/// The record that begins these bytes is removed.
pub(super) fn set_gone(bytes: &mut [u8]) {
    bytes[MARKS] |= GONE;
}

/// The object of the record that begins these bytes was probed. A stamp that is too long is left
/// out: the object counts as older than it is.
pub(super) fn set_probed(bytes: &mut [u8], stamp: u64) {
    if stamp >> (8 * STAMP_BYTES) == 0 {
        bytes[STAMP..STAMP + STAMP_BYTES].copy_from_slice(&stamp.to_le_bytes()[..STAMP_BYTES]);
        bytes[MARKS] |= PROBED;
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}
