//! What lies in a segment, cut into parts for the shards of a master: each gets the records of its
//! own keys, and what is free in its part of the segment.
//! Invariant: the parts of all shards have each byte of the segment at most once.

use super::kept_removals::KeptRemovals;
use super::shard_place::ShardPlace;
use perigee_rpc::AnnouncementPart;
use perigee_schemas::extent::extent_bytes;
use perigee_schemas::key_hash::hash_key;
use perigee_schemas::record::Record;

/// Bytes of records after which a part of an announcement ends.
const PART_BYTES: usize = 512 << 10;
/// Entries after which it ends as well.
const PART_ENTRIES: usize = 16_384;

/// The live records of a segment, in order of offsets, and the removals that its owner has heard
/// of.
#[derive(Default)]
pub(super) struct Live {
    bytes: Vec<u8>,
    extents: Vec<LiveExtent>,
    removals: KeptRemovals,
}

struct LiveExtent {
    start: u64,
    end: u64,
    /// Place of the record in the bytes.
    at: usize,
    length: u32,
    flags: u8,
    generation: u64,
    /// Of the key: which shard it is of.
    hash: u64,
    /// It holds a part of an object.
    is_part: bool,
}

/// Records that a master takes, beside those that each build knows.
#[derive(Clone, Copy)]
pub(super) struct TakenRecords {
    /// Of parts of objects.
    pub(super) parts: bool,
    /// Those that say how many replicas an object is to have.
    pub(super) replica_counts: bool,
}

/// What one shard is given: removals first, then what lies there in order of offsets.
pub(super) struct AnnouncedShare<'a> {
    live: &'a Live,
    takes: TakenRecords,
    entries: Vec<ShareEntry<'a>>,
    next: usize,
}

#[derive(Clone, Copy)]
enum ShareEntry<'a> {
    Removal(&'a [u8]),
    Record(usize),
    Free(u64, u64),
}

impl Live {
    /// Of records in order of their offsets.
    pub(super) fn new<'a>(records: impl Iterator<Item = Record<'a>>) -> Self {
        let mut live = Self::default();
        for record in records {
            let at = live.bytes.len();
            record.encode(&mut live.bytes);
            live.extents.push(LiveExtent {
                start: record.offset,
                end: record.offset.saturating_add(extent_bytes(record.payload_bytes)),
                at,
                length: record.encoded_bytes() as u32,
                flags: record.flags,
                generation: record.generation,
                hash: hash_key(record.key),
                is_part: record.part.is_some(),
            });
        }
        let is_apart = |pair: &[LiveExtent]| pair[0].end <= pair[1].start;
        debug_assert!(live.extents.windows(2).all(is_apart), "no byte is in two live extents");
        live
    }

    /// The same, with removals that were heard of.
    pub(super) fn with_removals(self, removals: &KeptRemovals) -> Self {
        Self { removals: removals.clone(), ..self }
    }

    /// Whether nothing lies there.
    pub(super) fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// What a shard is given of a segment of so many bytes, from an offset on. To a master that
    /// takes no parts their places are free: it could not tell a part from an object.
    pub(super) fn share(
        &self,
        bytes: u64,
        of: ShardPlace,
        from: u64,
        takes: TakenRecords,
    ) -> AnnouncedShare<'_> {
        let (low, high) = of.part(bytes);
        let mut entries: Vec<_> = self.removals.of(of).map(ShareEntry::Removal).collect();
        let mut free_from = 0;
        let ends = std::iter::once((bytes, bytes, None));
        let extents = self.extents.iter().enumerate();
        let extents = extents.filter(|(_, extent)| takes.parts || !extent.is_part);
        let extents = extents.map(|(index, extent)| (extent.start, extent.end, Some(index)));
        for (start, end, index) in extents.chain(ends) {
            let (hole_start, hole_end) = (low.max(free_from), high.min(start));
            if hole_start < hole_end && hole_start >= from {
                entries.push(ShareEntry::Free(hole_start, hole_end - hole_start));
            }
            free_from = end;
            if let Some(index) = index.filter(|_| start >= from)
                && of.owns(self.extents[index].hash)
            {
                entries.push(ShareEntry::Record(index));
            }
        }
        let is_inside = |entry: &ShareEntry<'_>| match entry {
            ShareEntry::Free(offset, bytes) => low <= *offset && offset + bytes <= high,
            ShareEntry::Removal(_) | ShareEntry::Record(_) => true,
        };
        debug_assert!(entries.iter().all(is_inside), "free bytes are those of the shard's part");
        AnnouncedShare { live: self, takes, entries, next: 0 }
    }

    /// Generations and flags of the keys of a shard.
    pub(super) fn of(&self, of: ShardPlace) -> impl Iterator<Item = (u64, u8)> {
        let own = self.extents.iter().filter(move |extent| of.owns(extent.hash));
        own.map(|extent| (extent.generation, extent.flags))
    }

    fn record(&self, index: usize) -> &[u8] {
        let extent = &self.extents[index];
        &self.bytes[extent.at..][..extent.length as usize]
    }
}

