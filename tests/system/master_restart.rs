//! Masters that are killed and started again while their nodes live on.
//! Invariant: what was acknowledged is there again with right bytes, and nothing that was removed.

use nix::sys::signal::Signal;
use perigee_schemas::Status;
use perigee_store::ReplicateConfig;
use perigee_tests::cluster::{Master, Node};
use perigee_tests::deadline::wait_until;
use perigee_tests::limits::MEMBERSHIP_DEADLINE;
use perigee_tests::objects::{Objects, key_name};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const OBJECT_BYTES: usize = 16 << 10;
/// Room for all objects of a test: nothing is evicted.
const POOL_BYTES: u64 = 192 << 20;
const KEYS: u64 = 3_000;
const KILLS: u64 = 20;

/// Reads an object; a client that has just missed its master fails for a moment more.
fn read(objects: &Objects, key: u64, bytes: usize) -> Result<u64, Status> {
    let mut found = Err(Status::RpcFail);
    wait_until("the client reaches the master", MEMBERSHIP_DEADLINE, || {
        found = objects.get_object(key, bytes);
        found != Err(Status::RpcFail)
    });
    found
}

/// Reads an object that must be there. On a host with more to do than it can, its owner may be late
/// to announce it: then a call has waited as long as it may, and misses once.
fn read_acknowledged(objects: &Objects, key: u64, bytes: usize, when: &str) {
    wait_until(&format!("key {key} is there {when}"), MEMBERSHIP_DEADLINE, || {
        match read(objects, key, bytes) {
            Err(Status::ObjectNotFound) => false,
            found => {
                assert_eq!(found, Ok(key), "{when}");
                true
            }
        }
    });
}

/// Raises a flag at the end of its life, so that a failure does not leave a thread behind.
struct AtEnd<'a>(&'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn is_removed(key: u64) -> bool {
    key % 7 == 3
}

#[test]
fn three_thousand_objects_outlive_a_killed_master() {
    let mut master = Master::start(&["--rpc_shards=2"]);
    let _nodes = [Node::start(&master, POOL_BYTES), Node::start(&master, POOL_BYTES)];
    let objects = Objects::open(&master.address());
    for key in 0..KEYS {
        assert_eq!(objects.put_object(key, 1, OBJECT_BYTES), Status::Ok, "key {key}");
    }
    for key in (0..KEYS).filter(|key| is_removed(*key)) {
        assert_eq!(objects.store.remove(&[&key_name(key)], true), [Status::Ok]);
    }
    master.program.kill();
    master.start_again();
    let check = || {
        for key in 0..KEYS {
            match is_removed(key) {
                true => assert!(!objects.exists(&key_name(key)), "{key} was removed"),
                false => assert_eq!(read(&objects, key, OBJECT_BYTES), Ok(1), "key {key}"),
            }
        }
    };
    check();
    for key in KEYS..2 * KEYS {
        assert_eq!(objects.put_object(key, 2, OBJECT_BYTES), Status::Ok, "key {key}");
    }
    check();
    for key in KEYS..2 * KEYS {
        assert_eq!(read(&objects, key, OBJECT_BYTES), Ok(2), "key {key}");
    }
    assert!(master.metric_sum("perigee_adopted_objects_total") > 0.0);
    assert!(master.metric_sum("perigee_rebuild_seconds") > 0.0);
}

#[test]
fn an_owner_that_missed_a_life_of_the_master_brings_back_no_removed_key() {
    let mut master = Master::start(&["--rpc_shards=2"]);
    let nodes = [Node::start(&master, POOL_BYTES), Node::start(&master, POOL_BYTES)];
    let objects = Objects::open(&master.address());
    let on_both = ReplicateConfig { replica_num: 2, ..ReplicateConfig::default() };
    let on_one = ReplicateConfig {
        preferred_segments: vec![nodes[1].name.clone()],
        ..ReplicateConfig::default()
    };
    let value = vec![7; OBJECT_BYTES];
    for (key, config) in
        [("known", &on_both), ("away", &on_one), ("prompt-1", &on_one), ("kept", &on_one)]
    {
        assert_eq!(objects.put_with(key, &value, config), Status::Ok, "{key}");
    }
    nodes[1].program.signal(Signal::SIGSTOP);
    master.program.kill();
    master.start_again();
    wait_until("the first owner is back", MEMBERSHIP_DEADLINE, || objects.exists("known"));
    assert_eq!(objects.store.remove(&["known"], true), [Status::Ok]);
    assert_eq!(objects.store.remove(&["away"], true), [Status::ObjectNotFound]);
    assert_eq!(objects.store.remove_by_regex("^prompt-", true), Ok(0), "its owner is away");
    master.program.kill();
    master.start_again();
    master.wait_for_segments(1);
    nodes[1].program.signal(Signal::SIGCONT);
    wait_until("the other owner is back", MEMBERSHIP_DEADLINE, || objects.exists("kept"));
    for key in ["known", "away", "prompt-1"] {
        assert!(!objects.exists(key), "{key} was removed");
    }
    assert_eq!(objects.put_with("known", &value, &on_one), Status::Ok);
    master.program.kill();
    master.start_again();
    wait_until("what was written again stays", MEMBERSHIP_DEADLINE, || objects.exists("known"));
}

/// Puts objects one after the other until it is to stop; the number of those acknowledged is
/// always up to date, and a put that fails is tried again.
fn put_until(objects: &Objects, stop: &AtomicBool, acknowledged: &AtomicU64) {
    while !stop.load(Ordering::Acquire) {
        let key = acknowledged.load(Ordering::Acquire);
        if objects.put_object(key, key, OBJECT_BYTES / 16) == Status::Ok {
            acknowledged.store(key + 1, Ordering::Release);
        }
    }
}

#[test]
fn no_acknowledged_object_is_lost_when_masters_are_killed_under_load() {
    let mut master = Master::start(&["--rpc_shards=2"]);
    let _node = Node::start(&master, 2 * POOL_BYTES);
    let objects = Objects::open(&master.address());
    let writer = Objects::open(&master.address());
    let (stop, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let stopping = AtEnd(&stop);
        let writing = scope.spawn(|| put_until(&writer, &stop, &acknowledged));
        let mut checked = 0;
        for kill in 0..KILLS {
            let before = acknowledged.load(Ordering::Acquire);
            wait_until("puts go on", MEMBERSHIP_DEADLINE, || {
                acknowledged.load(Ordering::Acquire) >= before + 50
            });
            master.program.kill();
            let there = acknowledged.load(Ordering::Acquire);
            master.start_again();
            let when = format!("after kill {kill}");
            (checked..there)
                .for_each(|key| read_acknowledged(&objects, key, OBJECT_BYTES / 16, &when));
            checked = there.saturating_sub(500);
        }
        drop(stopping);
        writing.join().expect("the writer ends");
    });
    for key in 0..acknowledged.load(Ordering::Acquire) {
        read_acknowledged(&objects, key, OBJECT_BYTES / 16, "at the end");
    }
}
