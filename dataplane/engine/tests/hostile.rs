//! A peer that asks for what it must not have, or sends anything at all: no byte outside of
//! registered memory is disclosed or changed, and others are served on.
#![allow(clippy::unwrap_used, reason = "tests")]

use flatbuffers::FlatBufferBuilder;
use perigee_discovery::{DiscoverySettings, HandshakeClient, RpcMeta, SegmentDocument};
use perigee_engine::{Direction, EngineOptions, SubmitOptions, TransferEngine, TransferRequest};
use perigee_schemas::frame::{FrameHeader, HEADER_BYTES, MessageKind};
use perigee_schemas::message::decode;
use perigee_schemas::mover as wire;
use perigee_schemas::session::{Hello, Role};
use perigee_schemas::{Identity, Status};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);
const GUARD: usize = 64 << 10;
const INSIDE: usize = 256 << 10;

/// An engine whose registered buffer lies between two guards.
struct Victim {
    engine: TransferEngine,
    memory: Box<[u8]>,
}

impl Victim {
    fn new() -> Self {
        let options =
            EngineOptions::from_variables("127.0.0.1", "P2PHANDSHAKE", "tcp", "", |name| {
                (name == "PERIGEE_SERVE_MOONCAKE").then(|| "1".to_owned())
            });
        let engine = TransferEngine::start(options.unwrap()).unwrap();
        let secret = |index| {
            if (GUARD..GUARD + INSIDE).contains(&index) { 1 } else { 0xa5 }
        };
        let memory: Box<[u8]> = (0..INSIDE + 2 * GUARD).map(secret).collect();
        let victim = Self { engine, memory };
        // SAFETY: the memory lives as long as the engine.
        unsafe { victim.engine.register(victim.base() + GUARD as u64, INSIDE as u64, "*") }
            .unwrap();
        victim
    }

    fn base(&self) -> u64 {
        self.memory.as_ptr() as u64
    }

    fn document(&self) -> SegmentDocument {
        let client = HandshakeClient::new(&DiscoverySettings::default());
        let peer = RpcMeta::new("127.0.0.1", self.engine.rpc_port());
        client.metadata(&peer, &SegmentDocument::new("hostile", "tcp")).unwrap()
    }

    fn epoch(&self) -> u64 {
        u128::from_str_radix(&self.document().perigee.unwrap().epoch, 16).unwrap() as u64
    }

    fn dial(&self) -> TcpStream {
        let stream = TcpStream::connect(self.document().perigee.unwrap().data_endpoint).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }

    fn greeted(&self) -> TcpStream {
        self.greet().unwrap()
    }

    /// A connection, unless it is closed at once.
    fn greet(&self) -> Option<TcpStream> {
        let mut stream = self.dial();
        let hello = Hello::new(Role::Client, Identity(3)).encode();
        stream.write_all(&hello).ok()?;
        assert_eq!(receive(&mut stream)?.0, MessageKind::Welcome);
        Some(stream)
    }

    fn guards_are_untouched(&self) -> bool {
        let (front, rest) = self.memory.split_at(GUARD);
        front.iter().chain(&rest[INSIDE..]).all(|byte| *byte == 0xa5)
    }

