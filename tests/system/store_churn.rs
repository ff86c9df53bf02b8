//! Put, upsert, get, remove and eviction at once in a pool that is always nearly full.
//! Invariant: of a million objects read, not one has a byte of another.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use perigee_schemas::Status;
use perigee_store::Store;
use perigee_store::api::{CallerRange, GetRequest, PutRequest, ReplicateConfig};
use perigee_tests::cluster::{Master, Node};
use perigee_tests::content::{fill, version_of};
use perigee_tests::noise::Noise;
use perigee_tests::objects::{Objects, key_name, whole};

const THREADS: u64 = 3;
const BATCH: usize = 64;
const SMALL_BYTES: usize = 4096;
const LARGE_BYTES: usize = 200 << 10;
/// One key of so many is large: large and small objects fill the pool in equal parts.
const LARGE_EVERY: u64 = 64;
const POOL_BYTES: u64 = 48 << 20;
/// A quarter more objects than the pool holds.
const KEYS: usize =
    POOL_BYTES as usize / (SMALL_BYTES + LARGE_BYTES / LARGE_EVERY as usize) * 5 / 4;
/// Ends a hang; the work takes a fraction of this.
const DEADLINE: Duration = Duration::from_secs(200);

/// What all threads have seen.
#[derive(Default)]
struct Seen {
    gets: AtomicU64,
    hits: AtomicU64,
    large_hits: AtomicU64,
}

#[test]
fn a_million_gets_under_eviction_and_removal_have_no_wrong_byte() {
    churn(1_000_000, Objects::open);
}

#[test]
fn gets_over_tcp_under_eviction_and_removal_have_no_wrong_byte() {
    churn(200_000, Objects::open_over_tcp);
}

fn churn(gets_wanted: u64, open: fn(&str) -> Objects) {
    let master = Master::start(&["--default_kv_lease_ttl=50"]);
    let _nodes = [Node::start(&master, POOL_BYTES / 2), Node::start(&master, POOL_BYTES / 2)];
    let seen = Seen::default();
    let address = master.address();
    std::thread::scope(|scope| {
        for seed in 1..=THREADS {
            let (seen, address) = (&seen, &address);
            scope.spawn(move || work(seed, &open(address), gets_wanted, seen));
        }
    });
    let gets = seen.gets.load(Ordering::Relaxed);
    let hits = seen.hits.load(Ordering::Relaxed);
    let large_hits = seen.large_hits.load(Ordering::Relaxed);
    assert!(gets >= gets_wanted, "{gets} gets before the deadline");
    assert!(hits > gets / 10, "{hits} of {gets} gets were hits");
    assert!(large_hits > 0, "no large object was read");
    let evicted = master.metric("master_evicted_key_count");
    assert!(evicted.is_some_and(|count| count > 0.0), "nothing was evicted: {evicted:?}");
}

fn work(seed: u64, objects: &Objects, gets_wanted: u64, seen: &Seen) {
    let mut noise = Noise::new(seed);
    let mut room = vec![0; BATCH * LARGE_BYTES];
    let end = Instant::now() + DEADLINE;
    for version in 0u64.. {
        if seen.gets.load(Ordering::Relaxed) >= gets_wanted || Instant::now() > end {
            return;
        }
        let first = noise.below(KEYS - BATCH) as u64;
        let keys: Vec<u64> = (first..first + BATCH as u64).collect();
        let missed = get_batch(objects, &keys, &mut room, seen);
        // Threads may write the same key, and leased neighbours may leave no room: both are fine.
        put_batch(objects, &missed, version, &mut room, Store::put);
        match noise.below(32) {
            0..4 => remove_batch(objects, &keys, false),
            4 => remove_batch(objects, &keys, true),
            5..9 => put_batch(objects, &keys, version, &mut room, Store::upsert),
            _ => {}
        }
    }
}

fn remove_batch(objects: &Objects, keys: &[u64], force: bool) {
    let names: Vec<String> = keys.iter().map(|key| key_name(*key)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    objects.store.remove(&names, force);
}

fn bytes_of(key: u64) -> usize {
    if key.is_multiple_of(LARGE_EVERY) { LARGE_BYTES } else { SMALL_BYTES }
}

/// The part of the room that belongs to each key.
fn parts<'a>(keys: &'a [u64], room: &'a mut [u8]) -> impl Iterator<Item = (u64, &'a mut [u8])> {
    let parts = keys.iter().zip(room.chunks_mut(LARGE_BYTES));
    parts.map(|(key, part)| (*key, &mut part[..bytes_of(*key)]))
}

fn get_batch(objects: &Objects, keys: &[u64], room: &mut [u8], seen: &Seen) -> Vec<u64> {
    let names: Vec<String> = keys.iter().map(|key| key_name(*key)).collect();
    let places: Vec<[CallerRange; 1]> = parts(keys, room).map(|(_, part)| whole(part)).collect();
    let requests: Vec<GetRequest<'_>> =
        names.iter().zip(&places).map(|(key, place)| GetRequest { key, pieces: place }).collect();
    let results = objects.store.get(&requests);
    let mut missed = Vec::new();
    for ((key, value), result) in parts(keys, room).zip(&results) {
        let Ok(bytes) = result else {
            missed.push(key);
            continue;
        };
        assert_eq!(*bytes, value.len() as u64, "object {key}");
        assert!(version_of(key, value).is_some(), "object {key} has wrong bytes");
        seen.hits.fetch_add(1, Ordering::Relaxed);
        let large = u64::from(value.len() == LARGE_BYTES);
        seen.large_hits.fetch_add(large, Ordering::Relaxed);
    }
    seen.gets.fetch_add(keys.len() as u64, Ordering::Relaxed);
    missed
}

/// `Store::put` or `Store::upsert`.
type Write = fn(&Store, &[PutRequest<'_>], &ReplicateConfig) -> Vec<Status>;

fn put_batch(objects: &Objects, keys: &[u64], version: u64, room: &mut [u8], write: Write) {
    parts(keys, room).for_each(|(key, part)| fill(key, version, part));
    let names: Vec<String> = keys.iter().map(|key| key_name(*key)).collect();
    let places: Vec<[CallerRange; 1]> = parts(keys, room).map(|(_, part)| whole(part)).collect();
    let requests: Vec<PutRequest<'_>> = names
        .iter()
        .zip(&places)
        .map(|(key, place)| PutRequest { key, pieces: place, group: None })
        .collect();
    write(&objects.store, &requests, &ReplicateConfig::default());
}
