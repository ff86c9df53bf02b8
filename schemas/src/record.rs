//! One entry of a journal: what became of one extent.
//!
//! | byte | what | byte | what |
//! |---|---|---|---|
//! | 0 | CRC-32C of everything after it, u32 | 16 | sequence, u64 |
//! | 4 | length of the key, u16 | 24 | generation, u64 |
//! | 6 | length of the group, u16 | 32 | offset, u64 |
//! | 8 | operation, flags, version, form | 40 | payload bytes, u64 |
//! | 12 | CRC-32C of the payload, u32 | 48 | client, u128 |
//! | 64 | the key, then the group | | |
//!
//! The flags are the pins in the lowest two bits, and above them the number of replicas that the
//! object is to have in memory, 0 for one. The form is 0. It is 1 if the extent holds a part of an
//! object; behind the group come then:
//!
//! | byte | what | byte | what |
//! |---|---|---|---|
//! | 0 | payload bytes of the object, u64 | 16 | CRC-32C of the object, u32 |
//! | 8 | payload bytes of each part but the last, u64 | 20 | number of the part, 3 zeros |
//!
//! All integers are little-endian. A record that was written in part does not match its CRC. There
//! is no padding: a record may begin at any byte.

use crate::checksum::crc32c;
use crate::limits::{OBJECT_BYTES_MAX, REPLICAS_MAX, STORED_KEY_BYTES_MAX};
use crate::{Identity, PartLayout};

/// Bytes of a record before its key.
pub const RECORD_HEADER_BYTES: usize = 64;
/// Bytes of what a record says of the object that its extent is a part of.
const PART_BYTES: usize = 24;
/// Longest record: a part of the longest key in the group with the longest name.
pub const RECORD_BYTES_MAX: usize = RECORD_HEADER_BYTES + 2 * STORED_KEY_BYTES_MAX + PART_BYTES;
/// The form that this build writes, and the only one that it reads.
const VERSION: u8 = 1;
/// The extent holds a whole object...
const WHOLE: u8 = 0;
/// ... or a part of one.
const PART: u8 = 1;
/// Above the pins the flags have the number of replicas.
const REPLICAS_SHIFT: u32 = 2;

const _: () = assert!(STORED_KEY_BYTES_MAX <= u16::MAX as usize);
const _: () = assert!(REPLICAS_MAX <= (u8::MAX >> REPLICAS_SHIFT) as usize);

/// What became of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordOp {
    /// It holds a complete object from now on.
    Commit = 1,
    /// It holds nothing any more.
    Free = 2,
    /// The flags of its object are now those of the record.
    Flags = 3,
    /// Nothing of this segment: a copy of this generation on a disk of its owner is void.
    Void = 4,
    /// Nothing of this segment: the key was removed. What it had by then has smaller sequences and
    /// generations.
    Removed = 5,
    /// Nothing of this segment: the keys of a tenant, named by the group, in which an expression is
    /// found were removed; the expression is in the place of the key.
    RemovedPattern = 6,
}

impl RecordOp {
    fn from_byte(byte: u8) -> Option<Self> {
        let of_extents = [Self::Commit, Self::Free, Self::Flags];
        let of_others = [Self::Void, Self::Removed, Self::RemovedPattern];
        of_extents.into_iter().chain(of_others).find(|op| *op as u8 == byte)
    }
}

/// Why bytes are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The bytes end before the record does.
    #[error("The record is cut off")]
    Short,
    /// The checksum is another one: it was written in part, or never.
    #[error("The record is damaged")]
    Damaged,
    /// Its checksum is right and its content cannot be: another build wrote it.
    #[error("The record is of a form that this build does not know: use the build that wrote it")]
    Unknown,
}

/// Which part of its object an extent holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordPart {
    /// How the object is cut.
    pub layout: PartLayout,
    /// CRC-32C of the whole object.
    pub checksum: u32,
    /// Number of the part, from 0.
    pub number: u8,
}

