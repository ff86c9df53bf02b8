//! Leases on an engine's registered memory over rails: a peer writes only while its session stands
//! and the memory is registered, whatever keys it has kept.
#![allow(clippy::unwrap_used, reason = "tests")]

use perigee_discovery::{DiscoverySettings, HandshakeClient, RpcMeta, SegmentDocument};
use perigee_engine::{EngineOptions, GivenFabric, TransferEngine};
use perigee_rails::{
    ParkSink, Preference, RailError, RailRequest, Registration, RemoteKeys, Sink, deadline_in,
};
use perigee_rdma::{FirstLoad, PeerRails, RailTuning, Rdma, RdmaOptions};
use perigee_schemas::{Direction, Identity};
use perigee_shard::POLL_DEFAULT;
use perigee_verbs::RegionAccess;
use perigee_verbs::software::{Clock, DevicePlan, SoftwareNetwork};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);
const BYTES: usize = 64 << 10;

/// An engine whose memory peers write.
struct Owner {
    engine: TransferEngine,
    memory: Box<[u8]>,
}

impl Owner {
    fn start(network: &SoftwareNetwork) -> Self {
        let options = EngineOptions::from_variables("127.0.0.1", "P2PHANDSHAKE", "", "", |_| None);
        let mut options = options.unwrap();
        let plans = [DevicePlan::new("sw0")];
        options.fabric = Some(GivenFabric(network.host("owner", &plans).unwrap()));
        let owner =
            Self { engine: TransferEngine::start(options).unwrap(), memory: vec![0; BYTES].into() };
        owner.register();
        owner
    }

    fn address(&self) -> u64 {
        self.memory.as_ptr() as u64
    }

    fn register(&self) {
        // SAFETY: the memory lives as long as the engine.
        unsafe { self.engine.register(self.address(), BYTES as u64, "*") }.unwrap();
    }

    fn endpoint(&self) -> SocketAddr {
        let client = HandshakeClient::new(&DiscoverySettings::default());
        let meta = RpcMeta::new("127.0.0.1", self.engine.rpc_port());
        let asking = SegmentDocument::new("peer", "rdma");
        let document = client.metadata(&meta, &asking).unwrap();
        let extra = document.perigee.unwrap();
        assert!(!extra.rails.is_empty(), "the document says that it has rails");
        extra.data_endpoint.parse().unwrap()
    }

    fn fill(&self, byte: u8) {
        // SAFETY: the memory has so many bytes, and the tests look at it through pointers only.
        unsafe { (self.address() as *mut u8).write_bytes(byte, BYTES) };
    }

    fn holds(&self, byte: u8) -> bool {
        // SAFETY: as above.
        let bytes = unsafe { std::slice::from_raw_parts(self.address() as *const u8, BYTES) };
        bytes.iter().all(|found| *found == byte)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.engine.close();
    }
}

/// A process that writes to an owner by rails, with keys that it never gives up.
struct Peer {
    rdma: Arc<Rdma>,
    memory: Box<[u8]>,
    registration: Arc<Registration>,
}

impl Peer {
    fn start(network: &SoftwareNetwork) -> Self {
        let fabric = network.host("peer", &[DevicePlan::new("sw0")]).unwrap();
        let options = RdmaOptions {
            identity: Identity(7),
            name: "peer".to_owned(),
            shards: 1,
            poll: POLL_DEFAULT,
            queue_pairs_per_rail: None,
            tuning: RailTuning::default(),
            first_load: FirstLoad::AtOnce,
        };
        let rdma = Rdma::start(fabric.as_ref(), &[], &options).unwrap();
        let memory: Box<[u8]> = vec![0; BYTES].into();
        let (address, preference) = (memory.as_ptr() as u64, Preference::default());
        let rails = rdma.engine();
        // SAFETY: the rails are closed before the memory goes.
        let registration =
            unsafe { rails.register(address, BYTES as u64, RegionAccess::LOCAL, &preference) };
        Self { registration: registration.unwrap(), rdma, memory }
    }

    fn lease(&self, endpoint: SocketAddr) -> Arc<PeerRails> {
        let endpoint = Arc::from(endpoint.to_string());
        let rails = self.rdma.await_rails_of(&endpoint, Instant::now() + LONG);
        rails.expect("the owner has rails")
    }

    /// Begins to fill the owner's memory.
    fn begin(
        &self,
        (rails, keys): (&PeerRails, &Arc<RemoteKeys>),
        to: u64,
        byte: u8,
    ) -> Result<Arc<ParkSink>, RailError> {
        let from = self.memory.as_ptr();
        // SAFETY: each test waits for a write before it begins the next one.
        unsafe { from.cast_mut().write_bytes(byte, BYTES) };
        let request = RailRequest {
            direction: Direction::Write,
            local: self.registration.clone(),
            local_address: from as u64,
            keys: keys.clone(),
            remote_address: to,
            bytes: BYTES as u64,
            tag: 0,
        };
        let sink = Arc::new(ParkSink::new(1));
        let heard: Arc<dyn Sink> = sink.clone();
        let deadline = deadline_in(Duration::from_secs(3));
        let engine = self.rdma.engine();
        // SAFETY: the memory lives until the rails are closed.
        unsafe { engine.submit(rails.peer(), &[request], deadline, &heard) }?;
        Ok(sink)
    }

