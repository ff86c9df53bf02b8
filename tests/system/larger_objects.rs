//! Objects that are larger than any segment, while nodes and masters are killed.
//! Invariant: each is read whole and right, or it is a miss.

use perigee_schemas::Status;
use perigee_store::{CallerRange, RangeRequest};
use perigee_tests::cluster::{Master, Node};
use perigee_tests::content::fill;
use perigee_tests::deadline::wait_until;
use perigee_tests::http;
use perigee_tests::limits::MEMBERSHIP_DEADLINE;
use perigee_tests::objects::Objects;

const POOL_BYTES: u64 = 16 << 20;
/// More than two segments hold.
const LARGE: usize = (40 << 20) + 333;
const KEY: &str = "large";

fn content() -> Vec<u8> {
    let mut value = vec![0; LARGE];
    fill(1, 1, &mut value);
    value
}

fn read(objects: &Objects) -> Result<Vec<u8>, Status> {
    objects.get(KEY, LARGE + 1)
}

#[test]
fn an_object_larger_than_any_segment_outlives_its_master_and_not_its_nodes() {
    let mut master = Master::start(&["--rpc_shards=2", "--default_kv_lease_ttl=500"]);
    let mut nodes = [(); 4].map(|()| Node::start(&master, POOL_BYTES));
    let clients = [Objects::open(&master.address()), Objects::open_over_tcp(&master.address())];
    let value = content();
    assert_eq!(clients[0].put(KEY, &value), Status::Ok);
    for objects in &clients {
        assert!(read(objects).as_ref() == Ok(&value));
    }
    assert_eq!(clients[1].store.size(&[KEY]), [Ok(LARGE as u64)]);
    let keys = http::get(master.http, "/get_all_keys").body;
    assert_eq!(keys.lines().collect::<Vec<_>>(), [KEY], "its parts are no keys");
    assert_eq!(master.metric("master_key_count"), Some(1.0));
    let mut part = vec![0; LARGE / 2];
    let target = CallerRange::owned(part.as_mut_ptr() as usize, part.len());
    let range = RangeRequest { key: KEY, source_offset: (LARGE / 3) as u64, target };
    assert_eq!(clients[1].store.read_ranges(&[range]), [Ok((LARGE / 2) as u64)]);
    assert!(part == value[LARGE / 3..][..LARGE / 2]);
    for _ in 0..3 {
        master.program.kill();
        master.start_again();
        wait_until("its owners are back", MEMBERSHIP_DEADLINE, || {
            read(&clients[0]).as_ref() == Ok(&value)
        });
    }
    nodes[2].program.kill();
    let found = read(&clients[1]);
    assert!(found.is_err() || found.as_ref() == Ok(&value), "no wrong byte: {:?}", found.err());
    wait_until("it is a miss", MEMBERSHIP_DEADLINE, || {
        read(&clients[1]) == Err(Status::ObjectNotFound) && !clients[0].exists(KEY)
    });
    // What was left of it is free.
    wait_until("there is room", MEMBERSHIP_DEADLINE, || clients[0].put(KEY, &value) == Status::Ok);
    assert!(read(&clients[1]).as_ref() == Ok(&value));
}

#[test]
fn what_does_not_fit_into_all_segments_together_is_refused_and_leaves_nothing() {
    let master = Master::start(&["--rpc_shards=2"]);
    let _nodes = [(); 2].map(|()| Node::start(&master, POOL_BYTES));
    let objects = Objects::open(&master.address());
    assert_eq!(objects.put_object(1, 1, 1 << 20), Status::Ok);
    let used = master.metric("master_allocated_bytes");
    assert_eq!(objects.put(KEY, &content()), Status::NoAvailableHandle);
    assert_eq!(master.metric("master_allocated_bytes"), used);
    assert_eq!(objects.get_object(1, 1 << 20), Ok(1), "nothing was evicted for it");
}
