//! What lies in one segment, as the master has told: a journal, and what is needed to tell it to
//! the next master.
//! Invariant: what the master said is gone is never announced again.

use super::announcement::Live;
use perigee_memory::journal::{Journal, JournalError, SealedLog, live_records};
use perigee_schemas::Identity;
use perigee_schemas::key_hash::shard_of;
use perigee_schemas::record::{Record, RecordOp};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::rc::Rc;

/// A journal may take this part of its segment's bytes at most...
const JOURNAL_PART: u64 = 16;
/// ... and at least so many.
const JOURNAL_BYTES_MIN: u64 = 1 << 20;
/// Objects of a full journal that are remembered as gone. With more of them all are forgotten.
const GONE_MAX: usize = 65_536;

/// The book of one segment.
pub(super) struct SegmentBook {
    pub(super) id: Identity,
    pub(super) bytes: u64,
    journal: Journal<SealedLog>,
    /// Epoch of the life of the master whose records it has; 0 for none.
    life: u64,
    /// Largest generation that was ever heard of.
    generation: u64,
    /// Counts the times that the segment is mounted.
    round: u64,
    /// Generations that a shard has not confirmed since it began to tell what lies here.
    stale: BTreeMap<u32, BTreeSet<u64>>,
    /// Generations that are gone, for whose records a full journal has no room.
    gone: BTreeSet<u64>,
    /// Records for which there was no room.
    lost: u64,
    /// What lay here when the round began, until all shards have told what does.
    live: Option<Rc<Live>>,
    /// Shards that have begun to tell in this round, of so many.
    begun: BTreeSet<u32>,
    shards: u32,
}

impl SegmentBook {
    pub(super) fn new(id: Identity, bytes: u64) -> Result<Self, JournalError> {
        Ok(Self {
            id,
            bytes,
            journal: journal(bytes)?,
            life: 0,
            generation: 0,
            round: 1,
            stale: BTreeMap::new(),
            gone: BTreeSet::new(),
            lost: 0,
            live: None,
            begun: BTreeSet::new(),
            shards: 0,
        })
    }

    /// The segment is about to be mounted by a master in this life: whether its owner is to
    /// announce what lies there, which another life has told. The same life has forgotten it for
    /// good.
    pub(super) fn prepare(&mut self, life: u64) -> Result<bool, JournalError> {
        self.round += 1;
        self.stale.clear();
        self.live = None;
        self.begun.clear();
        if self.life != life && self.live().next().is_some() {
            return Ok(true);
        }
        if self.journal.used_bytes() > 0 {
            self.journal = journal(self.bytes)?;
        }
        self.gone.clear();
        Ok(false)
    }

    pub(super) fn round(&self) -> u64 {
        self.round
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    pub(super) fn journal_bytes(&self) -> u64 {
        self.journal.used_bytes() as u64
    }

    /// What lies here before the shards tell, found once for all of them: it takes a while.
    pub(super) fn announced(&mut self) -> Rc<Live> {
        if let Some(live) = &self.live {
            return live.clone();
        }
        let live = Rc::new(Live::new(self.live()));
        self.live = Some(live.clone());
        live
    }

    /// A shard of so many begins to tell what lies here, in this life of the master.
    pub(super) fn begin(&mut self, shard: u32, shards: u32, life: u64) {
        let stale = self.announced().generations((shard, shards)).collect();
        self.stale.insert(shard, stale);
        self.begun.insert(shard);
        self.shards = shards;
        self.life = life;
    }

    /// A shard tells no more: what it has told since the round began is what lies here.
    pub(super) fn break_off(&mut self, shard: u32) {
        self.stale.remove(&shard);
        self.live = None;
    }

    /// Keeps what a shard has told.
    ///
    /// # Errors
    /// The bytes are no records.
    pub(super) fn keep(&mut self, shard: u32, mut records: &[u8]) -> io::Result<()> {
        while !records.is_empty() {
            let record = Record::decode(records).map_err(io::Error::other)?;
            records = &records[record.encoded_bytes()..];
            self.generation = self.generation.max(record.generation);
            if let Some(stale) = self.stale.get_mut(&shard) {
                stale.remove(&record.generation);
            }
            self.append(&record);
        }
        Ok(())
    }

    /// A shard has told all that lies here: the rest of its keys is gone.
    pub(super) fn end(&mut self, shard: u32) {
        let stale = self.stale.remove(&shard).unwrap_or_default();
        if self.stale.is_empty() && self.begun.len() == self.shards as usize {
            self.live = None;
        }
        if stale.is_empty() {
            return;
        }
        let mut freed = Vec::new();
        for record in self.live().filter(|record| stale.contains(&record.generation)) {
            Record { op: RecordOp::Free, ..record }.encode(&mut freed);
        }
        let kept = self.keep(shard, &freed);
        debug_assert!(kept.is_ok(), "its own records can be read");
    }

    fn live(&self) -> impl Iterator<Item = Record<'_>> {
        let live = live_records(self.journal.records()).into_iter();
        live.filter(|record| !self.gone.contains(&record.generation))
    }

