//! What lies in one segment, as the master reports it: a journal, and what is needed to announce it
//! to the next master.
//! Invariant: what the master said is gone is never announced again, and all shards of one life are
//! announced the same.

use super::announcement::Live;
use super::kept_removals::KeptRemovals;
use super::shard_place::ShardPlace;
use super::void_copies::VoidCopies;
use perigee_memory::journal::{Journal, JournalError, SealedLog, live_records};
use perigee_schemas::Identity;
use perigee_schemas::master::Announces;
use perigee_schemas::record::{Record, RecordOp};
use perigee_transfer::{SegmentTable, holds};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::rc::Rc;
use std::sync::Arc;

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
    /// Generations that a shard has not confirmed since it began to tell what lies here, with the
    /// flags of their objects.
    stale: BTreeMap<u32, HashMap<u64, u8>>,
    /// Generations that are gone, for whose records a full journal has no room.
    gone: BTreeSet<u64>,
    /// Records for which there was no room.
    lost: u64,
    /// What lay here when the round of another life began: it takes a while to find out.
    found: Option<Rc<Live>>,
    announced: Option<Announced>,
    /// What was said of copies on disks.
    void: VoidCopies,
    /// Keys that were removed, whatever segment had them.
    removals: KeptRemovals,
    /// Where the segment itself is found.
    segments: Arc<SegmentTable>,
}

/// What all shards of a master are announced, until each of them tells.
struct Announced {
    /// Epoch of the life of the master, and number of the segment there.
    mount: (u64, u32),
    live: Rc<Live>,
    /// Whether it is what the journal has.
    is_of_journal: bool,
    /// Shards that have begun to tell.
    begun: BTreeSet<u32>,
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
            found: None,
            announced: None,
            void: VoidCopies::default(),
            removals: KeptRemovals::default(),
            segments: Arc::default(),
        })
    }

    /// The same, with a place for what is said of copies on disks.
    pub(super) fn with_void(self, void: &VoidCopies) -> Self {
        Self { void: void.clone(), ..self }
    }

    /// The same, for a segment in this table.
    pub(super) fn in_table(self, segments: &Arc<SegmentTable>) -> Self {
        Self { segments: segments.clone(), ..self }
    }

    /// The segment is about to be mounted by a master in this life: whether its owner has objects
    /// to announce, which another life has reported. What the same life has forgotten is
    /// forgotten for good.
    pub(super) fn prepare(&mut self, life: u64) -> Announces {
        self.round += 1;
        self.stale.clear();
        if self.life != life {
            self.forget_overwritten();
        }
        self.found = (self.life != life).then(|| Rc::new(self.whole()));
        match &self.found {
            Some(live) if !live.is_empty() => Announces::Objects,
            _ => Announces::Space,
        }
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

    /// Objects that lie here.
    pub(super) fn objects(&self) -> usize {
        self.live().count()
    }

    /// What the shards of a master are announced: the epoch of its life, and the number of the
    /// segment there. The same for all of them, whatever those tell that have begun: a byte that
    /// one has freed is still that one's.
    pub(super) fn announced(&mut self, mount: (u64, u32)) -> Rc<Live> {
        if let Some(announced) = self.announced.as_ref().filter(|it| it.mount == mount) {
            return announced.live.clone();
        }
        let is_of_journal = self.life != mount.0;
        let live = match is_of_journal {
            true => self.found.take().unwrap_or_else(|| Rc::new(self.whole())),
            false => Rc::default(),
        };
        let begun = BTreeSet::new();
        self.announced = Some(Announced { mount, live: live.clone(), is_of_journal, begun });
        live
    }

    /// A shard begins to tell what lies here, in this life of the master.
    pub(super) fn begin(&mut self, of: ShardPlace, life: u64) {
        let announced = self.announced.as_ref();
        let fresh = announced.filter(|it| it.is_of_journal && !it.begun.contains(&of.shard));
        let stale = match fresh {
            Some(announced) => announced.live.of(of).collect(),
            None => Live::new(self.live()).of(of).collect(),
        };
        self.stale.insert(of.shard, stale);
        self.life = life;
        self.announced.take_if(|announced| {
            announced.begun.insert(of.shard);
            announced.begun.len() >= of.shards as usize
        });
    }

    /// A shard tells no more: what it has reported since the round began is what lies here.
    pub(super) fn break_off(&mut self, shard: u32) {
        self.stale.remove(&shard);
    }

    /// Keeps what a shard reports.
    ///
    /// # Errors
    /// The bytes are no records.
    pub(super) fn keep(&mut self, shard: u32, mut records: &[u8]) -> io::Result<()> {
        while !records.is_empty() {
            let record = Record::decode(records).map_err(io::Error::other)?;
            records = &records[record.encoded_bytes()..];
            self.generation = self.generation.max(record.generation);
            if record.op == RecordOp::Void {
                self.void.note(record.generation);
                continue;
            }
            if self.removals.keep(&record) {
                continue;
            }
            let stale = self.stale.get_mut(&shard);
            let known = stale.and_then(|stale| stale.remove(&record.generation));
            // A journal that says so already need not say it again.
            if record.op != RecordOp::Commit || known != Some(record.flags) {
                self.append(&record);
            }
        }
        self.check();
        Ok(())
    }

    /// A shard has reported all that lies here: the rest of its keys is gone.
    pub(super) fn end(&mut self, shard: u32) {
        let stale = self.stale.remove(&shard).unwrap_or_default();
        if stale.is_empty() {
            return;
        }
        let mut freed = Vec::new();
        for record in self.live().filter(|record| stale.contains_key(&record.generation)) {
            Record { op: RecordOp::Free, ..record }.encode(&mut freed);
        }
        let kept = self.keep(shard, &freed);
        let is_left = |record: Record<'_>| stale.contains_key(&record.generation);
        debug_assert!(!self.live().any(is_left), "what was not reported again is gone");
        debug_assert!(kept.is_ok(), "its own records can be read");
    }

    /// Forgets what was written over: the last life of the master had freed it, and ended before
    /// that was heard here.
    fn forget_overwritten(&mut self) {
        let Some(segment) = self.segments.get(self.id) else {
            return;
        };
        let is_gone = |record: &Record<'_>| {
            !holds(&segment, record.offset, record.payload_bytes, record.generation)
        };
        let (mut freed, mut objects) = (Vec::new(), 0);
        for record in self.live().filter(is_gone) {
            Record { op: RecordOp::Free, ..record }.encode(&mut freed);
            objects += 1;
        }
        if objects > 0 {
            tracing::info!(segment = %self.id, objects, "Objects were overwritten, and the last master could not say so");
        }
        let kept = self.keep(0, &freed);
        debug_assert!(kept.is_ok(), "its own records can be read");
    }

    /// What another life of the master hears.
    fn whole(&self) -> Live {
        Live::new(self.live()).with_removals(&self.removals)
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

    fn check(&self) {
        let is_full = self.lost > 0;
        debug_assert!(is_full || self.gone.is_empty(), "the journal has what it has room for");
        let most = self.bytes.max(JOURNAL_BYTES_MIN);
        debug_assert!(self.journal_bytes() <= most, "a journal is shorter than its segment");
        let newest = self.gone.last().copied().unwrap_or_default();
        debug_assert!(newest <= self.generation, "no generation is gone that was not heard of");
    }
}

