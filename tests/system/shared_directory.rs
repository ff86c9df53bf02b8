//! Nodes with disks in one directory that all hosts share, of which some die.
//! Invariant: what a dead node had there is read from another one; who lives keeps its folder, and
//! what was removed or replaced does not come back.

use super::ssd_containers::is_root;
use nix::sys::signal::Signal;
use perigee_schemas::{SegmentKind, Status};
use perigee_tests::cluster::{Master, NODE, Node};
use perigee_tests::deadline::wait_until;
use perigee_tests::limits::MEMBERSHIP_DEADLINE;
use perigee_tests::network::free_ports;
use perigee_tests::objects::{Objects, key_name};
use perigee_tests::program::{Program, path};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

const OBJECT_BYTES: usize = 128 << 10;
const MEMORY_BYTES: u64 = 64 << 20;
/// Less than may be on its way to disks at a time.
const KEYS: u64 = 128;
/// Two looks of a client, the last of them a moment after a client has gone, and much to spare.
const ADOPTION_DEADLINE: Duration = Duration::from_secs(120);
const OPEN: &str = "Objects that memory has no room for go to this disk";
const ADOPTED: &str = "A disk of a client that has gone is taken over";

fn master(directory: &Path, more: &[&str]) -> Master {
    let root = format!("--root_fs_dir={}", directory.display());
    let mut flags = vec![root.as_str(), "--default_kv_lease_ttl=50", "--rpc_shards=2"];
    flags.extend(more);
    Master::start(&flags)
}

/// A node without a flag of disks.
fn node(master: &Master, launch: impl FnOnce(&[String]) -> Program) -> Node {
    let node = Node::launch(master, MEMORY_BYTES, &[], launch);
    wait_until("the disk is open", MEMBERSHIP_DEADLINE, || node.program.log().contains(OPEN));
    node
}

fn plain(flags: &[String]) -> Program {
    Program::start(NODE, flags)
}

/// A node with this port.
fn at_port(port: u16) -> impl FnOnce(&[String]) -> Program {
    move |flags| {
        let (mut flags, port) = (flags.to_vec(), format!("--port={port}"));
        let own = flags.iter_mut().find(|flag| flag.starts_with("--port=")).expect("a port");
        *own = port;
        Program::start(NODE, &flags)
    }
}

/// Puts objects that memory has room for, and waits until disks have them, too.
fn put_on_disk(objects: &Objects, keys: std::ops::Range<u64>) {
    for key in keys.clone() {
        assert_eq!(objects.put_object(key, 1, OBJECT_BYTES), Status::Ok, "key {key}");
    }
    wait_until("all objects are on disks", MEMBERSHIP_DEADLINE, || {
        keys.clone().all(|key| is_on_disk(objects, key))
    });
}

fn is_on_disk(objects: &Objects, key: u64) -> bool {
    let found = objects.store.replicas(&[&key_name(key)]).remove(0).unwrap_or_default();
    found.iter().any(|it| it.kind == Some(SegmentKind::Disk))
}

/// The folders of disks in the directory of the usual cluster.
fn folders(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory.join("mooncake_cluster")).expect("a folder");
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    all.sort();
    all
}

fn name_of(folder: &Path) -> &str {
    folder.file_name().and_then(|name| name.to_str()).expect("a name")
}

fn has_adopted(node: &Node, folder: &Path) -> bool {
    let log = node.program.log();
    log.lines().any(|line| line.contains(ADOPTED) && line.contains(name_of(folder)))
}

fn outlives(directory: &Path, launch: impl Fn(&[String]) -> Program, real: &Path) {
    let master = master(directory, &[]);
    let objects = Objects::open(&master.address());
    let mut dead = node(&master, &launch);
    put_on_disk(&objects, 0..KEYS);
    let of_dead = folders(real).remove(0);
    let heir = node(&master, &launch);
    dead.program.kill();
    master.wait_for_segments(1);
    let (removed, replaced) = (0..10, 10..20);
    for key in removed.clone() {
        objects.store.remove(&[&key_name(key)], true);
    }
    let keys: Vec<u64> = replaced.clone().collect();
    wait_until("objects are replaced", MEMBERSHIP_DEADLINE, || {
        let ended = objects.upsert_objects(&keys, 2, OBJECT_BYTES);
        ended.iter().all(|status| *status == Status::Ok)
    });
    wait_until("what the dead node had is there", ADOPTION_DEADLINE, || {
        objects.get_object_within_lease(KEYS - 1, OBJECT_BYTES).is_ok()
    });
    wait_until("its folder is taken over", MEMBERSHIP_DEADLINE, || has_adopted(&heir, &of_dead));
    wait_until("all that it had is there", MEMBERSHIP_DEADLINE, || {
        (replaced.end..KEYS).all(|key| objects.get_object_within_lease(key, OBJECT_BYTES).is_ok())
    });
    for key in 0..KEYS {
        let expected = match key {
            _ if removed.contains(&key) => Err(Status::ObjectNotFound),
            _ if replaced.contains(&key) => Ok(2),
            _ => Ok(1),
        };
        assert_eq!(objects.get_object_within_lease(key, OBJECT_BYTES), expected, "key {key}");
    }
    let status = Program::run("perigee", &["status", &master.address()]).output;
    assert!(status.contains(name_of(&of_dead)), "{status}");
    let log = heir.program.log();
    let line = log.lines().find(|line| line.contains(ADOPTED)).expect("a line");
    assert!(line.contains("objects=128"), "{line}");
}

#[test]
fn what_a_dead_node_had_is_read_from_another_one() {
    let folder = TempDir::new().expect("a folder");
    outlives(folder.path(), plain, folder.path());
}

