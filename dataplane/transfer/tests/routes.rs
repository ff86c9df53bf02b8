//! One process plays both sides: every route moves the same bytes and refuses the same wrong ones.
#![allow(clippy::unwrap_used, reason = "tests")]

use perigee_memory::segment::{Segment, SegmentOptions};
use perigee_memory::{Piece, PieceMut};
use perigee_schemas::Identity;
use perigee_shard::{Congestion, POLL_DEFAULT};
use perigee_transfer::{
    Engine, EngineOptions, Flow, Observer, PeerError, Place, RangeJob, ReadJob, Route, Routes,
    SegmentAddress, SegmentServer, SegmentTable, ServerOptions, TransferError, WriteJob,
};
use std::sync::Arc;
use std::time::Duration;

const SEGMENT_BYTES: u64 = 64 << 20;

struct Node {
    table: Arc<SegmentTable>,
    server: Option<SegmentServer>,
    address: Arc<SegmentAddress>,
}

fn random() -> u128 {
    u128::from(getrandom::u64().unwrap()) << 64 | u128::from(getrandom::u64().unwrap())
}

fn node() -> Node {
    let table = Arc::new(SegmentTable::default());
    let id = Identity(random());
    let segment = Segment::create(SEGMENT_BYTES, &SegmentOptions::default()).unwrap();
    // Elsewhere a peer of this host goes over TCP.
    segment.populate(0, SEGMENT_BYTES).unwrap();
    table.insert(id, Arc::new(segment));
    let rendezvous = format!("perigee-test-{id}");
    let options = ServerOptions {
        address: "127.0.0.1:0".parse().unwrap(),
        shards: 1,
        cpus: Vec::new(),
        poll: POLL_DEFAULT,
        congestion: Congestion::Automatic,
        rendezvous: Some(rendezvous.clone()),
        identity: id,
        rails: None,
    };
    let server = SegmentServer::start(&options, &table).unwrap();
    let address = SegmentAddress {
        id,
        bytes: SEGMENT_BYTES,
        endpoint: server.address().to_string(),
        host_id: "here".to_owned(),
        rendezvous,
    };
    Node {
        table,
        server: Some(server),
        address: Arc::new(address),
    }
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
struct Seen(std::sync::Mutex<Vec<Route>>);

impl Observer for Seen {
    fn moved(&self, route: Route, _: Flow, _: u64, _: Duration) {
        self.0.lock().unwrap().push(route);
    }

    fn failed(&self, _: Route, _: Flow, _: &TransferError) {}
}

fn engine(node: &Node, route: Route) -> Engine {
    watched_engine(node, route, &Arc::default())
}

fn watched_engine(node: &Node, route: Route, seen: &Arc<Seen>) -> Engine {
    let own = match route {
        Route::SameProcess => node.table.clone(),
        _ => Arc::new(SegmentTable::default()),
    };
    let options = EngineOptions {
        identity: Identity(random()),
        host_id: "here".to_owned(),
        routes: Routes {
            same_process: true,
            shared_memory: route == Route::SharedMemory,
        },
        shards: 1,
        deadline: Duration::from_secs(5),
        congestion: Congestion::Automatic,
        rails: None,
        observer: seen.clone(),
    };
    Engine::new(options, own)
}

#[test]
fn a_process_is_seen_by_the_agent_before_it_has_moved_a_byte() {
    let folder = perigee_activity::Directory::from_environment().unwrap();
    let own = std::process::id();
    let is_seen = || {
        let pages = perigee_activity::pages(&folder);
        pages.iter().any(|page| page.pid() == own)
    };
    let node = node();
    let _engine = engine(&node, Route::SharedMemory);
    assert!(is_seen());
}

fn payload(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|index| ((index * 7 + seed * 13) ^ (index >> 8)) as u8)
        .collect()
}

fn place(node: &Node, offset: u64, bytes: usize, generation: u64) -> Place {
    Place {
        segment: node.address.clone(),
        offset,
        payload_bytes: bytes as u64,
        generation,
    }
}

fn read_one(engine: &Engine, place: &Place, checksum: u32) -> Result<Vec<u8>, TransferError> {
    let mut out = vec![0u8; place.payload_bytes as usize];
    let middle = out.len() / 3;
    let (left, right) = out.split_at_mut(middle);
    let pieces = [PieceMut::from(left), PieceMut::from(right)];
    // SAFETY: `out` is ours and outlives the call.
    let mut results = unsafe {
        engine.read(&[ReadJob {
            place,
            checksum,
            pieces: &pieces,
        }])
    };
    results.pop().unwrap().map(|()| out)
}

