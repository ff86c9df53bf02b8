//! Objects that memory has no room for, on a real disk of their owner.
//! Invariant: every read gives the bytes that were put last, or says that there are none.

use crate::cluster::{ANY, config, data, environment, get, master, moved, on, put, until};
use perigee_metrics::DiskNumbers;
use perigee_schemas::{DiskHealth, SegmentKind, Status};
use perigee_service::Cluster;

use perigee_store::{CallerRange, DiskSettings, GetRequest, RangeRequest, StorageKey, Store};
use std::path::Path;
use tempfile::TempDir;

pub(crate) const MEMORY_BYTES: u64 = 32 << 20;
pub(crate) const OBJECT_BYTES: usize = 256 << 10;
/// Three times what memory holds.
pub(crate) const OBJECTS: usize = 384;
/// Nothing leaves memory without a copy.
pub(crate) const AT_EVICTION: [&str; 5] = [
    "--rpc_shards=2",
    "--enable_offload",
    "--offload_on_evict",
    "--offload_force_evict=false",
    "--default_kv_lease_ttl=50",
];

pub(crate) fn disks(path: &Path) -> DiskSettings {
    DiskSettings {
        paths: vec![path.to_owned()],
        capacity_bytes: 512 << 20,
        segment_bytes: 16 << 20,
        cluster: "tests".to_owned(),
        key: None,
        needs_disk: false,
    }
}

pub(crate) fn lender(cluster: &Cluster, path: &Path) -> Store {
    lender_of(cluster, disks(path))
}

fn lender_of(cluster: &Cluster, disks: DiskSettings) -> Store {
    let mut config = config(cluster, ANY, MEMORY_BYTES);
    config.disks = Some(disks);
    Store::open_with(config, &environment(true)).unwrap()
}

fn reader(cluster: &Cluster) -> Store {
    Store::open_with(config(cluster, ANY, 0), &environment(true)).unwrap()
}

pub(crate) fn key(number: usize) -> String {
    format!("key-{number}")
}

/// Puts an object as soon as there is room for it.
pub(crate) fn put_soon(store: &Store, number: usize, seed: usize) {
    let bytes = data(seed, OBJECT_BYTES);
    until("room for an object", || {
        let status = put(store, &key(number), &bytes, &on(ANY, false));
        assert!(matches!(status, Status::Ok | Status::NoAvailableHandle), "{status:?}");
        (status == Status::Ok).then_some(())
    });
}

/// The kinds of segments where an object lies.
fn kinds(store: &Store, number: usize) -> Vec<SegmentKind> {
    let found = store.replicas(&[&key(number)]).remove(0).unwrap_or_default();
    found.iter().filter_map(|replica| replica.kind).collect()
}

pub(crate) fn is_only_on_disk(store: &Store, number: usize) -> bool {
    kinds(store, number) == [SegmentKind::Disk]
}

fn filled(cluster: &Cluster, folder: &TempDir) -> Store {
    let store = lender(cluster, folder.path());
    (0..OBJECTS).for_each(|number| put_soon(&store, number, number));
    store
}

#[test]
fn what_memory_has_no_room_for_is_read_from_the_disk() {
    let (cluster, folder) = (master(&AT_EVICTION), TempDir::new().unwrap());
    let store = filled(&cluster, &folder);
    let on_disk = (0..OBJECTS).filter(|number| is_only_on_disk(&store, *number)).count();
    assert!(on_disk > OBJECTS / 3, "{on_disk} of {OBJECTS}");
    let other = reader(&cluster);
    for client in [&store, &other] {
        for number in 0..OBJECTS {
            assert_eq!(get(client, &key(number)).unwrap(), data(number, OBJECT_BYTES), "{number}");
        }
    }
    assert!(store.disk_requests() >= on_disk as u64);
    assert!(other.disk_requests() >= on_disk as u64, "also of disks of others");
}

