//! Masters, and nodes with a disk, that are killed again and again under a load of puts, upserts
//! and removals. Minutes, so `make kills` plays them; `PERIGEE_KILLS` is how often.
//! Invariant: what is read is what was acknowledged last, or what a call without an answer may have
//! made of it; what was removed stays away, and nothing is lost but with the memory of a node.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use perigee_schemas::Status;
use perigee_tests::cluster::{Master, Node};
use perigee_tests::deadline::{comes_true, wait_until};
use perigee_tests::limits::MEMBERSHIP_DEADLINE;
use perigee_tests::objects::{Objects, key_name};
use perigee_tests::program::Program;
use tempfile::TempDir;

/// Smaller ones are more than the ledger of a segment has room for.
const OBJECT_BYTES: usize = 4000;
/// Less than half of what is put lies in memory.
const MEMORY_BYTES: u64 = 96 << 20;
/// Keys of one call, which one thread has at a time.
const CHUNK_KEYS: u64 = 100;
const CHUNKS: u64 = 600;
const WRITERS: usize = 2;
/// Puts between two kills.
const PUTS_BETWEEN: u64 = 10_000;
/// Chunks that are read after each kill.
const CHECKED_CHUNKS: u64 = 60;
const FLAGS: [&str; 6] = [
    "--rpc_shards=2",
    "--enable_offload",
    "--offload_on_evict",
    "--offload_force_evict=false",
    "--offload_drive_writes_per_day=0",
    "--default_kv_lease_ttl=50",
];

/// What a key may be: a version, or nothing.
type Outcomes = BTreeSet<Option<u64>>;

