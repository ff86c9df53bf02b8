//! Places and objects that go while their bytes are on their way.
//! Invariant: a put finds another place, or answers that its bytes did not arrive.

use crate::cluster::{ANY, data, get, master, on, piece, put, store};
use perigee_rpc::{ClientOptions, MasterClient, SegmentOffer};
use perigee_schemas::{Identity, SegmentKind, Status};
use perigee_service::Cluster;
use perigee_store::{PutRequest, ReplicateConfig, Store};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};

const SEGMENT_BYTES: u64 = 16 << 20;
const OBJECT_BYTES: usize = 300_000;
/// What a greeting takes is far less, what an object takes more.
const PAYLOAD_SEEN_BYTES: u64 = OBJECT_BYTES as u64;

fn caller(cluster: &Cluster, identity: Identity) -> MasterClient {
    MasterClient::new(ClientOptions::new(&cluster.address().to_string(), identity))
}

/// The segment of `owner` as its owner would mount it.
fn offer_of(cluster: &Cluster, owner: &Store) -> SegmentOffer {
    let segments = caller(cluster, Identity(1)).segments(&[&owner.hostname()]);
    let segment = segments.unwrap().remove(0).segment;
    SegmentOffer {
        id: segment.id,
        bytes: segment.bytes,
        base: segment.base,
        name: segment.name,
        endpoint: segment.endpoint,
        host_id: segment.host_id,
        rendezvous: segment.rendezvous,
        protocol: segment.protocol,
        kind: SegmentKind::Memory,
    }
}

/// Mounts a segment that the owner of its data port has never heard of; returns its name.
fn mount_ghost(cluster: &Cluster, owner: &Store) -> String {
    let mut ghost = offer_of(cluster, owner);
    ghost.id = Identity(77);
    "ghost:1".clone_into(&mut ghost.name);
    "another host".clone_into(&mut ghost.host_id);
    let name = ghost.name.clone();
    let mounted = caller(cluster, Identity(7)).mount(&[ghost], false, 1);
    assert_eq!(mounted.unwrap(), [Status::Ok]);
    name
}

#[test]
fn a_put_onto_a_segment_that_its_owner_has_not_got_goes_elsewhere() {
    // The owner of a vanished segment does not answer for it.
    let cluster = master(&["--verify_segments=false"]);
    let node = store(&cluster, ANY, SEGMENT_BYTES, false);
    let ghost = mount_ghost(&cluster, &node);
    let value = data(3, OBJECT_BYTES);
    assert_eq!(put(&node, "key", &value, &on(&ghost, false)), Status::Ok);
    assert!(get(&node, "key").unwrap() == value);
    node.close();
    cluster.stop();
}

#[test]
fn a_put_that_has_no_place_but_vanished_ones_did_not_arrive() {
    // The owner of a vanished segment does not answer for it.
    let cluster = master(&["--verify_segments=false"]);
    let node = store(&cluster, ANY, SEGMENT_BYTES, false);
    mount_ghost(&cluster, &node);
    let full = data(4, SEGMENT_BYTES as usize - OBJECT_BYTES);
    let pinned = on(&node.hostname(), true);
    assert_eq!(put(&node, "full", &full, &pinned), Status::Ok);
    let value = data(3, 2 * OBJECT_BYTES);
    let config = ReplicateConfig::default();
    assert_eq!(put(&node, "key", &value, &config), Status::TransferFail);
    node.close();
    cluster.stop();
}

/// What happens, with the connection of the writer.
type Event = dyn Fn(&TcpStream) + Send + Sync;

/// Passes bytes on to a data port. Between an object's bytes and the answer to them something
/// happens.
fn intercept(
    upstream: SocketAddr,
    event: impl Fn(&TcpStream) + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap();
    let event: Arc<Event> = Arc::new(event);
    // An object may go over several connections.
    let seen_bytes = Arc::<AtomicU64>::default();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = TcpStream::connect(upstream).unwrap();
            pass(client, server, seen_bytes.clone(), event.clone());
        }
    });
    port
}

fn pass(client: TcpStream, server: TcpStream, seen_bytes: Arc<AtomicU64>, event: Arc<Event>) {
    let (to_server, to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let (seen, writer) = (seen_bytes.clone(), client.try_clone().unwrap());
    std::thread::spawn(move || {
        pump(client, to_server, |bytes| {
            seen.fetch_add(bytes, Ordering::AcqRel);
        });
    });
    std::thread::spawn(move || {
        pump(server, to_client, |_| {
            if seen_bytes.load(Ordering::Acquire) >= PAYLOAD_SEEN_BYTES {
                event(&writer);
            }
        });
    });
}

/// Copies until either side ends; `seen` gets the count of bytes before they go on.
fn pump(mut from: TcpStream, mut to: TcpStream, seen: impl Fn(u64)) {
    let mut room = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut room) {
        seen(count as u64);
        if to.write_all(&room[..count]).is_err() {
            return;
        }
    }
}

