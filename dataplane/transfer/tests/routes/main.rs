//! One process plays both sides: every route moves the same bytes and refuses the same wrong ones.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stdout, reason = "a test says why it is skipped")]

mod frozen;
mod node;
mod once;
mod own_waits;
mod vanished;

use node::{
    SEGMENT_BYTES, Seen, engine, node, payload, place, random, read_one, watched_engine, write_all,
};
use perigee_memory::{ByteRange, ByteRangeMut};
use perigee_schemas::Identity;
use perigee_transfer::{
    ObjectEngine, PeerError, RangeJob, ReadJob, ReplicaAddress, Route, SegmentAddress,
    TransferError, WriteJob,
};
use std::sync::Arc;

#[test]
fn a_process_is_seen_by_the_agent_before_it_has_moved_a_byte() {
    let folder = perigee_activity::PageDirectory::from_environment().unwrap();
    let own = std::process::id();
    let is_seen = || {
        let pages = perigee_activity::pages(&folder);
        pages.iter().any(|page| page.pid() == own)
    };
    let node = node();
    let _engine = engine(&node, Route::SharedMemory);
    assert!(is_seen());
}

fn round_trip(route: Route) {
    let node = node();
    let seen = Arc::new(Seen::default());
    let engine = watched_engine(&node, route, &seen);
    let sizes = [1, 100, 4096, 65_536, 65_537, 1 << 20, (1 << 20) + 1, 5_000_001];
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
        let stale = ReplicaAddress { generation: 5, ..place.clone() };
        assert_eq!(read_one(&engine, &stale, *checksum), Err(TransferError::Stale), "{route:?}");
    }
    assert!(seen.0.lock().unwrap().iter().all(|taken| *taken == route));
    let memory = node.table.get(node.address.id).unwrap();
    // SAFETY: the byte lies in the last object, inside the segment.
    unsafe { *memory.base().add(places[7].offset as usize + 3_000_000) ^= 0x40 };
    let damaged = read_one(&engine, &places[7], checksums[7]);
    assert!(matches!(damaged, Err(TransferError::Checksum { .. })), "{route:?} {damaged:?}");
    engine.close();
}

fn ranges_agree(engine: &ObjectEngine, place: &ReplicaAddress, checksum: u32, data: &[u8]) {
    let bytes = data.len();
    for (from, length) in [(0, bytes), (bytes / 2, bytes / 4), (bytes - 1, 1), (bytes / 3, 0)] {
        let mut out = vec![0u8; length];
        let target = ByteRangeMut::from(out.as_mut_slice());
        let job = RangeJob { place, checksum, source_offset: from as u64, target };
        // SAFETY: `out` is ours and outlives the call.
        let results = unsafe { engine.read_ranges(&[job]) };
        assert_eq!(results, [Ok(())]);
        assert!(out == data[from..from + length]);
    }
    let mut out = [0u8; 8];
    let target = ByteRangeMut::from(out.as_mut_slice());
    let job = RangeJob { place, checksum, source_offset: bytes as u64, target };
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
    assert_eq!(read_one(&engine, &places[0], checksums[0]).unwrap(), data[0]);
    let lost = read_one(&engine, &places[1], checksums[1]).unwrap_err();
    assert!(lost.is_peer_fault(), "{lost:?}");
    assert_eq!(read_one(&engine, &places[0], checksums[0]).unwrap(), data[0]);
    engine.close();
}

#[test]
fn a_closed_engine_starts_nothing_again() {
    let node = node();
    let engine = engine(&node, Route::Tcp);
    engine.close();
    let outcome = read_one(&engine, &place(&node, 0, 4096, 1), 0);
    assert!(matches!(outcome, Err(TransferError::Engine(_))), "{outcome:?}");
}

#[test]
fn memory_that_cannot_be_written_is_the_callers_fault() {
    static CONSTANT: [u8; 4096] = [7; 4096];
    let node = node();
    let engine = engine(&node, Route::Tcp);
    let place = place(&node, 0, CONSTANT.len(), 1);
    let data = payload(1, CONSTANT.len());
    let checksum = write_all(&engine, std::slice::from_ref(&place), &[data])[0];
    let pieces = [ByteRangeMut { ptr: CONSTANT.as_ptr().cast_mut(), len: CONSTANT.len() }];
    // SAFETY: nothing is written there: the kernel refuses to write to constants.
    let outcome = unsafe { engine.read(&[ReadJob { place: &place, checksum, pieces: &pieces }]) };
    assert_eq!(outcome, [Err(TransferError::Peer(PeerError::LocalMemory))]);
    engine.close();
}

#[test]
fn refused_writes_spare_the_connection_and_their_neighbours() {
    let node = node();
    let engine = engine(&node, Route::Tcp);
    let withdrawn = Arc::new(SegmentAddress { id: Identity(random()), ..(*node.address).clone() });
    let lost = ReplicaAddress { segment: withdrawn, ..place(&node, 0, 300_000, 1) };
    let kept = place(&node, 0, 300_000, 2);
    let data = payload(1, 300_000);
    let pieces = [ByteRange::from(data.as_slice())];
    let jobs = [&lost, &kept].map(|place| WriteJob { place, pieces: &pieces });
    // SAFETY: `data` outlives the call.
    let outcome = unsafe { engine.write(&jobs) };
    assert!(
        matches!(outcome[0], Err(TransferError::Peer(PeerError::Refused { .. }))),
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
    assert!(matches!(refused, TransferError::Peer(PeerError::Refused { .. })), "{refused}");
    engine.close();
}

#[test]
fn a_peer_that_accepts_and_says_nothing_fails_only_its_own_objects() {
    let node = node();
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let engine = engine(&node, Route::Tcp);
    let data = payload(1, 100_000);
    let pieces = [ByteRange::from(data.as_slice())];
    let good = place(&node, 0, data.len(), 5);
    let mut bad = place(&node, 1 << 20, data.len(), 6);
    bad.segment = Arc::new(SegmentAddress {
        endpoint: mute.local_addr().unwrap().to_string(),
        ..(*node.address).clone()
    });
    let jobs = [&good, &bad].map(|place| WriteJob { place, pieces: &pieces });
    // SAFETY: the pieces outlive the call.
    let outcomes = unsafe { engine.write(&jobs) };
    assert_eq!(outcomes[0], Ok(perigee_memory::crc32c(&data)));
    assert!(
        matches!(outcomes[1], Err(TransferError::Peer(PeerError::Unreachable { .. }))),
        "{outcomes:?}"
    );
    engine.close();
}
