//! Clients killed inside a batch, and calls whose node or master has died or frozen.
//! Invariant: each call ends, work goes on elsewhere, and no byte is wrong.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use perigee_schemas::Status;
use perigee_tests::cluster::{Master, Node};
use perigee_tests::deadline::{comes_true, wait_until, within};
use perigee_tests::limits::{
    ANSWER_DEADLINE, CALL_DEADLINE, CLIENT_TTL_SECONDS, FROZEN_NODE_CALL_DEADLINE,
    MEMBERSHIP_DEADLINE, REFUSED_CALL_DEADLINE,
};
use perigee_tests::objects::{Objects, key_name};
use perigee_tests::program::Program;

const DRIVER: &str = env!("CARGO_BIN_EXE_store-driver");
const KEYS: u64 = 12;
const OBJECT_BYTES: usize = 4 << 20;
/// Several batches: what dead writers had begun keeps its space for a while.
const POOL_BYTES: u64 = 384 << 20;
const KILLS: u64 = 4;
const SMALL_BYTES: usize = 64 << 10;

/// Kills a driver that has begun a batch and not ended it, as its last line tells.
fn kill_inside_a_batch(mode: &str, master: &Master) {
    let arguments = [
        mode.to_owned(),
        master.address(),
        "0".to_owned(),
        KEYS.to_string(),
        OBJECT_BYTES.to_string(),
    ];
    let is_inside = |program: &Program| {
        let log = program.log();
        log.lines().count() > 4 && log.lines().last().is_some_and(|l| l.starts_with("begin"))
    };
    wait_until("a batch is cut off", MEMBERSHIP_DEADLINE, || {
        let mut program = Program::start_file(DRIVER, &arguments);
        wait_until("the driver is inside a batch", MEMBERSHIP_DEADLINE, || is_inside(&program));
        program.kill();
        assert!(!program.log().contains("wrong"), "{}", program.log());
        is_inside(&program)
    });
}

fn keys() -> Vec<u64> {
    (0..KEYS).collect()
}

/// Whether all objects are there, and of this version.
#[track_caller]
fn all_are(objects: &Objects, version: u64) -> bool {
    let results = objects.get_objects(&keys(), OBJECT_BYTES);
    let wrong = results.iter().position(|read| *read == Ok(None));
    assert_eq!(wrong, None, "the object at this place has wrong bytes");
    results.iter().all(|read| *read == Ok(Some(version)))
}

#[test]
fn a_client_killed_inside_a_put_leaves_whole_objects_that_can_be_replaced() {
    let master =
        Master::start(&["--put_start_discard_timeout_sec=1", "--put_start_release_timeout_sec=2"]);
    let node = Node::start(&master, POOL_BYTES);
    let objects = Objects::open_over_tcp(&master.address());
    for round in 1..=KILLS {
        kill_inside_a_batch("put-batch", &master);
        // Fails by itself on bytes that are not the object's own.
        all_are(&objects, 0);
        let version = round << 32;
        wait_until("every key can be replaced", MEMBERSHIP_DEADLINE, || {
            let statuses = objects.upsert_objects(&keys(), version, OBJECT_BYTES);
            statuses.iter().all(|status| *status == Status::Ok)
        });
        assert!(all_are(&objects, version), "round {round}");
    }
    assert!(!node.program.log().contains("panicked"));
}

