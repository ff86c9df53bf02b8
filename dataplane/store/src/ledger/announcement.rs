//! What lies in a segment, cut into parts for the shards of a master: each gets the records of its
//! own keys, and what is free in its part of the segment.
//! Invariant: the parts of all shards have each byte of the segment at most once.

use perigee_schemas::extent::extent_bytes;
use perigee_schemas::key_hash::shard_of;
use perigee_schemas::record::Record;

/// Bytes of records after which a part of an announcement ends.
const PART_BYTES: usize = 512 << 10;
/// Entries after which it ends as well.
const PART_ENTRIES: usize = 16_384;
/// Parts of the shards begin at multiples of this.
const ALIGNMENT_BYTES: u64 = 4096;

/// The live records of a segment, in order of offsets.
pub(super) struct Live {
    bytes: Vec<u8>,
    extents: Vec<LiveExtent>,
}

struct LiveExtent {
    start: u64,
    end: u64,
    /// Place of the record in the bytes.
    at: usize,
    length: usize,
}

/// One message of an announcement.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) records: Vec<u8>,
    pub(super) free_offset: Vec<u64>,
    pub(super) free_bytes: Vec<u64>,
    pub(super) is_last: bool,
}

/// What one shard is told, in order of offsets.
pub(super) struct Share<'a> {
    live: &'a Live,
    entries: Vec<Entry>,
    next: usize,
}

#[derive(Clone, Copy)]
enum Entry {
    Record(usize),
    Free(u64, u64),
}

impl Live {
    /// Of records in order of their offsets.
    pub(super) fn new<'a>(records: impl Iterator<Item = Record<'a>>) -> Self {
        let mut live = Self { bytes: Vec::new(), extents: Vec::new() };
        for record in records {
            let at = live.bytes.len();
            record.encode(&mut live.bytes);
            live.extents.push(LiveExtent {
                start: record.offset,
                end: record.offset.saturating_add(extent_bytes(record.payload_bytes)),
                at,
                length: live.bytes.len() - at,
            });
        }
        live
    }

    /// What a shard of so many is told of a segment of so many bytes, from an offset on.
    pub(super) fn share(&self, bytes: u64, (shard, shards): (u32, u32), from: u64) -> Share<'_> {
        let (low, high) = part_of(bytes, shard, shards);
        let mut entries = Vec::new();
        let mut free_from = 0;
        let ends = std::iter::once((bytes, bytes, None));
        let extents = self.extents.iter().enumerate();
        let extents = extents.map(|(index, extent)| (extent.start, extent.end, Some(index)));
        for (start, end, index) in extents.chain(ends) {
            let (hole_start, hole_end) = (low.max(free_from), high.min(start));
            if hole_start < hole_end && hole_start >= from {
                entries.push(Entry::Free(hole_start, hole_end - hole_start));
            }
            free_from = end;
            if let Some(index) = index.filter(|_| start >= from)
                && self.is_of(index, shard, shards)
            {
                entries.push(Entry::Record(index));
            }
        }
        Share { live: self, entries, next: 0 }
    }

    /// Generations of the keys of a shard of so many.
    pub(super) fn generations(&self, (shard, shards): (u32, u32)) -> impl Iterator<Item = u64> {
        let records = (0..self.extents.len()).map(|index| Record::decode(self.record(index)));
        let own =
            move |record: &Record<'_>| shard_of(record.key, shards as usize) == shard as usize;
        records.flatten().filter(own).map(|record| record.generation)
    }

    fn is_of(&self, index: usize, shard: u32, shards: u32) -> bool {
        let record = Record::decode(self.record(index));
        record.is_ok_and(|record| shard_of(record.key, shards as usize) == shard as usize)
    }

    fn record(&self, index: usize) -> &[u8] {
        let extent = &self.extents[index];
        &self.bytes[extent.at..extent.at + extent.length]
    }
}

impl Share<'_> {
    /// The next part; there is always one, and the last one says so.
    pub(super) fn part(&mut self) -> Part {
        let mut part = Part::default();
        let mut entries = 0;
        while let Some(entry) = self.entries.get(self.next).copied()
            && part.records.len() < PART_BYTES
            && entries < PART_ENTRIES
        {
            match entry {
                Entry::Record(index) => part.records.extend_from_slice(self.live.record(index)),
                Entry::Free(offset, bytes) => {
                    part.free_offset.push(offset);
                    part.free_bytes.push(bytes);
                }
            }
            self.next += 1;
            entries += 1;
        }
        part.is_last = self.next == self.entries.len();
        part
    }
}

/// First byte and end of a shard's part of a segment.
fn part_of(bytes: u64, shard: u32, shards: u32) -> (u64, u64) {
    let start = |shard: u32| match shard {
        shard if shard >= shards => bytes,
        shard => {
            let exact = u128::from(bytes) * u128::from(shard) / u128::from(shards.max(1));
            exact as u64 / ALIGNMENT_BYTES * ALIGNMENT_BYTES
        }
    };
    (start(shard), start(shard + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_schemas::Identity;
    use perigee_schemas::record::RecordOp;

    #[test]
    fn shards_are_told_each_byte_once_in_order_of_offsets() {
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
        };
        let live = Live::new((0..keys.len()).map(record));
        for from in [0, 300_000] {
            let mut covered = Vec::new();
            for shard in 0..shards {
                let mut share = live.share(bytes, (shard, shards), from);
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

    #[test]
    fn an_empty_announcement_has_one_part() {
        let live = Live::new(std::iter::empty());
        let mut share = live.share(4096, (0, 1), 0);
        let whole =
            Part { free_offset: vec![0], free_bytes: vec![4096], is_last: true, ..Part::default() };
        assert_eq!(share.part(), whole);
    }
}
