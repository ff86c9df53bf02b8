//! A segment that is emptied while clients read, with master, nodes and clients in one process.
//! Invariant: what was moved has the bytes that were put, wherever it came from.

use crate::cluster::{ANY, LONG, data, get, master, on, store, until};
use perigee_admin::ControlPlane;
use perigee_admin::master_view::{DrainInfo, DrainRequest};
use perigee_schemas::Status;
use perigee_service::Cluster;
use perigee_store::{ReplicateConfig, Store};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

const OBJECTS: usize = 60;
const SEGMENT_BYTES: u64 = 64 << 20;

fn cluster_of(shards: usize) -> Arc<Cluster> {
    master(&[&format!("--rpc_shards={shards}"), "--default_kv_lease_ttl=2000"])
}

/// Payloads of all objects: 1 byte to about 1 MiB, different for each.
static PAYLOADS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let payload = |object: usize| data(object, 1 + object * object * 300);
    (0..OBJECTS).map(payload).collect()
});

fn payload(object: usize) -> &'static [u8] {
    &PAYLOADS[object]
}

fn put(store: &Store, object: usize, config: &ReplicateConfig) -> Status {
    let key = format!("object-{object}");
    crate::cluster::put(store, &key, payload(object), config)
}

/// Reads an object; fails the test if it is not there or not itself.
fn check(store: &Store, object: usize) {
    let found = get(store, &format!("object-{object}"));
    assert!(found == Ok(payload(object).to_vec()), "object {object}");
}

fn wait_for(cluster: &Cluster, job: u128, wanted: impl Fn(&DrainInfo) -> bool) -> DrainInfo {
    until("the state of the job", || Some(cluster.drain_job(job).unwrap()).filter(&wanted))
}

fn state_of(cluster: &Cluster, name: &str) -> (u8, u64) {
    let segments = cluster.segments(Some(name)).unwrap();
    let own = segments.first();
    own.map(|segment| (segment.state, segment.used_bytes)).unwrap()
}

fn request(name: &str, max_concurrency: u32) -> DrainRequest {
    DrainRequest { segments: vec![name.to_owned()], target_segments: Vec::new(), max_concurrency }
}

/// Tells the reader to end, also when the test fails.
struct RaisedAtEnd<'a>(&'a AtomicBool);

impl Drop for RaisedAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn drain_under_load(shards: usize, shared_memory: bool) {
    let cluster = cluster_of(shards);
    let leaving = store(&cluster, "127.0.0.1:21001", SEGMENT_BYTES, shared_memory);
    let _staying = store(&cluster, "127.0.0.1:21002", SEGMENT_BYTES, shared_memory);
    let client = store(&cluster, ANY, 0, shared_memory);
    for object in 0..OBJECTS {
        assert_eq!(put(&client, object, &on("127.0.0.1:21001", false)), Status::Ok);
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                (0..OBJECTS).for_each(|object| check(&client, object));
            }
        });
        let _done = RaisedAtEnd(&done);
        let job = cluster.create_drain(request("127.0.0.1:21001", 4)).unwrap();
        let ended = wait_for(&cluster, job, |info| info.state >= 3);
        assert_eq!((ended.state_name, ended.succeeded_units), ("SUCCEEDED", OBJECTS as u64));
        let bytes: usize = (0..OBJECTS).map(|object| payload(object).len()).sum();
        assert_eq!(ended.migrated_bytes, bytes as u64);
        assert_eq!(state_of(&cluster, "127.0.0.1:21001"), (3, 0));
        leaving.close();
        // What the reader has in hand now it looked up, at the latest, in its next round.
        (0..OBJECTS).for_each(|object| check(&client, object));
    });
    drop(client);
    cluster.stop();
}

#[test]
fn a_segment_is_emptied_over_tcp_while_a_client_reads() {
    drain_under_load(1, false);
}

#[test]
fn a_segment_is_emptied_through_shared_memory_by_a_master_of_several_shards() {
    drain_under_load(3, true);
}

#[test]
fn a_job_without_room_waits_and_is_canceled() {
    let cluster = cluster_of(1);
    let _full = store(&cluster, "127.0.0.1:21003", SEGMENT_BYTES, true);
    let _small = store(&cluster, "127.0.0.1:21004", 1 << 20, true);
    let client = store(&cluster, ANY, 0, true);
    for object in 40..OBJECTS {
        assert_eq!(put(&client, object, &on("127.0.0.1:21003", true)), Status::Ok);
    }
    let job = cluster.create_drain(request("127.0.0.1:21003", 2)).unwrap();
    wait_for(&cluster, job, |info| info.blocked_units > 10 && info.active_units == 0);
    assert_eq!(state_of(&cluster, "127.0.0.1:21003").0, 2);
    let twice = cluster.create_drain(request("127.0.0.1:21003", 2)).unwrap_err();
    assert_eq!(twice.status, Status::UnavailableInCurrentStatus);
    assert!(twice.reason.contains("127.0.0.1:21003 is being drained"), "{}", twice.reason);
    let deadline = Instant::now() + LONG;
    while cluster.cancel_drain(job).is_err() {
        assert!(Instant::now() < deadline, "moves end");
    }
    assert_eq!(cluster.drain_job(job).unwrap().state_name, "CANCELED");
    assert_eq!(cluster.cancel_drain(job), Err(Status::UnavailableInCurrentStatus));
    assert_eq!(cluster.cancel_drain(job ^ 1), Err(Status::JobNotFound));
    assert_eq!(state_of(&cluster, "127.0.0.1:21003").0, 1);
    (40..OBJECTS).for_each(|object| check(&client, object));
    cluster.stop();
}

#[test]
fn a_node_that_leaves_while_it_is_emptied_fails_the_job() {
    let cluster = cluster_of(1);
    let leaving = store(&cluster, "127.0.0.1:21005", SEGMENT_BYTES, false);
    let _staying = store(&cluster, "127.0.0.1:21006", SEGMENT_BYTES, false);
    let client = store(&cluster, ANY, 0, false);
    for object in 0..OBJECTS {
        assert_eq!(put(&client, object, &on("127.0.0.1:21005", false)), Status::Ok);
    }
    let job = cluster.create_drain(request("127.0.0.1:21005", 1)).unwrap();
    wait_for(&cluster, job, |info| info.succeeded_units > 0);
    leaving.close();
    let ended = wait_for(&cluster, job, |info| info.state >= 3);
    // A fast machine may have been done before.
    assert!(["FAILED", "SUCCEEDED"].contains(&ended.state_name), "{ended:?}");
    let there = (0..OBJECTS).filter(|object| {
        let found = client.size(&[&format!("object-{object}")]);
        found[0].is_ok()
    });
    let there: Vec<usize> = there.collect();
    assert_eq!(there.len() as u64, ended.succeeded_units);
    there.iter().for_each(|object| check(&client, *object));
    cluster.stop();
}