/// What became of one extent, and what its object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// What became of it.
    pub op: RecordOp,
    /// Facts about the object: [`Record::HARD_PIN`], [`Record::SOFT_PIN`], and how many replicas
    /// it is to have, see [`Record::replicas`].
    pub flags: u8,
    /// CRC-32C of the payload.
    pub checksum: u32,
    /// Its place among the records of one shard of the master: later ones have larger numbers.
    pub sequence: u64,
    /// Number of the allocation; of two records about one byte the larger number is right.
    pub generation: u64,
    /// Offset of the extent from the start of the segment, in bytes.
    pub offset: u64,
    /// Length of the payload in bytes.
    pub payload_bytes: u64,
    /// Client that wrote the object.
    pub client: Identity,
    /// Its key.
    pub key: &'a [u8],
    /// Its group, empty for none.
    pub group: &'a [u8],
    /// If the extent holds a part of the object: which one. Payload and checksum are the part's.
    pub part: Option<RecordPart>,
}

impl<'a> Record<'a> {
    /// The object is never evicted.
    pub const HARD_PIN: u8 = 1;
    /// The object is evicted last.
    pub const SOFT_PIN: u8 = 2;
    /// The flags that every build knows.
    pub const PINS: u8 = Self::HARD_PIN | Self::SOFT_PIN;

    /// The flags that say how many replicas in memory an object is to have; none for a single one.
    pub fn flags_of_replicas(replicas: usize) -> u8 {
        match replicas.min(REPLICAS_MAX) {
            0 | 1 => 0,
            several => (several as u8) << REPLICAS_SHIFT,
        }
    }

    /// How many replicas in memory its object is to have, as far as the record says so: 1 at least.
    pub fn replicas(&self) -> u8 {
        (self.flags >> REPLICAS_SHIFT).max(1)
    }

    /// Bytes of the whole record.
    pub fn encoded_bytes(&self) -> usize {
        let part_bytes = self.part.map_or(0, |_| PART_BYTES);
        RECORD_HEADER_BYTES + self.key.len() + self.group.len() + part_bytes
    }

    /// Whether its fields lie within their bounds.
    pub fn is_valid(&self) -> bool {
        (1..=STORED_KEY_BYTES_MAX).contains(&self.key.len())
            && self.group.len() <= STORED_KEY_BYTES_MAX
            && (1..=OBJECT_BYTES_MAX).contains(&self.payload_bytes)
            && self.flags >> REPLICAS_SHIFT != 1
            && usize::from(self.flags >> REPLICAS_SHIFT) <= REPLICAS_MAX
            && self.offset.checked_add(self.payload_bytes).is_some()
            && self.part.is_none_or(|part| part.is_of(self.payload_bytes))
    }