fn journal(segment_bytes: u64) -> Result<Journal<SealedLog>, JournalError> {
    let bytes = (segment_bytes / JOURNAL_PART).max(JOURNAL_BYTES_MIN);
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    Journal::create(SealedLog::create(bytes.min(perigee_memory::limits::JOURNAL_BYTES_MAX))?)
}

#[cfg(test)]
mod tests {
    use super::super::announcement::TakenRecords;
    use super::*;
    use perigee_memory::Segment;
    use perigee_memory::segment::{Populate, SegmentOptions};
    use perigee_schemas::key_hash::shard_of;

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
            part: None,
        };
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        bytes
    }

    const ONLY: ShardPlace = ShardPlace { shard: 0, shards: 1 };
    const ALL: TakenRecords = TakenRecords { parts: true, replica_counts: true };

    fn book() -> SegmentBook {
        let mut book = SegmentBook::new(Identity(1), BYTES).unwrap();
        follow(&mut book, ONLY, 7);
        book.end(0);
        book
    }

    /// A shard is announced what lies there and begins to tell; how many records it was announced.
    fn follow(book: &mut SegmentBook, of: ShardPlace, life: u64) -> usize {
        let announced = book.announced((life, 0)).of(of).count();
        book.begin(of, life);
        announced
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
        assert_eq!(book.prepare(8), Announces::Objects);
        assert_eq!(follow(&mut book, ONLY, 8), 1);
        book.keep(0, &record(RecordOp::Commit, b"b", 4)).unwrap();
        book.end(0);
        assert_eq!(live(&book), [4]);
        assert_eq!(book.prepare(8), Announces::Space);
        assert_eq!(follow(&mut book, ONLY, 8), 0, "this life has dropped it");
        book.end(0);
        assert!(live(&book).is_empty());
    }

    #[test]
    fn another_master_hears_what_was_removed_and_the_same_one_knows_it() {
        let mut book = book();
        let removed = record(RecordOp::Removed, b"of another owner", 5);
        book.keep(0, &removed).unwrap();
        assert!(live(&book).is_empty() && book.journal_bytes() == 0, "no extent of this segment");
        let removed_before = |book: &mut SegmentBook, life| {
            let mut bytes = Vec::new();
            let live = book.announced((life, 0));
            let part = live.share(BYTES, ONLY, 0, ALL).part();
            bytes.extend_from_slice(&part.removed);
            book.begin(ONLY, life);
            book.end(0);
            bytes
        };
        for life in [8, 9] {
            assert_eq!(book.prepare(life), Announces::Space);
            assert_eq!(removed_before(&mut book, life), removed);
        }
        book.prepare(9);
        assert!(removed_before(&mut book, 9).is_empty());
    }

    #[test]
    fn what_was_written_over_unheard_is_not_announced() {
        let table = Arc::<SegmentTable>::default();
        let options = SegmentOptions { populate: Populate::OnRequest, ..SegmentOptions::default() };
        let segment = Segment::create(BYTES, &options).unwrap();
        let mut book = book().in_table(&table);
        book.keep(0, &record(RecordOp::Commit, b"a", 3)).unwrap();
        assert_eq!(book.prepare(8), Announces::Objects, "as long as its bytes cannot be looked at");
        // Its place has another generation: zeros.
        segment.populate(0, BYTES).unwrap();
        table.insert(Identity(1), Arc::new(segment));
        assert_eq!(book.prepare(9), Announces::Space);
        assert!(live(&book).is_empty());
    }

    #[test]
    fn a_master_that_ends_early_leaves_records_for_the_shards_that_had_not_spoken() {
        let mut book = book();
        let keys: Vec<[u8; 1]> = (b'a'..=b'z').map(|letter| [letter]).collect();
        for (generation, key) in (1..).zip(&keys) {
            book.keep(0, &record(RecordOp::Commit, key, generation)).unwrap();
        }
        let all = live(&book);
        let shard = |shard| ShardPlace { shard, shards: 2 };
        assert_eq!(book.prepare(8), Announces::Objects);
        let first = follow(&mut book, shard(0), 8);
        assert!(first > 0 && first < keys.len(), "each shard has keys");
        let gone = book.live().find(|record| shard_of(record.key, 2) == 0).unwrap();
        let mut freed = Vec::new();
        Record { op: RecordOp::Free, ..gone }.encode(&mut freed);
        book.keep(0, &freed).unwrap();
        let holes = book.announced((8, 0));
        assert_eq!(holes.of(shard(0)).count(), first, "what one has freed is that one's still");
        assert_eq!(book.prepare(9), Announces::Objects);
        let again = follow(&mut book, shard(0), 9) + follow(&mut book, shard(1), 9);
        assert_eq!(again, all.len() - 1);
    }

    #[test]
    fn a_segment_that_stayed_mounted_is_announced_as_before() {
        let mut book = book();
        book.keep(0, &record(RecordOp::Commit, b"a", 3)).unwrap();
        book.prepare(8);
        let shards = [0, 1].map(|shard| ShardPlace { shard, shards: 2 });
        let before: usize =
            follow(&mut book, shards[0], 8) + book.announced((8, 0)).of(shards[1]).count();
        assert_eq!(before, 1);
        book.prepare(8);
        let again: usize = shards.iter().map(|of| book.announced((8, 0)).of(*of).count()).sum();
        assert_eq!(again, 1, "the same mount");
        let later: usize = shards.iter().map(|of| book.announced((8, 1)).of(*of).count()).sum();
        assert_eq!(later, 0, "this life had forgotten it");
    }

    #[test]
    fn what_a_shard_does_not_tell_again_is_gone() {
        let mut book = book();
        for generation in 1..=4 {
            book.keep(0, &record(RecordOp::Commit, &[b'a' + generation], generation.into()))
                .unwrap();
        }
        let before = book.journal_bytes();
        book.begin(ONLY, 7);
        book.keep(0, &record(RecordOp::Commit, b"c", 2)).unwrap();
        assert_eq!(live(&book), [1, 2, 3, 4], "until the shard has reported all");
        assert_eq!(book.journal_bytes(), before, "what is known is not written again");
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
        assert!(!live(&book).contains(&1));
        assert_eq!(book.prepare(8), Announces::Objects);
        assert!(!live(&book).contains(&1));
    }
}
