//! Clients, nodes and masters that are killed or frozen in the middle of work.
//! Invariant: a miss or an error is allowed, wrong bytes and endless waits are not.

use nix::sys::signal::Signal;
use perigee_schemas::Status;
use perigee_store::ReplicateConfig;
use perigee_tests::cluster::{Master, Node};
use perigee_tests::deadline::wait_until;
use perigee_tests::limits::{ANSWER_DEADLINE, MEMBERSHIP_DEADLINE};
use perigee_tests::objects::{Objects, key_name};
use perigee_tests::program::Program;

const DRIVER: &str = env!("CARGO_BIN_EXE_store-driver");
const KEYS: u64 = 64;
const OBJECT_BYTES: usize = 256 << 10;
/// Room for all rounds of a test: nothing is evicted.
const POOL_BYTES: u64 = 128 << 20;

fn driver(mode: &str, master: &Master, first: u64, bytes: usize) -> Program {
    let program = Program::start_file(
        DRIVER,
        &[mode, &master.address(), &first.to_string(), &KEYS.to_string(), &bytes.to_string()],
    );
    wait_until("the driver works", MEMBERSHIP_DEADLINE, || program.log().lines().count() > 10);
    program
}

#[track_caller]
fn put_all(objects: &Objects) {
    for key in 0..KEYS {
        assert_eq!(objects.put_object(key, 1, OBJECT_BYTES), Status::Ok, "key {key}");
    }
}

/// Whether none of the keys is left. Asking for existence would renew their leases.
fn remove_all_keys(objects: &Objects) -> bool {
    let names: Vec<String> = (0..KEYS).map(key_name).collect();
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    let statuses = objects.store.remove(&keys, false);
    statuses.iter().all(|status| matches!(status, Status::Ok | Status::ObjectNotFound))
}

#[test]
fn keys_of_a_killed_node_become_misses_and_the_others_keep_working() {
    let master = Master::start(&[]);
    let mut dead = Node::start(&master, POOL_BYTES);
    let _alive = Node::start(&master, POOL_BYTES);
    let objects = Objects::open(&master.address());
    put_all(&objects);
    let (lost, kept): (Vec<u64>, Vec<u64>) =
        (0..KEYS).partition(|key| objects.segment_of(*key).as_ref() == Some(&dead.name));
    assert!(!lost.is_empty() && !kept.is_empty(), "objects lie on both nodes");
    dead.program.kill();
    for key in &lost {
        // Memory that is mapped here outlives its owner, so right bytes are as good as an error.
        let _ = objects.get_object(*key, OBJECT_BYTES);
    }
    for key in &kept {
        assert_eq!(objects.get_object(*key, OBJECT_BYTES), Ok(1));
    }
    wait_until("the lost keys are misses", MEMBERSHIP_DEADLINE, || {
        lost.iter().all(|key| !objects.exists(&key_name(*key)))
    });
    for key in &lost {
        assert_eq!(objects.put_object(*key, 2, OBJECT_BYTES), Status::Ok);
        assert_eq!(objects.get_object(*key, OBJECT_BYTES), Ok(2));
    }
}

#[test]
fn objects_with_a_second_replica_stay_readable_when_a_node_is_killed() {
    let master = Master::start(&[]);
    let mut dead = Node::start(&master, POOL_BYTES);
    let _alive = Node::start(&master, POOL_BYTES);
    let objects = Objects::open_over_tcp(&master.address());
    let twice = ReplicateConfig { replica_num: 2, ..ReplicateConfig::default() };
    let names: Vec<String> = (0..KEYS).map(key_name).collect();
    let value = vec![7; OBJECT_BYTES];
    for name in &names {
        assert_eq!(objects.put_with(name, &value, &twice), Status::Ok);
    }
    dead.program.kill();
    // Within the dead node's time to live the master still names both replicas.
    for name in &names {
        assert!(objects.get(name, OBJECT_BYTES).as_ref() == Ok(&value), "{name}");
    }
}

