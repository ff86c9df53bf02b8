//! Blocks put and got in calls of several, from and to random places of large memories, with their
//! bytes checked.
//! Invariant: the value of a key is a fixed range of the source, so any read can be compared with
//! it.

use std::time::{Duration, Instant};

use perigee_schemas::Status;
use perigee_store::{CallerRange, GetRequest, PutRequest, ReplicateConfig, Store};

use crate::ends::memory_pair::MemoryPair;
use crate::error::BenchError;
use crate::limits::NEAR_KEYS;
use crate::load::removal::remove;
use crate::sample::Places;
use crate::stop::Stop;

/// Blocks of one size against one store.
pub(crate) struct Workload<'a> {
    store: &'a Store,
    pair: &'a MemoryPair,
    bytes: usize,
    per_call: usize,
    places: Places,
    /// Key and source slot of every block that is stored.
    stored: Vec<(String, usize)>,
    /// What the last call was about: key, source slot, target slot.
    last: Vec<(String, usize, usize)>,
    /// Blocks put so far, for new keys.
    sequence: usize,
    /// What all keys begin with.
    prefix: String,
    /// How long the cluster keeps the space of removed blocks that were read.
    lease: Duration,
    /// Whether a block was read under a lease since the space of all was free.
    was_read: bool,
    /// Most blocks stored at once.
    blocks_max: usize,
}

impl<'a> Workload<'a> {
    /// Blocks of `bytes` bytes in calls of `per_call`, against a cluster whose leases last so long;
    /// keys begin with the name.
    #[must_use]
    pub(crate) fn named(
        store: &'a Store,
        pair: &'a MemoryPair,
        bytes: usize,
        per_call: usize,
        (prefix, lease): (&str, Duration),
    ) -> Self {
        Self {
            store,
            pair,
            bytes,
            per_call,
            places: Places::new(0x9E37_79B9_7F4A_7C15),
            stored: Vec::new(),
            last: Vec::new(),
            sequence: 0,
            prefix: prefix.to_owned(),
            lease,
            was_read: false,
            blocks_max: usize::MAX,
        }
    }

    /// Blocks that fit a memory, or as many as are wanted.
    fn slots(&self) -> usize {
        (self.pair.bytes() / self.bytes).min(self.blocks_max)
    }

    /// The same with at most so many blocks stored at once.
    #[must_use]
    pub(crate) fn with_at_most(mut self, blocks: usize) -> Self {
        self.blocks_max = blocks;
        self
    }

    /// Stores as many blocks as fit a memory, unless the end is asked for first.
    ///
    /// # Errors
    /// The cluster refuses one, or [`BenchError::Interrupted`].
    pub(crate) fn fill(&mut self, stop: &Stop) -> Result<(), BenchError> {
        while self.stored.len() + self.per_call <= self.slots() {
            if stop.is_set() {
                return Err(BenchError::Interrupted);
            }
            self.put()?;
        }
        Ok(())
    }

    /// Puts new blocks; returns the time of the call. Everything is removed first when a memory's
    /// worth is stored.
    pub(crate) fn put(&mut self) -> Result<Duration, BenchError> {
        if self.stored.len() + self.per_call > self.slots() {
            self.clear()?;
        }
        let chosen = self.distinct_slots();
        let keys: Vec<String> = (self.sequence..self.sequence + self.per_call)
            .map(|number| format!("{}-{}-{number}", self.prefix, self.bytes))
            .collect();
        self.sequence += self.per_call;
        let pieces: Vec<[CallerRange; 1]> =
            chosen.iter().map(|slot| [self.piece(self.pair.segment(), *slot)]).collect();
        let requests: Vec<PutRequest<'_>> = keys
            .iter()
            .zip(&pieces)
            .map(|(key, pieces)| PutRequest { key, pieces, group: None })
            .collect();
        let config = ReplicateConfig::default();
        let start = Instant::now();
        let outcomes = self.store.put(&requests, &config);
        let took = start.elapsed();
        let placed = keys.into_iter().zip(chosen);
        self.last = placed.map(|(key, slot)| (key, slot, slot)).collect();
        // Before the verdicts: of a call that failed some blocks may be there, and are to be
        // removed.
        self.stored.extend(self.last.iter().map(|(key, slot, _)| (key.clone(), *slot)));
        for ((key, ..), status) in self.last.iter().zip(outcomes) {
            expect("put", key, status.ok())?;
        }
        Ok(took)
    }

