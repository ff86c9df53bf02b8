//! Objects that are larger than any segment: they lie in parts, and every call takes them as it
//! takes others.

use crate::cluster::{ANY, data, get, master, piece, put, store, until};
use crate::restart::restart;
use perigee_schemas::Status;
use perigee_service::Cluster;
use perigee_store::{CallerRange, GetRequest, PutRequest, RangeRequest, ReplicateConfig, Store};
use std::sync::Arc;

const SEGMENT_BYTES: u64 = 4 << 20;
/// More than two segments hold.
const LARGE: usize = (10 << 20) + 4_567;

fn lease(flags: &[&str]) -> Arc<Cluster> {
    let mut flags = flags.to_vec();
    flags.push("--default_kv_lease_ttl=200");
    master(&flags)
}

fn nodes(cluster: &Cluster, count: usize, shared_memory: bool) -> Vec<Store> {
    (0..count).map(|_| store(cluster, ANY, SEGMENT_BYTES, shared_memory)).collect()
}

fn put_one(store: &Store, key: &str, bytes: &[u8]) -> Status {
    put(store, key, bytes, &ReplicateConfig::default())
}

fn close(nodes: Vec<Store>, client: &Store, cluster: &Cluster) {
    client.close();
    nodes.iter().for_each(Store::close);
    cluster.stop();
}

fn read_range(client: &Store, key: &str, offset: usize, bytes: usize) -> Result<Vec<u8>, Status> {
    let mut out = vec![0; bytes];
    let target = CallerRange::owned(out.as_mut_ptr() as usize, bytes);
    let request = RangeRequest { key, source_offset: offset as u64, target };
    let read = client.read_ranges(&[request])[0]?;
    assert_eq!(read, bytes as u64);
    Ok(out)
}

fn exercise(shards: usize, shared_memory: bool) {
    let cluster = lease(&[&format!("--rpc_shards={shards}")]);
    let nodes = nodes(&cluster, 4, shared_memory);
    let client = store(&cluster, ANY, 0, shared_memory);
    let value = data(1, LARGE);
    assert_eq!(put_one(&client, "large", &value), Status::Ok);
    assert!(get(&client, "large").unwrap() == value);
    assert!(get(&nodes[2], "large").unwrap() == value);
    assert_eq!(client.exist(&["large"]), [Ok(true)]);
    assert_eq!(client.size(&["large"]), [Ok(LARGE as u64)]);
    for (offset, bytes) in [(0, 1), (LARGE / 3, LARGE / 2), (LARGE - 1, 1), (0, LARGE), (7, 0)] {
        let read = read_range(&client, "large", offset, bytes).unwrap();
        assert!(read == value[offset..offset + bytes], "{bytes} bytes at {offset}");
    }
    assert_eq!(read_range(&client, "large", LARGE - 1, 2), Err(Status::InvalidParams));
    mixed_batch(&client, &value);
    let newer = data(2, LARGE - 77);
    let pieces = [piece(&newer)];
    // Both do not fit: the older one goes first, once its lease has ended.
    until("room for the newer one", || {
        let request = PutRequest { key: "large", pieces: &pieces, group: None };
        let status = client.upsert(&[request], &ReplicateConfig::default())[0];
        (status == Status::Ok).then_some(())
    });
    assert!(get(&client, "large").unwrap() == newer);
    assert_eq!(client.remove(&["large"], true), [Status::Ok]);
    assert_eq!(get(&client, "large"), Err(Status::ObjectNotFound));
    until("all room", || {
        let status = put_one(&client, "again", &data(3, LARGE * 4 / 3));
        (status == Status::Ok).then_some(())
    });
    close(nodes, &client, &cluster);
}

/// Large and small objects in one call.
fn mixed_batch(client: &Store, large: &[u8]) {
    let small: Vec<Vec<u8>> = (0..40).map(|seed| data(seed, 3_000 + seed)).collect();
    let keys: Vec<String> = (0..40).map(|seed| format!("small-{seed}")).collect();
    for (key, value) in keys.iter().zip(&small) {
        assert_eq!(put_one(client, key, value), Status::Ok);
    }
    let mut keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    keys.insert(20, "large");
    keys.push("nothing");
    let mut values: Vec<&[u8]> = small.iter().map(Vec::as_slice).collect();
    values.insert(20, large);
    let mut out: Vec<Vec<u8>> = values.iter().map(|value| vec![0; value.len()]).collect();
    out.push(vec![0; 8]);
    // Two pieces each, cut somewhere.
    let cut = |out: &mut Vec<u8>| {
        let at = out.len() * 3 / 7;
        let (front, back) = out.split_at_mut(at);
        [front, back].map(|it| CallerRange::owned(it.as_mut_ptr() as usize, it.len()))
    };
    let pieces: Vec<[CallerRange; 2]> = out.iter_mut().map(cut).collect();
    let requests: Vec<GetRequest<'_>> =
        keys.iter().zip(&pieces).map(|(key, pieces)| GetRequest { key, pieces }).collect();
    let read = client.get(&requests);
    assert_eq!(read.last(), Some(&Err(Status::ObjectNotFound)));
    for ((read, value), out) in read.iter().zip(&values).zip(&out) {
        assert_eq!(*read, Ok(value.len() as u64));
        assert!(*value == out);
    }
}

