//! What clients lend and what the master takes it for, when the two differ.
//! Invariant: the client's view comes true within a heartbeat or two.

use crate::cluster::{ANY, config, environment, master, master_telling, store, until};
use perigee_discovery::{Directory, DiscoverySettings};
use perigee_metadata::MetadataServer;
use perigee_rpc::{ClientOptions, LentSegments, MasterClient, SegmentOffer};
use perigee_schemas::{Identity, SegmentKind, Status};
use perigee_service::Cluster;
use perigee_store::{Store, StoreConfig};
use std::sync::mpsc::channel;

const SEGMENT_BYTES: u64 = 4 << 20;

fn caller(cluster: &Cluster, identity: Identity) -> MasterClient {
    MasterClient::new(ClientOptions::new(&cluster.address().to_string(), identity))
}

/// Speaks to the master in the name of the only client that lends memory.
fn in_the_name_of_the_lender(cluster: &Cluster) -> MasterClient {
    let segments = caller(cluster, Identity(1)).segments(&[]).unwrap();
    caller(cluster, segments[0].segment.client)
}

fn mounted(caller: &MasterClient) -> Vec<Identity> {
    let segments = caller.segments(&[]).unwrap().into_iter();
    segments.map(|used| used.segment.id).collect()
}

fn lender(cluster: &Cluster) -> (Store, Identity) {
    let store = store(cluster, ANY, SEGMENT_BYTES, true);
    let further = store.mount_segment(SEGMENT_BYTES, None).unwrap()[0];
    (store, further)
}

/// A segment of this name, at a data port of its own.
fn offer(id: u16, name: &str) -> SegmentOffer {
    SegmentOffer {
        id: Identity(u128::from(id)),
        bytes: SEGMENT_BYTES,
        base: 0,
        name: name.to_owned(),
        endpoint: format!("127.0.0.1:{id}"),
        host_id: "host".to_owned(),
        rendezvous: String::new(),
        protocol: "tcp".to_owned(),
        kind: SegmentKind::Memory,
    }
}

#[test]
fn a_heartbeat_undoes_a_mount_that_was_given_up() {
    let cluster = master(&["--rpc_shards=2"]);
    let caller = caller(&cluster, Identity(9));
    let offer = offer(5, "127.0.0.1:1");
    assert_eq!(caller.mount(&[offer], false, 1).unwrap(), [Status::Ok]);
    assert!(!caller.ping(&LentSegments::default()).unwrap().must_mount);
    assert_eq!(mounted(&caller), [Identity(5)], "no list was sent");
    let holdings = LentSegments { mounts: 1, ..LentSegments::default() };
    assert!(!caller.ping(&holdings).unwrap().must_mount);
    assert!(mounted(&caller).is_empty());
    cluster.stop();
}

#[test]
fn a_segment_that_the_master_has_lost_while_it_knows_the_client_is_mounted_again() {
    let cluster = master(&[]);
    let (store, further) = lender(&cluster);
    let caller = in_the_name_of_the_lender(&cluster);
    assert_eq!(caller.unmount(&[further], 0).unwrap(), [Status::Ok]);
    until("the segment", || mounted(&caller).contains(&further).then_some(()));
    store.close();
    cluster.stop();
}

#[test]
fn unmounting_what_the_master_has_lost_succeeds_and_is_final() {
    let cluster = master(&[]);
    let (store, further) = lender(&cluster);
    let caller = in_the_name_of_the_lender(&cluster);
    assert_eq!(caller.unmount(&[further], 0).unwrap(), [Status::Ok]);
    assert_eq!(store.unmount_segments(&[further], 0), Status::Ok);
    // A heartbeat that was under way may have mounted it once more.
    let again = store.unmount_segments(&[further], 0);
    assert!(matches!(again, Status::SegmentNotFound | Status::Ok), "{again}");
    // The master forgets the client, which mounts all it still lends.
    caller.leave().unwrap();
    let again =
        until("the client", || Some(mounted(&caller)).filter(|mounted| !mounted.is_empty()));
    assert_eq!(again.len(), 1);
    assert!(!again.contains(&further));
    store.close();
    cluster.stop();
}