    /// As [`Peer::begin`], to its end.
    fn write(
        &self,
        to: (&PeerRails, &Arc<RemoteKeys>),
        address: u64,
        byte: u8,
    ) -> Result<(), RailError> {
        let sink = self.begin(to, address, byte)?;
        end_of(&sink)
    }
}

fn end_of(sink: &ParkSink) -> Result<(), RailError> {
    let outcome = sink.wait(LONG).expect("each write ends");
    outcome.map_err(|(_, error)| error)
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.rdma.close();
    }
}

/// A network between a peer's sessions and an owner's data port. Rails do not pass through it.
struct Wire {
    address: SocketAddr,
    is_cut: Arc<AtomicBool>,
    /// Ends at the peer and ends at the owner.
    ends: Arc<Mutex<Vec<[TcpStream; 2]>>>,
}

impl Wire {
    fn to(owner: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let wire = Self {
            address: listener.local_addr().unwrap(),
            is_cut: Arc::default(),
            ends: Arc::default(),
        };
        let (is_cut, ends) = (wire.is_cut.clone(), wire.ends.clone());
        std::thread::spawn(move || {
            let mut unheard = Vec::new();
            for near in listener.incoming().map_while(Result::ok) {
                if is_cut.load(Ordering::Acquire) {
                    unheard.push(near);
                    continue;
                }
                let far = TcpStream::connect(owner).unwrap();
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    std::thread::spawn(move || pass_on(from, to));
                }
                ends.lock().unwrap().push([near, far]);
            }
        });
        wire
    }

    /// The owner sees that the peer is gone; the peer hears nothing.
    fn cut(&self) {
        self.is_cut.store(true, Ordering::Release);
        for [_, far] in self.ends.lock().unwrap().iter() {
            far.shutdown(Shutdown::Both).unwrap();
        }
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
}

#[test]
fn a_peer_whose_session_is_cut_off_writes_nothing_any_more() {
    let network = SoftwareNetwork::new(Clock::Real).unwrap();
    let (owner, peer) = (Owner::start(&network), Peer::start(&network));
    let wire = Wire::to(owner.endpoint());
    let rails = peer.lease(wire.address);
    let keys = rails.covering(owner.address(), BYTES as u64).unwrap();
    let write = |byte| peer.write((&rails, keys), owner.address(), byte);
    assert_eq!(write(1), Ok(()));
    assert!(owner.holds(1));
    wire.cut();
    let end = Instant::now() + LONG;
    let error = loop {
        if let Err(error) = write(2) {
            break error;
        }
        assert!(Instant::now() < end, "its queue pairs outlive its session");
    };
    // The peer has not noticed yet: it is the owner who took the queue pairs down. The memory is
    // registered as before.
    let by_itself = matches!(error, RailError::UnknownPeer { .. } | RailError::Expired { .. });
    assert!(!by_itself, "{error}");
    owner.fill(9);
    assert!(write(3).is_err());
    assert!(owner.holds(9));
}

#[test]
fn a_late_write_never_lands_in_memory_that_was_unregistered() {
    let network = SoftwareNetwork::new(Clock::Real).unwrap();
    let (owner, peer) = (Owner::start(&network), Peer::start(&network));
    let endpoint = owner.endpoint();
    let rails = peer.lease(endpoint);
    let keys = rails.covering(owner.address(), BYTES as u64).unwrap().clone();
    let write = |byte| peer.write((&rails, &keys), owner.address(), byte);
    assert_eq!(write(1), Ok(()));
    let faults = network.faults("peer", "sw0").unwrap();
    faults.delay(Duration::from_secs(1));
    let late = peer.begin((&rails, &keys), owner.address(), 2).unwrap();
    owner.engine.unregister(owner.address()).unwrap();
    owner.fill(9);
    assert!(end_of(&late).is_err());
    faults.delay(Duration::ZERO);
    assert!(write(3).is_err());
    assert!(owner.holds(9), "the memory is its owner's alone");
    // Registered again it is other memory: old keys stay dead, and the next list has new ones.
    owner.register();
    assert!(write(4).is_err());
    assert!(owner.holds(9));
    let (endpoint, end) = (Arc::from(endpoint.to_string()), Instant::now() + LONG);
    loop {
        assert!(Instant::now() < end, "the new keys are never listed");
        let Some(newer) = peer.rdma.refreshed_rails_of(&endpoint, end) else {
            continue;
        };
        let listed = newer.covering(owner.address(), BYTES as u64);
        if let Some(listed) = listed.filter(|listed| !Arc::ptr_eq(listed, &keys)) {
            assert_eq!(peer.write((&newer, listed), owner.address(), 5), Ok(()));
            assert!(owner.holds(5));
            return;
        }
    }
}
