//! Removals that the owner of a segment has heard of, for the next life of the master: another
//! owner who is away when a key is removed still has it, and may return to a master that never
//! heard of the removal.
//! Invariant: what is kept takes bounded memory; of what does not fit the oldest is forgotten.

use super::shard_place::ShardPlace;
use perigee_schemas::key_hash::hash_key;
use perigee_schemas::record::{Record, RecordOp};
use std::collections::VecDeque;

/// Bytes of records of removed keys...
const KEYS_BYTES_MAX: usize = 2 << 20;
/// ... and how many removals by pattern are kept.
const PATTERNS_MAX: usize = 64;

/// Records of removals, the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct KeptRemovals {
    keys: VecDeque<RemovedKey>,
    keys_bytes: usize,
    patterns: VecDeque<Box<[u8]>>,
}

#[derive(Clone, Debug)]
struct RemovedKey {
    /// Of the key: which shard it is of.
    hash: u64,
    record: Box<[u8]>,
}

impl KeptRemovals {
    /// Keeps a record of a removal; whether it is one.
    pub(super) fn keep(&mut self, record: &Record<'_>) -> bool {
        match record.op {
            RecordOp::Removed => self.keep_key(record),
            RecordOp::RemovedPattern => {
                self.patterns.push_back(encoded(record));
                if self.patterns.len() > PATTERNS_MAX {
                    self.patterns.pop_front();
                }
            }
            _ => return false,
        }
        self.check();
        true
    }

    fn check(&self) {
        debug_assert!(self.patterns.len() <= PATTERNS_MAX, "few patterns are kept");
        debug_assert!(self.keys_bytes <= KEYS_BYTES_MAX, "keys take bounded memory");
        let (oldest, newest) = (self.keys.front(), self.keys.back());
        let bytes = oldest.into_iter().chain(newest).map(|it| it.record.len()).max();
        debug_assert!(self.keys_bytes >= bytes.unwrap_or_default(), "what is kept is counted");
        let is_empty = self.keys.is_empty();
        debug_assert!(!is_empty || self.keys_bytes == 0, "what was forgotten is not counted");
    }

    fn keep_key(&mut self, record: &Record<'_>) {
        let removed = RemovedKey { hash: hash_key(record.key), record: encoded(record) };
        self.keys_bytes += removed.record.len();
        self.keys.push_back(removed);
        while self.keys_bytes > KEYS_BYTES_MAX
            && let Some(oldest) = self.keys.pop_front()
        {
            self.keys_bytes -= oldest.record.len();
        }
    }

    /// What a shard is to hear: removals of its keys, and those by pattern.
    pub(super) fn of(&self, of: ShardPlace) -> impl Iterator<Item = &[u8]> {
        let own = self.keys.iter().filter(move |removed| of.owns(removed.hash));
        let patterns = self.patterns.iter().map(|record| &record[..]);
        patterns.chain(own.map(|removed| &removed.record[..]))
    }
}

fn encoded(record: &Record<'_>) -> Box<[u8]> {
    let mut bytes = Vec::with_capacity(record.encoded_bytes());
    record.encode(&mut bytes);
    bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_schemas::Identity;
    use perigee_schemas::key_hash::shard_of;

    fn record(op: RecordOp, key: &[u8], sequence: u64) -> Record<'_> {
        Record {
            op,
            flags: 0,
            checksum: 0,
            sequence,
            generation: 9,
            offset: 0,
            payload_bytes: 1,
            client: Identity(0),
            key,
            group: b"",
            part: None,
        }
    }

    fn of(removals: &KeptRemovals, shard: u32, shards: u32) -> Vec<Record<'_>> {
        let records = removals.of(ShardPlace { shard, shards });
        records.map(|bytes| Record::decode(bytes).unwrap()).collect()
    }

    #[test]
    fn each_shard_hears_of_its_own_keys_and_of_all_patterns() {
        let mut removals = KeptRemovals::default();
        let keys: Vec<[u8; 1]> = (b'a'..=b'z').map(|letter| [letter]).collect();
        for (sequence, key) in (1..).zip(&keys) {
            assert!(removals.keep(&record(RecordOp::Removed, key, sequence)));
        }
        assert!(removals.keep(&record(RecordOp::RemovedPattern, b"^x", 40)));
        assert!(!removals.keep(&record(RecordOp::Free, b"x", 41)), "that is the journal's");
        let (first, second) = (of(&removals, 0, 2), of(&removals, 1, 2));
        assert_eq!(first.len() + second.len(), keys.len() + 2);
        assert!(first.len() > 1 && second.len() > 1, "each shard has keys");
        for (shard, records) in [(0, first), (1, second)] {
            assert_eq!((records[0].op, records[0].key), (RecordOp::RemovedPattern, &b"^x"[..]));
            assert!(records[1..].iter().all(|record| shard_of(record.key, 2) == shard));
            assert!(records[1..].is_sorted_by_key(|record| record.sequence));
        }
    }

    #[test]
    fn of_too_many_the_latest_are_kept() {
        let mut removals = KeptRemovals::default();
        let long = vec![b'k'; 8000];
        let last = (KEYS_BYTES_MAX / long.len()) as u64 + 3;
        for sequence in 0..=last {
            removals.keep(&record(RecordOp::Removed, &long, sequence));
            removals.keep(&record(RecordOp::RemovedPattern, b"p", sequence));
        }
        let kept = of(&removals, 0, 1);
        let (patterns, keys) = kept.split_at(PATTERNS_MAX);
        assert!(patterns.iter().all(|record| record.op == RecordOp::RemovedPattern));
        assert!(keys.iter().all(|record| record.op == RecordOp::Removed));
        assert!(keys.iter().map(Record::encoded_bytes).sum::<usize>() <= KEYS_BYTES_MAX);
        assert_eq!(
            (keys[keys.len() - 1].sequence, patterns[PATTERNS_MAX - 1].sequence),
            (last, last)
        );
        assert!(keys[0].sequence > 0 && keys.is_sorted_by_key(|record| record.sequence));
    }
}
