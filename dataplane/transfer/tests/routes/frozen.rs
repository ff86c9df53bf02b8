//! Owners that freeze: a caller that breaks off gets its buffers back, and an owner that does not
//! answer costs one wait.

use crate::node::{Node, engine_within, node, page, payload, place, read_one, write_all};
use perigee_memory::{ByteRange, ByteRangeMut};
use perigee_schemas::Status;
use perigee_shard::interruptible;
use perigee_transfer::{
    ObjectEngine, PeerError, ReadJob, ReplicaAddress, Route, SegmentAddress, TransferError,
    WriteJob,
};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Time of a transfer, which no interrupted call may need.
const DEADLINE: Duration = Duration::from_secs(60);
/// How long an interrupted call may take on a busy machine; it takes a quarter of a second
/// elsewhere.
const INTERRUPTED: Duration = Duration::from_secs(20);
/// For how long calls to an owner fail at once after it did not answer.
const LEFT_ALONE: Duration = Duration::from_millis(250);
/// Below the bounds of what the calling thread moves itself, and above them.
const SIZES: [usize; 2] = [4096, 3 << 20];

/// Relays connections to a node while it is not frozen.
struct Relay {
    address: SocketAddr,
    is_frozen: Arc<AtomicBool>,
    /// How often bytes came while it was frozen.
    held: Arc<AtomicUsize>,
}

impl Relay {
    fn to(node: &Node) -> Self {
        Self::accepting(node, usize::MAX)
    }

    /// A relay that accepts only so many connections, and refuses all that come after them.
    fn accepting(node: &Node, connections: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let owner = node.address.endpoint.clone();
        let (is_frozen, held) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let state = (is_frozen.clone(), held.clone());
        std::thread::spawn(move || {
            for client in listener.incoming().take(connections) {
                let (client, owner) = (client.unwrap(), TcpStream::connect(&owner).unwrap());
                for (from, to) in [(&client, &owner), (&owner, &client)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let (frozen, held) = state.clone();
                    std::thread::spawn(move || relay(from, to, &frozen, &held));
                }
            }
        });
        Self { address, is_frozen, held }
    }

    fn freeze(&self, is_frozen: bool) {
        self.is_frozen.store(is_frozen, Ordering::SeqCst);
    }

    /// A place of the node, reached through the relay.
    fn place(&self, node: &Node, bytes: usize) -> ReplicaAddress {
        ReplicaAddress {
            segment: Arc::new(SegmentAddress {
                endpoint: self.address.to_string(),
                ..(*node.address).clone()
            }),
            ..place(node, 0, bytes, 7)
        }
    }
}

