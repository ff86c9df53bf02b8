//! What must be true of a disk: what its user was answered, over all lives of the process.
//! Invariant: a generation is void for good once the disk has said so.

use perigee_schemas::disk_address::DiskAddress;
use perigee_ssd::recovery::Survivor;
use std::collections::{BTreeMap, BTreeSet};

/// A copy that the user counts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Copy {
    pub(super) generation: u64,
    pub(super) bytes: u32,
    pub(super) address: DiskAddress,
}

/// What the user knows.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) generation: u64,
    pub(super) known: BTreeMap<u128, Copy>,
    /// Copies that are to be void, and are not yet.
    pub(super) waiting: BTreeMap<u64, (u128, Copy)>,
    /// Generations that must not be found any more.
    dead: BTreeSet<u64>,
    /// Generations that the disk has announced: others may be torn.
    announced: BTreeSet<u64>,
    /// Those of the present life, with the syncs that had failed before they were written: nothing
    /// but a bad disk or a later sync that fails can have changed their bytes.
    fresh: BTreeMap<u64, u64>,
    /// Payload bytes of all that was ever given to the disk.
    sizes: BTreeMap<u64, u32>,
    /// Keys on which a call works.
    pub(super) busy: BTreeSet<u128>,
    pub(super) active: usize,
    pub(super) is_exclusive: bool,
}

impl Model {
    pub(super) fn next_generation(&mut self, bytes: u32) -> u64 {
        self.generation += 1;
        self.sizes.insert(self.generation, bytes);
        self.generation
    }

    /// A copy was announced that was given to the disk after so many failed syncs.
    pub(super) fn announce(&mut self, hash: u128, copy: Copy, failed_syncs: u64) {
        self.announced.insert(copy.generation);
        self.fresh.insert(copy.generation, failed_syncs);
        if let Some(older) = self.known.insert(hash, copy) {
            self.waiting.insert(older.generation, (hash, older));
        }
    }

    /// The user removes a key.
    pub(super) fn remove(&mut self, hash: u128) {
        if let Some(copy) = self.known.remove(&hash) {
            self.waiting.insert(copy.generation, (hash, copy));
        }
    }

    /// Generations that must not be found any more.
    pub(super) fn dead(&self) -> &BTreeSet<u64> {
        &self.dead
    }

    pub(super) fn was_announced(&self, copy: &Copy) -> bool {
        self.announced.contains(&copy.generation)
    }

    /// Whether a copy must be intact after so many failed syncs: a sync that fails loses some of
    /// what no earlier one covered.
    pub(super) fn is_fresh(&self, copy: &Copy, failed_syncs: u64) -> bool {
        self.fresh.get(&copy.generation) == Some(&failed_syncs)
    }

    pub(super) fn buried(&mut self, generations: &[u64]) {
        for generation in generations {
            self.waiting.remove(generation);
            self.dead.insert(*generation);
        }
    }

    /// Segments before this one have gone for good.
    pub(super) fn recycled(&mut self, oldest: u32) {
        let is_gone = |copy: &Copy| copy.address.sequence < oldest;
        let known = self.known.extract_if(.., |_, copy| is_gone(copy));
        let waiting = self.waiting.extract_if(.., |_, (_, copy)| is_gone(copy));
        let gone = known.map(|(_, copy)| copy).chain(waiting.map(|(_, (_, copy))| copy));
        self.dead.extend(gone.map(|copy| copy.generation));
    }

    pub(super) fn removed_all(&mut self) {
        self.dead.extend(1..=self.generation);
        self.known.clear();
        self.waiting.clear();
    }

    /// The process has ended: nothing is under way any more.
    pub(super) fn end_life(&mut self) {
        self.fresh.clear();
        self.busy.clear();
        self.active = 0;
        self.is_exclusive = false;
    }

    /// Compares what was found after a start with what must be there. `oldest` is the first segment
    /// that can be read; `must_have` tells whether every copy that was announced must be there.
    pub(super) fn take_survivors(
        &mut self,
        survivors: &[Survivor],
        oldest: u32,
        must_have: bool,
    ) -> Result<(), String> {
        let mut found = BTreeMap::new();
        for survivor in survivors {
            let Survivor { hash, generation, address, payload_bytes, .. } = survivor;
            if self.dead.contains(generation) {
                return Err(format!("Generation {generation} of key {hash} has come back"));
            }
            if self.sizes.get(generation) != Some(payload_bytes) {
                return Err(format!("Generation {generation} has {payload_bytes} bytes"));
            }
            let copy = Copy { generation: *generation, bytes: *payload_bytes, address: *address };
            found.insert(*hash, copy);
        }
        for (hash, copy) in &self.known {
            let is_there = found.get(hash).is_some_and(|it| it.generation >= copy.generation);
            if must_have && copy.address.sequence >= oldest && !is_there {
                return Err(format!(
                    "Key {hash}, {copy:?}, is lost; found {:?}, oldest {oldest}, {} survivors",
                    found.get(hash),
                    survivors.len()
                ));
            }
        }
        let before = std::mem::take(&mut self.known);
        for (hash, copy) in found {
            if !self.waiting.contains_key(&copy.generation) {
                if let Some(older) = before.get(&hash)
                    && older.generation != copy.generation
                {
                    self.waiting.insert(older.generation, (hash, *older));
                }
                self.known.insert(hash, copy);
            }
        }
        Ok(())
    }
}
