//! Put, get, remove and eviction at once in a pool that is always nearly full.
//! Invariant: of a million objects read, not one has a byte of another.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use perigee_store::api::{GetRequest, Piece, PutRequest, ReplicateConfig};
use perigee_tests::cluster::{Master, Node};
use perigee_tests::content::{fill, version_of};
use perigee_tests::noise::Noise;
use perigee_tests::objects::{Objects, key_name};

const GETS: u64 = 1_000_000;
const THREADS: u64 = 3;
const BATCH: usize = 64;
const OBJECT_BYTES: usize = 4096;
const POOL_BYTES: u64 = 32 << 20;
/// A quarter more objects than the pool holds.
const KEYS: usize = (POOL_BYTES as usize / OBJECT_BYTES) * 5 / 4;
/// Ends a hang; the work takes a fraction of this.
const DEADLINE: Duration = Duration::from_secs(200);

/// What all threads have seen.
#[derive(Default)]
struct Seen {
    gets: AtomicU64,
    hits: AtomicU64,
}

#[test]
fn a_million_gets_under_eviction_and_removal_have_no_wrong_byte() {
    let master = Master::start(&["--default_kv_lease_ttl=50"]);
    let _nodes = [
        Node::start(&master, POOL_BYTES / 2),
        Node::start(&master, POOL_BYTES / 2),
    ];
    let seen = Seen::default();
    let address = master.address();
    std::thread::scope(|scope| {
        for seed in 1..=THREADS {
            let (seen, address) = (&seen, &address);
            scope.spawn(move || churn(seed, address, seen));
        }
    });
    let (gets, hits) = (
        seen.gets.load(Ordering::Relaxed),
        seen.hits.load(Ordering::Relaxed),
    );
    assert!(gets >= GETS, "{gets} gets before the deadline");
    assert!(hits > gets / 10, "{hits} of {gets} gets were hits");
    let evicted = master.metric("master_evicted_key_count");
    assert!(
        evicted.is_some_and(|count| count > 0.0),
        "nothing was evicted: {evicted:?}"
    );
}

fn churn(seed: u64, master: &str, seen: &Seen) {
    let objects = Objects::open(master);
    let mut noise = Noise::new(seed);
    let mut room = vec![0; BATCH * OBJECT_BYTES];
    let end = Instant::now() + DEADLINE;
    for version in 0u64.. {
        if seen.gets.load(Ordering::Relaxed) >= GETS || Instant::now() > end {
            return;
        }
        let first = noise.below(KEYS - BATCH) as u64;
        let keys: Vec<u64> = (first..first + BATCH as u64).collect();
        let missed = get_batch(&objects, &keys, &mut room, seen);
        put_batch(&objects, &missed, version, &mut room);
        if noise.below(8) == 0 {
            let names: Vec<String> = keys.iter().map(|key| key_name(*key)).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            objects.store.remove(&names, false);
        }
    }
}

fn pieces(room: &mut [u8]) -> Vec<[Piece; 1]> {
    let whole = |part: &mut [u8]| {
        [Piece {
            address: part.as_mut_ptr() as usize,
            bytes: part.len(),
        }]
    };
    room.chunks_mut(OBJECT_BYTES).map(whole).collect()
}

fn get_batch(objects: &Objects, keys: &[u64], room: &mut [u8], seen: &Seen) -> Vec<u64> {
    let names: Vec<String> = keys.iter().map(|key| key_name(*key)).collect();
    let places = pieces(room);
    let requests: Vec<GetRequest<'_>> = names
        .iter()
        .zip(&places)
        .map(|(key, place)| GetRequest { key, pieces: place })
        .collect();
    let results = objects.store.get(&requests);
    let mut missed = Vec::new();
    for ((key, result), value) in keys.iter().zip(&results).zip(room.chunks(OBJECT_BYTES)) {
        match result {
            Ok(bytes) => {
                assert_eq!(*bytes, OBJECT_BYTES as u64, "object {key}");
                assert!(
                    version_of(*key, value).is_some(),
                    "object {key} has wrong bytes"
                );
                seen.hits.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => missed.push(*key),
        }
    }
    seen.gets.fetch_add(keys.len() as u64, Ordering::Relaxed);
    missed
}

fn put_batch(objects: &Objects, keys: &[u64], version: u64, room: &mut [u8]) {
    for (key, value) in keys.iter().zip(room.chunks_mut(OBJECT_BYTES)) {
        fill(*key, version, value);
    }
    let names: Vec<String> = keys.iter().map(|key| key_name(*key)).collect();
    let places = pieces(room);
    let requests: Vec<PutRequest<'_>> = names
        .iter()
        .zip(&places)
        .map(|(key, place)| PutRequest {
            key,
            pieces: place,
            group: None,
        })
        .collect();
    // Two threads may put the same key, and leased neighbours may leave no room: both are fine.
    objects.store.put(&requests, &ReplicateConfig::default());
}
