//! Objects whose owner cannot be reached.
//! Invariant: a reader gets a miss on every path, counted once per replica tried, and no code that
//! speaks of the master; a writer hears that its bytes did not arrive; a copy that a node makes for
//! others counts as a call does.

use crate::cluster::{ANY, master, on, piece, put, store, until};
use perigee_metrics::{BuildInfo, Samples};
use perigee_rpc::{ClientOptions, MasterClient, SegmentOffer, WirePlacement, WriteForm};
use perigee_schemas::{Identity, SegmentKind, Status};
use perigee_service::Cluster;
use perigee_store::{GetRequest, RangeRequest, Store, TaskSpec, TaskState};
use std::net::TcpListener;

const SEGMENT_BYTES: u64 = 16 << 20;
const OBJECT_BYTES: usize = 100_000;
const NAME: &str = "away:1";

/// Mounts a segment at whose endpoint nothing listens, and commits objects there.
fn mount_away(cluster: &Cluster, keys: &[&str]) {
    let owner = MasterClient::new(ClientOptions::new(&cluster.address().to_string(), Identity(7)));
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let offer = SegmentOffer {
        id: Identity(77),
        bytes: SEGMENT_BYTES,
        base: 0,
        name: NAME.to_owned(),
        endpoint: closed.to_string(),
        host_id: "another host".to_owned(),
        rendezvous: String::new(),
        protocol: "tcp".to_owned(),
        kind: SegmentKind::Memory,
    };
    assert_eq!(owner.mount(&[offer], false, 1).unwrap(), [Status::Ok]);
    let wanted = WirePlacement { replica_num: 1, ..WirePlacement::default() };
    let form = WriteForm::default();
    let sizes = vec![OBJECT_BYTES as u64; keys.len()];
    let started = owner.put_start(keys, &sizes, &[], &wanted, form).unwrap();
    let generation = |at| started.locations_of(at)[0].generation;
    let generations: Vec<u64> = (0..keys.len()).map(generation).collect();
    let ended = owner.put_end(keys, &generations, &vec![0; keys.len()], &[], form).unwrap();
    assert!(ended.iter().all(|status| *status == Status::Ok));
}

fn unreachable_owners(store: &Store) -> u64 {
    let build = BuildInfo { version: "", commit: "", reactor: "" };
    let text = Samples::of_client([store.cells()], "real", build).render();
    let name = "perigee_unreachable_owners_total ";
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap().parse().unwrap()
}

#[test]
fn reads_from_an_unreachable_owner_miss_and_writes_are_not_stored() {
    // The owner does not answer the master either.
    let cluster = master(&["--verify_segments=false"]);
    let keys = ["one", "two", "three"];
    mount_away(&cluster, &keys);
    for shared_memory in [true, false] {
        let client = store(&cluster, ANY, 0, shared_memory);
        let room = vec![0u8; OBJECT_BYTES];
        let pieces = [piece(&room)];
        let get = |key| GetRequest { key, pieces: &pieces };
        let miss = Err(Status::InvalidReplica);
        assert_eq!(client.get(&[get("one")]), [miss]);
        assert_eq!(unreachable_owners(&client), 1, "the same owner is not asked again");
        assert_eq!(client.get(&keys.map(get)), [miss; 3]);
        let range = |key| RangeRequest { key, source_offset: 1000, target: piece(&room[..2000]) };
        assert_eq!(client.read_ranges(&keys.map(range)), [miss; 3]);
        let lookup = client.locate(&["two"]);
        assert_eq!(client.read(&lookup, &[(0, &pieces)]), [miss]);
        assert_eq!(unreachable_owners(&client), 8);
        assert_eq!(put(&client, "new", &room, &on(NAME, false)), Status::TransferFail);
        assert!(unreachable_owners(&client) > 8);
        assert_eq!(client.exist(&["new"]), [Ok(false)]);
        client.close();
    }
    cluster.stop();
}

#[test]
fn a_copy_to_an_unreachable_owner_is_counted_where_it_was_tried() {
    let flags = ["--verify_segments=false", "--max_retry_attempts=1"];
    let cluster = master(&flags);
    mount_away(&cluster, &["away"]);
    let node = store(&cluster, "127.0.0.1:22009", SEGMENT_BYTES, false);
    let (source, value) = (node.hostname(), vec![3; OBJECT_BYTES]);
    assert_eq!(put(&node, "key", &value, &on(&source, false)), Status::Ok);
    assert_eq!(unreachable_owners(&node), 0);
    let copy = TaskSpec::Copy { targets: &[NAME] };
    let onward = TaskSpec::Move { source: &source, target: NAME };
    for spec in [copy, onward] {
        let before = unreachable_owners(&node);
        let id = node.create_task("key", &spec).unwrap();
        let failed = until("the end of the task", || {
            Some(node.query_task(id).unwrap()).filter(|task| task.state == TaskState::Failed)
        });
        assert!(failed.message.contains(Status::TransferFail.name()), "{failed:?}");
        assert!(unreachable_owners(&node) > before, "{spec:?}");
    }
    node.close();
    cluster.stop();
}
