//! A disk that does a few operations a second, as one that is worn out or shared does.
//! Invariant: it is named, what lies in memory is served as before, and each read of it ends.

use super::ssd_containers::{DiskNode, FLAGS, KEYS, OBJECT_BYTES, fill, only_on_disk};
use super::ssd_return::{Ext4, can_mount, wait_for_state};
use perigee_schemas::Status;
use perigee_tests::cgroup::DiskGroup;
use perigee_tests::cluster::Master;
use perigee_tests::deadline::wait_until;
use perigee_tests::limits::{CALL_DEADLINE, MEMBERSHIP_DEADLINE, REFUSED_CALL_DEADLINE};
use perigee_tests::objects::Objects;
use perigee_tests::program::Program;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tempfile::TempDir;

/// Rounds over all that lies in memory.
const ROUNDS: usize = 3;

/// Ends readers.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Reads a key as often as it takes until `over`; each read ends in time, with its bytes or none.
fn read_until(objects: &Objects, keys: &[u64], over: &AtomicBool) -> usize {
    let mut reads = 0;
    for key in keys.iter().cycle() {
        if over.load(Ordering::Acquire) {
            break;
        }
        let began = Instant::now();
        let found = objects.get_object(*key, OBJECT_BYTES);
        assert!(began.elapsed() < 2 * CALL_DEADLINE, "key {key}: {:?}", began.elapsed());
        assert!(matches!(found, Ok(1) | Err(_)), "key {key}: {found:?}");
        reads += 1;
    }
    reads
}

#[test]
fn a_throttled_disk_is_named_and_neither_memory_nor_an_end_waits_for_it() {
    if !can_mount() {
        return;
    }
    let Some(group) = DiskGroup::make() else { return };
    let (master, folder) = (Master::start(&FLAGS), TempDir::new().expect("a folder"));
    let ext4 = Ext4::new(folder.path());
    let mut node = DiskNode::start(&master, &ext4.place);
    let objects = Objects::open_over_tcp(&master.address());
    fill(&objects);
    let (on_disk, in_memory): (Vec<u64>, Vec<u64>) =
        (0..KEYS).partition(|key| only_on_disk(&objects, *key..key + 1) == 1);
    assert!(on_disk.len() > 32 && in_memory.len() > 16, "{on_disk:?}");
    group.add(node.node.program.pid());
    group.limit(&ext4.place, Some(1));
    let over = AtomicBool::new(false);
    let mut took = std::thread::scope(|scope| {
        // Also when an assertion fails: the readers are waited for.
        let end = Over(&over);
        let readers: Vec<_> = (0..4)
            .map(|reader| {
                let (address, over, on_disk) = (master.address(), &over, &on_disk);
                scope.spawn(move || {
                    let objects = Objects::open_over_tcp(&address);
                    read_until(&objects, &on_disk[reader..], over)
                })
            })
            .collect();
        wait_for_state(&node, &["slow", "hung"]);
        wait_until("the operator sees it", MEMBERSHIP_DEADLINE, || {
            let status = Program::run("perigee", &["status", &master.address()]).output;
            ["slow", "hung"].iter().any(|state| status.contains(state))
        });
        let mut took = Vec::new();
        for key in in_memory.iter().cycle().take(ROUNDS * in_memory.len()) {
            if only_on_disk(&objects, *key..key + 1) == 1 {
                // Evicted since then.
                continue;
            }
            let began = Instant::now();
            match objects.get_object(*key, OBJECT_BYTES) {
                Ok(version) => assert_eq!(version, 1, "key {key}"),
                // Evicted without a copy: nothing waits for a disk that is not well.
                Err(status) => assert_eq!(status, Status::ObjectNotFound, "key {key}"),
            }
            took.push(began.elapsed());
        }
        drop(end);
        let reads = readers.into_iter().map(|reader| reader.join().expect("all ends"));
        assert!(reads.sum::<usize>() > 0);
        took
    });
    assert!(took.len() > 16, "{} reads of memory", took.len());
    took.sort();
    let middle = took[took.len() / 2];
    assert!(middle < REFUSED_CALL_DEADLINE, "memory waits for the disk: {middle:?}");
    assert_eq!(objects.put_object(KEYS, 1, 16), Status::Ok, "a put does not wait");
    group.limit(&ext4.place, None);
    wait_for_state(&node, &["healthy"]);
    for key in &on_disk {
        assert_eq!(objects.get_object(*key, OBJECT_BYTES), Ok(1), "key {key}");
    }
    node.node.program.stop();
    ext4.unmount();
}
