//! A log and its master played together: writes, removals, reclaim, failed writes, and the end of
//! the process or of the power at every step, against what must be true afterwards.

use std::collections::{BTreeMap, BTreeSet};

use perigee_schemas::disk_address::DiskAddress;
use proptest::prelude::*;

use crate::log::{Log, NewObject, PlacedBatch, Tombstone, Written};
use crate::platter::{
    Chance, Platter, format, format_encrypted, object, reads, recover, salt, write_end,
};

const KEYS: u64 = 12;
const SEGMENTS: u32 = 3;

/// A copy that the master knows.
#[derive(Debug, Clone, Copy)]
struct Known {
    generation: u64,
    bytes: u32,
    address: DiskAddress,
}

struct Model {
    platter: Platter,
    log: Log,
    chance: Chance,
    known: BTreeMap<u128, Known>,
    /// Sizes of all that was ever written, by generation.
    sizes: BTreeMap<u64, u32>,
    /// Generations that must survive a loss of power.
    safe: BTreeSet<u64>,
    /// Generations that must never be found again.
    dead: BTreeSet<u64>,
    /// Tombstones that the log has not confirmed, and those among them that are in the log.
    waiting: Vec<Tombstone>,
    sent: Vec<Tombstone>,
    generation: u64,
}

impl Model {
    fn new(seed: u64, is_encrypted: bool) -> Self {
        let format = if is_encrypted { format_encrypted } else { format };
        let (platter, log) = format(SEGMENTS);
        Self {
            platter,
            log,
            chance: Chance(seed),
            known: BTreeMap::new(),
            sizes: BTreeMap::new(),
            safe: BTreeSet::new(),
            dead: BTreeSet::new(),
            waiting: Vec::new(),
            sent: Vec::new(),
            generation: 0,
        }
    }

    fn step(&mut self, kind: u8) {
        match kind % 16 {
            0..=4 => self.write(),
            5 | 6 => self.remove(),
            7 => self.sync(),
            8 => self.seal(4),
            9 => self.start(true),
            10 => self.fail_a_write(),
            11 => self.remove_all(true),
            12 => self.restart(false),
            13 => self.restart(true),
            14 => self.read_all(),
            _ => self.die_inside_a_step(),
        }
        self.log.check();
    }

    /// New objects of some keys; older copies of the same keys become void.
    fn objects(&mut self) -> Vec<NewObject> {
        let mut keys = BTreeSet::new();
        keys.extend((0..self.chance.below(4)).map(|_| self.chance.below(KEYS)));
        let objects = keys.into_iter().map(|key| {
            self.generation += 1;
            let bytes = 1 + self.chance.below(9000) as u32;
            self.sizes.insert(self.generation, bytes);
            object(key.into(), self.generation, bytes)
        });
        objects.collect()
    }

    fn place(&mut self) -> Option<(PlacedBatch, Vec<NewObject>)> {
        if !self.log.is_open() {
            self.start(true);
        }
        let (objects, tombstones) = (self.objects(), std::mem::take(&mut self.waiting));
        let batch = self.log.append(&objects, &tombstones).expect("batches here are small");
        self.sent.extend(tombstones);
        Some((batch, objects))
    }

    fn put_down(&mut self, batch: &PlacedBatch, objects: &[NewObject]) {
        self.platter.write_batch(&self.log, batch, objects);
    }

    /// One batch, or two that complete in the wrong order.
    fn write(&mut self) {
        let Some((first, objects)) = self.place() else { return };
        if self.chance.below(2) == 0 {
            let Some((second, more)) = self.place() else { return };
            self.put_down(&second, &more);
            assert!(self.log.complete(&second).is_empty(), "the first is not written");
        }
        self.put_down(&first, &objects);
        let written = self.log.complete(&first);
        self.announce(written);
    }

    fn announce(&mut self, written: Vec<Written>) {
        for Written { hash, generation, address } in written {
            let known = Known { generation, bytes: self.sizes[&generation], address };
            if let Some(older) = self.known.insert(hash, known) {
                self.void(hash, older);
            }
        }
    }

    fn void(&mut self, hash: u128, known: Known) {
        let Known { generation, address, .. } = known;
        self.safe.remove(&generation);
        self.waiting.push(Tombstone { hash, generation, sequence: address.sequence });
    }

    fn remove(&mut self) {
        let key = u128::from(self.chance.below(KEYS));
        if let Some(known) = self.known.remove(&key) {
            self.void(key, known);
        }
    }

    fn confirm(&mut self, confirmed: Vec<Tombstone>) {
        for tombstone in confirmed {
            self.dead.insert(tombstone.generation);
            self.sent.retain(|sent| *sent != tombstone);
        }
    }

    fn sync(&mut self) {
        if let Some((slot, count)) = self.log.sync_point() {
            self.platter.sync(slot);
            self.note_safe(slot);
            let confirmed = self.log.synced(slot, count);
            self.confirm(confirmed);
        }
    }

    /// All that is announced in the segment of this file survives from now on.
    fn note_safe(&mut self, slot: u32) {
        for known in self.known.values() {
            let read = self.log.read(known.address, 1).expect("its segment is there");
            self.log.end_read(read.sequence);
            if read.slot == slot {
                self.safe.insert(known.generation);
            }
        }
    }