    /// A good engine still gets what it may have.
    fn still_serves(&self) {
        let options =
            EngineOptions::from_variables("127.0.0.1", "P2PHANDSHAKE", "tcp", "", |_| None);
        let friend = TransferEngine::start(options.unwrap()).unwrap();
        let target = vec![0u8; 4096];
        let read = TransferRequest {
            direction: Direction::Read,
            local: target.as_ptr() as u64,
            remote: self.base() + GUARD as u64,
            bytes: 4096,
        };
        // SAFETY: the memory outlives the call.
        unsafe { friend.transfer(self.engine.local_name(), &[read], &SubmitOptions::default()) }
            .unwrap();
        friend.close();
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.engine.close();
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 20
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

fn receive(stream: &mut TcpStream) -> Option<(MessageKind, Vec<u8>)> {
    let mut head = [0; HEADER_BYTES];
    stream.read_exact(&mut head).ok()?;
    let header = FrameHeader::decode(&head, 1 << 20).ok()?;
    let mut body = vec![0; header.body_bytes];
    stream.read_exact(&mut body).ok()?;
    Some((header.kind, body))
}

fn ask(direction: wire::Direction, epoch: u64, pieces: &[wire::Piece]) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    builder.force_defaults(true);
    let pieces = Some(builder.create_vector(pieces));
    let args = wire::MoveRequestArgs { direction, epoch, pieces, ..Default::default() };
    let root = wire::MoveRequest::create(&mut builder, &args);
    builder.finish_minimal(root);
    let body = builder.finished_data();
    [&FrameHeader::encode(MessageKind::Move, 5, body)[..], body].concat()
}

/// Status codes and payload of the answer, or `None` when the connection was ended.
fn answer(stream: &mut TcpStream) -> Option<(Vec<i32>, Vec<u8>)> {
    let (kind, body) = receive(stream)?;
    if kind != MessageKind::Reply {
        return None;
    }
    let reply = decode::<wire::MoveReply<'_>>(&body).unwrap();
    let mut payload = vec![0; reply.payload_bytes() as usize];
    stream.read_exact(&mut payload).ok()?;
    Some((reply.status()?.iter().collect(), payload))
}

#[test]
fn random_ranges_around_a_buffer_disclose_and_change_nothing_outside_of_it() {
    let victim = Victim::new();
    let mut random = Random(11);
    let epoch = victim.epoch();
    let mut stream = victim.greeted();
    let inside = GUARD..GUARD + INSIDE;
    let (mut allowed, mut refused) = (0, 0);
    for _ in 0..3000 {
        let write = random.below(2) == 0;
        let stale = random.below(8) == 0;
        let places: Vec<(usize, usize)> = (0..=random.below(3))
            .map(|_| (random.below(INSIDE + 2 * GUARD - 9000), 1 + random.below(9000)))
            .collect();
        let pieces: Vec<_> = places
            .iter()
            .map(|(offset, bytes)| wire::Piece::new(victim.base() + *offset as u64, *bytes as u64))
            .collect();
        let direction = if write { wire::Direction::Write } else { wire::Direction::Read };
        let mut message = ask(direction, if stale { epoch ^ 1 } else { epoch }, &pieces);
        if write {
            let bytes: usize = places.iter().map(|(_, bytes)| bytes).sum();
            message.resize(message.len() + bytes, 0x66);
        }
        stream.write_all(&message).unwrap();
        let (status, payload) = answer(&mut stream).unwrap();
        for ((offset, bytes), status) in places.iter().zip(&status) {
            let fits = inside.contains(offset) && offset + bytes <= inside.end && !stale;
            assert_eq!(*status == 0, fits, "{offset} {bytes} {stale}");
            *if fits { &mut allowed } else { &mut refused } += 1;
        }
        assert!(payload.iter().all(|byte| *byte != 0xa5));
        let granted = places.iter().zip(&status).filter(|(_, status)| **status == 0);
        let granted: usize = granted.map(|((_, bytes), _)| bytes).sum();
        assert_eq!(payload.len(), if write { 0 } else { granted });
    }
    assert!(allowed > 100 && refused > 100);
    assert!(victim.guards_are_untouched());
    victim.still_serves();
}

#[test]
fn ranges_that_wrap_or_are_huge_or_empty_are_refused() {
    let victim = Victim::new();
    let (base, epoch) = (victim.base() + GUARD as u64, victim.epoch());
    let odd = [
        (base, u64::MAX),
        (u64::MAX - 5, 10),
        (base, 0),
        (base, 1 << 40),
        (0, 1),
        (base, (INSIDE + 1) as u64),
    ];
    for (address, bytes) in odd {
        let mut stream = victim.greeted();
        let piece = [wire::Piece::new(address, bytes)];
        stream.write_all(&ask(wire::Direction::Read, epoch, &piece)).unwrap();
        let refused =
            answer(&mut stream).is_none_or(|(status, payload)| status != [0] && payload.is_empty());
        assert!(refused, "{address:#x} {bytes:#x}");
    }
    victim.still_serves();
}

#[test]
fn malformed_bytes_end_their_own_connection_only() {
    let victim = Victim::new();
    let mut random = Random(5);
    let good = ask(
        wire::Direction::Write,
        victim.epoch(),
        &[wire::Piece::new(victim.base() + GUARD as u64, 64)],
    );
    for round in 0..200 {
        let mut stream = if round % 2 == 0 { victim.greeted() } else { victim.dial() };
        let mut bytes = good.clone();
        if round % 4 < 2 {
            let bit = random.below(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
        } else {
            bytes.iter_mut().for_each(|byte| *byte = random.next() as u8);
        }
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(!rest.contains(&0xa5) || rest.len() < 4096);
    }
    assert!(victim.guards_are_untouched());
    victim.still_serves();
}

#[test]
fn the_upstream_dialect_checks_the_same_bounds() {
    let victim = Victim::new();
    let port = victim.document().tcp_data_port;
    assert_ne!(port, 0);
    let mut random = Random(77);
    for _ in 0..500 {
        let (offset, bytes) = (random.below(INSIDE + 2 * GUARD - 9000), 1 + random.below(9000));
        let write = random.below(2) == 0;
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let mut message = Vec::new();
        message.extend_from_slice(&(bytes as u64).to_le_bytes());
        message.extend_from_slice(&(victim.base() + offset as u64).to_le_bytes());
        message.extend_from_slice(&[0x80 | u8::from(write), 0, 0, 0, 0, 0, 0, 0]);
        if write {
            message.resize(24 + bytes, 0x66);
        }
        stream.write_all(&message).unwrap();
        let mut word = [0; 8];
        let fits = offset >= GUARD && offset + bytes <= GUARD + INSIDE;
        // A refused peer that is still sending may lose the status with the connection.
        if stream.read_exact(&mut word).is_ok() {
            assert_eq!(&word[4..], b"VTCM", "{word:?}");
            assert_eq!(word[0] == 0, fits);
        } else {
            assert!(!fits);
        }
        if fits && !write {
            let mut payload = vec![0; bytes];
            stream.read_exact(&mut payload).unwrap();
            assert!(payload.iter().all(|byte| *byte != 0xa5));
        }
    }
    assert!(victim.guards_are_untouched());
}

#[test]
fn ten_thousand_silent_connections_do_not_keep_others_out() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    let count = 10_000.min((hard as usize).saturating_sub(500) / 2);
    let victim = Victim::new();
    let endpoint = victim.document().perigee.unwrap().data_endpoint;
    let silent: Vec<TcpStream> =
        (0..count).map(|_| TcpStream::connect(&endpoint).unwrap()).collect();
    victim.still_serves();
    assert_eq!(silent.len(), count);
}

/// Sockets whose descriptors are far from those that the process gets next.
fn far_sockets(count: usize) -> Vec<OwnedFd> {
    use nix::fcntl::{FcntlArg, fcntl};
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
    let far = |_| {
        let family = AddressFamily::Inet;
        let near = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        let far = fcntl(&near, FcntlArg::F_DUPFD_CLOEXEC(1000)).unwrap();
        // SAFETY: the kernel has just made this descriptor for us.
        unsafe { OwnedFd::from_raw_fd(far) }
    };
    (0..count).map(far).collect()
}

/// Whether a peer has closed its side.
fn is_closed(socket: &OwnedFd) -> bool {
    use nix::errno::Errno;
    use nix::sys::socket::{MsgFlags, recv};
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_PEEK;
    let heard = recv(socket.as_raw_fd(), &mut [0; 1], flags);
    matches!(heard, Ok(0) | Err(Errno::ECONNRESET))
}

#[test]
fn silent_connections_leave_half_of_the_descriptors_to_the_process() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    use nix::sys::socket::{SockaddrIn, connect};
    const LIMIT: u64 = 300;
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    let victim = Victim::new();
    let silent = far_sockets(LIMIT as usize);
    setrlimit(Resource::RLIMIT_NOFILE, LIMIT, hard).unwrap();
    let endpoint = victim.document().perigee.unwrap().data_endpoint;
    let address = SockaddrIn::from(endpoint.parse::<std::net::SocketAddrV4>().unwrap());
    for socket in &silent {
        connect(socket.as_raw_fd(), &address).unwrap();
    }
    let refused = || silent.iter().filter(|socket| is_closed(socket)).count();
    let end = Instant::now() + LONG;
    while refused() < silent.len() - LIMIT as usize / 2 {
        std::fs::File::open("/proc/self/status").unwrap();
        assert!(Instant::now() < end, "{} were refused", refused());
    }
    drop(silent);
    // Their places are given back as the server notices.
    while victim.greet().is_none() {
        assert!(Instant::now() < end);
    }
    victim.still_serves();
}

