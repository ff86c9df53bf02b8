//! Facts about journals: what is found again after an end at any byte.

use super::*;
use perigee_schemas::Identity;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Memory whose writer ends after so many bytes.
#[derive(Clone, Debug)]
struct Mortal {
    bytes: Vec<u8>,
    left: usize,
}

impl Mortal {
    fn new(region_bytes: usize, left: usize) -> Self {
        Self { bytes: vec![0; JOURNAL_HEADER_BYTES + 2 * region_bytes], left }
    }

    fn spend(&mut self, wanted: usize) -> usize {
        let spent = wanted.min(self.left);
        self.left -= spent;
        spent
    }
}

impl LogMemory for Mortal {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn reserve(&mut self, start: usize, end: usize) -> io::Result<()> {
        assert!(start <= end && end <= self.bytes.len(), "inside");
        Ok(())
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        let written = self.spend(bytes.len());
        self.bytes[at..at + written].copy_from_slice(&bytes[..written]);
    }

    fn store(&mut self, at: usize, word: u64) {
        if self.spend(1) == 1 {
            self.bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
    }

    fn clear(&mut self, start: usize, end: usize) -> io::Result<()> {
        let cleared = self.spend(end - start);
        self.bytes[start..start + cleared].fill(0);
        Ok(())
    }
}

const PAYLOAD_BYTES: u64 = 100;
const SLOT_BYTES: u64 = 128;

/// What a journal says of a slot: generation, key and flags.
type Slots = BTreeMap<u64, (u64, Vec<u8>, u8)>;

fn record(op: RecordOp, slot: u64, generation: u64, key: &[u8], flags: u8) -> Record<'_> {
    Record {
        op,
        flags,
        checksum: slot as u32,
        sequence: generation,
        generation,
        offset: slot * SLOT_BYTES,
        payload_bytes: PAYLOAD_BYTES,
        client: Identity(9),
        key,
        group: b"",
        part: None,
    }
}

fn slots<M: LogMemory>(journal: &Journal<M>) -> Slots {
    let entry = |record: Record<'_>| {
        let value = (record.generation, record.key.to_vec(), record.flags);
        (record.offset / SLOT_BYTES, value)
    };
    live_records(journal.records()).into_iter().map(entry).collect()
}

/// Does the next thing to a slot: fills it, changes its flags or empties it. What the journal says
/// then, if it takes it.
fn step(journal: &mut Journal<Mortal>, model: &Slots, now: u64, slot: u64, choice: u8) -> Slots {
    let mut after = model.clone();
    let appended = match model.get(&slot) {
        None => {
            let key = format!("key-{slot}-{now}").into_bytes();
            let appended = journal.append(&record(RecordOp::Commit, slot, now, &key, 0));
            after.insert(slot, (now, key, 0));
            appended
        }
        Some((generation, key, _)) if choice < 4 => {
            let flags = choice & Record::PINS;
            after.insert(slot, (*generation, key.clone(), flags));
            journal.append(&record(RecordOp::Flags, slot, *generation, key, flags))
        }
        Some((generation, key, flags)) => {
            after.remove(&slot);
            journal.append(&record(RecordOp::Free, slot, *generation, key, *flags))
        }
    };
    match appended {
        Ok(()) => after,
        Err(JournalError::Full { .. }) => model.clone(),
        Err(error) => panic!("{error}"),
    }
}