    /// Gets stored blocks to random places; returns the time of the call.
    pub(crate) fn get(&mut self) -> Result<Duration, BenchError> {
        let targets = self.distinct_slots();
        let blocks = self.stored.len() as u64;
        self.last.clear();
        for target in targets {
            let (key, source) = self.stored[self.places.below(blocks) as usize].clone();
            self.last.push((key, source, target));
        }
        self.read_last()
    }

    /// Gets every stored block once: the first read of a node's memory fills page tables, which no
    /// later one pays for.
    pub(crate) fn read_all(&mut self) -> Result<(), BenchError> {
        for first in (0..self.stored.len()).step_by(self.per_call) {
            let part = self.stored[first..].iter().take(self.per_call).cloned();
            self.last =
                part.enumerate().map(|(target, (key, source))| (key, source, target)).collect();
            self.read_last()?;
        }
        Ok(())
    }

    /// Reads the blocks of the last call again and compares every byte. No lease is taken, so that
    /// the space of what is removed afterwards is free at once.
    ///
    /// # Errors
    /// A block cannot be read, or has a wrong byte.
    pub(crate) fn check_last(&mut self) -> Result<(), BenchError> {
        for (_, _, target) in &self.last {
            // SAFETY: the slot lies within the buffer, which nothing else uses now.
            unsafe {
                self.at(self.pair.buffer(), *target).write_bytes(0, self.bytes);
            };
        }
        let pieces = self.last_pieces();
        let keys: Vec<&str> = self.last.iter().map(|(key, ..)| key.as_str()).collect();
        let targets: Vec<(usize, &[CallerRange])> =
            pieces.iter().map(|piece| &piece[..]).enumerate().collect();
        let outcomes = self.store.read(&self.store.peek(&keys), &targets);
        for (key, outcome) in keys.into_iter().zip(outcomes) {
            expect("get", key, outcome.map(|_| ()))?;
        }
        for (key, source, target) in &self.last {
            // SAFETY: both slots lie within their memories, and no call is under way.
            let (wanted, found) = unsafe {
                (
                    std::slice::from_raw_parts(self.at(self.pair.segment(), *source), self.bytes),
                    std::slice::from_raw_parts(self.at(self.pair.buffer(), *target), self.bytes),
                )
            };
            if wanted != found {
                return Err(BenchError::Corrupt { key: key.clone() });
            }
        }
        Ok(())
    }

    /// Whether blocks that are stored lie on this host.
    pub(crate) fn is_near(&self) -> bool {
        let some = self.stored.iter().take(NEAR_KEYS);
        let keys: Vec<&str> = some.map(|(key, _)| key.as_str()).collect();
        self.store.is_near(&self.store.peek(&keys))
    }

    /// Asks whether stored blocks exist; returns the time of the call.
    ///
    /// # Errors
    /// One of them does not.
    pub(crate) fn exist(&mut self) -> Result<Duration, BenchError> {
        let blocks = self.stored.len() as u64;
        let chosen: Vec<usize> =
            (0..self.per_call).map(|_| self.places.below(blocks) as usize).collect();
        let keys: Vec<&str> = chosen.iter().map(|at| self.stored[*at].0.as_str()).collect();
        let start = Instant::now();
        let found = self.store.exist(&keys);
        let took = start.elapsed();
        for (key, found) in keys.iter().zip(found) {
            match found {
                Ok(true) => {}
                Ok(false) => expect("exist", key, Err(Status::ObjectNotFound))?,
                Err(status) => expect("exist", key, Err(status))?,
            }
        }
        Ok(took)
    }