/// As on hosts of their own: each node sees the directory by a mount of its own.
#[test]
fn nodes_in_mounts_of_their_own_share_a_directory() {
    if !is_root() {
        return;
    }
    let (real, place) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
    let (from, to) = (real.path().display().to_string(), place.path().display().to_string());
    let launch = |flags: &[String]| {
        let script = "mount --bind \"$0\" \"$1\" && shift && exec \"$@\"";
        let program = path().display().to_string();
        let words = ["-m", "--", "/bin/sh", "-c", script, &from, &to, &program, "node"];
        let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        words.extend_from_slice(flags);
        Program::start_file("/usr/bin/unshare", &words)
    };
    outlives(place.path(), launch, real.path());
    assert_eq!(std::fs::read_dir(place.path()).expect("a folder").count(), 0);
}

#[test]
fn a_successor_works_beside_who_has_taken_its_folder_over() {
    let folder = TempDir::new().expect("a folder");
    let master = master(folder.path(), &[]);
    let objects = Objects::open(&master.address());
    let [port] = free_ports();
    let mut dead = node(&master, at_port(port));
    put_on_disk(&objects, 0..KEYS);
    let of_dead = folders(folder.path()).remove(0);
    let heir = node(&master, plain);
    dead.program.kill();
    wait_until("its folder is taken over", ADOPTION_DEADLINE, || has_adopted(&heir, &of_dead));
    master.wait_for_segments(1);
    let successor = node(&master, at_port(port));
    assert_eq!(folders(folder.path()).len(), 3, "it has a folder of its own");
    assert_eq!(successor.name, dead.name);
    put_on_disk(&objects, KEYS..KEYS + 64);
    for key in 0..KEYS + 64 {
        assert_eq!(objects.get_object_within_lease(key, OBJECT_BYTES), Ok(1), "key {key}");
    }
    // Who restarts at once finds its own, before others look for the second time.
    let mut heir = heir;
    heir.program.kill();
    let again = node(&master, plain);
    wait_until("all is there again", ADOPTION_DEADLINE, || {
        (0..KEYS).all(|key| objects.get_object_within_lease(key, OBJECT_BYTES).is_ok())
    });
    assert_eq!(folders(folder.path()).len(), 3, "no further one is made");
    drop((again, successor));
}

#[test]
fn the_folder_of_a_node_that_stands_still_is_left_alone() {
    let folder = TempDir::new().expect("a folder");
    let master = master(folder.path(), &[]);
    let objects = Objects::open(&master.address());
    let frozen = node(&master, plain);
    put_on_disk(&objects, 0..KEYS);
    let of_frozen = folders(folder.path()).remove(0);
    let mut dead = node(&master, plain);
    let both = folders(folder.path());
    let of_dead = both.into_iter().find(|one| *one != of_frozen).expect("another one");
    let heir = node(&master, plain);
    frozen.program.signal(Signal::SIGSTOP);
    dead.program.kill();
    // Of both folders each look finds one.
    wait_until("the dead one's is taken over", ADOPTION_DEADLINE, || has_adopted(&heir, &of_dead));
    assert!(!has_adopted(&heir, &of_frozen), "{}", heir.program.log());
    frozen.program.signal(Signal::SIGCONT);
    wait_until("it is back with what it had", MEMBERSHIP_DEADLINE, || {
        (0..KEYS).all(|key| objects.get_object_within_lease(key, OBJECT_BYTES) == Ok(1))
    });
    assert!(!has_adopted(&heir, &of_frozen), "{}", heir.program.log());
}

/// What a file system does to a host that was cut off from its server for too long.
fn lose_lock(folder: &Path) {
    let (superblock, copy) = (folder.join("superblock"), folder.join("copy"));
    std::fs::copy(&superblock, &copy).expect("a copy");
    std::fs::rename(&copy, &superblock).expect("another file under the same name");
}

#[test]
fn a_node_that_has_lost_its_lock_and_answers_keeps_its_folder() {
    let folder = TempDir::new().expect("a folder");
    let master = master(folder.path(), &[]);
    let objects = Objects::open(&master.address());
    let owner = node(&master, plain);
    put_on_disk(&objects, 0..KEYS);
    let of_owner = folders(folder.path()).remove(0);
    let heir = node(&master, plain);
    lose_lock(&of_owner);
    wait_until("the master does not give it", ADOPTION_DEADLINE, || {
        heir.program.log().contains("The master does not give a disk that has no owner here")
    });
    assert!(!has_adopted(&heir, &of_owner), "{}", heir.program.log());
    put_on_disk(&objects, KEYS..KEYS + 32);
    for key in 0..KEYS + 32 {
        assert_eq!(objects.get_object_within_lease(key, OBJECT_BYTES), Ok(1), "key {key}");
    }
    drop(owner);
}

#[test]
fn a_directory_that_is_not_there_costs_a_line_and_is_used_when_it_is() {
    let folder = TempDir::new().expect("a folder");
    let directory = folder.path().join("mounted-later");
    let master = master(&directory, &[]);
    let node = Node::start(&master, MEMORY_BYTES);
    let log = node.program.log();
    assert!(log.contains("A disk cannot be used") && log.contains("mount the disk there"), "{log}");
    assert!(!directory.exists(), "it is not for a node to make it");
    std::fs::create_dir(&directory).expect("a folder");
    wait_until("it is used", MEMBERSHIP_DEADLINE, || {
        node.program.log().contains("A disk is back in use")
    });
    put_on_disk(&Objects::open(&master.address()), 0..8);
}