impl AnnouncedShare<'_> {
    /// The next part; there is always one, and the last one says so.
    pub(super) fn part(&mut self) -> AnnouncementPart {
        let mut part = AnnouncementPart::default();
        let mut entries = 0;
        while let Some(entry) = self.entries.get(self.next).copied()
            && part.records.len() + part.removed.len() < PART_BYTES
            && entries < PART_ENTRIES
        {
            match entry {
                ShareEntry::Removal(record) => part.removed.extend_from_slice(record),
                ShareEntry::Record(index) => self.add_record(index, &mut part.records),
                ShareEntry::Free(offset, bytes) => {
                    part.free_offset.push(offset);
                    part.free_bytes.push(bytes);
                }
            }
            self.next += 1;
            entries += 1;
        }
        part.is_last = self.next == self.entries.len();
        debug_assert!(part.is_last || entries > 0, "each part says something, so there is an end");
        part
    }

    fn add_record(&self, index: usize, records: &mut Vec<u8>) {
        let bytes = self.live.record(index);
        let says_more = self.live.extents[index].flags & !Record::PINS != 0;
        match Record::decode(bytes) {
            Ok(record) if says_more && !self.takes.replica_counts => {
                Record { flags: record.flags & Record::PINS, ..record }.encode(records);
            }
            _ => records.extend_from_slice(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_schemas::key_hash::shard_of;
    use perigee_schemas::record::{RecordOp, RecordPart};
    use perigee_schemas::{Identity, PartLayout};

    const ALL: TakenRecords = TakenRecords { parts: true, replica_counts: true };

    #[test]
    fn shards_are_given_each_byte_once_in_order_of_offsets() {
        let (bytes, shards) = ((1 << 20) + 17, 3);
        let keys: Vec<String> = (0..40).map(|number| format!("key-{number}")).collect();
        let record = |number: usize| Record {
            op: RecordOp::Commit,
            flags: 0,
            checksum: 1,
            sequence: 1,
            generation: number as u64,
            offset: 64 + 20_000 * number as u64,
            payload_bytes: 5_000 + 100 * number as u64,
            client: Identity(1),
            key: keys[number].as_bytes(),
            group: b"",
            part: None,
        };
        let live = Live::new((0..keys.len()).map(record));
        for from in [0, 300_000] {
            let mut covered = Vec::new();
            for shard in 0..shards {
                let mut share = live.share(bytes, ShardPlace { shard, shards }, from, ALL);
                let part = share.part();
                assert!(part.is_last, "little enough for one part");
                let mut rest = &part.records[..];
                while !rest.is_empty() {
                    let record = Record::decode(rest).unwrap();
                    rest = &rest[record.encoded_bytes()..];
                    assert_eq!(shard_of(record.key, shards as usize), shard as usize);
                    covered
                        .push((record.offset, record.offset + extent_bytes(record.payload_bytes)));
                }
                assert!(part.free_offset.is_sorted());
                let free = part.free_offset.iter().zip(&part.free_bytes);
                covered.extend(free.map(|(offset, bytes)| (*offset, offset + bytes)));
            }
            covered.sort_unstable();
            assert!(covered.windows(2).all(|pair| pair[0].1 <= pair[1].0), "none twice");
            assert!(covered.iter().all(|(start, _)| *start >= from));
            let all: u64 = covered.iter().map(|(start, end)| end - start).sum();
            assert!(from > 0 || all == bytes, "{all} of {bytes}");
        }
    }

    fn record(offset: u64, part: Option<RecordPart>) -> Record<'static> {
        Record {
            op: RecordOp::Commit,
            flags: 0,
            checksum: 1,
            sequence: 1,
            generation: offset,
            offset,
            payload_bytes: 1_000,
            client: Identity(1),
            key: b"key",
            group: b"",
            part,
        }
    }

    #[test]
    fn an_older_master_is_given_the_places_of_parts_as_free() {
        let layout = PartLayout { payload_bytes: 2_000, part_bytes: 1_000 };
        let part = RecordPart { layout, checksum: 2, number: 0 };
        let records = [record(0, None), record(4096, Some(part))];
        let live = Live::new(records.into_iter());
        let only = ShardPlace { shard: 0, shards: 1 };
        let taken = |parts| {
            let part = live.share(8192, only, 0, TakenRecords { parts, ..ALL }).part();
            let record = Record::decode(&part.records).unwrap();
            (part.records.len() > record.encoded_bytes(), part.free_offset, part.free_bytes)
        };
        let behind = extent_bytes(1_000);
        assert_eq!(taken(false), (false, vec![behind], vec![8192 - behind]));
        let holes = vec![4096 - behind, 4096 - behind];
        assert_eq!(taken(true), (true, vec![behind, 4096 + behind], holes));
    }

    #[test]
    fn an_older_master_gets_records_as_it_knows_them() {
        let flags = Record::HARD_PIN | Record::flags_of_replicas(3);
        let live = Live::new(std::iter::once(Record { flags, ..record(0, None) }));
        let only = ShardPlace { shard: 0, shards: 1 };
        for (replica_counts, wanted) in [(true, flags), (false, Record::HARD_PIN)] {
            let takes = TakenRecords { replica_counts, ..ALL };
            let part = live.share(8192, only, 0, takes).part();
            let given = Record::decode(&part.records).unwrap();
            assert_eq!(given, Record { flags: wanted, ..record(0, None) });
        }
    }

    #[test]
    fn an_empty_announcement_has_one_part() {
        let live = Live::new(std::iter::empty());
        let mut share = live.share(4096, ShardPlace { shard: 0, shards: 1 }, 0, ALL);
        let whole = AnnouncementPart {
            free_offset: vec![0],
            free_bytes: vec![4096],
            is_last: true,
            ..AnnouncementPart::default()
        };
        assert_eq!(share.part(), whole);
    }
}