fn kills() -> u64 {
    std::env::var("PERIGEE_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(100)
}

/// A small generator, so that threads do not go in step.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// What is known of all keys.
struct Books {
    chunks: Vec<Mutex<Vec<Outcomes>>>,
    stop: AtomicBool,
    acknowledged: AtomicU64,
    removed: AtomicU64,
    unanswered: AtomicU64,
    read: AtomicU64,
}

impl Books {
    fn new() -> Self {
        let unwritten = || Mutex::new(vec![Outcomes::from([None]); CHUNK_KEYS as usize]);
        Self {
            chunks: (0..CHUNKS).map(|_| unwritten()).collect(),
            stop: AtomicBool::new(false),
            acknowledged: AtomicU64::new(0),
            removed: AtomicU64::new(0),
            unanswered: AtomicU64::new(0),
            read: AtomicU64::new(0),
        }
    }

    fn lock(&self, chunk: u64) -> MutexGuard<'_, Vec<Outcomes>> {
        self.chunks[chunk as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts, replaces and removes objects until it is to stop.
    fn write(&self, objects: &Objects, writer: usize) {
        let mut chance = Chance(writer as u64 + 1);
        for version in 1.. {
            if self.stop.load(Ordering::Acquire) {
                return;
            }
            let chunk = chance.below(CHUNKS);
            let mut known = self.lock(chunk);
            match chance.below(8) {
                0 => self.remove(objects, chunk, &mut known),
                _ => self.put(objects, chunk, version * 10 + writer as u64, &mut known),
            }
        }
    }

    fn put(&self, objects: &Objects, chunk: u64, version: u64, known: &mut [Outcomes]) {
        let keys = keys_of(chunk);
        let statuses = objects.upsert_objects(&keys, version, OBJECT_BYTES);
        for (status, outcomes) in statuses.into_iter().zip(known) {
            self.note(status, Some(version), outcomes, &self.acknowledged);
        }
    }

    fn remove(&self, objects: &Objects, chunk: u64, known: &mut [Outcomes]) {
        let names: Vec<String> = keys_of(chunk).into_iter().map(key_name).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for (status, outcomes) in objects.store.remove(&names, true).into_iter().zip(known) {
            let status = if status == Status::ObjectNotFound { Status::Ok } else { status };
            self.note(status, None, outcomes, &self.removed);
        }
    }

    fn note(&self, status: Status, new: Option<u64>, known: &mut Outcomes, count: &AtomicU64) {
        match status {
            Status::Ok => {
                *known = Outcomes::from([new]);
                count.fetch_add(1, Ordering::Relaxed);
            }
            // There is no room before a copy is on the disk: nothing was begun.
            Status::NoAvailableHandle => {}
            _ => {
                known.insert(new);
                self.unanswered.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// The memory of the node is gone, and what lay there alone.
    fn lose_memory(&self) {
        for chunk in 0..CHUNKS {
            for outcomes in self.lock(chunk).iter_mut() {
                outcomes.insert(None);
            }
        }
    }

    /// Reads some chunks and holds them against what is known.
    fn check(
        &self,
        (objects, master): (&Objects, &Master),
        chunks: impl Iterator<Item = u64>,
        when: &str,
    ) {
        for chunk in chunks {
            let mut known = self.lock(chunk);
            let mut left: Vec<usize> = (0..known.len()).collect();
            let mut wrong = String::new();
            // An owner may be late to announce what it has: then a call misses once.
            let is_right = comes_true(MEMBERSHIP_DEADLINE, || {
                let keys: Vec<u64> =
                    left.iter().map(|at| chunk * CHUNK_KEYS + *at as u64).collect();
                let found = objects.get_objects(&keys, OBJECT_BYTES);
                let mut again = Vec::new();
                for (at, found) in left.iter().zip(found) {
                    if !self.holds(&mut known[*at], found, &format!("{chunk}/{at} {when}")) {
                        wrong = format!("{at} is {found:?}, and may be {:?}", known[*at]);
                        again.push(*at);
                    }
                }
                left = again;
                left.is_empty()
            });
            let first = left.first().map(|at| chunk * CHUNK_KEYS + *at as u64);
            let why = || first.map_or_else(String::new, |key| inspected(master, key));
            assert!(is_right, "{} of chunk {chunk} {when}, such as {wrong}\n{}", left.len(), why());
        }
    }

    /// Whether what was read is what may be; false if it must be read again.
    fn holds(&self, known: &mut Outcomes, found: Result<Option<u64>, Status>, place: &str) -> bool {
        assert_ne!(found, Ok(None), "{place} has bytes that are not its own");
        let found = match found {
            Ok(version) => version,
            Err(Status::ObjectNotFound) => None,
            Err(_) => return false,
        };
        assert!(
            found.is_none() || known.contains(&found),
            "{place} is {found:?}, and may be {known:?}"
        );
        if known.contains(&found) {
            *known = Outcomes::from([found]);
            self.read.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        false
    }

    fn count(&self, of: &AtomicU64) -> u64 {
        of.load(Ordering::Relaxed)
    }
}

/// What the master says of a key, and of what it has written to disks.
fn inspected(master: &Master, key: u64) -> String {
    let flags =
        [format!("--master={}", master.rpc), format!("--metrics_port={}", master.http.port())];
    let words = ["inspect".to_owned(), "key".to_owned(), key_name(key)];
    let words: Vec<String> = words.into_iter().chain(flags).collect();
    let metrics = perigee_tests::http::get(master.http, "/metrics").body;
    let of_demotions = metrics.lines().filter(|line| line.starts_with("perigee_demot"));
    let of_demotions: Vec<&str> = of_demotions.collect();
    format!("{}{}", Program::run("perigee", &words).output, of_demotions.join("\n"))
}

fn keys_of(chunk: u64) -> Vec<u64> {
    (chunk * CHUNK_KEYS..(chunk + 1) * CHUNK_KEYS).collect()
}

/// Ends the writers also when a check fails.
struct AtEnd<'a>(&'a Books);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Release);
    }
}

fn started(master: &Master, folder: &TempDir) -> Node {
    let path = format!("--ssd_offload_path={}", folder.path().display());
    let node = Node::start_with(master, MEMORY_BYTES, &["--enable_offload", &path]);
    wait_until("the disk is announced", MEMBERSHIP_DEADLINE, || {
        node.program.log().contains("The master knows what a disk has")
    });
    node
}

/// Kills something again and again under load, and checks after each time.
fn play(master: &mut Master, mut kill: impl FnMut(&mut Master, &Books)) {
    let books = Books::new();
    let reader = Objects::open(&master.address());
    let writers: Vec<Objects> = (0..WRITERS).map(|_| Objects::open(&master.address())).collect();
    let (mut chance, mut loaded, mut puts) = (Chance(99), Duration::ZERO, 0);
    std::thread::scope(|scope| {
        let stopping = AtEnd(&books);
        let writing: Vec<_> = writers
            .iter()
            .enumerate()
            .map(|(writer, objects)| {
                scope.spawn({
                    let books = &books;
                    move || books.write(objects, writer)
                })
            })
            .collect();
        for number in 0..kills() {
            let (begun, before) = (Instant::now(), books.count(&books.acknowledged));
            let wanted = PUTS_BETWEEN / 2 + chance.below(PUTS_BETWEEN);
            wait_until("puts go on", MEMBERSHIP_DEADLINE, || {
                books.count(&books.acknowledged) - before >= wanted
            });
            loaded += begun.elapsed();
            puts += books.count(&books.acknowledged) - before;
            kill(master, &books);
            let first = chance.below(CHUNKS);
            let some = (first..first + CHECKED_CHUNKS).map(|chunk| chunk % CHUNKS);
            books.check((&reader, master), some, &format!("after kill {number}"));
        }
        drop(stopping);
        writing.into_iter().for_each(|writer| writer.join().expect("a writer ends"));
    });
    books.check((&reader, master), 0..CHUNKS, "at the end");
    let counts = [&books.acknowledged, &books.removed, &books.unanswered, &books.read];
    let [acknowledged, removed, unanswered, read] = counts.map(|of| books.count(of));
    let rate = puts as f64 / loaded.as_secs_f64();
    eprintln!(
        "kills {}, puts acknowledged {acknowledged} ({rate:.0}/s between kills), removals \
         {removed}, calls without an answer {unanswered} keys, keys read and right {read}, \
         written to the disk {} objects",
        kills(),
        master.metric_sum("perigee_demotions_total"),
    );
}

#[test]
#[ignore = "takes minutes: make kills"]
fn masters_that_are_killed_under_load_lose_nothing_and_bring_nothing_back() {
    let (mut master, folder) = (Master::start(&FLAGS), TempDir::new().expect("a folder"));
    let _node = started(&master, &folder);
    play(&mut master, |master, _| {
        master.program.kill();
        master.start_again();
    });
}

#[test]
#[ignore = "takes minutes: make kills"]
fn nodes_that_are_killed_while_they_write_to_their_disk_bring_nothing_back() {
    let (mut master, folder) = (Master::start(&FLAGS), TempDir::new().expect("a folder"));
    let mut node = started(&master, &folder);
    play(&mut master, |master, books| {
        node.program.kill();
        node = started(master, &folder);
        // Not before: until the disk is mounted again the master takes the memory to be there.
        books.lose_memory();
    });
}
