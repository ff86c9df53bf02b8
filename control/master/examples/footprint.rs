//! Memory per key and time per call of one shard with a million keys.
//! Invariant: everything the shard allocates is counted, capacity that is not used yet included.
//!
//! Run with `cargo run --release -p perigee-master --example footprint`.
#![expect(
    clippy::print_stdout,
    reason = "printing figures is what this program is for"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use perigee_master::{
    Effort, PlacementColumns, PutConfig, PutStart, ReplicaColumns, SegmentEvent, SegmentSpec,
    Shard, ShardSettings, StartedPuts,
};

const KEYS: usize = 1_000_000;
const BATCH: usize = 256;

struct Counting;

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);

/// What the allocator of the C library spends on a request: a header of 8 bytes and granules of 16.
fn spent(bytes: usize) -> usize {
    (bytes + 8).next_multiple_of(16).max(32)
}

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(spent(layout.size()), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(spent(layout.size()), Ordering::Relaxed);
        // SAFETY: `at` came from `alloc` above, that is from the system's allocator, with this layout.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let names: Vec<String> = (0..KEYS)
        .map(|key| format!("model/block-{key:020x}-tp0-k"))
        .collect();
    let keys: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
    let before = LIVE_BYTES.load(Ordering::Relaxed);
    let mut shard = Shard::new(ShardSettings::default());
    shard.apply(
        0,
        &SegmentEvent::Mounted {
            index: 0,
            spec: Arc::new(segment()),
        },
    );
    let puts = time(&keys, |batch| put(&mut shard, batch));
    let bytes = LIVE_BYTES.load(Ordering::Relaxed) - before;
    println!(
        "{KEYS} keys of {} bytes: {:.1} bytes each",
        keys[0].len(),
        bytes as f64 / KEYS as f64
    );
    println!("put start and end of {BATCH}: {puts:.2} M keys/s");

    // Batches of keys that lie far apart in memory, as in real use.
    let stride = 7_919;
    let spread: Vec<&[u8]> = (0..KEYS).map(|at| keys[at * stride % KEYS]).collect();
    let mut status = Vec::new();
    let mut now_ms = 1;
    for round in 0..3 {
        let rate = time(&spread, |batch| {
            now_ms += 1;
            shard.exist(now_ms, batch, &mut status);
            assert!(status.iter().all(|status| *status == 1));
        });
        println!("exist of {BATCH}, round {round}: {rate:.2} M keys/s");
    }
    let mut replicas = ReplicaColumns::default();
    for round in 0..2 {
        let rate = time(&spread, |batch| {
            now_ms += 1;
            shard.get_replicas(now_ms, batch, &mut replicas);
        });
        println!("get replicas of {BATCH}, round {round}: {rate:.2} M keys/s");
    }
}

fn put(shard: &mut Shard, keys: &[&[u8]]) {
    let mut placements = PlacementColumns::default();
    let mut status = Vec::new();
    let batch = PutStart {
        client: 1,
        keys,
        payload_bytes: &[4000; BATCH][..keys.len()],
        groups: &[],
        config: &PutConfig::default(),
        upsert: false,
        effort: Effort::Last,
    };
    shard.put_start(0, &batch, &mut placements);
    let generations: Vec<u64> = placements
        .locations
        .iter()
        .map(|location| location.generation)
        .collect();
    let puts = StartedPuts {
        client: 1,
        keys,
        generations: &generations,
    };
    shard.put_end(0, &puts, &[1; BATCH][..keys.len()], &mut status);
    assert!(status.iter().all(|status| *status == 0));
}

/// Million keys per second.
fn time(keys: &[&[u8]], mut call: impl FnMut(&[&[u8]])) -> f64 {
    let start = Instant::now();
    for batch in keys.chunks(BATCH) {
        call(batch);
    }
    keys.len() as f64 / start.elapsed().as_secs_f64() / 1e6
}

fn segment() -> SegmentSpec {
    SegmentSpec {
        id: 1,
        name: "host:1".to_owned(),
        client: 1,
        bytes: 8 << 30,
        base: 0,
        endpoint: String::new(),
        host_id: String::new(),
        rendezvous: String::new(),
        protocol: "tcp".to_owned(),
        peer: None,
    }
}