    /// Where there is no room, an object is not restored after a restart of the master.
    fn append(&mut self, record: &Record<'_>) {
        let Err(error) = self.journal.append(record) else {
            return;
        };
        self.lost += 1;
        if self.lost == 1 {
            tracing::warn!(segment = %self.id, %error, "Some objects will not outlive a restart of the master");
        }
        if record.op == RecordOp::Free {
            self.gone.insert(record.generation);
        }
        if self.gone.len() > GONE_MAX
            && let Ok(empty) = journal(self.bytes)
        {
            self.journal = empty;
            self.gone.clear();
        }
    }
}

fn journal(segment_bytes: u64) -> Result<Journal<SealedLog>, JournalError> {
    let bytes = (segment_bytes / JOURNAL_PART).max(JOURNAL_BYTES_MIN);
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    Journal::create(SealedLog::create(bytes.min(perigee_memory::limits::JOURNAL_BYTES_MAX))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = 1 << 20;

    fn record(op: RecordOp, key: &[u8], generation: u64) -> Vec<u8> {
        let record = Record {
            op,
            flags: 0,
            checksum: 1,
            sequence: 1,
            generation,
            offset: generation * 4096,
            payload_bytes: 100,
            client: Identity(1),
            key,
            group: b"",
        };
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        bytes
    }

    fn book() -> SegmentBook {
        let mut book = SegmentBook::new(Identity(1), BYTES).unwrap();
        assert!(!book.prepare(7).unwrap(), "nothing lies there yet");
        book.begin(0, 1, 7);
        book.end(0);
        book
    }

    fn live(book: &SegmentBook) -> Vec<u64> {
        book.live().map(|record| record.generation).collect()
    }

    #[test]
    fn another_master_hears_what_lies_there_and_the_same_one_has_forgotten_it() {
        let mut book = book();
        book.keep(0, &record(RecordOp::Commit, b"a", 3)).unwrap();
        book.keep(0, &record(RecordOp::Commit, b"b", 4)).unwrap();
        book.keep(0, &record(RecordOp::Free, b"a", 3)).unwrap();
        assert_eq!((live(&book), book.generation()), (vec![4], 4));
        assert!(book.prepare(8).unwrap());
        assert_eq!(live(&book), [4]);
        book.begin(0, 1, 8);
        book.keep(0, &record(RecordOp::Commit, b"b", 4)).unwrap();
        book.end(0);
        assert_eq!(live(&book), [4]);
        assert!(!book.prepare(8).unwrap(), "this life has dropped it");
        assert!(live(&book).is_empty());
    }

    #[test]
    fn what_a_shard_does_not_tell_again_is_gone() {
        let mut book = book();
        for generation in 1..=4 {
            book.keep(0, &record(RecordOp::Commit, &[b'a' + generation], generation.into()))
                .unwrap();
        }
        book.begin(0, 1, 7);
        book.keep(0, &record(RecordOp::Commit, b"c", 2)).unwrap();
        assert_eq!(live(&book), [1, 2, 3, 4], "until the shard has told all");
        book.end(0);
        assert_eq!(live(&book), [2]);
    }

    #[test]
    fn what_is_gone_stays_gone_when_the_journal_is_full() {
        let mut book = book();
        let long = vec![b'k'; 8000];
        let mut generation = 1;
        while book.lost == 0 {
            book.keep(0, &record(RecordOp::Commit, &long, generation)).unwrap();
            generation += 1;
        }
        book.keep(0, &record(RecordOp::Free, &long, 1)).unwrap();
        assert!(!live(&book).contains(&1), "whether or not there was room to write it");
        assert!(book.prepare(8).unwrap());
        assert!(!live(&book).contains(&1));
    }
}
