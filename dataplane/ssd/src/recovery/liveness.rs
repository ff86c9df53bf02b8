//! Which copies of a log count, read from its newest entry to its oldest.
//! Invariant: of each hash at most the newest object counts, and not if a later entry made it void.

use super::survivor::Survivor;
use crate::format::{Entry, EntryKind};
use perigee_schemas::disk_address::DiskAddress;
use std::collections::{HashMap, HashSet};

/// What the entries that were read say about older ones.
#[derive(Debug, Default)]
pub(crate) struct CopyLiveness {
    /// Hashes of objects, folded: one of 2^64 is lost by that, and nothing is taken for another.
    seen: HashSet<u64>,
    /// Void copies, with the last segment that may have them.
    void: HashMap<(u128, u64), u32>,
}

impl CopyLiveness {
    /// Copies of an object in this segment and older ones are void.
    pub(crate) fn note_void(&mut self, (hash, generation): (u128, u64), last: u32) {
        let known = self.void.entry((hash, generation)).or_insert(last);
        *known = last.max(*known);
    }

    pub(crate) fn is_void(&self, object: &Survivor) -> bool {
        let last = self.void.get(&(object.hash, object.generation));
        last.is_some_and(|last| object.address.sequence <= *last)
    }

    /// Whether copies of an object are void whichever segment has them, so that none was written
    /// after its tombstone.
    pub(crate) fn is_void_everywhere(&self, object: &Survivor) -> bool {
        self.void.get(&(object.hash, object.generation)) == Some(&u32::MAX)
    }

    /// The objects that count of a segment's entries, which come in the order in which they were
    /// written.
    pub(crate) fn take(&mut self, sequence: u32, entries: Vec<Entry>) -> Vec<Survivor> {
        let mut alive = Vec::new();
        for Entry { hash, generation, kind } in entries.into_iter().rev() {
            match kind {
                EntryKind::Tombstone { sequence: last } => self.note_void((hash, generation), last),
                EntryKind::Object { offset, payload_bytes, checksum, flags, frequency, labels } => {
                    let is_newest = self.seen.insert((hash >> 64) as u64 ^ hash as u64);
                    let address = DiskAddress { sequence, offset };
                    let object = Survivor {
                        hash,
                        generation,
                        address,
                        payload_bytes,
                        checksum,
                        flags,
                        frequency,
                        labels,
                    };
                    if is_newest && !self.is_void(&object) {
                        alive.push(object);
                    }
                }
            }
        }
        alive
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Labels;

    fn object(hash: u128, generation: u64) -> Entry {
        let labels = Labels { key: b"key".to_vec(), ..Labels::default() };
        let kind = EntryKind::Object {
            offset: 4096,
            payload_bytes: 10,
            checksum: 0,
            flags: 0,
            frequency: 0,
            labels,
        };
        Entry { hash, generation, kind }
    }

    fn void(hash: u128, generation: u64, last: u32) -> Entry {
        Entry { hash, generation, kind: EntryKind::Tombstone { sequence: last } }
    }

    fn alive(segments: Vec<(u32, Vec<Entry>)>) -> Vec<(u128, u64, u32)> {
        let mut liveness = CopyLiveness::default();
        let taken = segments.into_iter().rev();
        let taken = taken.flat_map(|(sequence, entries)| liveness.take(sequence, entries));
        let mut found: Vec<_> =
            taken.map(|it| (it.hash, it.generation, it.address.sequence)).collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn the_newest_object_counts_unless_a_later_tombstone_names_it() {
        let first = vec![object(1, 1), object(2, 2), object(3, 3), void(3, 3, 0)];
        let second = vec![object(1, 4), void(2, 9, 1), void(1, 1, 0)];
        assert_eq!(alive(vec![(0, first), (1, second)]), [(1, 4, 1), (2, 2, 0)]);
        let replaced = vec![object(5, 5), object(5, 6), void(5, 6, 2)];
        assert_eq!(alive(vec![(2, replaced)]), [], "the older one does not come back");
    }

    #[test]
    fn an_object_that_is_written_again_outlives_the_tombstone_of_its_first_copy() {
        let first = vec![object(1, 1)];
        let second = vec![object(1, 1), void(1, 1, 0)];
        assert_eq!(alive(vec![(0, first), (1, second)]), [(1, 1, 1)]);
    }
}