fn write_all(engine: &Engine, places: &[Place], data: &[Vec<u8>]) -> Vec<u32> {
    let pieces: Vec<[Piece; 1]> = data
        .iter()
        .map(|bytes| [Piece::from(bytes.as_slice())])
        .collect();
    let jobs: Vec<WriteJob<'_>> = places
        .iter()
        .zip(&pieces)
        .map(|(place, pieces)| WriteJob { place, pieces })
        .collect();
    // SAFETY: `data` outlives the call.
    unsafe { engine.write(&jobs) }
        .into_iter()
        .map(Result::unwrap)
        .collect()
}

fn round_trip(route: Route) {
    let node = node();
    let seen = Arc::new(Seen::default());
    let engine = watched_engine(&node, route, &seen);
    let sizes = [
        1,
        100,
        4096,
        65_536,
        65_537,
        1 << 20,
        (1 << 20) + 1,
        5_000_001,
    ];
    let mut offset = 0;
    let mut places = Vec::new();
    let mut data = Vec::new();
    for (index, bytes) in sizes.into_iter().enumerate() {
        places.push(place(&node, offset, bytes, 1000 + index as u64));
        data.push(payload(index, bytes));
        offset += perigee_schemas::extent::extent_bytes(bytes as u64);
    }
    let checksums = write_all(&engine, &places, &data);
    for ((place, data), checksum) in places.iter().zip(&data).zip(&checksums) {
        assert_eq!(*checksum, perigee_memory::crc32c(data));
        assert!(
            read_one(&engine, place, *checksum).unwrap() == *data,
            "{route:?} {} bytes",
            data.len()
        );
        ranges_agree(&engine, place, *checksum, data);
        let stale = Place {
            generation: 5,
            ..place.clone()
        };
        assert_eq!(
            read_one(&engine, &stale, *checksum),
            Err(TransferError::Stale),
            "{route:?}"
        );
    }
    assert!(seen.0.lock().unwrap().iter().all(|taken| *taken == route));
    let memory = node.table.get(node.address.id).unwrap();
    // SAFETY: the byte lies in the last object, inside the segment.
    unsafe { *memory.base().add(places[7].offset as usize + 3_000_000) ^= 0x40 };
    let damaged = read_one(&engine, &places[7], checksums[7]);
    assert!(
        matches!(damaged, Err(TransferError::Checksum { .. })),
        "{route:?} {damaged:?}"
    );
    engine.close();
}

fn ranges_agree(engine: &Engine, place: &Place, checksum: u32, data: &[u8]) {
    let bytes = data.len();
    for (from, length) in [
        (0, bytes),
        (bytes / 2, bytes / 4),
        (bytes - 1, 1),
        (bytes / 3, 0),
    ] {
        let mut out = vec![0u8; length];
        let target = PieceMut::from(out.as_mut_slice());
        let job = RangeJob {
            place,
            checksum,
            source_offset: from as u64,
            target,
        };
        // SAFETY: `out` is ours and outlives the call.
        let results = unsafe { engine.read_ranges(&[job]) };
        assert_eq!(results, [Ok(())]);
        assert!(out == data[from..from + length]);
    }
    let mut out = [0u8; 8];
    let target = PieceMut::from(out.as_mut_slice());
    let job = RangeJob {
        place,
        checksum,
        source_offset: bytes as u64,
        target,
    };
    // SAFETY: as above.
    let results = unsafe { engine.read_ranges(&[job]) };
    assert!(matches!(results[0], Err(TransferError::BufferSize { .. })));
}

#[test]
fn same_process() {
    round_trip(Route::SameProcess);
}

#[test]
fn shared_memory() {
    round_trip(Route::SharedMemory);
}

#[test]
fn tcp() {
    round_trip(Route::Tcp);
}

#[test]
fn a_place_outside_its_segment_is_refused_on_every_route() {
    let node = node();
    for route in [Route::SameProcess, Route::SharedMemory, Route::Tcp] {
        let engine = engine(&node, route);
        for offset in [SEGMENT_BYTES - 4096, u64::MAX - 8, 12] {
            let place = place(&node, offset, 4096, 1);
            let outcome = read_one(&engine, &place, 0);
            assert!(
                matches!(outcome, Err(TransferError::OutOfBounds { .. })),
                "{route:?} {outcome:?}"
            );
        }
        engine.close();
    }
}