fn relay(mut from: TcpStream, mut to: TcpStream, is_frozen: &AtomicBool, held: &AtomicUsize) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        held.fetch_add(usize::from(is_frozen.load(Ordering::SeqCst)), Ordering::SeqCst);
        while is_frozen.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if to.write_all(&buffer[..bytes]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// Failed exchanges of this process.
fn errors() -> u64 {
    page().slots().unwrap().iter().map(|slot| slot.errors).sum()
}

/// The outcome of a read into `buffer`, whose caller breaks off.
fn interrupted_read(
    engine: &ObjectEngine,
    place: &ReplicaAddress,
    checksum: u32,
    buffer: &mut [u8],
) -> Result<(), TransferError> {
    let pieces = [ByteRangeMut::from(buffer)];
    let job = ReadJob { place, checksum, pieces: &pieces };
    let _breaks_off = interruptible(|| true);
    let begun = Instant::now();
    // SAFETY: the buffer is exclusively borrowed for the length of the call.
    let mut outcome = unsafe { engine.read(&[job]) };
    assert!(begun.elapsed() < INTERRUPTED, "{:?}", begun.elapsed());
    outcome.remove(0)
}

#[test]
fn a_read_that_is_interrupted_writes_nothing_after_it_has_returned() {
    for bytes in SIZES {
        let (node, data) = (node(), payload(1, bytes));
        let relay = Relay::to(&node);
        let engine = engine_within(&node, Route::Tcp, DEADLINE);
        let place = relay.place(&node, bytes);
        let checksum =
            write_all(&engine, std::slice::from_ref(&place), std::slice::from_ref(&data))[0];
        let (mut buffer, failed) = (vec![0xee; bytes], errors());
        relay.freeze(true);
        let outcome = interrupted_read(&engine, &place, checksum, &mut buffer);
        assert_eq!(outcome, Err(PeerError::Canceled.into()), "{bytes} bytes");
        assert_eq!(errors(), failed, "what its caller broke off is no failure of a peer");
        let before = buffer.clone();
        relay.freeze(false);
        // By the time that this is answered, the late answer has come as well, if anything takes
        // it.
        assert!(read_one(&engine, &place, checksum).unwrap() == data);
        assert!(buffer == before, "a late answer came into a buffer of {bytes} bytes");
        engine.close();
    }
}

#[test]
fn an_owner_that_stops_answering_is_counted_and_shown() {
    for bytes in SIZES {
        let (node, data) = (node(), payload(1, bytes));
        let relay = Relay::to(&node);
        let engine = engine_within(&node, Route::Tcp, Duration::from_secs(1));
        let place = relay.place(&node, bytes);
        let checksum =
            write_all(&engine, std::slice::from_ref(&place), std::slice::from_ref(&data))[0];
        let (mut seen, before) = (perigee_activity::RingsSeen::default(), errors());
        page().marks(&mut seen).unwrap();
        relay.freeze(true);
        let waits = || page().links().unwrap().into_iter().any(|link| link.wait.is_some());
        let late = std::thread::scope(|scope| {
            let reader = scope.spawn(|| read_one(&engine, &place, checksum).unwrap_err());
            while !reader.is_finished() && !waits() {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(!reader.is_finished(), "the wait of {bytes} bytes is not seen");
            reader.join().unwrap()
        });
        assert!(!waits(), "it is over");
        assert!(matches!(late, TransferError::Peer(PeerError::Deadline { .. })), "{late}");
        assert!(errors() > before, "{bytes} bytes");
        let marks = page().marks(&mut seen).unwrap().slow;
        let is_shown = |mark: &perigee_activity::BatchMark| {
            mark.status == Status::RpcTimeout.code() && mark.total_ns() > 500_000_000
        };
        assert!(marks.iter().any(is_shown), "{bytes} bytes: {marks:?}");
        relay.freeze(false);
        engine.close();
    }
}

#[test]
fn a_write_that_is_interrupted_is_said_to_be_still_under_way() {
    for bytes in SIZES {
        let (node, data) = (node(), payload(1, bytes));
        let relay = Relay::to(&node);
        let engine = engine_within(&node, Route::Tcp, DEADLINE);
        let place = relay.place(&node, bytes);
        write_all(&engine, std::slice::from_ref(&place), std::slice::from_ref(&data));
        let failed = errors();
        relay.freeze(true);
        let pieces = [ByteRange::from(data.as_slice())];
        let job = WriteJob { place: &place, pieces: &pieces };
        let breaks_off = interruptible(|| true);
        let begun = Instant::now();
        // SAFETY: the data outlives the call.
        let outcome = unsafe { engine.write(&[job]) };
        assert!(begun.elapsed() < INTERRUPTED, "{:?}", begun.elapsed());
        drop(breaks_off);
        let error = outcome[0].as_ref().unwrap_err();
        assert!(error.is_canceled() && error.may_still_arrive(), "{error}");
        assert_eq!(errors(), failed, "what its caller broke off is no failure of a peer");
        relay.freeze(false);
        engine.close();
    }
}

#[test]
fn a_call_that_connects_to_a_frozen_owner_is_interrupted() {
    let node = node();
    let relay = Relay::to(&node);
    relay.freeze(true);
    for bytes in SIZES {
        let place = relay.place(&node, bytes);
        // On a busy machine the wait for the connection may end first.
        let is_interrupted = || {
            let engine = engine_within(&node, Route::Tcp, DEADLINE);
            let outcome = interrupted_read(&engine, &place, 0, &mut vec![0; bytes]);
            engine.close();
            outcome == Err(PeerError::Canceled.into())
        };
        assert!((0..5).any(|_| is_interrupted()), "{bytes} bytes");
    }
}

#[test]
fn a_call_that_ends_while_it_connects_says_nothing_about_the_owner() {
    let node = node();
    let engine = engine_within(&node, Route::Tcp, Duration::from_millis(100));
    for bytes in SIZES {
        let mute = TcpListener::bind("127.0.0.1:0").unwrap();
        mute.set_nonblocking(true).unwrap();
        let segment = SegmentAddress {
            endpoint: mute.local_addr().unwrap().to_string(),
            ..(*node.address).clone()
        };
        let place = ReplicaAddress { segment: Arc::new(segment), ..place(&node, 0, bytes, 1) };
        for call in 0..2 {
            let error = read_one(&engine, &place, 0).unwrap_err();
            let is_late = matches!(error, TransferError::Peer(PeerError::Deadline { .. }));
            assert!(is_late, "call {call} of {bytes} bytes: {error}");
            let connections = std::iter::from_fn(|| mute.accept().ok()).count();
            assert!(connections > 0, "call {call} tried to connect");
        }
    }
    engine.close();
}

#[test]
fn a_connection_that_is_open_is_used_while_no_other_can_be_made() {
    let (node, data) = (node(), payload(1, 4096));
    let relay = Relay::accepting(&node, 1);
    let engine = engine_within(&node, Route::Tcp, DEADLINE);
    let place = relay.place(&node, data.len());
    let pieces = (std::slice::from_ref(&place), std::slice::from_ref(&data));
    let checksum = write_all(&engine, pieces.0, pieces.1)[0];
    relay.freeze(true);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| read_one(&engine, &place, checksum));
        while relay.held.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        let refused = read_one(&engine, &place, checksum).unwrap_err();
        let is_unreachable = matches!(refused, TransferError::Peer(PeerError::Unreachable { .. }));
        assert!(is_unreachable, "{refused}");
        relay.freeze(false);
        assert!(first.join().unwrap().unwrap() == data);
    });
    assert!(read_one(&engine, &place, checksum).unwrap() == data);
    engine.close();
}

#[test]
fn an_owner_that_does_not_answer_costs_a_calling_thread_one_wait() {
    let node = node();
    let is_left_alone = || {
        let mute = TcpListener::bind("127.0.0.1:0").unwrap();
        let segment = SegmentAddress {
            endpoint: mute.local_addr().unwrap().to_string(),
            ..(*node.address).clone()
        };
        let place = ReplicaAddress { segment: Arc::new(segment), ..place(&node, 0, 4096, 1) };
        let engine = engine_within(&node, Route::Tcp, DEADLINE);
        let is_unreachable = |outcome: Result<_, TransferError>| {
            let error = outcome.unwrap_err();
            matches!(error, TransferError::Peer(PeerError::Unreachable { .. }))
        };
        assert!(is_unreachable(read_one(&engine, &place, 0)));
        let begun = Instant::now();
        assert!(is_unreachable(read_one(&engine, &place, 0)));
        let took = begun.elapsed();
        engine.close();
        mute.set_nonblocking(true).unwrap();
        let connections = std::iter::from_fn(|| mute.accept().ok()).count();
        connections == 1 && took < LEFT_ALONE
    };
    // A busy machine may come to the second call only when the owner is tried again.
    assert!((0..5).any(|_| is_left_alone()));
}
