//! A node with a disk that is ended: what its memory alone has goes to the disk first.
//! Invariant: the end comes within the time that was given for it, however the disk is.

use super::puts_beside_disks::{Frozen, can_freeze};
use super::ssd_containers::{DiskNode, OBJECT_BYTES, tmpfs};
use super::ssd_return::{Ext4, can_mount, wait_for_state};
use nix::sys::signal::Signal;
use perigee_schemas::Status;
use perigee_tests::cluster::Master;
use perigee_tests::deadline::wait_until;
use perigee_tests::limits::{CALL_DEADLINE, MEMBERSHIP_DEADLINE};
use perigee_tests::objects::{Objects, key_name};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const FLAGS: [&str; 3] = ["--enable_offload", "--offload_on_evict", "--default_kv_lease_ttl=50"];
/// Half of what memory holds: nothing is written before the end.
const KEYS: u64 = 48;
/// A drain's usual time, and what the process may take beside it.
const END_DEADLINE: Duration = Duration::from_secs(60);

fn put_all(objects: &Objects) {
    for key in 0..KEYS {
        assert_eq!(objects.put_object(key, 1, OBJECT_BYTES), Status::Ok, "key {key}");
    }
}

/// Ends a node as systemd and Kubernetes do; its log.
#[track_caller]
fn end(node: &mut DiskNode) -> String {
    node.node.program.signal(Signal::SIGTERM);
    let status = node.node.program.wait(END_DEADLINE);
    let log = node.log();
    assert_eq!(status.and_then(|status| status.code()), Some(0), "{log}");
    log
}

#[test]
fn what_memory_alone_had_is_read_from_the_disk_by_the_next_life() {
    let (master, folder) = (Master::start(&FLAGS), TempDir::new().expect("a folder"));
    let mut node = DiskNode::start(&master, folder.path());
    let objects = Objects::open(&master.address());
    put_all(&objects);
    let log = end(&mut node);
    assert!(log.contains("What memory alone had is on the disks, as far as"), "{log}");
    assert!(log.contains(&format!("objects={KEYS} ")), "{log}");
    assert!(!objects.exists(&key_name(0)), "the node has left");
    let mut node = DiskNode::start(&master, folder.path());
    wait_until("the disk is announced", MEMBERSHIP_DEADLINE, || {
        (0..KEYS).all(|key| objects.exists(&key_name(key)))
    });
    for key in 0..KEYS {
        assert_eq!(objects.get_object(key, OBJECT_BYTES), Ok(1), "key {key}");
    }
    let log = end(&mut node);
    assert!(!log.contains("dropped with this node"), "they are there already: {log}");
}

#[test]
fn another_node_with_room_takes_what_a_node_with_a_disk_has() {
    let master = Master::start(&FLAGS);
    let folders = [(); 2].map(|()| TempDir::new().expect("a folder"));
    let port = format!("--master_metrics_port={}", master.http.port());
    let flags = ["--drain_on_stop=40", &port];
    let mut leaving = DiskNode::start_for(&master, folders[0].path(), &flags);
    let objects = Objects::open(&master.address());
    put_all(&objects);
    let _staying = DiskNode::start_for(&master, folders[1].path(), &flags);
    let log = end(&mut leaving);
    assert!(log.contains("All objects were moved"), "{log}");
    for key in 0..KEYS {
        assert_eq!(objects.get_object(key, OBJECT_BYTES), Ok(1), "key {key}");
    }
}

#[test]
fn a_stop_just_after_the_start_of_the_master_writes_to_the_disk_as_well() {
    let (mut master, folder) = (Master::start(&FLAGS), TempDir::new().expect("a folder"));
    let mut node = DiskNode::start(&master, folder.path());
    let objects = Objects::open(&master.address());
    put_all(&objects);
    node.node.program.signal(Signal::SIGSTOP);
    master.program.kill();
    master.start_again();
    node.node.program.signal(Signal::SIGTERM);
    node.node.program.signal(Signal::SIGCONT);
    let status = node.node.program.wait(END_DEADLINE);
    let log = node.log();
    assert_eq!(status.and_then(|status| status.code()), Some(0), "{log}");
    assert!(log.contains("What memory alone had is on the disks, as far as"), "{log}");
    let _node = DiskNode::start(&master, folder.path());
    wait_until("the disk is announced", MEMBERSHIP_DEADLINE, || {
        (0..KEYS).all(|key| objects.exists(&key_name(key)))
    });
    for key in 0..KEYS {
        assert_eq!(objects.get_object(key, OBJECT_BYTES), Ok(1), "key {key}");
    }
}

#[test]
fn a_disk_without_room_keeps_no_node_from_its_end() {
    if !can_mount() {
        return;
    }
    let (master, folder) = (Master::start(&FLAGS), TempDir::new().expect("a folder"));
    tmpfs(folder.path(), "16m");
    let mut node = DiskNode::start(&master, folder.path());
    assert_eq!(node.state(), "failed", "{}", node.log());
    let objects = Objects::open(&master.address());
    put_all(&objects);
    let began = Instant::now();
    let log = end(&mut node);
    assert!(log.contains("No disk is open: objects are dropped with this node"), "{log}");
    assert!(began.elapsed() < CALL_DEADLINE, "nothing waits for it: {:?}", began.elapsed());
}

#[test]
fn a_hung_disk_keeps_no_node_longer_than_its_time() {
    if !can_mount() || !can_freeze() {
        return;
    }
    let (master, folder) = (Master::start(&FLAGS), TempDir::new().expect("a folder"));
    let ext4 = Ext4::new(folder.path());
    let mut node = DiskNode::start_for(&master, &ext4.place, &["--drain_on_stop=6"]);
    let objects = Objects::open(&master.address());
    put_all(&objects);
    wait_for_state(&node, &["healthy"]);
    let frozen = Frozen::new(&ext4.place);
    node.node.program.signal(Signal::SIGTERM);
    wait_until("the node leaves", END_DEADLINE, || node.log().contains("Stopped"));
    assert!(node.log().contains("dropped with this node"), "{}", node.log());
    assert!(!objects.exists(&key_name(0)), "the master has heard of it");
    // The kernel keeps a process until what it has asked of the file system has ended.
    drop(frozen);
    assert!(node.node.program.wait(END_DEADLINE).is_some());
    ext4.unmount();
}
