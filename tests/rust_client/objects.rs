//! Objects: what each call does, and what each error says.

use crate::{LENT, cluster, open};
use perigee_client::{
    CacheMemory, ObjectFault, ObjectSource, ObjectStore, ObjectTarget, ReplicateConfig, StoreConfig,
};
use perigee_tests::cluster::{Master, Node};
use perigee_tests::deadline::wait_until;
use perigee_tests::limits::CALL_DEADLINE;
use std::sync::Arc;

const KIB: usize = 1 << 10;

fn placement() -> ReplicateConfig {
    ReplicateConfig::default()
}

#[test]
fn objects_are_put_replaced_asked_for_and_removed() {
    let (_master, _node, store) = cluster();
    store.put("a", &[1; KIB], &placement()).unwrap();
    // What is there stays as it is.
    store.put("a", &[2; KIB], &placement()).unwrap();
    assert_eq!(store.get("a").unwrap(), [1; KIB]);
    store.upsert("a", &[3; 2 * KIB], &placement()).unwrap();
    assert_eq!(store.get("a").unwrap(), [3; 2 * KIB]);
    assert_eq!(store.size("a").unwrap(), 2 * KIB);
    assert!(store.exists("a").unwrap() && !store.exists("b").unwrap());
    let both: Vec<bool> = store.exists_batch(&["b", "a"]).into_iter().map(Result::unwrap).collect();
    assert_eq!(both, [false, true]);
    store.remove("a", true).unwrap();
    assert!(!store.exists("a").unwrap());
    for key in ["c/1", "c/2", "d"] {
        store.put(key, b"x", &placement()).unwrap();
    }
    assert_eq!(store.keys_matching("^c/", 10).unwrap().len(), 2);
    assert_eq!(store.remove_matching("^c/", true).unwrap(), 2);
    assert_eq!(store.remove_all(true).unwrap(), 1);
}

#[test]
fn a_batch_is_gathered_from_pieces_and_spread_over_pieces() {
    let (_master, _node, store) = cluster();
    let memory = CacheMemory::allocate(8 * KIB).unwrap();
    let _registered = store.register(&memory).unwrap();
    let mut page = memory.lend(0..2 * KIB).unwrap();
    page.bytes_mut().unwrap().fill(7);
    let tail = [9; KIB];
    let objects = [
        ObjectSource::new("page").slice(&page).bytes(&tail),
        ObjectSource::new("tail").group("request-1").bytes(&tail),
        ObjectSource::new("nothing"),
    ];
    let put = store.put_batch(&objects, &placement());
    assert!(put[0].is_ok() && put[1].is_ok());
    assert_eq!(put[2].as_ref().unwrap_err().fault(), ObjectFault::Argument, "it has no bytes");

    let mut slice = memory.lend(4 * KIB..7 * KIB).unwrap();
    let (mut start, mut end) = ([0; KIB], [0; KIB]);
    let mut targets = [
        ObjectTarget::new("page").slice(&mut slice),
        ObjectTarget::new("tail").bytes(&mut start[..KIB / 2]).bytes(&mut end),
        ObjectTarget::new("absent"),
    ];
    let got = store.get_batch(&mut targets);
    assert_eq!(got[..2], [Ok(3 * KIB), Ok(KIB)]);
    assert_eq!(got[2].as_ref().unwrap_err().fault(), ObjectFault::NotFound);
    let page = slice.bytes().unwrap();
    assert!(page[..2 * KIB].iter().all(|byte| *byte == 7));
    assert!(page[2 * KIB..] == tail && start[..KIB / 2] == tail[..KIB / 2]);
    assert_eq!((&end[..KIB / 2], &end[KIB / 2..]), (&tail[..KIB / 2], &[0; KIB / 2][..]));
}

#[test]
fn an_object_under_a_lease_is_not_removed_and_errors_say_so() {
    let (_master, _node, store) = cluster();
    store.put("page", &[5; KIB], &placement()).unwrap();
    let leases = store.lease(&["page", "absent"]);
    assert_eq!((leases.len(), leases.size(0).unwrap()), (2, KIB));
    assert_eq!(leases.size(1).unwrap_err().fault(), ObjectFault::NotFound);
    let refused = store.remove("page", false).unwrap_err();
    assert_eq!((refused.fault(), refused.what()), (ObjectFault::Leased, "page"));
    assert!(refused.is_worth_a_retry());
    let mut bytes = [0; KIB];
    let target = ObjectTarget::new("page").bytes(&mut bytes);
    assert_eq!(leases.read(&mut [(0, target)]), [Ok(KIB)]);
    assert_eq!(bytes, [5; KIB]);
    drop(leases);
    // The lease goes back with the next call.
    wait_until("the lease is given back", CALL_DEADLINE, || store.remove("page", false).is_ok());
}

