//! One thread that gets objects of a disk, so many in each call.

use std::time::Instant;

use perigee_store::Store;
use perigee_store::api::{CallerRange, GetRequest};

use crate::error::BenchError;
use crate::load::content;
use crate::load::drive::{Step, Worker};

/// One thread.
pub(crate) struct GetWorker<'a> {
    store: &'a Store,
    keys: &'a [String],
    bytes: usize,
    depth: usize,
    memory: Vec<u8>,
    begun: u64,
}

impl<'a> GetWorker<'a> {
    pub(crate) fn new(store: &'a Store, keys: &'a [String], bytes: u64, depth: u64) -> Self {
        let (bytes, depth) = (bytes as usize, (depth as usize).min(keys.len()));
        Self { store, keys, bytes, depth, memory: vec![0; bytes * depth], begun: 0 }
    }
}

impl Worker for GetWorker<'_> {
    /// Objects that were put one after the other, from a place at random.
    fn step(&mut self, _wanted: u64) -> Result<Step, BenchError> {
        self.begun += 1;
        let mixed = self.begun.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let first = (mixed >> 33) as usize % (self.keys.len() - self.depth + 1);
        let keys = &self.keys[first..first + self.depth];
        let pieces: Vec<[CallerRange; 1]> = self
            .memory
            .chunks_mut(self.bytes)
            .map(|place| [CallerRange::owned(place.as_mut_ptr() as usize, place.len())])
            .collect();
        let requests: Vec<GetRequest<'_>> =
            keys.iter().zip(&pieces).map(|(key, pieces)| GetRequest { key, pieces }).collect();
        let started = Instant::now();
        let results = self.store.get(&requests);
        let took = started.elapsed();
        for (key, result) in keys.iter().zip(results) {
            result.map_err(|status| BenchError::Outcome {
                call: "get",
                key: key.clone(),
                status,
            })?;
        }
        let is_right = content::matches(&self.memory[..self.bytes], self.bytes as u64);
        let units = self.memory.len() as u64;
        Ok(Step { took, units, corrupt: u64::from(!is_right) })
    }
}