#[test]
fn a_write_to_memory_that_cannot_be_written_is_refused_and_the_connection_goes_on() {
    use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
    let victim = Victim::new();
    let length = std::num::NonZero::new(8192).unwrap();
    // SAFETY: a new mapping of its own.
    let frozen = unsafe {
        mmap_anonymous(None, length, ProtFlags::PROT_READ, MapFlags::MAP_PRIVATE).unwrap()
    };
    // SAFETY: the mapping is never taken away.
    unsafe { victim.engine.register(frozen.as_ptr() as u64, 8192, "*") }.unwrap();
    let epoch = victim.epoch();
    let good = victim.base() + GUARD as u64;
    let mut stream = victim.greeted();
    // After the first small write, payload is received together with its frame.
    for address in [good, good + 64, good + 128] {
        let mut message = ask(wire::Direction::Write, epoch, &[wire::Piece::new(address, 64)]);
        message.resize(message.len() + 64, 0x42);
        stream.write_all(&message).unwrap();
        assert_eq!(answer(&mut stream).unwrap().0, [0]);
    }
    assert!(victim.memory[GUARD..GUARD + 192].iter().all(|byte| *byte == 0x42));
    let pieces = [wire::Piece::new(frozen.as_ptr() as u64, 64), wire::Piece::new(good, 64)];
    let mut message = ask(wire::Direction::Write, epoch, &pieces);
    message.resize(message.len() + 128, 0x43);
    stream.write_all(&message).unwrap();
    let refused = Status::InvalidWrite.code();
    assert_eq!(answer(&mut stream).unwrap().0, [refused, 0]);
    let mut message =
        ask(wire::Direction::Write, epoch, &[wire::Piece::new(frozen.as_ptr() as u64 + 100, 8000)]);
    message.resize(message.len() + 8000, 0x43);
    stream.write_all(&message).unwrap();
    assert_eq!(answer(&mut stream).unwrap().0, [refused]);
    let read = [wire::Piece::new(frozen.as_ptr() as u64, 8192)];
    let read = ask(wire::Direction::Read, epoch, &read);
    stream.write_all(&read).unwrap();
    assert_eq!(answer(&mut stream), Some((vec![0], vec![0; 8192])));
    victim.still_serves();
}