#[test]
fn an_owner_reads_its_own_disk_without_a_connection_and_others_over_tcp() {
    let (cluster, folder) = (master(&AT_EVICTION), TempDir::new().unwrap());
    let store = filled(&cluster, &folder);
    let on_disk: Vec<usize> = (0..OBJECTS).filter(|it| is_only_on_disk(&store, *it)).collect();
    // A call asks its disk many times.
    assert!(on_disk.len() * OBJECT_BYTES > 32 << 20, "{}", on_disk.len());
    let other = reader(&cluster);
    for (client, route) in [(&store, "same_process"), (&other, "tcp")] {
        let (before, requests) = (moved(client, route), client.disk_requests());
        let read = get_all(client, &on_disk);
        let requests = client.disk_requests() - requests;
        assert!((1..=2).contains(&requests), "{requests}: one for each owner in a step");
        for (number, bytes) in on_disk.iter().zip(read.chunks(OBJECT_BYTES)) {
            assert!(bytes == data(*number, OBJECT_BYTES), "{number}");
        }
        assert_eq!(moved(client, route) - before, read.len() as u64);
        let (number, mut part) = (on_disk[0], vec![0u8; 100_000]);
        let target = CallerRange::owned(part.as_mut_ptr() as usize, part.len());
        let request = RangeRequest { key: &key(number), source_offset: 70_001, target };
        assert_eq!(client.read_ranges(&[request]), [Ok(100_000)]);
        assert!(part == data(number, OBJECT_BYTES)[70_001..170_001]);
        assert_eq!(moved(client, route) - before, (read.len() + part.len()) as u64);
    }
    assert_eq!(moved(&store, "tcp"), 0);
}

/// Reads objects in one call, one after the other into the result.
pub(crate) fn get_all(store: &Store, numbers: &[usize]) -> Vec<u8> {
    let mut memory = vec![0; numbers.len() * OBJECT_BYTES];
    let keys: Vec<String> = numbers.iter().map(|number| key(*number)).collect();
    let room = memory.chunks_mut(OBJECT_BYTES);
    let pieces: Vec<_> =
        room.map(|it| [CallerRange::owned(it.as_mut_ptr() as usize, it.len())]).collect();
    let requests = keys.iter().zip(&pieces).map(|(key, pieces)| GetRequest { key, pieces });
    let read = store.get(&requests.collect::<Vec<_>>());
    assert!(read.iter().all(|bytes| *bytes == Ok(OBJECT_BYTES as u64)), "{read:?}");
    memory
}

#[test]
fn a_client_that_starts_again_finds_its_objects_but_no_removed_or_older_ones() {
    let (cluster, folder) = (master(&AT_EVICTION), TempDir::new().unwrap());
    let store = filled(&cluster, &folder);
    let on_disk: Vec<usize> = (0..OBJECTS).filter(|it| is_only_on_disk(&store, *it)).collect();
    let (removed, rest) = on_disk.split_at(on_disk.len() / 3);
    let (replaced, kept) = rest.split_at(rest.len() / 2);
    for number in removed {
        assert_eq!(store.remove(&[&key(*number)], true), [Status::Ok]);
    }
    for number in replaced {
        assert_eq!(store.remove(&[&key(*number)], true), [Status::Ok]);
        put_soon(&store, *number, number + 1000);
    }
    store.close();
    let again = lender(&cluster, folder.path());
    until("the last announcement", || {
        let is_back = |number: &usize| !kinds(&again, *number).is_empty();
        kept.iter().all(is_back).then_some(())
    });
    for number in kept {
        assert_eq!(get(&again, &key(*number)).unwrap(), data(*number, OBJECT_BYTES));
    }
    for number in removed {
        assert_eq!(get(&again, &key(*number)), Err(Status::ObjectNotFound), "{number}");
    }
    for number in replaced {
        match get(&again, &key(*number)) {
            Ok(bytes) => assert_eq!(bytes, data(number + 1000, OBJECT_BYTES), "{number}"),
            Err(status) => assert_eq!(status, Status::ObjectNotFound),
        }
    }
}

