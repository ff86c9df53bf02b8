//! Memory limits of containers. Invariant: the owner of a segment pays for its pages and never for
//! more than its container has; whatever fills up, no process is killed.

use perigee_schemas::Status;
use perigee_tests::cgroup::MemoryGroup;
use perigee_tests::cluster::{Master, NODE, Node, node_flags};
use perigee_tests::deadline::wait_until;
use perigee_tests::limits::{EXIT_DEADLINE, MEMBERSHIP_DEADLINE};
use perigee_tests::network::free_ports;
use perigee_tests::objects::Objects;
use perigee_tests::program::{self, Program};

const DRIVER: &str = env!("CARGO_BIN_EXE_store-driver");
const MIB: u64 = 1 << 20;
const OBJECT_BYTES: usize = 1 << 20;

/// Starts a program inside a group.
fn start_in(group: &MemoryGroup, name: &str, file: &str, arguments: &[String]) -> Program {
    let mut words = vec!["-c".to_owned(), group.enter(name), "sh".to_owned(), file.to_owned()];
    words.extend_from_slice(arguments);
    Program::start_file("bash", &words)
}

/// A node of a master that donates `bytes`, inside a group.
fn node_in(group: &MemoryGroup, master: &Master, bytes: u64) -> Program {
    let [port] = free_ports();
    let file = program::path();
    let flags = node_flags(master, port, &bytes.to_string());
    start_in(group, NODE, &file.to_string_lossy(), &flags)
}

fn wait_until_ready(node: &mut Program) {
    wait_until("the node is ready", MEMBERSHIP_DEADLINE, || {
        assert!(node.is_running(), "log:\n{}", node.log());
        node.log().contains("Ready")
    });
}

/// Puts objects of 1 MiB with new keys; how many there was room for. None may fail for another
/// reason than a full pool.
fn fill(objects: &Objects, first: u64, count: u64) -> u64 {
    let mut stored = 0;
    for key in first..first + count {
        match objects.put_object(key, 1, OBJECT_BYTES) {
            Status::Ok => stored += 1,
            Status::NoAvailableHandle => {}
            other => unreachable!("put of {key}: {other}"),
        }
    }
    stored
}

fn right_ones(objects: &Objects, first: u64, count: u64) -> u64 {
    let right = |key: &u64| match objects.get_object(*key, OBJECT_BYTES) {
        Ok(version) => {
            assert_eq!(version, 1, "key {key}");
            true
        }
        Err(_) => false,
    };
    (first..first + count).filter(right).count() as u64
}

#[test]
fn a_writer_in_a_small_container_does_not_pay_for_the_pages_of_the_node() {
    let Some(group) = MemoryGroup::limited_to(120 * MIB) else {
        return;
    };
    let master = Master::start(&[]);
    let _node = Node::start(&master, 512 * MIB);
    let words = ["put", &master.address(), "0", "400", &OBJECT_BYTES.to_string()];
    let words = words.map(str::to_owned);
    let mut writer = start_in(&group, "store-driver", DRIVER, &words);
    wait_until("the writer has filled 400 MiB", MEMBERSHIP_DEADLINE, || {
        assert!(writer.is_running(), "log:\n{}", writer.log());
        writer.log().contains("put 399 0")
    });
    let before = group.used_bytes();
    assert!(before < 110 * MIB, "{} MiB are charged to the writer", before / MIB);
    writer.kill();
    wait_until("nothing stays charged", EXIT_DEADLINE, || group.used_bytes() < 40 * MIB);
}

#[test]
fn a_node_that_asks_for_more_than_its_container_has_serves_what_there_is() {
    let Some(group) = MemoryGroup::limited_to(256 * MIB) else {
        return;
    };
    let master = Master::start(&[]);
    let mut node = node_in(&group, &master, 1024 * MIB);
    wait_until_ready(&mut node);
    assert!(node.log().contains("of the 1 GiB asked for can be donated"), "log:\n{}", node.log());
    assert!(group.used_bytes() < 200 * MIB, "memory follows use");
    let said = node.log();
    let lent = said.split("segment_bytes=").nth(1).and_then(|it| it.split_whitespace().next());
    let lent: u64 = lent.and_then(|bytes| bytes.parse().ok()).expect("Ready says what is lent");
    assert!((64 * MIB..224 * MIB).contains(&lent), "{lent} bytes");
    let capacity = master.metric("master_total_capacity_bytes").unwrap_or(0.0);
    assert!((64.0 * MIB as f64..224.0 * MIB as f64).contains(&capacity), "{capacity} bytes");
    for objects in [Objects::open(&master.address()), Objects::open_over_tcp(&master.address())] {
        let stored = fill(&objects, 0, 400);
        assert!(stored >= 64, "{stored} objects stored");
        assert!(node.is_running(), "log:\n{}", node.log());
    }
    let objects = Objects::open(&master.address());
    assert!(right_ones(&objects, 0, 400) >= 32);
    node.stop();
}