#[test]
fn they_are_written_and_read_over_tcp() {
    exercise(1, false);
}

#[test]
fn they_are_written_and_read_through_shared_memory() {
    exercise(1, true);
}

#[test]
fn a_master_of_several_shards_gives_them_the_room_of_all() {
    exercise(3, false);
}

#[test]
fn each_part_has_its_replicas_and_without_its_last_one_the_object_is_a_miss() {
    let cluster = lease(&["--rpc_shards=2"]);
    let mut nodes = nodes(&cluster, 6, false);
    let client = store(&cluster, ANY, 0, false);
    let value = data(5, LARGE);
    let twice = ReplicateConfig { replica_num: 2, ..ReplicateConfig::default() };
    assert_eq!(put(&client, "twice", &value, &twice), Status::Ok);
    nodes.remove(0).close();
    assert!(get(&client, "twice").unwrap() == value, "the other replicas are left");
    assert_eq!(client.remove(&["twice"], true), [Status::Ok]);
    until("room", || (put_one(&client, "once", &value) == Status::Ok).then_some(()));
    assert!(get(&client, "once").unwrap() == value);
    while nodes.len() > 1 {
        nodes.remove(0).close();
    }
    until("a miss", || (get(&client, "once") == Err(Status::ObjectNotFound)).then_some(()));
    assert_eq!(client.exist(&["once"]), [Ok(false)]);
    let refused = put_one(&client, "too large", &value);
    assert_eq!(refused, Status::NoAvailableHandle, "all that is left is too small");
    let small = data(6, 3 << 20);
    until("the room of its parts", || {
        (put_one(&client, "small", &small) == Status::Ok).then_some(())
    });
    close(nodes, &client, &cluster);
}

#[test]
fn they_take_the_place_of_older_objects_on_all_shards() {
    let cluster = lease(&["--rpc_shards=3"]);
    let nodes = nodes(&cluster, 3, false);
    let client = store(&cluster, ANY, 0, false);
    for seed in 0..400 {
        assert_eq!(put_one(&client, &format!("old-{seed}"), &data(seed, 40_000)), Status::Ok);
    }
    let value = data(7, LARGE);
    until("room for it", || (put_one(&client, "large", &value) == Status::Ok).then_some(()));
    assert!(get(&client, "large").unwrap() == value);
    close(nodes, &client, &cluster);
}

fn outlive(flags: &[&str], flags_after: &[&str]) {
    let mut cluster = lease(flags);
    let mut nodes = nodes(&cluster, 4, false);
    let client = store(&cluster, ANY, 0, false);
    let value = data(9, LARGE);
    assert_eq!(put_one(&client, "large", &value), Status::Ok);
    for _ in 0..2 {
        cluster = restart(&cluster, flags_after);
        until("the object", || get(&client, "large").ok().filter(|found| *found == value));
        assert_eq!(client.size(&["large"]), [Ok(LARGE as u64)]);
    }
    // An owner that is gone before the next master begins takes its parts with it.
    let gone = nodes.remove(1);
    cluster.stop();
    gone.close();
    cluster = restart(&cluster, flags_after);
    until("the other owners", || {
        let status = put_one(&client, "small", &value[..1_000]);
        (status == Status::Ok).then_some(())
    });
    assert!(get(&client, "large").is_err());
    until("the room of its parts", || {
        (put_one(&client, "new", &value[..9 << 20]) == Status::Ok).then_some(())
    });
    assert!(get(&client, "new").unwrap() == value[..9 << 20]);
    close(nodes, &client, &cluster);
}

#[test]
fn they_outlive_their_master() {
    outlive(&["--rpc_shards=1"], &["--rpc_shards=1"]);
}

#[test]
fn they_outlive_a_master_of_several_shards_and_their_number() {
    outlive(&["--rpc_shards=3"], &["--rpc_shards=2"]);
}