#[test]
fn what_is_read_often_comes_back_to_memory_and_keeps_its_copy() {
    let flags = [&AT_EVICTION[..], &["--promotion_on_hit"]].concat();
    let (cluster, folder) = (master(&flags), TempDir::new().unwrap());
    let store = filled(&cluster, &folder);
    // Makes room.
    (0..OBJECTS).filter(|it| kinds(&store, *it).contains(&SegmentKind::Memory)).for_each(|it| {
        assert_eq!(store.remove(&[&key(it)], true), [Status::Ok]);
    });
    let hot = (0..OBJECTS).find(|it| is_only_on_disk(&store, *it)).unwrap();
    let read = || assert_eq!(get(&store, &key(hot)).unwrap(), data(hot, OBJECT_BYTES));
    read();
    assert!(is_only_on_disk(&store, hot), "once is not often");
    until("the copy in memory", || {
        read();
        (kinds(&store, hot) == [SegmentKind::Memory, SegmentKind::Disk]).then_some(())
    });
    let before = store.disk_requests();
    read();
    assert_eq!(store.disk_requests(), before, "memory is nearer");
}

/// Puts all objects, and makes room in memory.
fn with_room(cluster: &Cluster, folder: &TempDir) -> (Store, Vec<usize>) {
    let store = filled(cluster, folder);
    let on_disk = (0..OBJECTS).filter(|number| is_only_on_disk(&store, *number)).collect();
    (0..OBJECTS).filter(|it| kinds(&store, *it).contains(&SegmentKind::Memory)).for_each(|it| {
        assert_eq!(store.remove(&[&key(it)], true), [Status::Ok]);
    });
    (store, on_disk)
}

#[test]
fn what_a_client_has_read_is_copied_to_memory_without_a_second_read() {
    const GROUP: usize = 8;
    let flags =
        [&AT_EVICTION[..], &["--promotion_on_hit", "--promotion_admission_threshold=1"]].concat();
    let (cluster, folder) = (master(&flags), TempDir::new().unwrap());
    let (store, on_disk) = with_room(&cluster, &folder);
    let other = reader(&cluster);
    let promoted = || {
        let numbers = &store.disk_numbers()[0];
        (numbers.promotions_joined, numbers.promotions_read)
    };
    let is_in_memory = |number: &usize| kinds(&store, *number).contains(&SegmentKind::Memory);
    let mut first = on_disk.iter();
    until("an owner that knows that the master promotes", || {
        let number = first.next().unwrap();
        assert_eq!(get(&store, &key(*number)).unwrap(), data(*number, OBJECT_BYTES));
        until("its copy in memory", || is_in_memory(number).then_some(()));
        (promoted().0 > 0).then_some(())
    });
    // A busy host moves some of a group later than what was read for them is kept.
    let mut groups = first.as_slice().chunks_exact(GROUP);
    let is_without_own_reads = |client: &Store, numbers: &[usize]| {
        let before = promoted();
        let read = get_all(client, numbers);
        for (number, bytes) in numbers.iter().zip(read.chunks(OBJECT_BYTES)) {
            assert!(bytes == data(*number, OBJECT_BYTES), "{number}");
        }
        until("the copies in memory", || numbers.iter().all(is_in_memory).then_some(()));
        for number in numbers {
            assert_eq!(get(client, &key(*number)).unwrap(), data(*number, OBJECT_BYTES));
        }
        let (joined, own) = promoted();
        assert!(joined - before.0 + own - before.1 >= GROUP as u64, "each is moved");
        own == before.1
    };
    for client in [&store, &other] {
        until("a group that was read once", || {
            is_without_own_reads(client, groups.next().unwrap()).then_some(())
        });
    }
}

