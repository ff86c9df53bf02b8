//! Space under read leases: one key in a loop does not fill the pool, and what is leased costs
//! nothing else its place.
//! Invariant: leases last long here, so nothing comes free by time while a test runs.

use perigee_schemas::Status;
use perigee_tests::cluster::{Master, Node};
use perigee_tests::deadline::wait_until;
use perigee_tests::limits::MEMBERSHIP_DEADLINE;
use perigee_tests::objects::{Objects, key_name};

const LEASE: &str = "--default_kv_lease_ttl=600000";
const MIB: usize = 1 << 20;

#[test]
fn a_key_that_is_replaced_and_read_in_a_loop_does_not_fill_the_pool() {
    const BYTES: usize = 300_000;
    // About twice as many versions as the pool holds.
    const ROUNDS: u64 = 400;
    let master = Master::start(&[LEASE]);
    let _node = Node::start(&master, 64 << 20);
    for objects in [Objects::open(&master.address()), Objects::open_over_tcp(&master.address())] {
        for version in 0..ROUNDS {
            let statuses = objects.upsert_objects(&[0], version, BYTES);
            assert_eq!(statuses, [Status::Ok], "version {version}");
            assert_eq!(objects.get_object(0, BYTES), Ok(version));
        }
    }
    let other = Objects::open(&master.address());
    assert_eq!(other.put_object(1, 1, 40 * MIB), Status::Ok);
}

#[test]
fn a_reader_that_holds_its_lease_keeps_its_bytes_and_a_full_pool_says_why() {
    const BYTES: usize = 20 * MIB;
    let master = Master::start(&[LEASE]);
    let _node = Node::start(&master, 64 << 20);
    let objects = Objects::open(&master.address());
    assert_eq!(objects.put_object(0, 1, BYTES), Status::Ok);
    let held = objects.store.locate(&[&key_name(0)]);
    assert_eq!(objects.upsert_objects(&[0], 2, BYTES), [Status::Ok]);
    let held_too = objects.store.locate(&[&key_name(0)]);
    assert_eq!(objects.upsert_objects(&[0], 3, BYTES), [Status::Ok]);
    let _latest = objects.store.locate(&[&key_name(0)]);
    assert_eq!(objects.put_object(1, 1, BYTES), Status::NoAvailableHandle);
    let parked = master.metric("perigee_parked_bytes");
    assert!(parked > Some(2.0 * BYTES as f64), "{parked:?}");
    wait_until("the log says why", MEMBERSHIP_DEADLINE, || {
        master.program.log().contains("parked_bytes=")
    });
    drop(held);
    wait_until("one lease comes back", MEMBERSHIP_DEADLINE, || {
        objects.put_object(1, 1, BYTES) == Status::Ok
    });
    drop(held_too);
    wait_until("both leases come back", MEMBERSHIP_DEADLINE, || {
        master.metric("perigee_parked_bytes") == Some(0.0)
    });
}

#[test]
fn fresh_objects_stay_though_the_rest_of_the_pool_is_leased() {
    const LARGE: u64 = 86;
    const SMALL: u64 = 20_000;
    const SMALL_BYTES: usize = 64;
    let master = Master::start(&[LEASE]);
    let _node = Node::start(&master, 96 << 20);
    let objects = Objects::open(&master.address());
    let large: Vec<String> = (0..LARGE).map(key_name).collect();
    let large: Vec<&str> = large.iter().map(String::as_str).collect();
    for key in 0..LARGE {
        assert_eq!(objects.put_object(key, 1, MIB), Status::Ok);
    }
    let held = objects.store.locate(&large);
    let small: Vec<u64> = (1000..1000 + SMALL).collect();
    let statuses = objects.upsert_objects(&small, 1, SMALL_BYTES);
    assert!(statuses.iter().all(|status| *status == Status::Ok));
    // Ticks of the watermark, which is exceeded, until the small objects are seconds old.
    let tried = || master.metric("master_attempted_evictions_total").unwrap_or_default();
    let before = tried();
    wait_until("eviction was tried again and again", MEMBERSHIP_DEADLINE, || {
        tried() > before + 200.0
    });
    let names: Vec<String> = small.into_iter().map(key_name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let exist = objects.store.exist(&names);
    let there = exist.iter().filter(|exists| **exists == Ok(true)).count();
    assert_eq!(there, names.len());
    drop(held);
}
