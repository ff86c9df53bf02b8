//! An owner of a segment and a client of it, on two hosts of a software fabric in one process.

use perigee_memory::segment::{Segment, SegmentOptions};
use perigee_memory::{ByteRange, ByteRangeMut, crc32c};
use perigee_rdma::{FirstLoad, RailTuning, Rdma, RdmaOptions};
use perigee_schemas::Identity;
use perigee_shard::{Congestion, POLL_DEFAULT};
use perigee_transfer::{
    Direction, ObjectEngine, ObjectEngineOptions, Observer, ReadJob, ReplicaAddress, Route, Routes,
    SegmentAddress, SegmentServer, SegmentTable, ServerOptions, TransferError, WriteJob,
};
use perigee_verbs::software::{DevicePlan, SoftwareNetwork};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Longer than anything takes that works.
pub(crate) const LONG: Duration = Duration::from_secs(60);
pub(crate) const SEGMENT_BYTES: u64 = 64 << 20;

pub(crate) fn random() -> Identity {
    let number = || u128::from(getrandom::u64().unwrap());
    Identity(number() << 64 | number())
}

pub(crate) fn start_rails(network: &SoftwareNetwork, host: &str, devices: &[&str]) -> Arc<Rdma> {
    let plans: Vec<DevicePlan> = devices.iter().map(|name| DevicePlan::new(name)).collect();
    let fabric = network.host(host, &plans).unwrap();
    let identity = random();
    let options = RdmaOptions {
        identity,
        name: identity.to_string(),
        shards: 1,
        poll: POLL_DEFAULT,
        queue_pairs_per_rail: None,
        tuning: RailTuning::default(),
        first_load: FirstLoad::Proven,
    };
    Rdma::start(fabric.as_ref(), &[], &options).unwrap()
}

/// Serves one segment.
pub(crate) struct Owner {
    pub(crate) rails: Option<Arc<Rdma>>,
    pub(crate) table: Arc<SegmentTable>,
    pub(crate) address: Arc<SegmentAddress>,
    server: Option<SegmentServer>,
}

impl Owner {
    pub(crate) fn start(rails: Option<Arc<Rdma>>) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), random(), rails)
    }

    pub(crate) fn start_at(at: SocketAddr, id: Identity, rails: Option<Arc<Rdma>>) -> Self {
        let table = Arc::new(SegmentTable::default());
        let segment = Segment::create(SEGMENT_BYTES, &SegmentOptions::default()).unwrap();
        let segment = Arc::new(segment);
        table.insert(id, segment.clone());
        let options = ServerOptions {
            address: at,
            shards: 1,
            cpus: Vec::new(),
            poll: POLL_DEFAULT,
            congestion: Congestion::Automatic,
            rendezvous: None,
            identity: random(),
            rdma: rails.clone(),
        };
        let server = SegmentServer::start(&options, &table).unwrap();
        if let Some(rails) = &rails {
            rails.serve(id, &segment);
        }
        let address = SegmentAddress {
            id,
            bytes: SEGMENT_BYTES,
            endpoint: server.address().to_string(),
            host_id: "there".to_owned(),
            rendezvous: String::new(),
            kind: Some(perigee_schemas::SegmentKind::Memory),
        };
        Self { rails, table, address: Arc::new(address), server: Some(server) }
    }

    pub(crate) fn place(&self, offset: u64, payload_bytes: u64, generation: u64) -> ReplicaAddress {
        ReplicaAddress { segment: self.address.clone(), offset, payload_bytes, generation }
    }

    /// Ends the data port; its devices go on.
    pub(crate) fn stop_serving(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop();
        }
    }

    /// As if the process had ended.
    pub(crate) fn stop(&mut self) {
        self.stop_serving();
        if let Some(rails) = &self.rails {
            rails.close();
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Notes which routes bytes took.
#[derive(Debug, Default)]
struct Seen(Mutex<Vec<Route>>);

impl Observer for Seen {
    fn moved(&self, route: Route, _: Direction, _: u64, _: Duration) {
        self.0.lock().unwrap().push(route);
    }

    fn failed(&self, _: Route, _: Direction, _: &TransferError) {}
}

/// Moves objects.
pub(crate) struct Client {
    pub(crate) rails: Arc<Rdma>,
    pub(crate) engine: ObjectEngine,
    seen: Arc<Seen>,
}

impl Client {
    pub(crate) fn start(rails: Arc<Rdma>, deadline: Duration) -> Self {
        let seen = Arc::<Seen>::default();
        let options = ObjectEngineOptions {
            identity: random(),
            host_id: "here".to_owned(),
            routes: Routes::default(),
            shards: 1,
            deadline,
            congestion: Congestion::Automatic,
            tenant: Arc::default(),
            rdma: Some(rails.clone()),
            observer: seen.clone(),
        };
        let engine = ObjectEngine::new(options, Arc::default());
        Self { rails, engine, seen }
    }

    /// The routes that were taken since the last call.
    pub(crate) fn routes(&self) -> Vec<Route> {
        std::mem::take(&mut *self.seen.0.lock().unwrap())
    }

    pub(crate) fn write(&self, place: &ReplicaAddress, bytes: &[u8]) -> Result<u32, TransferError> {
        let pieces = [ByteRange::from(bytes)];
        let job = WriteJob { place, pieces: &pieces };
        // SAFETY: the bytes outlive the call.
        unsafe { self.engine.write(&[job]) }.remove(0)
    }

    pub(crate) fn read(
        &self,
        place: &ReplicaAddress,
        checksum: u32,
        into: &mut [u8],
    ) -> Result<(), TransferError> {
        let pieces = [ByteRangeMut::from(into)];
        let job = ReadJob { place, checksum, pieces: &pieces };
        // SAFETY: the bytes outlive the call.
        unsafe { self.engine.read(&[job]) }.remove(0)
    }

    /// Reads as often as it takes until the bytes come over rails; each read must be right.
    pub(crate) fn until_rdma(&self, owner: &Owner) {
        let place = owner.place(0, 5000, 1);
        let data = pattern(5000, 1);
        let end = Instant::now() + LONG;
        while self.write(&place, &data) != Ok(crc32c(&data)) {
            assert!(Instant::now() < end, "the owner is never reached");
            std::thread::park_timeout(Duration::from_millis(5));
        }
        loop {
            let mut back = vec![0; 5000];
            self.read(&place, crc32c(&data), &mut back).unwrap();
            assert_eq!(back, data);
            if self.routes().last() == Some(&Route::Rdma) {
                return;
            }
            assert!(Instant::now() < end, "rails are never proven");
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.engine.close();
        self.rails.close();
    }
}

pub(crate) fn pattern(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|index| (index * 31 + index / 251 + seed * 97) as u8).collect()
}