    fn seal(&mut self, steps: u64) {
        let Ok(end) = self.log.seal() else { return };
        write_end(&mut self.platter, &self.log, &end, steps);
        if steps == 4 {
            self.note_safe(end.slot);
            let confirmed = self.log.sealed();
            self.confirm(confirmed);
        }
    }

    fn start(&mut self, to_the_end: bool) {
        self.seal(4);
        let start = self.log.start(salt()).expect("nothing is in use");
        self.platter.write(start.slot, 0, &start.header);
        if !to_the_end {
            // The old segment may be gone, and the master does not know.
            self.known.retain(|_, known| self.log.read(known.address, 1).is_some());
            let known: BTreeSet<u64> = self.known.values().map(|known| known.generation).collect();
            self.safe.retain(|generation| known.contains(generation));
            return;
        }
        self.platter.sync(start.slot);
        if let Some(gone) = self.log.started() {
            // The master forgets the copies: if a key is removed now, no tombstone is made.
            let in_it = |known: &Known| known.address.sequence == gone;
            let forgotten = self.known.extract_if(.., |_, known| in_it(known));
            for (_, known) in forgotten {
                self.dead.insert(known.generation);
                self.safe.remove(&known.generation);
            }
            let (past, left) = self.waiting.drain(..).partition(|void| void.sequence == gone);
            self.waiting = left;
            let past: Vec<Tombstone> = past;
            self.dead.extend(past.iter().map(|void| void.generation));
        }
    }

    fn fail_a_write(&mut self) {
        let Some((batch, objects)) = self.place() else { return };
        let (offset, blocks) = self.platter.blocks_of(&self.log, &batch, &objects);
        let kept = self.chance.below(blocks.len() as u64 / 512 + 1) as usize * 512;
        self.platter.write(batch.slot, offset, &blocks[..kept]);
        // What is written has replaced what the master had, whether it is announced or not.
        for object in &objects {
            if let Some(older) = self.known.remove(&object.hash) {
                self.void(object.hash, older);
            }
        }
        for lost in self.log.fail(&batch) {
            self.sent.retain(|sent| *sent != lost);
            self.waiting.push(lost);
        }
    }

    fn remove_all(&mut self, to_the_end: bool) {
        self.platter.write_superblock(self.log.remove_all());
        if to_the_end {
            self.platter.sync_superblock();
            self.dead.extend(1..=self.generation);
        }
        self.known.clear();
        self.safe.clear();
        self.waiting.clear();
        self.sent.clear();
    }

    fn die_inside_a_step(&mut self) {
        match self.chance.below(4) {
            0 => {
                let steps = self.chance.below(4);
                self.seal(steps);
            }
            1 => {
                if let Some((batch, objects)) = self.place() {
                    self.put_down(&batch, &objects);
                }
            }
            2 => self.start(false),
            _ => {
                // Not answered: what is there afterwards is known again, or is not.
                self.remove_all(false);
            }
        }
        let loses_power = self.chance.below(2) == 0;
        self.restart(loses_power);
    }

    fn restart(&mut self, loses_power: bool) {
        if loses_power {
            self.platter.lose_power(&mut self.chance);
        }
        let (log, survivors, foreign) = recover(&self.platter);
        self.platter.sync_all();
        self.log = log;
        assert!(foreign.iter().all(|slot| *slot < SEGMENTS));
        let resent = std::mem::take(&mut self.sent);
        self.waiting.extend(resent);
        let before = std::mem::take(&mut self.known);
        for found in survivors {
            let (hash, generation) = (found.hash, found.generation);
            assert!(!self.dead.contains(&generation), "generation {generation} has come back");
            let known = Known { generation, bytes: found.payload_bytes, address: found.address };
            if self.waiting.iter().all(|void| (void.hash, void.generation) != (hash, generation)) {
                self.known.insert(hash, known);
            }
        }
        for (&hash, &known) in &before {
            let found =
                self.known.get(&hash).is_some_and(|found| found.generation == known.generation);
            let replaced =
                self.known.get(&hash).is_some_and(|found| found.generation > known.generation);
            let must = !loses_power || self.safe.contains(&known.generation);
            assert!(found || replaced || !must, "generation {} is lost", known.generation);
            if replaced {
                self.void(hash, known);
            }
        }
        self.forget_unreadable(&before, loses_power);
    }

    /// An image may have been torn under an entry that verifies: a miss, once it is read.
    fn forget_unreadable(&mut self, before: &BTreeMap<u128, Known>, lost_power: bool) {
        self.known.retain(|hash, known| {
            let Known { generation, bytes, address } = *known;
            let is_there = reads(&self.platter, &mut self.log, address, generation, bytes);
            let was_known = before.get(hash).is_some_and(|copy| copy.generation == generation);
            let must = if lost_power { self.safe.contains(&generation) } else { was_known };
            assert!(is_there || !must, "generation {generation} is damaged");
            is_there
        });
    }

    fn read_all(&mut self) {
        for known in self.known.values() {
            let Known { generation, bytes, address } = *known;
            assert!(reads(&self.platter, &mut self.log, address, generation, bytes));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn nothing_wrong_is_read_nothing_removed_comes_back_and_nothing_safe_is_lost(
        seed in any::<u64>(),
        is_encrypted in any::<bool>(),
        steps in prop::collection::vec(any::<u8>(), 1..60),
    ) {
        let mut model = Model::new(seed, is_encrypted);
        steps.into_iter().for_each(|step| model.step(step));
        model.restart(false);
    }
}