/// A cluster with a segment whose data port is reached through an interceptor, and a node besides.
/// The owner of the segment is a member of another cluster, so that only the test speaks of it
/// here.
struct Intercepted {
    cluster: Arc<Cluster>,
    elsewhere: Arc<Cluster>,
    owner: Store,
    node: Store,
    /// Name of the segment.
    name: String,
}

impl Intercepted {
    /// The event happens once.
    fn start(event: impl Fn(&MasterClient, &SegmentOffer) + Send + Sync + 'static) -> Self {
        let once = Once::new();
        Self::start_with(move |_, speaker, lent| once.call_once(|| event(speaker, lent)))
    }

    fn start_with(
        event: impl Fn(&TcpStream, &MasterClient, &SegmentOffer) + Send + Sync + 'static,
    ) -> Self {
        let (cluster, elsewhere) =
            (master(&["--client_ttl=3600", "--verify_segments=false"]), master(&[]));
        let owner = store(&elsewhere, ANY, SEGMENT_BYTES, false);
        let node = store(&cluster, ANY, SEGMENT_BYTES, false);
        let mut offer = offer_of(&elsewhere, &owner);
        let upstream = offer.endpoint.parse().unwrap();
        let (speaker, lent) = (caller(&cluster, Identity(7)), offer.clone());
        let port = intercept(upstream, move |writer| event(writer, &speaker, &lent));
        offer.endpoint = port.to_string();
        let name = offer.name.clone();
        let mounted = caller(&cluster, Identity(7)).mount(&[offer], false, 1);
        assert_eq!(mounted.unwrap(), [Status::Ok]);
        Self { cluster, elsewhere, owner, node, name }
    }

    fn stop(self) {
        self.node.close();
        self.owner.close();
        self.cluster.stop();
        self.elsewhere.stop();
    }
}

#[test]
fn a_put_whose_segment_goes_before_it_ends_is_put_elsewhere() {
    let intercepted = Intercepted::start(|speaker, lent| {
        assert_eq!(speaker.unmount(&[lent.id], 0).unwrap(), [Status::Ok]);
    });
    let value = data(5, OBJECT_BYTES);
    let config = on(&intercepted.name, false);
    assert_eq!(put(&intercepted.node, "key", &value, &config), Status::Ok);
    assert!(get(&intercepted.node, "key").unwrap() == value);
    let left = caller(&intercepted.cluster, Identity(1)).segments(&[]);
    assert_eq!(left.unwrap().len(), 1, "the segment was unmounted");
    intercepted.stop();
}

#[test]
fn a_put_whose_owner_breaks_off_in_the_middle_did_not_arrive() {
    let intercepted = Intercepted::start_with(|writer, _, _| {
        writer.shutdown(Shutdown::Both).unwrap_or_default();
    });
    let (node, name) = (&intercepted.node, &intercepted.name);
    let full = data(4, SEGMENT_BYTES as usize - OBJECT_BYTES / 2);
    assert_eq!(put(node, "full", &full, &on(&node.hostname(), true)), Status::Ok);
    let value = data(5, OBJECT_BYTES);
    assert_eq!(put(node, "key", &value, &on(name, false)), Status::TransferFail);
    assert_eq!(node.exist(&["key"]), [Ok(false)]);
    intercepted.stop();
}

#[test]
fn an_upsert_whose_object_is_removed_by_force_before_it_ends_is_stored_all_the_same() {
    let removed = Arc::<AtomicU64>::default();
    let count = removed.clone();
    let intercepted = Intercepted::start(move |speaker, _| {
        let statuses = speaker.remove(&["key"], true).unwrap();
        count.fetch_add(u64::from(statuses == [Status::Ok]), Ordering::AcqRel);
    });
    let (node, name) = (&intercepted.node, &intercepted.name);
    let old = on(&node.hostname(), false);
    assert_eq!(put(node, "key", &data(5, 100), &old), Status::Ok);
    let value = data(6, OBJECT_BYTES);
    assert_eq!(upsert(node, "key", &value, &on(name, false)), Status::Ok);
    assert!(get(node, "key").unwrap() == value);
    assert_eq!(removed.load(Ordering::Acquire), 1);
    intercepted.stop();
}

fn upsert(store: &Store, key: &str, bytes: &[u8], config: &ReplicateConfig) -> Status {
    let pieces = [piece(bytes)];
    let request = PutRequest { key, pieces: &pieces, group: None };
    store.upsert(&[request], config)[0]
}