#[test]
fn a_client_goes_on_after_its_master_was_killed_and_restarted() {
    let mut master = Master::start(&[]);
    let _node = Node::start(&master, POOL_BYTES);
    let objects = Objects::open_as(&master.address(), "127.0.0.1", 16 << 20);
    master.wait_for_segments(2);
    assert_eq!(objects.put_object(1, 1, OBJECT_BYTES), Status::Ok);
    master.program.kill();
    assert_ne!(objects.put_object(2, 1, OBJECT_BYTES), Status::Ok);
    assert!(objects.get_object(1, OBJECT_BYTES).is_err());
    assert!(!objects.exists(&key_name(1)));
    master.start_again();
    master.wait_for_segments(2);
    wait_until("puts work again", MEMBERSHIP_DEADLINE, || {
        objects.put_object(3, 1, OBJECT_BYTES) == Status::Ok
    });
    assert_eq!(objects.get_object(3, OBJECT_BYTES), Ok(1));
    assert_eq!(objects.get_object(1, OBJECT_BYTES), Ok(1));
}

#[test]
fn a_client_killed_between_puts_leaves_whole_objects_or_none() {
    let master = Master::start(&["--put_start_discard_timeout_sec=1"]);
    let _node = Node::start(&master, POOL_BYTES);
    let objects = Objects::open(&master.address());
    for round in 0..5 {
        let first = round * KEYS;
        driver("put", &master, first, OBJECT_BYTES).kill();
        for key in first..first + KEYS {
            // Fails by itself on bytes that are not the object's own.
            let _ = objects.get_object(key, OBJECT_BYTES);
        }
        wait_until("every key can be put again", MEMBERSHIP_DEADLINE, || {
            (first..first + KEYS).all(|key| objects.put_object(key, 9, OBJECT_BYTES) == Status::Ok)
        });
        let found: Vec<_> =
            (first..first + KEYS).map(|key| objects.get_object(key, OBJECT_BYTES)).collect();
        assert!(found.iter().any(Result::is_ok), "round {round}: {found:?}");
    }
}

#[test]
fn a_client_killed_between_gets_leaves_nothing_behind() {
    let master = Master::start(&["--default_kv_lease_ttl=50"]);
    let _node = Node::start(&master, POOL_BYTES);
    let objects = Objects::open(&master.address());
    put_all(&objects);
    for _ in 0..5 {
        driver("get", &master, 0, OBJECT_BYTES).kill();
    }
    for key in 0..KEYS {
        assert_eq!(objects.get_object(key, OBJECT_BYTES), Ok(1));
    }
    wait_until("leases of the dead end", ANSWER_DEADLINE, || remove_all_keys(&objects));
}

#[test]
fn a_reader_frozen_beyond_its_lease_reads_right_bytes_or_fails() {
    const ROUNDS: u64 = 20;
    const BYTES: usize = 2 << 20;
    let master = Master::start(&["--default_kv_lease_ttl=50"]);
    let _node = Node::start(&master, POOL_BYTES);
    let objects = Objects::open(&master.address());
    let put_some = |round: u64| {
        for key in 0..KEYS {
            // Without room the put fails, which is fine: other objects fill the space.
            let _ = objects.put_object(key, round, BYTES);
        }
    };
    put_some(0);
    let mut reader = driver("get", &master, 0, BYTES);
    for round in 1..=ROUNDS {
        reader.signal(Signal::SIGSTOP);
        wait_until("leases of the frozen reader end", ANSWER_DEADLINE, || {
            remove_all_keys(&objects)
        });
        put_some(round);
        let seen = reader.log().lines().count();
        reader.signal(Signal::SIGCONT);
        wait_until("the thawed reader reads on", ANSWER_DEADLINE, || {
            !reader.is_running() || reader.log().lines().count() > seen + 10
        });
        assert!(reader.is_running(), "round {round}: {}", reader.log());
    }
    assert!(!reader.log().contains("wrong"));
}
