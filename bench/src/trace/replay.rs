//! One thread of the replay. Invariant: the content of a block follows from its key, so any thread
//! can compare what another has stored.

use std::time::{Duration, Instant};

use perigee_memory::HostBuffer;
use perigee_schemas::Status;
use perigee_store::{CallerRange, GetRequest, PutRequest, ReplicateConfig, Store};

use crate::error::BenchError;
use crate::load::content;
use crate::load::drive::{Step, Worker};
use crate::load::latency::Recorder;

/// Calls of one kind.
#[derive(Debug, Clone, Default)]
pub(super) struct Calls {
    pub(super) latency: Recorder,
    pub(super) time: Duration,
    pub(super) bytes: u64,
}

impl Calls {
    fn took(&mut self, time: Duration) {
        self.latency.record(time);
        self.time += time;
    }

    fn add(&mut self, other: &Self) {
        self.latency.add(&other.latency);
        self.time += other.time;
        self.bytes += other.bytes;
    }
}

/// What one thread, or all, did.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) get: Calls,
    pub(super) put: Calls,
    pub(super) blocks: u64,
    /// Blocks read right, in an unbroken prefix.
    pub(super) hits: u64,
    /// Blocks with a wrong byte.
    pub(super) corrupt: u64,
    /// Blocks that were gone when they were read, or refused when they were put.
    pub(super) failed: u64,
    /// What the cluster said of the first of these.
    pub(super) refusal: Option<Status>,
}

impl Tally {
    /// Both together.
    pub(super) fn and(mut self, other: &Replayer<'_>) -> Self {
        let other = &other.tally;
        self.get.add(&other.get);
        self.put.add(&other.put);
        self.blocks += other.blocks;
        self.hits += other.hits;
        self.corrupt += other.corrupt;
        self.failed += other.failed;
        self.refusal = self.refusal.or(other.refusal);
        self
    }

    fn fail(&mut self, status: Status) {
        self.failed += 1;
        self.refusal.get_or_insert(status);
    }

    /// Hits of all blocks asked for.
    pub(super) fn hit_rate(&self) -> f64 {
        self.hits as f64 / self.blocks.max(1) as f64
    }
}

/// Key of a block.
pub(super) fn key(name: &str, block: u64) -> String {
    format!("{name}-{block}")
}

/// One thread.
pub(super) struct Replayer<'a> {
    store: &'a Store,
    requests: Vec<&'a [u64]>,
    next: usize,
    name: String,
    block_bytes: u64,
    buffer: HostBuffer,
    pub(super) tally: Tally,
}

impl<'a> Replayer<'a> {
    /// A thread for these requests, none longer than `longest` blocks.
    pub(super) fn new(
        store: &'a Store,
        requests: Vec<&'a [u64]>,
        name: &str,
        block_bytes: u64,
        longest: usize,
    ) -> Result<Self, BenchError> {
        Ok(Self {
            store,
            requests,
            next: 0,
            name: name.to_owned(),
            block_bytes,
            buffer: HostBuffer::allocate(longest * block_bytes as usize)?,
            tally: Tally::default(),
        })
    }

    /// Local bytes of the block at `place`.
    fn bytes(&mut self, place: usize) -> &mut [u8] {
        let (at, length) = (place as u64 * self.block_bytes, self.block_bytes);
        let start = self.buffer.range(at, length);
        let start = start.expect("the buffer has room for the longest request");
        // SAFETY: the range lies within the buffer, which only this thread has, and no call is
        // under way.
        unsafe { std::slice::from_raw_parts_mut(start, length as usize) }
    }

    fn pieces(&self, count: usize) -> Vec<[CallerRange; 1]> {
        let bytes = self.block_bytes as usize;
        let base = self.buffer.base() as usize;
        let piece = |place| CallerRange::owned(base + place * bytes, bytes);
        (0..count).map(|place| [piece(place)]).collect()
    }

    /// Reads the cached prefix; returns the time of the call and the bytes that came.
    fn read(&mut self, keys: &[String]) -> (Duration, u64) {
        let pieces = self.pieces(keys.len());
        let requests: Vec<GetRequest<'_>> =
            keys.iter().zip(&pieces).map(|(key, pieces)| GetRequest { key, pieces }).collect();
        let started = Instant::now();
        let outcomes = self.store.get(&requests);
        let took = started.elapsed();
        let (mut unbroken, mut bytes) = (true, 0);
        for (place, (key, outcome)) in keys.iter().zip(outcomes).enumerate() {
            let wanted = content::seed_of(key);
            let read = outcome.map(|read| read == self.block_bytes);
            if read != Ok(true) {
                self.tally.fail(read.err().unwrap_or(Status::InvalidRead));
                unbroken = false;
            } else if !content::matches(self.bytes(place), wanted) {
                self.tally.corrupt += 1;
                unbroken = false;
            } else {
                bytes += self.block_bytes;
                // A block after a hole is of no use to an engine.
                self.tally.hits += u64::from(unbroken);
            }
        }
        self.tally.get.took(took);
        self.tally.get.bytes += bytes;
        (took, bytes)
    }

    /// Stores the rest; returns the time of the call and the bytes that were stored.
    fn write(&mut self, keys: &[String]) -> (Duration, u64) {
        for (place, key) in keys.iter().enumerate() {
            let seed = content::seed_of(key);
            content::fill(self.bytes(place), seed);
        }
        let pieces = self.pieces(keys.len());
        let requests: Vec<PutRequest<'_>> = keys
            .iter()
            .zip(&pieces)
            .map(|(key, pieces)| PutRequest { key, pieces, group: None })
            .collect();
        let started = Instant::now();
        let outcomes = self.store.put(&requests, &ReplicateConfig::default());
        let took = started.elapsed();
        let mut bytes = 0;
        for status in outcomes {
            match status {
                Status::Ok => bytes += self.block_bytes,
                // Another thread stored the same block in the meantime.
                Status::ObjectAlreadyExists => {}
                refused => self.tally.fail(refused),
            }
        }
        self.tally.put.took(took);
        self.tally.put.bytes += bytes;
        (took, bytes)
    }
}

impl Worker for Replayer<'_> {
    fn is_done(&self) -> bool {
        self.next == self.requests.len()
    }

    fn step(&mut self, _wanted: u64) -> Result<Step, BenchError> {
        let blocks = self.requests[self.next];
        self.next += 1;
        let mut keys = Vec::with_capacity(blocks.len());
        keys.extend(blocks.iter().map(|block| key(&self.name, *block)));
        let names: Vec<&str> = keys.iter().map(String::as_str).collect();
        let started = Instant::now();
        let present = self.store.exist(&names);
        let mut took = started.elapsed();
        let mut cached = 0;
        for found in present {
            match found {
                Ok(true) => cached += 1,
                Ok(false) => break,
                // Without a master there is nothing to measure.
                Err(status) => {
                    return Err(BenchError::Outcome {
                        call: "exist",
                        key: keys[cached].clone(),
                        status,
                    });
                }
            }
        }
        self.tally.blocks += keys.len() as u64;
        let mut units = 0;
        let (prefix, rest) = keys.split_at(cached);
        if !prefix.is_empty() {
            let (time, bytes) = self.read(prefix);
            (took, units) = (took + time, units + bytes);
        }
        if !rest.is_empty() {
            let (time, bytes) = self.write(rest);
            (took, units) = (took + time, units + bytes);
        }
        Ok(Step { took, units, corrupt: 0 })
    }
}