    /// Appends the whole record to `bytes`. It must be valid.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        debug_assert!(self.is_valid(), "what is written can be read");
        let start = bytes.len();
        let form = if self.part.is_some() { PART } else { WHOLE };
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&length(self.key));
        bytes.extend_from_slice(&length(self.group));
        bytes.extend_from_slice(&[self.op as u8, self.flags, VERSION, form]);
        bytes.extend_from_slice(&self.checksum.to_le_bytes());
        for word in [self.sequence, self.generation, self.offset, self.payload_bytes] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&self.client.0.to_le_bytes());
        bytes.extend_from_slice(self.key);
        bytes.extend_from_slice(self.group);
        self.part.iter().for_each(|part| part.encode(bytes));
        debug_assert_eq!(bytes.len() - start, self.encoded_bytes(), "each field was written");
        let checksum = crc32c([&bytes[start + 4..]]);
        bytes[start..start + 4].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Reads the record at the start of `bytes`, which may go on after it.
    ///
    /// # Errors
    /// The bytes are cut off, damaged, or of another form.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, RecordError> {
        let (header, rest) =
            bytes.split_first_chunk::<RECORD_HEADER_BYTES>().ok_or(RecordError::Short)?;
        let (key_bytes, group_bytes) = (usize::from(half(header, 4)), usize::from(half(header, 6)));
        if key_bytes > STORED_KEY_BYTES_MAX || group_bytes > STORED_KEY_BYTES_MAX {
            return Err(RecordError::Damaged);
        }
        let part_bytes = if header[11] == PART { PART_BYTES } else { 0 };
        let tail = rest.get(..key_bytes + group_bytes + part_bytes).ok_or(RecordError::Short)?;
        let covered = &bytes[4..RECORD_HEADER_BYTES + tail.len()];
        if u32::from_le_bytes(field(header, 0)) != crc32c([covered]) {
            return Err(RecordError::Damaged);
        }
        let (texts, part) = tail.split_at(key_bytes + group_bytes);
        let (key, group) = texts.split_at(key_bytes);
        let word = |at| u64::from_le_bytes(field(header, at));
        let record = Self {
            op: RecordOp::from_byte(header[8]).ok_or(RecordError::Unknown)?,
            flags: header[9],
            checksum: u32::from_le_bytes(field(header, 12)),
            sequence: word(16),
            generation: word(24),
            offset: word(32),
            payload_bytes: word(40),
            client: Identity(u128::from_le_bytes(field(header, 48))),
            key,
            group,
            part: part.first_chunk().map(RecordPart::decode).transpose()?,
        };
        match header[10] == VERSION && header[11] <= PART && record.is_valid() {
            true => Ok(record),
            false => Err(RecordError::Unknown),
        }
    }
}

impl RecordPart {
    /// Whether it is a part of so many bytes of its object.
    fn is_of(&self, payload_bytes: u64) -> bool {
        self.layout.is_valid()
            && self.number < self.layout.parts()
            && self.layout.bytes_of(self.number) == payload_bytes
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.layout.payload_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.layout.part_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.checksum.to_le_bytes());
        bytes.extend_from_slice(&[self.number, 0, 0, 0]);
    }

    fn decode(bytes: &[u8; PART_BYTES]) -> Result<Self, RecordError> {
        if bytes[21..] != [0; 3] {
            return Err(RecordError::Unknown);
        }
        let word = |at| u64::from_le_bytes(field(bytes, at));
        let layout = PartLayout { payload_bytes: word(0), part_bytes: word(8) };
        let checksum = u32::from_le_bytes(field(bytes, 16));
        Ok(Self { layout, checksum, number: bytes[20] })
    }
}

fn length(text: &[u8]) -> [u8; 2] {
    u16::try_from(text.len()).unwrap_or(u16::MAX).to_le_bytes()
}

fn half(header: &[u8; RECORD_HEADER_BYTES], at: usize) -> u16 {
    u16::from_le_bytes(field(header, at))
}

