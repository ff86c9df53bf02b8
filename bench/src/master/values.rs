//! Values that a store client puts and removes: what a user calls put throughput.

use std::time::Instant;

use perigee_schemas::Status;
use perigee_store::{CallerRange, PutRequest, ReplicateConfig, Store};

use crate::error::BenchError;
use crate::load::drive::{Step, Worker};
use crate::load::removal::remove;

/// Length of a value.
pub(super) const VALUE_BYTES: u64 = 4096;

/// One thread that puts batches of new values and removes them.
pub(super) struct ValueWorker<'s> {
    store: &'s Store,
    keys: Vec<String>,
    value: Vec<u8>,
}

impl<'s> ValueWorker<'s> {
    pub(super) fn new(store: &'s Store, thread: u64, batch: u64) -> Self {
        let key = |number| format!("value-{thread}-{number:032}");
        Self { store, keys: (0..batch).map(key).collect(), value: vec![7; VALUE_BYTES as usize] }
    }
}

impl Worker for ValueWorker<'_> {
    /// The time of a call is that of the put; the removal counts for the rate as well.
    fn step(&mut self, _wanted: u64) -> Result<Step, BenchError> {
        let pieces = [CallerRange::owned(self.value.as_ptr() as usize, self.value.len())];
        let put = |key| PutRequest { key, pieces: &pieces, group: None };
        let requests: Vec<PutRequest<'_>> = self.keys.iter().map(|key| put(key)).collect();
        let begun = Instant::now();
        let outcomes = self.store.put(&requests, &ReplicateConfig::default());
        let took = begun.elapsed();
        let failed = self.keys.iter().zip(outcomes).find(|(_, status)| *status != Status::Ok);
        if let Some((key, status)) = failed {
            return Err(BenchError::Outcome { call: "put", key: key.clone(), status });
        }
        remove(self.store, self.keys.iter().map(String::as_str))?;
        Ok(Step { took, units: VALUE_BYTES * self.keys.len() as u64, corrupt: 0 })
    }
}
