//! `--drain_on_stop`: a node that is ended moves its objects away first. Invariant: what was
//! acknowledged is read after the node has gone, if there was room and time for it elsewhere.

use nix::sys::signal::Signal;
use perigee_schemas::Status;
use perigee_tests::cluster::{Master, Node};
use perigee_tests::deadline::wait_until;
use perigee_tests::limits::CALL_DEADLINE;
use perigee_tests::objects::Objects;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const OBJECT_BYTES: usize = 128 << 10;
const POOL_BYTES: u64 = 96 << 20;
/// Objects that lie there before the end begins.
const KEYS: u64 = 64;
/// Objects that fit into one node, with those that are put during the end.
const KEYS_MAX: u64 = 400;
const SHORT_LEASES: &str = "--default_kv_lease_ttl=1000";
/// The time that a drain is given here, and what its process may take beside it.
const PATIENCE: &str = "--drain_on_stop=60";
const END_DEADLINE: Duration = Duration::from_secs(120);

fn port_of(master: &Master) -> String {
    format!("--master_metrics_port={}", master.http.port())
}

/// Ends a node; its log.
#[track_caller]
fn end(node: &mut Node) -> String {
    node.program.signal(Signal::SIGTERM);
    let status = node.program.wait(END_DEADLINE);
    let log = node.program.log();
    assert_eq!(status.and_then(|status| status.code()), Some(0), "{log}");
    log
}

#[test]
fn nothing_that_was_acknowledged_is_lost_with_a_node_that_is_ended() {
    let master = Master::start(&[SHORT_LEASES]);
    let mut leaving = Node::start_with(&master, POOL_BYTES, &[PATIENCE, &port_of(&master)]);
    let objects = Objects::open(&master.address());
    for key in 0..KEYS {
        assert_eq!(objects.put_object(key, 1, OBJECT_BYTES), Status::Ok, "key {key}");
    }
    let _staying = Node::start(&master, POOL_BYTES);
    let ended = AtomicBool::new(false);
    let (log, acknowledged) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let during = (KEYS..KEYS_MAX).take_while(|_| !ended.load(Ordering::Acquire));
            let put = |key: &u64| objects.put_object(*key, 1, OBJECT_BYTES) == Status::Ok;
            during.filter(put).collect::<Vec<u64>>()
        });
        let log = end(&mut leaving);
        ended.store(true, Ordering::Release);
        (log, writer.join().expect("the writer ends"))
    });
    assert!(log.contains("All objects were moved"), "{log}");
    for key in (0..KEYS).chain(acknowledged) {
        assert_eq!(objects.get_object(key, OBJECT_BYTES), Ok(1), "key {key}");
    }
}

#[test]
fn sigterm_alone_loses_nothing_that_others_can_take() {
    let master = Master::start(&[SHORT_LEASES]);
    let mut leaving = Node::start_with(&master, POOL_BYTES, &[&port_of(&master)]);
    let objects = Objects::open(&master.address());
    for key in 0..KEYS {
        assert_eq!(objects.put_object(key, 1, OBJECT_BYTES), Status::Ok, "key {key}");
    }
    let _staying = Node::start(&master, POOL_BYTES);
    let log = end(&mut leaving);
    assert!(log.contains("All objects were moved"), "{log}");
    for key in 0..KEYS {
        assert_eq!(objects.get_object(key, OBJECT_BYTES), Ok(1), "key {key}");
    }
}

#[test]
fn a_master_that_has_just_started_again_is_not_taken_for_one_that_knows_of_nothing() {
    for asked in [None, Some(PATIENCE)] {
        let mut master = Master::start(&[SHORT_LEASES]);
        let port = port_of(&master);
        let flags: Vec<&str> = asked.into_iter().chain([port.as_str()]).collect();
        let mut leaving = Node::start_with(&master, POOL_BYTES, &flags);
        let objects = Objects::open(&master.address());
        for key in 0..KEYS {
            assert_eq!(objects.put_object(key, 1, OBJECT_BYTES), Status::Ok, "key {key}");
        }
        let staying = Node::start(&master, POOL_BYTES);
        // Neither has mounted again when the signal is handled.
        for node in [&leaving, &staying] {
            node.program.signal(Signal::SIGSTOP);
        }
        master.program.kill();
        master.start_again();
        leaving.program.signal(Signal::SIGTERM);
        leaving.program.signal(Signal::SIGCONT);
        wait_until("it drains", CALL_DEADLINE, || leaving.program.log().contains("Moving objects"));
        staying.program.signal(Signal::SIGCONT);
        let status = leaving.program.wait(END_DEADLINE);
        let log = leaving.program.log();
        assert_eq!(status.and_then(|status| status.code()), Some(0), "{log}");
        assert!(log.contains(&format!("All objects were moved objects={KEYS} ")), "{log}");
        for key in 0..KEYS {
            assert_eq!(objects.get_object(key, OBJECT_BYTES), Ok(1), "key {key}");
        }
    }
}

#[test]
fn a_default_drain_does_not_wait_if_no_other_node_takes_objects() {
    let master = Master::start(&[]);
    let port = port_of(&master);
    let mut only = Node::start_with(&master, POOL_BYTES, &[&port]);
    let objects = Objects::open(&master.address());
    assert_eq!(objects.put_object(0, 1, OBJECT_BYTES), Status::Ok);
    let log = end(&mut only);
    assert!(log.contains("Objects are dropped with this node") && log.contains("No other node"));
    let mut interrupted = Node::start_with(&master, POOL_BYTES, &[&port]);
    interrupted.program.signal(Signal::SIGINT);
    assert!(interrupted.program.wait(CALL_DEADLINE).is_some());
    assert!(!interrupted.program.log().contains("Moving objects"), "{}", interrupted.program.log());
}

#[test]
fn a_node_whose_objects_have_nowhere_to_go_ends_within_its_time() {
    let master = Master::start(&[SHORT_LEASES]);
    let short = "--drain_on_stop=2";
    let mut only = Node::start_with(&master, POOL_BYTES, &[short, &port_of(&master)]);
    let objects = Objects::open(&master.address());
    assert_eq!(objects.put_object(0, 1, OBJECT_BYTES), Status::Ok);
    let log = end(&mut only);
    assert!(log.contains("Objects are dropped with this node"), "{log}");
    assert_eq!(objects.get_object(0, OBJECT_BYTES), Err(Status::ObjectNotFound));
}

#[test]
fn a_second_signal_does_not_wait_for_the_drain() {
    let master = Master::start(&[]);
    let mut only = Node::start_with(&master, POOL_BYTES, &[PATIENCE, &port_of(&master)]);
    let objects = Objects::open(&master.address());
    assert_eq!(objects.put_object(0, 1, OBJECT_BYTES), Status::Ok);
    only.program.signal(Signal::SIGTERM);
    wait_until("it drains", CALL_DEADLINE, || {
        only.program.log().contains("Moving objects to other nodes")
    });
    only.program.signal(Signal::SIGTERM);
    assert!(only.program.wait(CALL_DEADLINE).is_some(), "{}", only.program.log());
}