#[test]
fn a_client_killed_inside_a_get_leaves_nothing_behind() {
    let master = Master::start(&["--default_kv_lease_ttl=50"]);
    let node = Node::start(&master, POOL_BYTES);
    let objects = Objects::open_over_tcp(&master.address());
    let statuses = objects.upsert_objects(&keys(), 1, OBJECT_BYTES);
    assert!(statuses.iter().all(|status| *status == Status::Ok));
    for round in 0..KILLS {
        kill_inside_a_batch("get-batch", &master);
        assert!(all_are(&objects, 1), "round {round}");
    }
    let names: Vec<String> = keys().into_iter().map(key_name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    wait_until("leases of the dead end", ANSWER_DEADLINE, || {
        let statuses = objects.store.remove(&names, false);
        statuses.iter().all(|status| matches!(status, Status::Ok | Status::ObjectNotFound))
    });
    assert!(!node.program.log().contains("panicked"));
}

/// Puts small objects one by one until all of a round succeed; each call ends within `limit`.
#[track_caller]
fn puts_succeed_again(objects: &Objects, limit: Duration) {
    let mut key = 1000;
    wait_until("all puts succeed again", MEMBERSHIP_DEADLINE, || {
        (0..KEYS).all(|_| {
            key += 1;
            let put = || objects.put_object(key, 1, SMALL_BYTES);
            within("a put", limit, put) == Status::Ok
        })
    });
    assert_eq!(objects.get_object(key, SMALL_BYTES), Ok(1));
}

#[test]
fn puts_after_a_node_died_end_in_time_and_soon_all_succeed() {
    let master = Master::start(&[]);
    let mut dead = Node::start(&master, POOL_BYTES);
    let _alive = Node::start(&master, POOL_BYTES);
    let objects = Objects::open_over_tcp(&master.address());
    dead.program.kill();
    puts_succeed_again(&objects, CALL_DEADLINE);
    master.wait_for_segments(1);
    for key in 0..KEYS {
        assert_eq!(objects.put_object(key, 1, SMALL_BYTES), Status::Ok);
    }
}

#[test]
fn calls_that_need_a_frozen_node_end_and_the_next_ones_succeed() {
    let master = Master::start(&[]);
    let frozen = Node::start(&master, POOL_BYTES);
    let objects = Objects::open_over_tcp(&master.address());
    assert_eq!(objects.put_object(1, 1, SMALL_BYTES), Status::Ok);
    let _alive = Node::start(&master, POOL_BYTES);
    frozen.program.signal(Signal::SIGSTOP);
    let get = || objects.get_object(1, SMALL_BYTES);
    wait_until("a frozen node gives nothing", MEMBERSHIP_DEADLINE, || {
        within("a get", FROZEN_NODE_CALL_DEADLINE, get).is_err()
    });
    puts_succeed_again(&objects, FROZEN_NODE_CALL_DEADLINE);
    frozen.program.signal(Signal::SIGCONT);
    master.wait_for_segments(2);
    puts_succeed_again(&objects, CALL_DEADLINE);
}

#[test]
fn calls_to_a_frozen_master_end_and_the_next_ones_fail_without_waiting_for_it() {
    let master = Master::start(&[]);
    let _node = Node::start(&master, POOL_BYTES);
    let objects = Objects::open(&master.address());
    assert_eq!(objects.put_object(1, 1, SMALL_BYTES), Status::Ok);
    master.program.signal(Signal::SIGSTOP);
    let get = || objects.get_object(1, SMALL_BYTES);
    wait_until("a call after a late one fails at once", MEMBERSHIP_DEADLINE, || {
        // The signal takes a moment to reach every thread: until then it still answers.
        let late = within("a get", CALL_DEADLINE, get).is_err();
        let start = Instant::now();
        late && get().is_err() && start.elapsed() <= REFUSED_CALL_DEADLINE
    });
    master.program.signal(Signal::SIGCONT);
    puts_succeed_again(&objects, CALL_DEADLINE);
}

/// Well above what the tests' masters allow a client to be silent.
const LONG_STOP: Duration = Duration::from_secs(2 * CLIENT_TTL_SECONDS);

#[test]
fn a_master_that_was_stopped_for_longer_than_its_clients_live_has_kept_their_objects() {
    let master = Master::start(&[]);
    let _node = Node::start(&master, POOL_BYTES);
    let objects = Objects::open(&master.address());
    for key in 0..KEYS {
        assert_eq!(objects.put_object(key, 1, SMALL_BYTES), Status::Ok);
    }
    master.program.signal(Signal::SIGSTOP);
    // The length of the stop is the input of this test; nothing is waited for.
    std::thread::sleep(LONG_STOP);
    master.program.signal(Signal::SIGCONT);
    for key in 0..KEYS {
        wait_until("the master answers again", MEMBERSHIP_DEADLINE, || {
            match objects.get_object(key, SMALL_BYTES) {
                Err(Status::ObjectNotFound) => panic!("key {key} was given up with its node"),
                answer => answer == Ok(1),
            }
        });
    }
}

#[test]
fn a_mount_that_a_stopped_master_reads_too_late_does_not_stay() {
    let master = Master::start(&[]);
    let lender = Objects::open_as(&master.address(), "127.0.0.1", POOL_BYTES / 8);
    let logged = |what: &str| master.program.log().matches(what).count();
    let mut unmounted = 0;
    wait_until("a mount is read too late", MEMBERSHIP_DEADLINE, || {
        // The call goes over a connection that has been answered: on a new one it would wait for
        // the greeting.
        if lender.store.health() != 0 {
            return false;
        }
        let read = logged(" Mounting a segment");
        master.program.signal(Signal::SIGSTOP);
        let mounted = lender.store.mount_segment(POOL_BYTES / 8, None);
        master.program.signal(Signal::SIGCONT);
        if let Ok(ids) = mounted {
            // The signal takes a moment to reach every thread.
            assert_eq!(lender.store.unmount_segments(&ids, 0), Status::Ok);
            unmounted += 1;
            return false;
        }
        comes_true(ANSWER_DEADLINE, || logged(" Mounting a segment") > read)
    });
    wait_until("the late mount is undone", MEMBERSHIP_DEADLINE, || {
        logged(" Unmounting a segment") > unmounted && master.segments().len() == 1
    });
}