#[test]
fn a_dead_peer_fails_its_own_keys_and_spares_the_others() {
    let (alive, mut dead) = (node(), node());
    let engine = engine(&alive, Route::Tcp);
    let data = vec![payload(1, 100_000), payload(2, 100_000)];
    let places = vec![place(&alive, 0, 100_000, 1), place(&dead, 0, 100_000, 2)];
    let checksums = write_all(&engine, &places, &data);
    dead.server.take().unwrap().stop();
    assert_eq!(
        read_one(&engine, &places[0], checksums[0]).unwrap(),
        data[0]
    );
    let lost = read_one(&engine, &places[1], checksums[1]).unwrap_err();
    assert!(lost.is_peer_fault(), "{lost:?}");
    assert_eq!(
        read_one(&engine, &places[0], checksums[0]).unwrap(),
        data[0]
    );
    engine.close();
}

#[test]
fn a_closed_engine_starts_nothing_again() {
    let node = node();
    let engine = engine(&node, Route::Tcp);
    engine.close();
    let outcome = read_one(&engine, &place(&node, 0, 4096, 1), 0);
    assert!(
        matches!(outcome, Err(TransferError::Engine(_))),
        "{outcome:?}"
    );
}

#[test]
fn memory_that_cannot_be_written_is_the_callers_fault() {
    static CONSTANT: [u8; 4096] = [7; 4096];
    let node = node();
    let engine = engine(&node, Route::Tcp);
    let place = place(&node, 0, CONSTANT.len(), 1);
    let data = payload(1, CONSTANT.len());
    let checksum = write_all(&engine, std::slice::from_ref(&place), &[data])[0];
    let pieces = [PieceMut {
        ptr: CONSTANT.as_ptr().cast_mut(),
        len: CONSTANT.len(),
    }];
    // SAFETY: nothing is written there: the kernel refuses to write to constants.
    let outcome = unsafe {
        engine.read(&[ReadJob {
            place: &place,
            checksum,
            pieces: &pieces,
        }])
    };
    assert_eq!(outcome, [Err(TransferError::Peer(PeerError::LocalMemory))]);
    engine.close();
}

#[test]
fn refused_writes_spare_the_connection_and_their_neighbours() {
    let node = node();
    let engine = engine(&node, Route::Tcp);
    let withdrawn = Arc::new(SegmentAddress {
        id: Identity(random()),
        ..(*node.address).clone()
    });
    let lost = Place {
        segment: withdrawn,
        ..place(&node, 0, 300_000, 1)
    };
    let kept = place(&node, 0, 300_000, 2);
    let data = payload(1, 300_000);
    let pieces = [Piece::from(data.as_slice())];
    let jobs = [&lost, &kept].map(|place| WriteJob {
        place,
        pieces: &pieces,
    });
    // SAFETY: `data` outlives the call.
    let outcome = unsafe { engine.write(&jobs) };
    assert!(
        matches!(
            outcome[0],
            Err(TransferError::Peer(PeerError::Refused { .. }))
        ),
        "{outcome:?}"
    );
    let checksum = *outcome[1].as_ref().unwrap();
    assert_eq!(read_one(&engine, &kept, checksum).unwrap(), data);
    engine.close();
}

#[test]
fn a_withdrawn_mapping_is_not_used_any_more() {
    let node = node();
    let engine = engine(&node, Route::SharedMemory);
    let place = place(&node, 0, 4096, 1);
    let data = payload(1, 4096);
    let checksum = write_all(&engine, std::slice::from_ref(&place), &[data])[0];
    read_one(&engine, &place, checksum).unwrap();
    drop(node.table.remove(node.address.id));
    node.server.as_ref().unwrap().withdraw_sharing();
    let refused = read_one(&engine, &place, checksum).unwrap_err();
    assert!(
        matches!(refused, TransferError::Peer(PeerError::Refused { .. })),
        "{refused}"
    );
    engine.close();
}

#[test]
fn a_peer_that_accepts_and_says_nothing_fails_only_its_own_objects() {
    let node = node();
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let engine = engine(&node, Route::Tcp);
    let data = payload(1, 100_000);
    let pieces = [Piece::from(data.as_slice())];
    let good = place(&node, 0, data.len(), 5);
    let mut bad = place(&node, 1 << 20, data.len(), 6);
    bad.segment = Arc::new(SegmentAddress {
        endpoint: mute.local_addr().unwrap().to_string(),
        ..(*node.address).clone()
    });
    let jobs = [&good, &bad].map(|place| WriteJob {
        place,
        pieces: &pieces,
    });
    // SAFETY: the pieces outlive the call.
    let outcomes = unsafe { engine.write(&jobs) };
    assert_eq!(outcomes[0], Ok(perigee_memory::crc32c(&data)));
    assert!(
        matches!(
            outcomes[1],
            Err(TransferError::Peer(PeerError::Unreachable { .. }))
        ),
        "{outcomes:?}"
    );
    engine.close();
}
