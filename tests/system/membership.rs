//! Nodes that die, freeze or come back, and masters that restart.
//! Invariant: the list of segments tells who lends memory now, within the time to live.

use std::collections::BTreeSet;

use nix::sys::signal::Signal;
use perigee_tests::cluster::{Master, NODE, Node, node_flags};
use perigee_tests::deadline::wait_until;
use perigee_tests::http;
use perigee_tests::limits::MEMBERSHIP_DEADLINE;
use perigee_tests::program::Program;

const SEGMENT_BYTES: u64 = 16 << 20;

#[test]
fn segments_of_a_killed_node_leave_within_the_time_to_live() {
    let master = Master::start(&[]);
    let mut dead = Node::start(&master, SEGMENT_BYTES);
    let alive = Node::start(&master, SEGMENT_BYTES);
    dead.program.kill();
    master.wait_for_segments(1);
    assert_eq!(master.segment_names(), [alive.name]);
}

#[test]
fn a_node_that_is_asked_to_end_takes_its_segments_along_at_once() {
    // Only an orderly goodbye can be seen this early: silence is forgiven for an hour.
    let master = Master::start(&["--client_ttl=3600"]);
    let mut node = Node::start(&master, SEGMENT_BYTES);
    node.program.stop();
    master.wait_for_segments(0);
    let logged = |what: &str| {
        let log = master.program.log();
        log.lines().any(|line| line.contains(what) && line.contains(&node.name))
    };
    wait_until("the log tells who came and went", MEMBERSHIP_DEADLINE, || {
        logged(" Mounting a segment") && logged(" Unmounting a segment")
    });
}

#[test]
fn a_frozen_node_expires_and_mounts_again_when_it_thaws() {
    let master = Master::start(&[]);
    let node = Node::start(&master, SEGMENT_BYTES);
    node.program.signal(Signal::SIGSTOP);
    master.wait_for_segments(0);
    node.program.signal(Signal::SIGCONT);
    master.wait_for_segments(1);
    assert_eq!(master.segment_names(), std::slice::from_ref(&node.name));
}

#[test]
fn nodes_mount_again_by_themselves_after_the_master_was_killed() {
    let mut master = Master::start(&[]);
    let nodes = [Node::start(&master, SEGMENT_BYTES), Node::start(&master, SEGMENT_BYTES)];
    let mut names = nodes.each_ref().map(|node| node.name.clone());
    master.program.kill();
    master.start_again();
    master.wait_for_segments(2);
    let mut found = master.segment_names();
    found.sort();
    names.sort();
    assert_eq!(found, names);
}

#[test]
fn a_frozen_master_is_only_late() {
    let master = Master::start(&[]);
    let mut node = Node::start(&master, SEGMENT_BYTES);
    master.program.signal(Signal::SIGSTOP);
    // A thread on another core may answer once more before the signal reaches it.
    wait_until("the master is frozen", MEMBERSHIP_DEADLINE, || {
        http::request(master.http, "GET", "/health").is_err()
    });
    master.program.signal(Signal::SIGCONT);
    wait_until("the thawed master answers", MEMBERSHIP_DEADLINE, || master.is_serving());
    master.wait_for_segments(1);
    assert!(node.program.is_running());
}

#[test]
fn a_segment_of_any_size_is_mounted_with_exactly_that_capacity() {
    let master = Master::start(&[]);
    let bytes = (5 << 20) + 123;
    let _node = Node::start(&master, bytes);
    assert_eq!(master.segments()[0]["size_bytes"].as_u64(), Some(bytes));
}

#[test]
fn nodes_of_one_host_have_segments_of_their_own() {
    let master = Master::start(&[]);
    let nodes: Vec<Node> = (0..3).map(|_| Node::start(&master, SEGMENT_BYTES)).collect();
    assert_eq!(master.segment_names().len(), nodes.len());
    let capacity = master.metric("master_total_capacity_bytes");
    assert_eq!(capacity, Some(3.0 * SEGMENT_BYTES as f64));
}

#[test]
fn nodes_of_one_host_that_were_given_no_port_have_names_of_their_own() {
    let master = Master::start(&[]);
    let mut flags = node_flags(&master, 1, &SEGMENT_BYTES.to_string());
    flags.retain(|flag| !flag.starts_with("--port"));
    let nodes = [(); 3].map(|()| Program::start(NODE, &flags));
    master.wait_for_segments(nodes.len());
    let names: BTreeSet<String> = master.segment_names().into_iter().collect();
    assert_eq!(names.len(), nodes.len());
    for node in &nodes {
        wait_until("each node tells its name", MEMBERSHIP_DEADLINE, || {
            let log = node.log();
            let ready = log.lines().find(|line| line.contains(" Ready"));
            ready.is_some_and(|line| names.iter().any(|name| line.contains(name.as_str())))
        });
    }
}