#[test]
fn a_strict_node_refuses_a_segment_that_its_container_cannot_hold() {
    let Some(group) = MemoryGroup::limited_to(128 * MIB) else {
        return;
    };
    let master = Master::start(&[]);
    let [port] = free_ports();
    let flags = node_flags(&master, port, "1gb");
    let file = program::path();
    let mut words =
        vec!["PERIGEE_STRICT_SEGMENT=1".to_owned(), file.to_string_lossy().into_owned()];
    words.extend(["node".to_owned()]);
    words.extend(flags);
    let mut node = start_in(&group, "env", "env", &words);
    let status = node.wait(EXIT_DEADLINE);
    assert!(status.is_some_and(|status| !status.success()));
    assert!(node.log().contains("Cannot donate 1 GiB"), "{}", node.log());
}

#[test]
fn a_container_that_fills_up_later_costs_room_and_no_process() {
    let Some(group) = MemoryGroup::limited_to(320 * MIB) else {
        return;
    };
    let master = Master::start(&[]);
    let mut node = node_in(&group, &master, 224 * MIB);
    wait_until_ready(&mut node);
    let capacity = || master.metric("master_total_capacity_bytes").unwrap_or(0.0) as u64 / MIB;
    assert_eq!(capacity(), 224);
    // Takes most of what the segment has not populated yet.
    let words = ["hold".to_owned(), (160 * MIB).to_string()];
    let mut hog = start_in(&group, "store-driver", DRIVER, &words);
    wait_until("the container fills", MEMBERSHIP_DEADLINE, || {
        assert!(hog.is_running(), "the kernel killed it");
        hog.log().contains("holding")
    });
    let objects = Objects::open(&master.address());
    let stored = fill(&objects, 0, 200);
    assert!(node.is_running() && hog.is_running(), "log:\n{}", node.log());
    assert!(stored >= 16, "{stored} objects stored");
    assert!(right_ones(&objects, 0, 200) > 0);
    wait_until("the master knows of it", MEMBERSHIP_DEADLINE, || (16..160).contains(&capacity()));
    // What is stored now takes the place of older objects.
    wait_until("the segment evicts", MEMBERSHIP_DEADLINE, || fill(&objects, 500, 8) == 8);
    hog.kill();
    wait_until("there is room again", MEMBERSHIP_DEADLINE, || capacity() == 224);
    assert_eq!(fill(&objects, 1000, 8), 8);
    node.stop();
}

/// What the owner has pages for is used again and again, also where it never gets all pages.
#[test]
fn a_container_as_large_as_its_segment_goes_on_taking_objects() {
    const ROUND: u64 = 100;
    let Some(group) = MemoryGroup::limited_to(400 * MIB) else {
        return;
    };
    let master = Master::start(&[]);
    let mut node = node_in(&group, &master, 400 * MIB);
    wait_until_ready(&mut node);
    let objects = Objects::open(&master.address());
    // More than twice what fits.
    (0..10).for_each(|round| _ = fill(&objects, round * ROUND, ROUND));
    let mut first = 1_000;
    wait_until("nothing is refused any more", MEMBERSHIP_DEADLINE, || {
        first += ROUND;
        fill(&objects, first, ROUND) == ROUND
    });
    assert_eq!(right_ones(&objects, first, ROUND), ROUND);
    for round in 0..10 {
        let stored = fill(&objects, 100_000 + round * ROUND, ROUND);
        assert!(stored == ROUND, "{stored} of {ROUND} objects in round {round}");
    }
    assert!(node.is_running(), "log:\n{}", node.log());
    node.stop();
}
