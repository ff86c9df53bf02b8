//! Arguments at and beyond their limits, through the store client.
//! Invariant: each has its status, and none is met with silence.

use perigee_schemas::Status;
use perigee_schemas::limits::KEY_BYTES_MAX;
use perigee_store::api::ReplicateConfig;
use perigee_tests::cluster::{Master, Node};
use perigee_tests::deadline::wait_until;
use perigee_tests::limits::MEMBERSHIP_DEADLINE;
use perigee_tests::objects::Objects;

const POOL_BYTES: u64 = 16 << 20;

fn cluster() -> (Master, Node, Objects) {
    let master = Master::start(&[]);
    let node = Node::start(&master, POOL_BYTES);
    let objects = Objects::open(&master.address());
    (master, node, objects)
}

#[test]
fn sizes_of_zero_and_beyond_capacity_are_refused() {
    let (_master, _node, objects) = cluster();
    assert_eq!(objects.put("empty", &[]), Status::InvalidParams);
    let huge = vec![1; (2 * POOL_BYTES) as usize];
    assert_eq!(objects.put("huge", &huge), Status::NoAvailableHandle);
    assert_eq!(objects.put("small", b"x"), Status::Ok);
    assert_eq!(objects.get("small", 1), Ok(b"x".to_vec()));
}

#[test]
fn keys_of_no_and_of_too_many_bytes_are_refused() {
    let (_master, _node, objects) = cluster();
    assert_ne!(objects.put("", b"x"), Status::Ok);
    let longest = "k".repeat(KEY_BYTES_MAX);
    assert_eq!(objects.put(&longest, b"x"), Status::Ok);
    assert_eq!(objects.get(&longest, 1), Ok(b"x".to_vec()));
    assert_ne!(objects.put(&format!("{longest}k"), b"x"), Status::Ok);
}

#[test]
fn odd_sizes_come_back_as_they_went() {
    let (_master, _node, objects) = cluster();
    for (key, bytes) in [1, 15, 16, 17, 4095, 65_535, 65_536, 65_537, 3_000_001].iter().enumerate()
    {
        let key = key as u64;
        if *bytes >= 16 {
            assert_eq!(objects.put_object(key, 1, *bytes), Status::Ok, "{bytes} bytes");
            assert_eq!(objects.get_object(key, *bytes), Ok(1), "{bytes} bytes");
        } else {
            assert_eq!(objects.put(&key.to_string(), &vec![7; *bytes]), Status::Ok);
            assert_eq!(objects.get(&key.to_string(), *bytes), Ok(vec![7; *bytes]));
        }
    }
}

#[test]
fn an_unknown_key_is_a_miss_and_a_short_buffer_is_an_error() {
    let (_master, _node, objects) = cluster();
    assert_eq!(objects.get("nothing", 8), Err(Status::ObjectNotFound));
    assert_eq!(objects.put("eight", &[1; 8]), Status::Ok);
    assert_eq!(objects.get("eight", 7), Err(Status::InvalidParams));
    assert_eq!(objects.get("eight", 9), Ok(vec![1; 8]));
}

#[test]
fn a_second_put_of_a_key_is_fine_and_changes_nothing() {
    let (_master, _node, objects) = cluster();
    assert_eq!(objects.put("key", b"first"), Status::Ok);
    assert_eq!(objects.put("key", b"other"), Status::Ok);
    assert_eq!(objects.get("key", 5), Ok(b"first".to_vec()));
}

#[test]
fn more_replicas_than_nodes_are_as_many_as_there_is_room_for() {
    let (master, _node, objects) = cluster();
    let _second = Node::start(&master, POOL_BYTES);
    let config = ReplicateConfig { replica_num: 3, ..ReplicateConfig::default() };
    assert_eq!(objects.put_with("key", &[5; 1000], &config), Status::Ok);
    assert_eq!(objects.store.replicas(&["key"])[0].as_ref().map(Vec::len), Ok(2));
}

/// Segments of one name are one line of the list of names, so bytes are counted instead.
fn wait_for_capacity(master: &Master, bytes: u64) {
    wait_until("the capacity is that of all segments", MEMBERSHIP_DEADLINE, || {
        master.metric("master_total_capacity_bytes") == Some(bytes as f64)
    });
}

#[test]
fn two_clients_of_one_name_both_work() {
    let (master, _node, _objects) = cluster();
    let address = master.address();
    let first = Objects::open_as(&address, "127.0.0.1:17001", 1 << 20);
    let second = Objects::open_as(&address, "127.0.0.1:17001", 1 << 20);
    wait_for_capacity(&master, POOL_BYTES + (2 << 20));
    assert_eq!(first.put("first", b"1"), Status::Ok);
    assert_eq!(second.put("second", b"2"), Status::Ok);
    assert_eq!(second.get("first", 1), Ok(b"1".to_vec()));
    assert_eq!(first.get("second", 1), Ok(b"2".to_vec()));
    first.store.close();
    wait_for_capacity(&master, POOL_BYTES + (1 << 20));
    assert_eq!(second.put("third", b"3"), Status::Ok);
}

#[test]
fn calls_after_close_are_refused() {
    let (_master, _node, objects) = cluster();
    objects.store.close();
    assert_eq!(objects.put("key", b"x"), Status::InvalidParams);
    assert_eq!(objects.get("key", 1), Err(Status::InvalidParams));
    objects.store.close();
}
