//! Two engines of one process that move bytes between each other's memory, with a handshake that is
//! a function call on a thread of its own. Used on the software fabric and on real verbs alike.
#![expect(clippy::unwrap_used, reason = "a failure here is the failure of the test that uses it")]

use perigee_activity::Direction;
use perigee_memory::HostBuffer;
use perigee_rails::{
    EndpointOffer, ExchangeDone, OfferExchange, ParkSink, PeerHandle, Preference, RailDevice,
    RailEngine, RailError, RailOptions, RailRequest, Registration, RemoteKeys, Sink, deadline_in,
};
use perigee_shard::monotonic;
use perigee_verbs::{Fabric, RegionAccess};
use std::collections::HashMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Longer than anything takes that works.
pub(crate) const LONG: Duration = Duration::from_secs(60);

type Letter = (String, EndpointOffer, ExchangeDone);

/// Carries offers between the engines of this process.
pub(crate) struct Meeting {
    letters: Sender<Letter>,
    pub(crate) engines: Arc<Mutex<HashMap<String, RailEngine>>>,
}

impl Meeting {
    pub(crate) fn new() -> Arc<Self> {
        let (letters, inbox) = channel::<Letter>();
        let engines = Arc::new(Mutex::new(HashMap::<String, RailEngine>::new()));
        let known = engines.clone();
        std::thread::spawn(move || {
            for (peer, offer, done) in inbox {
                let engine = known.lock().unwrap().get(&peer).cloned();
                done(match engine {
                    Some(engine) => engine.accept(offer).map_err(|error| error.to_string()),
                    None => Err("no peer of this name".to_owned()),
                });
            }
        });
        Arc::new(Self { letters, engines })
    }
}

impl OfferExchange for Meeting {
    fn exchange(&self, peer: &str, offer: EndpointOffer, done: ExchangeDone) {
        // Without the thread the offer runs into its deadline.
        let _ = self.letters.send((peer.to_owned(), offer, done));
    }
}

/// One engine with registered memory.
pub(crate) struct Side {
    pub(crate) engine: RailEngine,
    pub(crate) memory: Arc<Registration>,
    buffer: Arc<HostBuffer>,
}

impl Side {
    pub(crate) fn start(
        meeting: &Arc<Meeting>,
        fabric: &dyn Fabric,
        name: &str,
        devices: &[&str],
        (shards, bytes): (usize, usize),
    ) -> Result<Self, RailError> {
        let device = |name: &&str| RailDevice { name: (*name).to_owned(), node: None };
        let options = RailOptions {
            devices: devices.iter().map(device).collect(),
            shards,
            ..RailOptions::named(name)
        };
        let exchange: Arc<dyn OfferExchange> = meeting.clone();
        let engine = RailEngine::start(fabric, &options, &exchange)?;
        meeting.engines.lock().unwrap().insert(name.to_owned(), engine.clone());
        let buffer = Arc::new(HostBuffer::allocate(bytes).unwrap());
        let address = buffer.base() as u64;
        // SAFETY: `Drop` closes the engine and revokes the memory before the buffer goes.
        let memory = unsafe {
            engine.register(address, bytes as u64, RegionAccess::ALL, &Preference::default())
        }?;
        Ok(Self { engine, memory, buffer })
    }

    pub(crate) fn base(&self) -> u64 {
        self.buffer.base() as u64
    }

    pub(crate) fn fill(&self, offset: u64, bytes: u64, seed: u64) {
        let mut word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        for at in (0..bytes).step_by(8) {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            let place = self.buffer.range(offset + at, 8).unwrap().cast::<u64>();
            // SAFETY: the word lies in the buffer and is aligned; nothing is under way on it.
            unsafe { place.write(word) };
        }
    }

    pub(crate) fn bytes(&self, offset: u64, bytes: u64) -> Vec<u8> {
        let from = self.buffer.range(offset, bytes).unwrap();
        // SAFETY: the range lies in the buffer, and nothing is under way on it.
        unsafe { std::slice::from_raw_parts(from, bytes as usize) }.to_vec()
    }

    /// Opens the other side as a peer.
    pub(crate) fn open(&self, other: &Side, name: &str) -> (PeerHandle, Arc<RemoteKeys>) {
        let peer = self.engine.open_peer(name, &other.engine.descriptor()).unwrap();
        let descriptor = other.memory.descriptor(1, None);
        (peer, Arc::new(RemoteKeys::new(&descriptor, monotonic()).unwrap()))
    }

    /// A request between the same offsets of both memories.
    pub(crate) fn request(
        &self,
        other: &Side,
        keys: &Arc<RemoteKeys>,
        (direction, local, remote, bytes): (Direction, u64, u64, u64),
        tag: u64,
    ) -> RailRequest {
        RailRequest {
            direction,
            local: self.memory.clone(),
            local_address: self.base() + local,
            keys: keys.clone(),
            remote_address: other.base() + remote,
            bytes,
            tag,
        }
    }

    /// Submits and waits; the first failure of any request.
    pub(crate) fn run(
        &self,
        peer: &PeerHandle,
        requests: &[RailRequest],
    ) -> Result<(), (u64, RailError)> {
        let sink = Arc::new(ParkSink::new(requests.len()));
        let shared: Arc<dyn Sink> = sink.clone();
        // SAFETY: the buffers live longer than the wait, which lasts until all requests are over.
        unsafe { self.engine.submit(peer, requests, deadline_in(LONG), &shared) }
            .map_err(|error| (u64::MAX, error))?;
        sink.wait(LONG * 2).expect("every request ends")
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        self.engine.close();
        let _ = self.memory.revoke();
    }
}
