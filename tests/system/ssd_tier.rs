//! Nodes with disks that are killed and started again on the same folder.
//! Invariant: what is read is what was acknowledged last, or a miss; what was removed stays away.

use perigee_schemas::Status;
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
const FLAGS: [&str; 4] =
    ["--rpc_shards=2", "--enable_offload", "--offload_on_evict", "--default_kv_lease_ttl=50"];

fn node(master: &Master, folder: &TempDir) -> Node {
    let path = format!("--ssd_offload_path={}", folder.path().display());
    let node = Node::start_with(master, MEMORY_BYTES, &["--enable_offload", &path]);
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
        match (objects.get_object(*key, OBJECT_BYTES), version) {
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
