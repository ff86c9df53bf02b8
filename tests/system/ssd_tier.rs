//! Nodes with disks that are killed and started again on the same folder.
//! Invariant: what is read is what was acknowledged last, or a miss; what was removed stays away.

use perigee_schemas::{SegmentKind, Status};
use perigee_tests::cluster::{Master, Node};
use perigee_tests::deadline::wait_until;
use perigee_tests::limits::MEMBERSHIP_DEADLINE;
use perigee_tests::objects::{Objects, key_name};
use std::collections::BTreeMap;
use tempfile::TempDir;

const OBJECT_BYTES: usize = 128 << 10;
const MEMORY_BYTES: u64 = 24 << 20;
/// Four times what memory holds.
const KEYS: u64 = 800;
const KILLS: u64 = 6;
const RESTARTS: u64 = 3;
/// Nothing leaves memory without a copy: what is missing was lost.
const FLAGS: [&str; 5] = [
    "--rpc_shards=2",
    "--enable_offload",
    "--offload_on_evict",
    "--offload_force_evict=false",
    "--default_kv_lease_ttl=50",
];

fn started(master: &Master, folder: &TempDir) -> Node {
    let path = format!("--ssd_offload_path={}", folder.path().display());
    Node::start_with(master, MEMORY_BYTES, &["--enable_offload", &path])
}

fn node(master: &Master, folder: &TempDir) -> Node {
    let node = started(master, folder);
    wait_until("the disk is announced", MEMBERSHIP_DEADLINE, || {
        node.program.log().contains("The master knows what a disk has")
    });
    node
}

/// Puts or replaces an object as soon as there is room.
fn put_soon(objects: &Objects, key: u64, version: u64) {
    wait_until("room for an object", MEMBERSHIP_DEADLINE, || {
        let status = objects.upsert_objects(&[key], version, OBJECT_BYTES)[0];
        assert!(matches!(status, Status::Ok | Status::NoAvailableHandle), "{status:?}");
        status == Status::Ok
    });
}

/// Objects that can be read, all with the version that was acknowledged.
fn check(objects: &Objects, acknowledged: &BTreeMap<u64, Option<u64>>) -> usize {
    let mut there = 0;
    for (key, version) in acknowledged {
        match (objects.get_object_within_lease(*key, OBJECT_BYTES), version) {
            (Ok(found), Some(version)) => {
                assert_eq!(found, *version, "key {key}");
                there += 1;
            }
            (found, None) => assert_eq!(found, Err(Status::ObjectNotFound), "key {key}"),
            (Err(status), Some(_)) => assert_eq!(status, Status::ObjectNotFound, "key {key}"),
        }
    }
    there
}

#[test]
fn a_disk_outlives_nodes_that_are_killed_while_they_write_to_it() {
    let (master, folder) = (Master::start(&FLAGS), TempDir::new().expect("a folder"));
    let objects = Objects::open(&master.address());
    // The version that was acknowledged last, none for what was removed.
    let mut acknowledged: BTreeMap<u64, Option<u64>> = BTreeMap::new();
    let mut running = node(&master, &folder);
    for kill in 0..KILLS {
        for key in (0..KEYS).filter(|key| key % KILLS == kill || key % 3 == kill % 3) {
            put_soon(&objects, key, kill + 1);
            acknowledged.insert(key, Some(kill + 1));
        }
        for key in (0..KEYS).filter(|key| key % 11 == kill) {
            if objects.store.remove(&[&key_name(key)], true) == [Status::Ok] {
                acknowledged.insert(key, None);
            }
        }
        assert_eq!(
            check(&objects, &acknowledged),
            acknowledged.values().flatten().count(),
            "nothing is lost while the node lives"
        );
        running.program.kill();
        running = node(&master, &folder);
        let there = check(&objects, &acknowledged);
        // Memory is gone, and the last ones that were on their way.
        let least = acknowledged.values().flatten().count() / 3;
        assert!(there >= least, "{there} objects are there after kill {kill}");
        // What memory had is gone for good: neither the disk nor the master may bring an older
        // version back later.
        for (key, version) in &mut acknowledged {
            if version.is_some() && !objects.exists(&key_name(*key)) {
                *version = None;
            }
        }
    }
}

/// Whether each key exists, in one call; a client that has just missed its master fails for a
/// moment more.
fn exist(objects: &Objects, keys: &[u64]) -> Vec<Result<bool, Status>> {
    let names: Vec<String> = keys.iter().map(|key| key_name(*key)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut found = Vec::new();
    wait_until("the client reaches the master", MEMBERSHIP_DEADLINE, || {
        found = objects.store.exist(&names);
        !found.contains(&Err(Status::RpcFail))
    });
    found
}

#[test]
fn what_only_a_disk_has_is_waited_for_while_it_is_announced_again() {
    let (mut master, folder) = (Master::start(&FLAGS), TempDir::new().expect("a folder"));
    let objects = Objects::open(&master.address());
    let mut running = node(&master, &folder);
    (0..KEYS).for_each(|key| put_soon(&objects, key, 1));
    let is_only_on_disk = |key: &u64| {
        let found = objects.store.replicas(&[&key_name(*key)]).remove(0).unwrap_or_default();
        found.iter().all(|replica| replica.kind == Some(SegmentKind::Disk))
    };
    let on_disk: Vec<u64> = (0..KEYS).filter(is_only_on_disk).collect();
    assert!(on_disk.len() as u64 > KEYS / 3, "{} of {KEYS}", on_disk.len());
    let there = vec![Ok(true); on_disk.len()];
    for _ in 0..RESTARTS {
        master.program.kill();
        master.start_again();
        assert_eq!(exist(&objects, &on_disk), there, "the master has started again");
        running.program.kill();
        running = started(&master, &folder);
        assert_eq!(exist(&objects, &on_disk), there, "the node has started again");
    }
    let right =
        on_disk.iter().filter(|key| objects.get_object_within_lease(**key, OBJECT_BYTES) == Ok(1));
    assert_eq!(right.count(), on_disk.len());
}

#[test]
fn what_remove_all_has_removed_stays_away_when_master_and_node_are_killed_at_once() {
    let (mut master, folder) = (Master::start(&FLAGS), TempDir::new().expect("a folder"));
    let objects = Objects::open(&master.address());
    let mut running = node(&master, &folder);
    (0..KEYS).for_each(|key| put_soon(&objects, key, 1));
    let removed = objects.store.remove_all(true).expect("the master answers");
    assert_eq!(removed, KEYS);
    running.program.kill();
    master.program.kill();
    master.start_again();
    let _running = node(&master, &folder);
    let keys: Vec<u64> = (0..KEYS).collect();
    let back = exist(&objects, &keys).into_iter().filter(|it| *it != Ok(false)).count();
    assert_eq!(back, 0, "of {KEYS} objects");
}

#[test]
fn a_folder_has_one_node_at_a_time_and_a_node_that_ends_gives_it_back() {
    let (master, folder) = (Master::start(&FLAGS), TempDir::new().expect("a folder"));
    let mut one = node(&master, &folder);
    let _other = node(&master, &folder);
    let folders = || std::fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(folders(), 2, "each has its own");
    one.program.stop();
    let _again = node(&master, &folder);
    assert_eq!(folders(), 2, "the one that was given back is taken first");
}