proptest! {
    #[test]
    fn what_was_appended_is_found_again_whatever_byte_the_writer_ends_at(
        steps in proptest::collection::vec((0_u64..12, 0_u8..10), 1..300),
        region_bytes in 600_usize..3000,
        life in 1_usize..60_000,
    ) {
        let mut journal = Journal::create(Mortal::new(region_bytes, usize::MAX)).unwrap();
        journal.memory.left = life;
        let mut model = Slots::new();
        for (now, (slot, choice)) in (1..).zip(steps) {
            let before = model.clone();
            model = step(&mut journal, &model, now, slot, choice);
            if journal.memory.left > 0 {
                journal.check();
                prop_assert_eq!(&slots(&journal), &model);
                continue;
            }
            let mut left = journal.memory.clone();
            left.left = usize::MAX;
            let mut again = Journal::open(left).unwrap();
            again.check();
            let found = slots(&again);
            prop_assert!(found == before || found == model, "all or nothing of the last step");
            let next = step(&mut again, &found, now + 1, slot, choice);
            let again = Journal::open(again.memory).unwrap();
            prop_assert_eq!(slots(&again), next, "the next life goes on from there");
            return Ok(());
        }
    }

    #[test]
    fn live_records_never_overlap_and_of_those_that_do_only_the_latest_may_be_there(
        extents in proptest::collection::vec(
            (0_u64..40, 1_u64..600, proptest::bool::weighted(0.3)),
            1..60,
        ),
    ) {
        let commit = |(generation, (place, payload_bytes, _))| Record {
            offset: place * 16,
            payload_bytes,
            ..record(RecordOp::Commit, 0, generation, b"key", 0)
        };
        let freed: Vec<bool> = extents.iter().map(|(_, _, is_freed)| *is_freed).collect();
        let all: Vec<Record<'_>> = (1_u64..).zip(extents).map(commit).collect();
        let gone = all.iter().zip(freed).filter(|(_, is_freed)| *is_freed);
        let gone: Vec<Record<'_>> =
            gone.map(|(record, _)| Record { op: RecordOp::Free, ..*record }).collect();
        let live = live_records(all.iter().chain(&gone).copied());
        let end = |record: &Record<'_>| {
            record.offset + perigee_schemas::extent::extent_bytes(record.payload_bytes)
        };
        let overlap = |a: &Record<'_>, b: &Record<'_>| a.offset < end(b) && b.offset < end(a);
        let is_live = |record: &&Record<'_>| {
            let is_over = |other: &Record<'_>| {
                other.generation > record.generation && overlap(other, record)
            };
            let is_freed = gone.iter().any(|freed| freed.generation == record.generation);
            !is_freed && !all.iter().any(is_over)
        };
        let mut wanted: Vec<Record<'_>> = all.iter().filter(is_live).copied().collect();
        wanted.sort_by_key(|record| record.offset);
        prop_assert_eq!(live, wanted);
    }
}

#[test]
fn a_full_journal_says_so_and_keeps_what_it_has() {
    let bytes = record(RecordOp::Commit, 0, 1, b"key", 0).encoded_bytes();
    let mut journal = Journal::create(Mortal::new(4 * bytes, usize::MAX)).unwrap();
    for slot in 0..3 {
        journal.append(&record(RecordOp::Commit, slot, slot + 1, b"key", 0)).unwrap();
    }
    let fourth = record(RecordOp::Commit, 3, 4, b"key", 0);
    assert!(matches!(journal.append(&fourth), Err(JournalError::Full { .. })));
    journal.check();
    assert_eq!(slots(&journal).len(), 3);
}

#[test]
fn what_goes_can_be_said_in_a_full_journal_and_a_refused_commit_rewrites_nothing() {
    let mut journal = Journal::create(Mortal::new(10_000, usize::MAX)).unwrap();
    let mut slot = 0;
    let filled = loop {
        match journal.append(&record(RecordOp::Commit, slot, slot + 1, b"key", 0)) {
            Ok(()) => slot += 1,
            Err(_) => break slot,
        }
    };
    let changes = journal.changes;
    for slot in filled..3 * filled {
        assert!(journal.append(&record(RecordOp::Commit, slot, slot + 1, b"key", 0)).is_err());
    }
    assert_eq!(journal.changes, changes, "there is nothing to gain");
    for slot in 0..filled {
        journal.append(&record(RecordOp::Free, slot, slot + 1, b"key", 0)).unwrap();
        journal.check();
        assert_eq!(slots(&journal).len() as u64, filled - slot - 1);
    }
    journal.append(&record(RecordOp::Commit, 0, 9_999, b"key", 0)).unwrap();
}

#[test]
fn memory_of_something_else_is_refused() {
    let foreign = |memory| matches!(Journal::open(memory), Err(JournalError::Foreign));
    assert!(foreign(Mortal::new(1000, 0)));
    assert!(foreign(Mortal { bytes: vec![0; JOURNAL_HEADER_BYTES], left: 0 }));
}

#[test]
fn another_owner_of_the_file_finds_the_records() {
    let mut journal = Journal::create(SealedLog::create(1 << 20).unwrap()).unwrap();
    let key = vec![b'k'; 90];
    let mut compactions = 0;
    for generation in 1..20_000 {
        let before = journal.used_bytes();
        let slot = generation % 100;
        journal.append(&record(RecordOp::Commit, slot, generation, &key, 0)).unwrap();
        if generation > 100 {
            let old = record(RecordOp::Free, slot, generation - 100, &key, 0);
            journal.append(&old).unwrap();
        }
        compactions += u32::from(journal.used_bytes() < before);
    }
    assert!(compactions > 10, "garbage does not stay");
    journal.check();
    let file = journal.memory.file().try_clone_to_owned().unwrap();
    let wanted = slots(&journal);
    drop(journal);
    let found = Journal::open(SealedLog::adopt(file).unwrap()).unwrap();
    found.check();
    assert_eq!(wanted.len(), 100);
    assert_eq!(slots(&found), wanted);
}

#[test]
fn a_file_that_may_shrink_is_refused() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(1 << 20).unwrap();
    assert!(SealedLog::adopt(file.into()).is_err());
}