#[test]
fn an_object_replaced_by_one_of_another_size_after_its_lease_is_read_whole() {
    const MIB: usize = 1 << 20;
    let master = Master::start(&["--default_kv_lease_ttl=50"]);
    let _node = Node::start(&master, 8 * MIB as u64);
    let store = open(&master);
    for (before, after) in [(2 * MIB, MIB), (MIB, 2 * MIB)] {
        store.put("page", &vec![1; before], &placement()).unwrap();
        let leases = store.lease(&["page"]);
        assert_eq!(leases.size(0).unwrap(), before);
        store.remove("page", true).unwrap();
        // It needs nearly all of the segment, so it lies over the old bytes.
        put_when_there_is_room(&store, "filler", &vec![2; 15 * MIB / 2]);
        store.remove("filler", true).unwrap();
        put_when_there_is_room(&store, "page", &vec![3; after]);
        let read = leases.get(0).unwrap();
        assert!(read == vec![3; after], "{} bytes were read of {after}", read.len());
        store.remove("page", true).unwrap();
    }
}

fn put_when_there_is_room(store: &ObjectStore, key: &str, bytes: &[u8]) {
    wait_until("leases end and there is room", CALL_DEADLINE, || {
        store.put(key, bytes, &placement()).is_ok()
    });
}

#[test]
fn what_cannot_be_done_is_an_error_that_names_the_object() {
    let (_master, _node, store) = cluster();
    store.put("page", &[5; KIB], &placement()).unwrap();
    let small = store.get_into("page", &mut [0; KIB / 2]).unwrap_err();
    assert_eq!((small.what(), small.fault()), ("page", ObjectFault::Argument));
    let large = vec![0; 80 << 20];
    let no_room = store.put("large", &large, &placement()).unwrap_err();
    assert_eq!(no_room.fault(), ObjectFault::NoRoom);
    store.close();
    assert_eq!(store.get("page").unwrap_err().fault(), ObjectFault::Closed);
    assert!(!store.is_healthy());
}

#[test]
fn an_object_of_a_dead_node_is_unreachable_and_worth_a_retry() {
    // The last of the flags counts: the master does not notice the death during the test.
    let master = Master::start(&["--client_ttl=600"]);
    let mut node = Node::start(&master, LENT);
    open(&master).put("page", &[5; KIB], &placement()).unwrap();
    node.program.kill();
    let away = open(&master).get("page").unwrap_err();
    assert_eq!((away.fault(), away.is_worth_a_retry()), (ObjectFault::Unreachable, true), "{away}");
}

#[test]
fn registered_memory_outlives_a_store_that_is_closed_first() {
    let (_master, _node, store) = cluster();
    let bytes = Arc::new(vec![0_u8; 4 * KIB]);
    // SAFETY: the vector stays until its last clone is dropped, and nothing else uses its bytes.
    let memory =
        unsafe { CacheMemory::adopt(bytes.as_ptr().cast_mut(), bytes.len(), bytes.clone()) };
    let registration = store.register(&memory).unwrap();
    drop(memory);
    store.close();
    drop(registration);
    assert_eq!(Arc::strong_count(&bytes), 2, "its devices may have it until the store has ended");
    drop(store);
    assert_eq!(Arc::strong_count(&bytes), 1);
}

#[test]
fn memory_that_a_client_lends_leaves_the_cluster_with_its_last_clone() {
    let master = Master::start(&[]);
    let store = open(&master);
    store.lend(16 << 20).unwrap();
    master.wait_for_segments(1);
    let other = store.clone();
    drop(store);
    assert!(other.is_healthy());
    drop(other);
    assert_eq!(master.segment_names(), Vec::<String>::new());
}

#[test]
fn a_store_without_a_master_does_not_open_and_says_why() {
    let config =
        StoreConfig { master_server_address: "127.0.0.1:1".into(), ..StoreConfig::default() };
    let error = perigee_client::ObjectStore::open(config).unwrap_err().to_string();
    assert!(error.contains("127.0.0.1:1"), "{error}");
}