    /// Removes the blocks of this workload; returns when the space of what was read is free too.
    ///
    /// # Errors
    /// The cluster refuses.
    pub(crate) fn clear(&mut self) -> Result<(), BenchError> {
        self.remove()?;
        self.settle(&Stop::default())
    }

    /// Removes the blocks of this workload. The cluster keeps the space of what was read until its
    /// leases are over.
    ///
    /// # Errors
    /// The cluster refuses.
    pub(crate) fn remove(&mut self) -> Result<(), BenchError> {
        let stored = std::mem::take(&mut self.stored);
        remove(self.store, stored.iter().map(|(key, _)| key.as_str()))
    }

    /// Waits until the space of what was read and removed is free.
    ///
    /// # Errors
    /// [`BenchError::Interrupted`].
    pub(crate) fn settle(&mut self, stop: &Stop) -> Result<(), BenchError> {
        if std::mem::take(&mut self.was_read) && stop.wait_for(self.lease) {
            return Err(BenchError::Interrupted);
        }
        Ok(())
    }

    fn read_last(&mut self) -> Result<Duration, BenchError> {
        self.was_read = true;
        let pieces = self.last_pieces();
        let requests: Vec<GetRequest<'_>> = self
            .last
            .iter()
            .zip(&pieces)
            .map(|((key, _, _), pieces)| GetRequest { key, pieces })
            .collect();
        let start = Instant::now();
        let outcomes = self.store.get(&requests);
        let took = start.elapsed();
        for ((key, _, _), outcome) in self.last.iter().zip(outcomes) {
            expect("get", key, outcome.map(|_| ()))?;
        }
        Ok(took)
    }

    /// Where the blocks of the last call are read to.
    fn last_pieces(&self) -> Vec<[CallerRange; 1]> {
        let base = self.pair.buffer();
        let targets = self.last.iter().map(|(_, _, target)| *target);
        targets.map(|target| [self.piece(base, target)]).collect()
    }

    /// Different slots for one call: two blocks of a call must not share their bytes.
    fn distinct_slots(&mut self) -> Vec<usize> {
        let slots = self.slots() as u64;
        let mut chosen = Vec::with_capacity(self.per_call);
        while chosen.len() < self.per_call {
            let slot = self.places.below(slots) as usize;
            if !chosen.contains(&slot) {
                chosen.push(slot);
            }
        }
        chosen
    }

    fn at(&self, base: *mut u8, slot: usize) -> *mut u8 {
        base.wrapping_add(slot * self.bytes)
    }

    fn piece(&self, base: *mut u8, slot: usize) -> CallerRange {
        CallerRange::owned(self.at(base, slot) as usize, self.bytes)
    }
}

fn expect(call: &'static str, key: &str, outcome: Result<(), Status>) -> Result<(), BenchError> {
    outcome.map_err(|status| BenchError::Outcome { call, key: key.to_owned(), status })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ends::cluster::{open_store, start_master};
    use perigee_schemas::Route;

    const BLOCK: usize = 65_536;
    const PER_CALL: usize = 4;
    const CALLS: usize = 8;

    #[test]
    fn blocks_that_were_compared_leave_their_space_free_as_soon_as_they_are_removed() {
        let master = start_master().unwrap();
        let address = master.address().to_string();
        let pool = BLOCK * PER_CALL * CALLS;
        // Little more than what is stored at once: nothing may be held back.
        let node = open_store(&address, 2 * pool as u64, Route::SharedMemory).unwrap();
        let client = open_store(&address, 0, Route::SharedMemory).unwrap();
        let pair = MemoryPair::new(pool).unwrap();
        let mut workload =
            Workload::named(&client, &pair, BLOCK, PER_CALL, ("block", Duration::from_secs(3600)));
        for _ in 0..6 * CALLS {
            workload.put().unwrap();
            workload.check_last().unwrap();
        }
        workload.remove().unwrap();
        // A wait for leases would take an hour.
        workload.settle(&Stop::default()).unwrap();
        client.close();
        node.close();
        master.stop();
    }
}