#[test]
fn names_that_a_client_has_taken_over_are_not_cleaned_up_with_the_predecessor() {
    let (listener, expired) = channel();
    let cluster = master_telling(&["--client_ttl=3"], Some(listener));
    let [predecessor, successor, other] = [1, 2, 3].map(|it| caller(&cluster, Identity(it)));
    for (client, id, name) in
        [(&predecessor, 5, "taken-over:1"), (&successor, 6, "taken-over:1"), (&other, 7, "gone:1")]
    {
        let mounted = client.mount(&[offer(id, name)], false, 1).unwrap();
        assert_eq!(mounted, [Status::Ok]);
    }
    // The other one was heard of last, so the predecessor is expired when it is.
    let mut names = Vec::<String>::new();
    until("the end of the silent ones", || {
        assert!(!successor.ping(&LentSegments::default()).unwrap().must_mount);
        names.extend(expired.try_iter().flatten());
        names.contains(&"gone:1".to_owned()).then_some(())
    });
    assert_eq!(names, ["gone:1"]);
    cluster.stop();
}

#[test]
fn the_metadata_service_knows_what_is_mounted_and_unmounted_later() {
    let cluster = master(&[]);
    let service = MetadataServer::start("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}/metadata", service.local_addr());
    let directory = Directory::open(&url, DiscoverySettings::default()).unwrap();
    let mut config = config(&cluster, ANY, 0);
    config.metadata_server = url;
    let store = Store::open_with(config, &environment(true)).unwrap();
    let is_recorded = |segments: &[u64]| {
        let document = directory.reload(&store.hostname()).unwrap();
        let recorded: Vec<u64> = document.buffers.iter().map(|it| it.length).collect();
        (recorded == segments).then_some(document.tcp_data_port)
    };
    assert!(is_recorded(&[]).is_some());
    let first = store.mount_segment(SEGMENT_BYTES, None).unwrap();
    let second = store.mount_segment(2 * SEGMENT_BYTES, None).unwrap();
    let port = until("the record of both", || is_recorded(&[SEGMENT_BYTES, 2 * SEGMENT_BYTES]));
    assert_ne!(port, 0, "the data port came with the first one");
    assert_eq!(store.unmount_segments(&first, 0), Status::Ok);
    until("the record of one", || is_recorded(&[2 * SEGMENT_BYTES]));
    assert_eq!(store.unmount_segments(&second, 0), Status::Ok);
    until("the record of none", || is_recorded(&[]));
    store.close();
    assert!(directory.reload(&store.hostname()).is_err());
    service.stop();
    cluster.stop();
}

#[test]
fn a_tenant_that_cannot_be_or_a_protocol_that_is_not_built_is_refused_by_name() {
    let cluster = master(&[]);
    let usual = || config(&cluster, ANY, 0);
    for (config, name, words) in [
        (StoreConfig { tenant_id: "_red".to_owned(), ..usual() }, "tenant_id", "printable"),
        (StoreConfig { protocol: "nvlink".to_owned(), ..usual() }, "protocol", "not built"),
        (StoreConfig { protocol: "tcpp".to_owned(), ..usual() }, "protocol", "write tcp, rdma"),
    ] {
        let error = Store::open_with(config, &environment(false)).err().unwrap();
        let text = error.to_string();
        assert!(text.starts_with(name) && text.contains(words), "{text}");
        assert_eq!(error.status(), Status::InvalidParams);
    }
    for tenant in ["", "default", "red"] {
        let config = StoreConfig { tenant_id: tenant.to_owned(), ..usual() };
        Store::open_with(config, &environment(false)).unwrap().close();
    }
}
