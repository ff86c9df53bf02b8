//! Puts beside disks that are slower than they are, or stand still.
//! Invariant: no put is refused because of a disk, and what is read is what was acknowledged.

use super::ssd_containers::{DiskNode, OBJECT_BYTES};
use super::ssd_return::{Ext4, can_mount, wait_for_state};
use perigee_schemas::Status;
use perigee_tests::cluster::Master;
use perigee_tests::deadline::wait_until;
use perigee_tests::http;
use perigee_tests::limits::{CALL_DEADLINE, MEMBERSHIP_DEADLINE};
use perigee_tests::objects::{Objects, key_name};
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// Ten times what memory holds.
const KEYS: u64 = 960;
/// A quarter of what memory holds.
const FIRST: u64 = 24;
const ON_EVICT: [&str; 3] = ["--enable_offload", "--offload_on_evict", "--default_kv_lease_ttl=50"];
const EAGER: [&str; 2] = ["--enable_offload", "--default_kv_lease_ttl=50"];

/// A file system that takes no writes for as long as this lives.
pub(super) struct Frozen<'a>(&'a Path);

impl<'a> Frozen<'a> {
    pub(super) fn new(place: &'a Path) -> Self {
        freeze("-f", place);
        Self(place)
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        freeze("-u", self.0);
    }
}

/// Whether file systems can be frozen here.
pub(super) fn can_freeze() -> bool {
    let has_it = Command::new("fsfreeze").arg("-V").output().is_ok();
    if !has_it {
        eprintln!("SKIP: no fsfreeze on this host");
    }
    has_it
}

fn freeze(how: &str, place: &Path) {
    let ended = Command::new("fsfreeze").arg(how).arg(place).status().expect("it is installed");
    assert!(ended.success(), "fsfreeze {how}");
}

fn put_all(objects: &Objects, keys: Range<u64>) {
    for key in keys {
        assert_eq!(objects.put_object(key, 1, OBJECT_BYTES), Status::Ok, "key {key}");
    }
}

/// How many objects are there; each has the bytes that were put.
fn count(objects: &Objects, keys: Range<u64>) -> u64 {
    let is_there = |key: &u64| match objects.get_object_within_lease(*key, OBJECT_BYTES) {
        Ok(version) => {
            assert_eq!(version, 1, "key {key}");
            true
        }
        Err(status) => {
            assert_eq!(status, Status::ObjectNotFound, "key {key}");
            false
        }
    };
    keys.filter(is_there).count() as u64
}

fn metric(master: &Master, name: &str) -> u64 {
    let text = http::get(master.http, "/metrics").body;
    let line = text.lines().find(|line| line.split(' ').next() == Some(name));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).expect("it is counted")
}

#[test]
fn no_put_of_a_burst_is_refused_and_what_is_missing_was_counted() {
    for flags in [&ON_EVICT[..], &EAGER[..]] {
        let (master, folder) = (Master::start(flags), TempDir::new().expect("a folder"));
        let mut node = DiskNode::start(&master, folder.path());
        let objects = Objects::open(&master.address());
        put_all(&objects, 0..KEYS);
        let there = count(&objects, 0..KEYS);
        assert_eq!(there + metric(&master, "perigee_unsaved_keys_total"), KEYS, "{flags:?}");
        node.node.program.stop();
    }
}

#[test]
fn puts_go_on_beside_a_hung_disk_which_is_used_again_later() {
    if !can_mount() || !can_freeze() {
        return;
    }
    let (master, folder) = (Master::start(&ON_EVICT), TempDir::new().expect("a folder"));
    let ext4 = Ext4::new(folder.path());
    let mut node = DiskNode::start(&master, &ext4.place);
    let objects = Objects::open(&master.address());
    put_all(&objects, 0..KEYS);
    let frozen = Frozen::new(&ext4.place);
    put_all(&objects, KEYS..2 * KEYS);
    wait_for_state(&node, &["hung"]);
    put_all(&objects, 2 * KEYS..3 * KEYS);
    assert!(master.program.log().contains("without a copy on a disk"), "it is said");
    drop(frozen);
    wait_for_state(&node, &["healthy"]);
    let before = metric(&master, "perigee_demoted_bytes_total");
    let mut next = 3 * KEYS;
    wait_until("the disk is given copies again", MEMBERSHIP_DEADLINE, || {
        put_all(&objects, next..next + KEYS / 8);
        next += KEYS / 8;
        metric(&master, "perigee_demoted_bytes_total") > before
    });
    count(&objects, 0..next);
    node.node.program.stop();
    ext4.unmount();
}

#[test]
fn what_a_hung_disk_was_not_given_is_written_later_and_outlives_two_masters() {
    if !can_mount() || !can_freeze() {
        return;
    }
    let flags = [&EAGER[..], &["--offload_force_evict=false"]].concat();
    let (mut master, folder) = (Master::start(&flags), TempDir::new().expect("a folder"));
    let ext4 = Ext4::new(folder.path());
    let mut node = DiskNode::start(&master, &ext4.place);
    let objects = Objects::open(&master.address());
    let frozen = Frozen::new(&ext4.place);
    put_all(&objects, 0..FIRST);
    wait_for_state(&node, &["hung"]);
    wait_until("the master knows it and gives the copies up", MEMBERSHIP_DEADLINE, || {
        metric(&master, "perigee_demotions_total{result=\"failed\"}") > 0
    });
    master.program.kill();
    drop(frozen);
    let are_there = || (0..FIRST).all(|key| objects.exists(&key_name(key)));
    master.start_again();
    wait_until("the second master knows them", MEMBERSHIP_DEADLINE, are_there);
    // More than memory holds, and less than the disk: the first ones lie there alone then.
    for key in FIRST..FIRST + KEYS / 4 {
        wait_until("the disk makes room", CALL_DEADLINE, || {
            objects.put_object(key, 1, OBJECT_BYTES) == Status::Ok
        });
    }
    master.program.kill();
    master.start_again();
    wait_until("the third master knows them", MEMBERSHIP_DEADLINE, are_there);
    assert_eq!(count(&objects, 0..FIRST), FIRST);
    node.node.program.stop();
    ext4.unmount();
}
