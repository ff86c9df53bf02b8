//! Objects whose bytes on a disk are torn or damaged, as after a loss of power.
//! Invariant: such an object is a miss and can be put again; its bytes are never handed out.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use perigee_schemas::disk_address::DiskAddress;
use perigee_schemas::extent::generation_offset;
use perigee_schemas::{SegmentKind, Status};
use perigee_store::api::{CallerRange, RangeRequest};
use perigee_tests::cluster::{Master, Node};
use perigee_tests::deadline::wait_until;
use perigee_tests::limits::MEMBERSHIP_DEADLINE;
use perigee_tests::objects::{Objects, key_name};
use perigee_tests::program::Program;
use tempfile::TempDir;

const OBJECT_BYTES: usize = 128 << 10;
const MEMORY_BYTES: u64 = 16 << 20;
/// Twice what memory holds.
const KEYS: u64 = 256;

fn node(master: &Master, folder: &TempDir) -> Node {
    let path = format!("--ssd_offload_path={}", folder.path().display());
    let node = Node::start_with(master, MEMORY_BYTES, &["--enable_offload", &path]);
    wait_until("the disk is announced", MEMBERSHIP_DEADLINE, || {
        node.program.log().contains("The master knows what a disk has")
    });
    node
}

fn put(objects: &Objects, key: u64) {
    wait_until("room for an object", MEMBERSHIP_DEADLINE, || {
        objects.put_object(key, 1, OBJECT_BYTES) == Status::Ok
    });
}

/// The one segment that so few objects fill.
fn segment_file(folder: &TempDir) -> PathBuf {
    let disk = std::fs::read_dir(folder.path()).expect("a folder").next().expect("a disk");
    let files = std::fs::read_dir(disk.expect("an entry").path()).expect("a folder of a disk");
    let paths = files.map(|file| file.expect("an entry").path());
    let mut segments = paths.filter(|path| path.extension().is_some_and(|it| it == "seg"));
    segments.next().expect("a segment")
}

/// Where keys lie that only the disk has.
fn on_disk(objects: &Objects) -> Vec<(u64, DiskAddress)> {
    let place = |key: u64| {
        let found = objects.store.replicas(&[&key_name(key)]).remove(0).ok()?;
        let is_only_there = found.iter().all(|it| it.kind == Some(SegmentKind::Disk));
        is_only_there.then(|| (key, DiskAddress::unpack(found[0].address)))
    };
    (0..KEYS).filter_map(place).collect()
}

fn read_range(objects: &Objects, key: u64) -> Result<u64, Status> {
    let mut target = vec![0u8; 100];
    let target = CallerRange::owned(target.as_mut_ptr() as usize, target.len());
    let key = key_name(key);
    objects.store.read_ranges(&[RangeRequest { key: &key, source_offset: 5, target }])[0]
}

#[test]
fn an_object_that_is_damaged_on_its_disk_is_a_miss_and_can_be_put_again() {
    let master =
        Master::start(&["--enable_offload", "--offload_on_evict", "--offload_force_evict=false"]);
    let folder = TempDir::new().expect("a folder");
    let objects = Objects::open(&master.address());
    let mut running = node(&master, &folder);
    (0..KEYS).for_each(|key| put(&objects, key));
    let there = on_disk(&objects);
    let [torn, changed, torn_too] = [there[0], there[1], there[2]];
    running.program.kill();
    let file = OpenOptions::new().write(true).open(segment_file(&folder)).expect("a segment");
    for (_, address) in [torn, torn_too] {
        let generation = u64::from(address.offset) + generation_offset(OBJECT_BYTES as u64);
        file.write_all_at(&[0; 8], generation).expect("a write");
    }
    let middle = u64::from(changed.1.offset) + OBJECT_BYTES as u64 / 2;
    file.write_all_at(b"other bytes than were put", middle).expect("a write");
    file.sync_all().expect("a sync");
    running = node(&master, &folder);
    assert_eq!(objects.get_object(torn.0, OBJECT_BYTES), Err(Status::ObjectNotFound));
    assert_eq!(objects.get_object(changed.0, OBJECT_BYTES), Err(Status::ObjectNotFound));
    assert_eq!(read_range(&objects, torn_too.0), Err(Status::LeaseExpired), "read it again");
    assert_eq!(read_range(&objects, torn_too.0), Err(Status::ObjectNotFound));
    assert_eq!(master.metric("perigee_disk_copies_unreadable_total"), Some(3.0));
    assert_eq!(objects.get_object(there[3].0, OBJECT_BYTES), Ok(1), "others are as they were");
    let said = "3 copies there were not what was written";
    wait_until("the owner has looked at all three", MEMBERSHIP_DEADLINE, || {
        Program::run("perigee", &["status", &master.address()]).output.contains(said)
    });
    let log = running.program.log();
    let line = log.lines().find(|line| line.contains("is not what was written there"));
    let (line, path) = (line.expect("a line about the first one"), folder.path().display());
    for part in [path.to_string().as_str(), "key_hash", "offset"] {
        assert!(line.contains(part), "{part} in {line}");
    }
    for (key, _) in [torn, changed, torn_too] {
        put(&objects, key);
        assert_eq!(objects.get_object(key, OBJECT_BYTES), Ok(1));
    }
    drop(running);
}
