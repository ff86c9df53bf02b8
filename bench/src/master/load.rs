//! Calls to a master: keys of one length, stored without bytes behind them, and threads that ask
//! for them.
//! Invariant: batches hold keys that lie far apart, from fixed seeds, so two runs ask the same.

use std::time::Instant;

use perigee_rpc::{
    ClientOptions, LookupPurpose, MasterClient, SegmentOffer, WirePlacement, WriteForm,
};
use perigee_schemas::{Identity, SegmentKind, Status};

use crate::error::BenchError;
use crate::load::drive::{Step, Worker};
use crate::sample::Places;

/// Length of a key.
pub(crate) const KEY_BYTES: usize = 40;
/// Keys per call while they are stored.
pub(crate) const PUT_BATCH: usize = 256;
/// Different batches each thread asks for in turn.
const BATCHES: usize = 512;
const PAYLOAD_BYTES: u64 = 4000;
const SEGMENT_BYTES_PER_KEY: u64 = 8192;

/// Key number so-and-so.
#[must_use]
pub(crate) fn key(number: usize) -> String {
    format!("model/block-{number:0width$}-k", width = KEY_BYTES - 14)
}

/// A client with a number of its own.
#[must_use]
pub(crate) fn client(address: &str, number: u128) -> MasterClient {
    MasterClient::new(ClientOptions::new(address, Identity(number)))
}

/// Offers a segment that has no memory, with room for so many keys. Only for a master that nothing
/// else uses: others would be sent to it.
///
/// # Errors
/// The master refuses or does not answer.
pub(crate) fn mount(client: &MasterClient, keys: usize) -> Result<(), BenchError> {
    let segment = SegmentOffer {
        id: Identity(2),
        bytes: keys as u64 * SEGMENT_BYTES_PER_KEY,
        base: 0,
        name: "127.0.0.1:1".to_owned(),
        endpoint: "127.0.0.1:1".to_owned(),
        host_id: "bench".to_owned(),
        rendezvous: String::new(),
        protocol: "tcp".to_owned(),
        kind: SegmentKind::Memory,
    };
    expect("mount", "the segment", &client.mount(&[segment], false, 1)?)
}

/// Stores keys whose bytes are never read.
///
/// # Errors
/// The master refuses one of them or does not answer.
pub(crate) fn store_keys(client: &MasterClient, keys: &[&str]) -> Result<(), BenchError> {
    let placement = WirePlacement {
        replica_num: 1,
        host_id: "bench",
        host_name: "bench",
        ..WirePlacement::default()
    };
    for chunk in keys.chunks(PUT_BATCH) {
        let sizes = vec![PAYLOAD_BYTES; chunk.len()];
        let started = client.put_start(chunk, &sizes, &[], &placement, WriteForm::default())?;
        expect("put start", chunk[0], &started.status)?;
        let generations: Vec<u64> = started.locations.iter().map(|at| at.generation).collect();
        let ended = client.put_end(
            chunk,
            &generations,
            &vec![1; chunk.len()],
            &[],
            WriteForm::default(),
        )?;
        expect("put end", chunk[0], &ended)?;
    }
    Ok(())
}

fn expect(call: &'static str, key: &str, statuses: &[Status]) -> Result<(), BenchError> {
    match statuses.iter().find(|status| **status != Status::Ok) {
        None => Ok(()),
        Some(status) => Err(BenchError::Outcome { call, key: key.to_owned(), status: *status }),
    }
}

/// Batches of keys for thread `number`, far apart in the server's memory, as in real use.
#[must_use]
pub(crate) fn batches<'k>(keys: &[&'k str], batch: usize, number: usize) -> Vec<Vec<&'k str>> {
    let mut places = Places::new(number as u64 + 1);
    let one = |places: &mut Places| {
        (0..batch).map(|_| keys[places.below(keys.len() as u64) as usize]).collect()
    };
    (0..BATCHES).map(|_| one(&mut places)).collect()
}

/// What a thread asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Whether keys exist that do.
    Exist,
    /// Whether keys exist that do not.
    Absent,
    /// Where keys lie.
    Locate,
    /// Places for new keys, their end, and their removal: three calls.
    Put,
}

/// One thread that asks a master.
#[derive(Debug)]
pub(crate) struct Asker<'k> {
    client: MasterClient,
    batches: Vec<Vec<&'k str>>,
    ask: Ask,
    /// Number of the thread, for the names of what it puts.
    thread: usize,
    /// Calls so far.
    calls: usize,
}

impl<'k> Asker<'k> {
    /// A thread that asks for batches of these keys in turn.
    #[must_use]
    pub(crate) fn new(
        client: MasterClient,
        keys: &[&'k str],
        batch: usize,
        thread: usize,
        ask: Ask,
    ) -> Self {
        Self { client, batches: batches(keys, batch, thread), ask, thread, calls: 0 }
    }

    fn call(&self, keys: &[&str]) -> Result<(), BenchError> {
        match self.ask {
            Ask::Exist => expect_codes(&self.client.exist(keys, false)?, 1, keys[0]),
            Ask::Absent => expect_codes(&self.client.exist(keys, false)?, 0, keys[0]),
            Ask::Locate => {
                let located = self.client.get_replicas(keys, false, LookupPurpose::Read)?;
                expect("locate", keys[0], &located.places.status)
            }
            Ask::Put => {
                let name = |key: &&str| format!("{key}+{}", self.thread);
                let mut names: Vec<String> = keys.iter().map(name).collect();
                names.sort();
                names.dedup();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                store_keys(&self.client, &names)?;
                expect("remove", names[0], &self.client.remove(&names, true)?)
            }
        }
    }
}

fn expect_codes(found: &[i32], wanted: i32, key: &str) -> Result<(), BenchError> {
    if found.iter().all(|code| *code == wanted) {
        return Ok(());
    }
    Err(BenchError::Outcome {
        call: "exist",
        key: key.to_owned(),
        status: if wanted == 1 { Status::ObjectNotFound } else { Status::ObjectAlreadyExists },
    })
}

impl Worker for Asker<'_> {
    fn step(&mut self, _wanted: u64) -> Result<Step, BenchError> {
        let keys = &self.batches[self.calls % self.batches.len()];
        let started = Instant::now();
        self.call(keys)?;
        let took = started.elapsed();
        let units = keys.len() as u64;
        self.calls += 1;
        Ok(Step { took, units, corrupt: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_one_length_and_are_all_different() {
        let names: Vec<String> = (0..1000).map(key).collect();
        assert!(names.iter().all(|name| name.len() == KEY_BYTES));
        let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
    }

    #[test]
    fn two_threads_ask_for_other_keys_and_two_runs_for_the_same() {
        let names: Vec<String> = (0..1000).map(key).collect();
        let keys: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(batches(&keys, 8, 0), batches(&keys, 8, 0));
        assert_ne!(batches(&keys, 8, 0), batches(&keys, 8, 1));
    }
}
