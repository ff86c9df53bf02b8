//! One line of a summary: an object and where its image lies, or a tombstone of one.
//! Invariant: an entry is as long as its fields say, so a list of entries has one reading.

use perigee_schemas::extent::extent_bytes;
use perigee_schemas::limits::STORED_KEY_BYTES_MAX;

use super::fields::{FieldReader, FieldWriter};
use crate::limits::{NAME_BYTES_MAX, SEGMENT_BYTES_MAX};

/// Bytes of an entry without its names.
const FIXED_BYTES: usize = 49;
const OBJECT: u8 = 1;
const TOMBSTONE: u8 = 2;

/// Names of an object, as the master knows them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// The key, at most `STORED_KEY_BYTES_MAX` bytes.
    pub key: Vec<u8>,
    /// The tenant; empty is the default one. At most [`NAME_BYTES_MAX`] bytes.
    pub tenant: Vec<u8>,
    /// The group, with its tenant in front as the key has it; empty is none. At most as long as a
    /// key.
    pub group: Vec<u8>,
}

impl Labels {
    /// Whether each name is as short as it must be, and the key is not empty.
    pub fn are_valid(&self) -> bool {
        (1..=STORED_KEY_BYTES_MAX).contains(&self.key.len())
            && self.tenant.len() <= NAME_BYTES_MAX
            && self.group.len() <= STORED_KEY_BYTES_MAX
    }
}

/// What an entry tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    /// An object lies in this segment.
    Object {
        /// Where its image starts, in bytes from the start of the segment.
        offset: u32,
        /// Bytes of its payload.
        payload_bytes: u32,
        /// CRC-32C of the payload, as the writer of the object made it.
        checksum: u32,
        /// Pins and the like; the master gives them their meaning.
        flags: u8,
        /// How often it had been read.
        frequency: u8,
        /// Its names.
        labels: Labels,
    },
    /// A copy that lies in this segment or an older one is void.
    Tombstone {
        /// Segment of the void copy.
        sequence: u32,
    },
}

/// One line of a summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Hash of tenant and key.
    pub hash: u128,
    /// The number that the master gave to the object's place; what a tombstone voids.
    pub generation: u64,
    /// Object or tombstone.
    pub kind: EntryKind,
}

impl Entry {
    /// Bytes of a tombstone in a list.
    pub(crate) const BARE_BYTES: usize = FIXED_BYTES;

    /// Bytes of an object of these names in a list.
    pub(crate) fn bytes_with(labels: &Labels) -> usize {
        FIXED_BYTES + labels.key.len() + labels.tenant.len() + labels.group.len()
    }

    /// Appends the entry to a list.
    pub fn encode(&self, list: &mut Vec<u8>) {
        let before = list.len();
        let mut out = FieldWriter(std::mem::take(list));
        let no_labels = Labels::default();
        let (op, flags, frequency, labels, words) = match &self.kind {
            EntryKind::Object { offset, payload_bytes, checksum, flags, frequency, labels } => {
                (OBJECT, *flags, *frequency, labels, [0, *offset, *payload_bytes, *checksum])
            }
            EntryKind::Tombstone { sequence } => {
                (TOMBSTONE, 0, 0, &no_labels, [*sequence, 0, 0, 0])
            }
        };
        out.u8(op);
        out.u8(flags);
        out.u8(frequency);
        out.u128(self.hash);
        out.u64(self.generation);
        words.into_iter().for_each(|word| out.u32(word));
        for name in [&labels.key, &labels.tenant, &labels.group] {
            debug_assert!(name.len() <= usize::from(u16::MAX));
            out.u16(name.len() as u16);
        }
        for name in [&labels.key, &labels.tenant, &labels.group] {
            out.bytes(name);
        }
        *list = out.0;
        let bytes = list.len() - before;
        debug_assert_eq!(bytes, Self::bytes_with(labels), "it takes the room that was kept for it");
    }

    /// The entries of a list of exactly `count`; `None` if it is no such list.
    pub(crate) fn decode_list(list: &[u8], count: u32) -> Option<Vec<Self>> {
        // An allocation is never larger than the bytes that were really there.
        let mut entries = Vec::with_capacity((count as usize).min(list.len() / FIXED_BYTES));
        let mut list = FieldReader(list);
        for _ in 0..count {
            entries.push(Self::decode(&mut list)?);
        }
        list.is_empty().then_some(entries)
    }

    fn decode(list: &mut FieldReader<'_>) -> Option<Self> {
        let (op, flags, frequency) = (list.u8()?, list.u8()?, list.u8()?);
        let (hash, generation) = (list.u128()?, list.u64()?);
        let [sequence, offset, payload_bytes, checksum] =
            [list.u32()?, list.u32()?, list.u32()?, list.u32()?];
        let lengths = [list.u16()?, list.u16()?, list.u16()?];
        let mut name = |length: u16| list.bytes(usize::from(length)).map(<[u8]>::to_vec);
        let labels =
            Labels { key: name(lengths[0])?, tenant: name(lengths[1])?, group: name(lengths[2])? };
        let kind = match op {
            OBJECT => {
                let end = u64::from(offset) + extent_bytes(u64::from(payload_bytes));
                let is_valid = labels.are_valid()
                    && sequence == 0
                    && payload_bytes > 0
                    && end <= u64::from(SEGMENT_BYTES_MAX);
                is_valid.then_some(())?;
                EntryKind::Object { offset, payload_bytes, checksum, flags, frequency, labels }
            }
            TOMBSTONE => {
                let is_bare = [offset, payload_bytes, checksum] == [0; 3]
                    && (flags, frequency, lengths) == (0, 0, [0; 3]);
                is_bare.then_some(EntryKind::Tombstone { sequence })?
            }
            _ => return None,
        };
        Some(Self { hash, generation, kind })
    }
}