fn field<const N: usize, const M: usize>(header: &[u8; M], at: usize) -> [u8; N] {
    std::array::from_fn(|index| header[at + index])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RECORD: Record<'static> = Record {
        op: RecordOp::Commit,
        flags: Record::SOFT_PIN,
        checksum: 0xdead_beef,
        sequence: 7,
        generation: 1 << 40 | 9,
        offset: 4096,
        payload_bytes: 1000,
        client: Identity(1 << 100 | 3),
        key: b"key",
        group: b"prompt",
        part: None,
    };

    const PART_RECORD: Record<'static> = Record {
        payload_bytes: 8192,
        part: Some(RecordPart {
            layout: PartLayout { payload_bytes: 20_000, part_bytes: 8192 },
            checksum: 0xfeed_f00d,
            number: 1,
        }),
        ..RECORD
    };

    fn encoded(record: &Record<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        bytes
    }

    #[test]
    fn a_record_costs_64_bytes_and_its_texts() {
        assert_eq!(encoded(&RECORD).len(), 64 + 3 + 6);
    }

    #[test]
    fn the_number_of_replicas_lies_above_the_pins() {
        for (replicas, said) in [(0, 1), (1, 1), (2, 2), (16, 16), (40, 16)] {
            let flags = Record::HARD_PIN | Record::flags_of_replicas(replicas);
            let bytes = encoded(&Record { flags, ..RECORD });
            let record = Record::decode(&bytes).unwrap();
            assert_eq!((record.flags & Record::PINS, record.replicas()), (Record::HARD_PIN, said));
        }
        assert_eq!(RECORD.flags, Record::SOFT_PIN, "as builds wrote it that knew of pins alone");
    }

    #[test]
    fn a_part_is_no_whole_object_and_fits_its_cut() {
        let bytes = encoded(&PART_RECORD);
        assert_eq!(bytes.len(), 64 + 3 + 6 + 24);
        assert_eq!(Record::decode(&bytes), Ok(PART_RECORD));
        let part = PART_RECORD.part.unwrap();
        let longer = PartLayout { payload_bytes: 1 << 41, ..part.layout };
        let many = PartLayout { part_bytes: 16, ..part.layout };
        for wrong in [
            RecordPart { number: 2, ..part },
            RecordPart { number: 3, ..part },
            RecordPart { layout: longer, ..part },
            RecordPart { layout: many, ..part },
        ] {
            assert!(!Record { part: Some(wrong), ..PART_RECORD }.is_valid(), "{wrong:?}");
        }
        assert!(Record::decode(&bytes[..bytes.len() - 1]).is_err());
    }

    #[test]
    fn what_another_build_wrote_is_not_called_damage() {
        let longest = vec![b'k'; STORED_KEY_BYTES_MAX];
        let whole = Record { key: &longest, group: &longest, ..RECORD };
        assert_eq!(Record::decode(&encoded(&whole)), Ok(whole));
        for (at, byte) in [(8, 0), (8, 7), (9, 4), (9, 17 << 2), (10, 2), (11, 2)] {
            let mut bytes = encoded(&RECORD);
            bytes[at] = byte;
            assert_eq!(Record::decode(&bytes), Err(RecordError::Damaged));
            let checksum = crc32c([&bytes[4..]]);
            bytes[..4].copy_from_slice(&checksum.to_le_bytes());
            assert_eq!(Record::decode(&bytes), Err(RecordError::Unknown), "{at} {byte}");
        }
    }

    #[test]
    fn memory_that_was_never_written_is_no_record() {
        assert_eq!(Record::decode(&[0; 200]), Err(RecordError::Damaged));
    }

    proptest! {
        #[test]
        fn every_record_comes_back(
            op in prop_oneof![
                Just(RecordOp::Commit),
                Just(RecordOp::Free),
                Just(RecordOp::Flags),
                Just(RecordOp::Void),
                Just(RecordOp::Removed),
                Just(RecordOp::RemovedPattern),
            ],
            numbers in any::<(u32, u64, u64, u32, u128)>(),
            pins in 0..=Record::PINS,
            replicas in 0..=REPLICAS_MAX,
            payload_bytes in 1..=OBJECT_BYTES_MAX,
            key in proptest::collection::vec(any::<u8>(), 1..300),
            group in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let (checksum, sequence, generation, offset, client) = numbers;
            let flags = pins | Record::flags_of_replicas(replicas);
            let offset = u64::from(offset);
            let client = Identity(client);
            let record = Record {
                op, flags, checksum, sequence, generation, offset, payload_bytes, client,
                key: &key, group: &group,
                part: None,
            };
            let mut bytes = encoded(&record);
            bytes.extend_from_slice(b"what follows");
            prop_assert_eq!(Record::decode(&bytes), Ok(record));
        }

        #[test]
        fn a_cut_or_changed_record_is_refused(
            cut in 0_usize..73,
            bit in 0_usize..97 * 8,
            is_part in any::<bool>(),
        ) {
            let mut bytes = encoded(if is_part { &PART_RECORD } else { &RECORD });
            let bit = bit % (8 * bytes.len());
            prop_assert!(Record::decode(&bytes[..cut]).is_err());
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Record::decode(&bytes).is_err());
        }
    }
}
