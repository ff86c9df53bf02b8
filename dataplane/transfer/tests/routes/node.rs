//! A node with one segment, engines that reach it by one route each, and objects in it.

use perigee_activity::{PageDirectory, PageReader};
use perigee_memory::segment::{Segment, SegmentOptions};
use perigee_memory::{ByteRange, ByteRangeMut};
use perigee_schemas::Identity;
use perigee_shard::{Congestion, POLL_DEFAULT};
use perigee_transfer::{
    Direction, ObjectEngine, ObjectEngineOptions, Observer, ReadJob, ReplicaAddress, Route, Routes,
    SegmentAddress, SegmentServer, SegmentTable, ServerOptions, TransferError, WriteJob,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const SEGMENT_BYTES: u64 = 64 << 20;

pub(crate) struct Node {
    pub(crate) table: Arc<SegmentTable>,
    pub(crate) server: Option<SegmentServer>,
    pub(crate) address: Arc<SegmentAddress>,
}

pub(crate) fn random() -> u128 {
    u128::from(getrandom::u64().unwrap()) << 64 | u128::from(getrandom::u64().unwrap())
}

pub(crate) fn node() -> Node {
    node_at("127.0.0.1")
}

pub(crate) fn node_at(ip: &str) -> Node {
    let table = Arc::new(SegmentTable::default());
    let id = Identity(random());
    let segment = Segment::create(SEGMENT_BYTES, &SegmentOptions::default()).unwrap();
    // Elsewhere a peer of this host goes over TCP.
    segment.populate(0, SEGMENT_BYTES).unwrap();
    table.insert(id, Arc::new(segment));
    let rendezvous = format!("perigee-test-{id}");
    let options = ServerOptions {
        address: SocketAddr::new(ip.parse().unwrap(), 0),
        shards: 1,
        cpus: Vec::new(),
        poll: POLL_DEFAULT,
        congestion: Congestion::Automatic,
        rendezvous: Some(rendezvous.clone()),
        identity: id,
        rdma: None,
    };
    let server = SegmentServer::start(&options, &table).unwrap();
    let address = SegmentAddress {
        id,
        bytes: SEGMENT_BYTES,
        endpoint: server.address().to_string(),
        host_id: "here".to_owned(),
        rendezvous,
        kind: Some(perigee_schemas::SegmentKind::Memory),
    };
    Node { table, server: Some(server), address: Arc::new(address) }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop();
        }
    }
}

/// Notes which routes bytes took.
#[derive(Debug, Default)]
pub(crate) struct Seen(pub(crate) std::sync::Mutex<Vec<Route>>);

impl Observer for Seen {
    fn moved(&self, route: Route, _: Direction, _: u64, _: Duration) {
        self.0.lock().unwrap().push(route);
    }

    fn failed(&self, _: Route, _: Direction, _: &TransferError) {}
}

pub(crate) fn engine(node: &Node, route: Route) -> ObjectEngine {
    watched_engine(node, route, &Arc::default())
}

pub(crate) fn watched_engine(node: &Node, route: Route, seen: &Arc<Seen>) -> ObjectEngine {
    started_engine(node, route, Duration::from_secs(5), seen)
}

/// An engine whose batches may take `deadline`.
pub(crate) fn engine_within(node: &Node, route: Route, deadline: Duration) -> ObjectEngine {
    started_engine(node, route, deadline, &Arc::default())
}

fn started_engine(node: &Node, route: Route, deadline: Duration, seen: &Arc<Seen>) -> ObjectEngine {
    let own = match route {
        Route::SameProcess => node.table.clone(),
        _ => Arc::new(SegmentTable::default()),
    };
    let options = ObjectEngineOptions {
        identity: Identity(random()),
        host_id: "here".to_owned(),
        routes: Routes { same_process: true, shared_memory: route == Route::SharedMemory },
        shards: 1,
        deadline,
        congestion: Congestion::Automatic,
        tenant: Arc::default(),
        rdma: None,
        observer: seen.clone(),
    };
    ObjectEngine::new(options, own)
}

pub(crate) fn payload(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| ((index * 7 + seed * 13) ^ (index >> 8)) as u8).collect()
}

pub(crate) fn place(node: &Node, offset: u64, bytes: usize, generation: u64) -> ReplicaAddress {
    ReplicaAddress {
        segment: node.address.clone(),
        offset,
        payload_bytes: bytes as u64,
        generation,
    }
}

pub(crate) fn read_one(
    engine: &ObjectEngine,
    place: &ReplicaAddress,
    checksum: u32,
) -> Result<Vec<u8>, TransferError> {
    let mut out = vec![0u8; place.payload_bytes as usize];
    let middle = out.len() / 3;
    let (left, right) = out.split_at_mut(middle);
    let pieces = [ByteRangeMut::from(left), ByteRangeMut::from(right)];
    // SAFETY: `out` is ours and outlives the call.
    let mut results = unsafe { engine.read(&[ReadJob { place, checksum, pieces: &pieces }]) };
    results.pop().unwrap().map(|()| out)
}

pub(crate) fn write_all(
    engine: &ObjectEngine,
    places: &[ReplicaAddress],
    data: &[Vec<u8>],
) -> Vec<u32> {
    let pieces: Vec<[ByteRange; 1]> =
        data.iter().map(|bytes| [ByteRange::from(bytes.as_slice())]).collect();
    let jobs: Vec<WriteJob<'_>> =
        places.iter().zip(&pieces).map(|(place, pieces)| WriteJob { place, pieces }).collect();
    // SAFETY: `data` outlives the call.
    unsafe { engine.write(&jobs) }.into_iter().map(Result::unwrap).collect()
}

/// The activity page of this process.
pub(crate) fn page() -> PageReader {
    let pages = PageDirectory::from_environment().unwrap();
    let mut pages = perigee_activity::pages(&pages).into_iter();
    pages.find(|page| page.pid() == std::process::id()).unwrap()
}