#[test]
fn disks_are_withdrawn_with_what_lies_only_there() {
    let (cluster, folder) = (master(&AT_EVICTION), TempDir::new().unwrap());
    let store = filled(&cluster, &folder);
    let lost = (0..OBJECTS).find(|number| is_only_on_disk(&store, *number)).unwrap();
    assert_eq!(store.unmount_disks(0), Status::Ok);
    assert_eq!(get(&store, &key(lost)), Err(Status::ObjectNotFound));
    assert_eq!(store.unmount_disks(0), Status::Ok, "there are none left");
    put_soon(&store, lost, 7);
    assert_eq!(get(&store, &key(lost)).unwrap(), data(7, OBJECT_BYTES));
}

#[test]
fn a_master_without_the_tier_leaves_disks_unused() {
    let (cluster, folder) = (master(&["--rpc_shards=2"]), TempDir::new().unwrap());
    let store = lender(&cluster, folder.path());
    (0..OBJECTS).for_each(|number| put_soon(&store, number, number));
    assert!((0..OBJECTS).all(|number| !kinds(&store, number).contains(&SegmentKind::Disk)));
}

#[test]
fn a_disk_that_cannot_be_used_is_left_out_and_named() {
    let (cluster, folder) = (master(&AT_EVICTION), TempDir::new().unwrap());
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut config = config(&cluster, ANY, MEMORY_BYTES);
    let paths = vec![file.path().to_owned(), folder.path().to_owned()];
    config.disks = Some(DiskSettings { paths, ..disks(folder.path()) });
    let store = Store::open_with(config, &environment(true)).unwrap();
    let states = |it: &DiskNumbers| (it.path.clone(), it.health);
    let states: Vec<_> = store.disk_numbers().iter().map(states).collect();
    let path = |path: &Path| path.display().to_string();
    let expected =
        [(path(file.path()), DiskHealth::Failed), (path(folder.path()), DiskHealth::Healthy)];
    assert_eq!(states, expected);
    (0..OBJECTS).for_each(|number| put_soon(&store, number, number));
    assert!((0..OBJECTS).any(|number| is_only_on_disk(&store, number)), "the other is used");
    let written = &store.disk_numbers()[1];
    assert!(written.written_objects > 0 && written.written_bytes >= written.object_bytes);
}

#[test]
fn an_encrypted_disk_serves_its_owner_others_ranges_and_the_next_life_and_no_other_key() {
    let (cluster, folder) = (master(&AT_EVICTION), TempDir::new().unwrap());
    let with_key =
        |byte: u8| DiskSettings { key: Some(StorageKey::new([byte; 32])), ..disks(folder.path()) };
    let store = lender_of(&cluster, with_key(1));
    (0..OBJECTS).for_each(|number| put_soon(&store, number, number));
    let on_disk: Vec<usize> = (0..OBJECTS).filter(|it| is_only_on_disk(&store, *it)).collect();
    assert!(on_disk.len() > OBJECTS / 3, "{}", on_disk.len());
    let other = reader(&cluster);
    let read_all = |client: &Store| {
        for (number, bytes) in on_disk.iter().zip(get_all(client, &on_disk).chunks(OBJECT_BYTES)) {
            assert!(bytes == data(*number, OBJECT_BYTES), "{number}");
        }
        let (number, mut part) = (on_disk[0], vec![0u8; 100_000]);
        let target = CallerRange::owned(part.as_mut_ptr() as usize, part.len());
        let request = RangeRequest { key: &key(number), source_offset: 70_001, target };
        assert_eq!(client.read_ranges(&[request]), [Ok(100_000)]);
        assert!(part == data(number, OBJECT_BYTES)[70_001..170_001]);
    };
    read_all(&store);
    read_all(&other);
    store.close();
    let stranger = lender_of(&cluster, with_key(2));
    assert_eq!(stranger.disk_numbers()[0].health, DiskHealth::Failed);
    stranger.close();
    let again = lender_of(&cluster, with_key(1));
    until("the last announcement", || {
        on_disk.iter().all(|number| !kinds(&again, *number).is_empty()).then_some(())
    });
    read_all(&again);
    read_all(&other);
}
