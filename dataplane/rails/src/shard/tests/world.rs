//! Engines on a software fabric under a clock of our own: no threads, and the same seed gives the
//! same run.

use crate::active_request::RailRequest;
use crate::descriptor::{EndpointAnswer, EndpointOffer, PeerDescriptor, RegionDescriptor};
use crate::error::RailError;
use crate::joining::Joiner;
use crate::keys::RemoteKeys;
use crate::peer::PeerRecord;
use crate::preference::Preference;
use crate::rail::{RailDevice, open_rails};
use crate::registration::Registration;
use crate::report::{RailCells, RailReport};
use crate::shard::{BatchPart, RailShard, ShardSetup};
use crate::sink::Sink;
use crate::tuning::RailTuning;
use perigee_activity::Direction;
use perigee_memory::HostBuffer;
use perigee_verbs::software::{Clock, DevicePlan, Faults, SoftwareNetwork};
use perigee_verbs::{Fabric, RegionAccess};
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Each engine's memory: the first half is only read from, the second only written to.
pub(super) const HALF: u64 = 8 << 20;
const EXCHANGE: Duration = Duration::from_millis(1);
const STEP_MAX: Duration = Duration::from_millis(2);

/// Seeds that a test plays: so many, or as many as `PERIGEE_SEEDS` says.
pub(super) fn seeds(usual: u64) -> RangeInclusive<u64> {
    let given = std::env::var("PERIGEE_SEEDS");
    1..=given.map_or(usual, |seeds| seeds.parse().unwrap())
}

/// Ends of requests, as reported.
#[derive(Default)]
pub(super) struct Ends {
    reported: Mutex<Vec<(u64, Result<(), RailError>)>>,
}

impl Sink for Ends {
    fn finished(&self, tag: u64, outcome: Result<(), RailError>) {
        self.reported.lock().unwrap().push((tag, outcome));
    }
}

impl Ends {
    pub(super) fn reported(&self) -> Vec<(u64, Result<(), RailError>)> {
        self.reported.lock().unwrap().clone()
    }

    pub(super) fn count(&self) -> usize {
        self.reported.lock().unwrap().len()
    }

    /// Asserts that tags 0 to `count` were reported once each and succeeded.
    pub(super) fn assert_all_well(&self, count: u64) {
        let mut reported = self.reported();
        reported.sort_by_key(|(tag, _)| *tag);
        let expected: Vec<_> = (0..count).map(|tag| (tag, Ok(()))).collect();
        assert_eq!(reported, expected);
    }
}

/// One engine.
pub(super) struct Engine {
    pub(super) shard: RailShard,
    pub(super) descriptor: Arc<PeerDescriptor>,
    pub(super) memory: Arc<Registration>,
    cells: Vec<Arc<RailCells>>,
    /// Keeps the memory; declared after what is registered.
    buffer: HostBuffer,
    fabric: Arc<dyn Fabric>,
}

impl Engine {
    pub(super) fn report(&self, rail: usize) -> RailReport {
        let mut report = RailReport::default();
        report.add(&self.cells[rail]);
        report
    }

    pub(super) fn base(&self) -> u64 {
        self.buffer.base() as u64
    }

    pub(super) fn bytes(&self, offset: u64, bytes: u64) -> Vec<u8> {
        let from = self.buffer.range(offset, bytes).unwrap();
        // SAFETY: the range lies in the buffer; the simulation is one thread, so nothing writes at
        // the same time.
        unsafe { std::slice::from_raw_parts(from, bytes as usize) }.to_vec()
    }

    pub(super) fn fill(&self, offset: u64, bytes: u64, seed: u64) {
        let mut random = Random::new(seed);
        for at in (0..bytes).step_by(8) {
            let word = self.buffer.range(offset + at, 8).unwrap().cast::<u64>();
            // SAFETY: as above, and the word is aligned.
            unsafe { word.write(random.next()) };
        }
    }

    pub(super) fn fabric(&self) -> &Arc<dyn Fabric> {
        &self.fabric
    }
}

/// A small generator of numbers.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.next();
        random
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// All engines, their network, and the handshakes on their way.
pub(super) struct World {
    pub(super) network: SoftwareNetwork,
    pub(super) engines: HashMap<String, Engine>,
    order: Vec<String>,
    /// Offers by when they arrive: from, to, peer number, serial.
    offers: Vec<(Duration, String, String, u64, u64, EndpointOffer)>,
    records: u64,
    /// Queue pairs to a peer of one rail, for engines that are started from now on.
    pub(super) queue_pairs_per_peer: usize,
    /// What bounds them over the same rails instead, for the same engines.
    pub(super) queue_pairs_per_rail: Option<usize>,
    /// Settings of the operator, for the same engines.
    pub(super) tuning: RailTuning,
    /// Which rails suit the memory of engines that are started from now on.
    pub(super) preference: Preference,
    /// Whether handshakes reach the peer.
    pub(super) handshakes: bool,
    pub(super) epochs: u64,
    pub(super) trace: Vec<(Duration, usize)>,
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            network: SoftwareNetwork::new(Clock::Manual).unwrap(),
            engines: HashMap::new(),
            order: Vec::new(),
            offers: Vec::new(),
            records: 0,
            queue_pairs_per_peer: 1,
            queue_pairs_per_rail: None,
            tuning: RailTuning::default(),
            preference: Preference::default(),
            handshakes: true,
            epochs: 100,
            trace: Vec::new(),
        }
    }

    /// A world of two engines with so many rails each.
    pub(super) fn pair(rails: usize) -> Self {
        Self::pair_by(rails, 1)
    }

    /// The same, with so many queue pairs to a peer of few rails.
    pub(super) fn pair_by(rails: usize, queue_pairs_per_peer: usize) -> Self {
        let mut world = Self::new();
        world.queue_pairs_per_peer = queue_pairs_per_peer;
        for host in ["a", "b"] {
            let plans: Vec<DevicePlan> = (0..rails).map(plan).collect();
            world.network.host(host, &plans).unwrap();
            world.start(host, rails, 16);
        }
        world
    }

    pub(super) fn host(&mut self, host: &str, rails: usize, queue_pairs_max: usize) {
        let plans: Vec<DevicePlan> = (0..rails).map(plan).collect();
        self.network.host(host, &plans).unwrap();
        self.start(host, rails, queue_pairs_max);
    }

    /// Starts an engine on a host, in place of one that ran there.
    pub(super) fn start(&mut self, host: &str, rails: usize, queue_pairs_max: usize) {
        self.engines.remove(host);
        let fabric = self.network.host(host, &[]).unwrap();
        let device = |index| RailDevice { name: format!("sw{index}"), node: None };
        let devices: Vec<RailDevice> = (0..rails).map(device).collect();
        let rails = open_rails(fabric.as_ref(), &devices, &self.tuning.link).unwrap();
        self.epochs += 1;
        let descriptor = Arc::new(PeerDescriptor {
            epoch: self.epochs,
            rails: rails.iter().map(|rail| rail.descriptor()).collect(),
        });
        let cells: Vec<Arc<RailCells>> = rails.iter().map(|_| Arc::default()).collect();
        let setup = ShardSetup {
            number: 0,
            name: host.to_owned(),
            epoch: self.epochs,
            queue_pairs_max,
            queue_pairs_per_peer: self.queue_pairs_per_peer,
            queue_pairs_per_rail: self.queue_pairs_per_rail,
            tuning: self.tuning.clone(),
            seed: self.epochs,
            is_shown: false,
        };
        let shard = RailShard::new(setup, &rails, &cells).unwrap();
        let buffer = HostBuffer::allocate(2 * HALF as usize).unwrap();
        let range = (buffer.base() as u64, 2 * HALF);
        // SAFETY: the engine drops the registration before the buffer.
        let memory = unsafe {
            Registration::new(&rails, self.epochs, range, RegionAccess::ALL, &self.preference)
        };
        let engine =
            Engine { shard, descriptor, memory: Arc::new(memory.unwrap()), cells, buffer, fabric };
        engine.fill(0, HALF, self.epochs);
        if !self.order.contains(&host.to_owned()) {
            self.order.push(host.to_owned());
        }
        self.engines.insert(host.to_owned(), engine);
    }

    pub(super) fn engine(&mut self, host: &str) -> &mut Engine {
        self.engines.get_mut(host).unwrap()
    }

    pub(super) fn faults(&self, host: &str, rail: usize) -> Faults {
        self.network.faults(host, &format!("sw{rail}")).unwrap()
    }

    pub(super) fn now(&self) -> Duration {
        Duration::from_secs(1) + self.network.now()
    }

    /// Opens `host` for the others, as it is now.
    pub(super) fn open(&mut self, host: &str) -> Arc<PeerRecord> {
        self.records += 1;
        let descriptor = &self.engines[host].descriptor;
        Arc::new(PeerRecord::new(self.records, host, descriptor))
    }

    /// The memory of an engine as others may use it.
    pub(super) fn keys(&self, host: &str, lease: Option<Duration>) -> Arc<RemoteKeys> {
        let descriptor: RegionDescriptor = self.engines[host].memory.descriptor(1, lease);
        Arc::new(RemoteKeys::new(&descriptor, self.now()).unwrap())
    }

    /// A request of `from`: writes go from its first half to the second half of the peer, reads the
    /// other way round.
    pub(super) fn request(
        &self,
        from: &str,
        keys: &Arc<RemoteKeys>,
        to: &str,
        (direction, source, target, bytes): (Direction, u64, u64, u64),
        tag: u64,
    ) -> RailRequest {
        let (local, remote) = match direction {
            Direction::Write => (source, HALF + target),
            Direction::Read => (HALF + target, source),
        };
        RailRequest {
            direction,
            local: self.engines[from].memory.clone(),
            local_address: self.engines[from].base() + local,
            keys: keys.clone(),
            remote_address: self.engines[to].base() + remote,
            bytes,
            tag,
        }
    }

    pub(super) fn submit(
        &mut self,
        from: &str,
        peer: &Arc<PeerRecord>,
        requests: Vec<RailRequest>,
        limit: Duration,
        ends: &Arc<Ends>,
    ) {
        let now = self.now();
        let submission = BatchPart {
            peer: peer.clone(),
            batch: 7,
            requests,
            deadline: now + limit,
            sink: ends.clone(),
        };
        self.engine(from).shard.submit(submission, now);
    }

    /// One turn of every shard, then the clock moves to whatever comes next.
    pub(super) fn step(&mut self) {
        let now = self.now();
        let mut worked = false;
        for host in self.order.clone() {
            let Some(engine) = self.engines.get_mut(&host) else {
                continue;
            };
            worked |= engine.shard.turn(now);
            engine.shard.check();
            for outgoing in engine.shard.take_offers() {
                worked = true;
                let to = outgoing.peer_name.clone();
                let offer = (
                    now + EXCHANGE,
                    host.clone(),
                    to,
                    outgoing.peer,
                    outgoing.serial,
                    outgoing.offer,
                );
                self.offers.push(offer);
            }
        }
        self.carry_offers(now);
        if worked {
            self.trace.push((now, self.offers.len()));
            return;
        }
        let due =
            self.network.next_due().map_or(STEP_MAX, |due| due.saturating_sub(self.network.now()));
        self.network.advance(due.clamp(Duration::from_micros(1), STEP_MAX));
    }

    fn carry_offers(&mut self, now: Duration) {
        let (due, later) =
            std::mem::take(&mut self.offers).into_iter().partition(|offer| offer.0 <= now);
        self.offers = later;
        for (_, from, to, peer, serial, offer) in due {
            let target = self.engines.get_mut(&to).filter(|_| self.handshakes);
            let answer = match target {
                Some(target) => accept(&mut target.shard, &offer, now),
                None => Err("connection refused".to_owned()),
            };
            if let Some(engine) = self.engines.get_mut(&from) {
                engine.shard.answer(peer, serial, answer, || now);
            }
        }
    }

    /// Steps until `done`, at most for `limit` of the world's time. Returns how long it took.
    pub(super) fn until(
        &mut self,
        limit: Duration,
        mut done: impl FnMut(&mut Self) -> bool,
    ) -> Duration {
        let start = self.now();
        while !done(self) {
            assert!(self.now() - start <= limit, "not done after {limit:?} of the world's time");
            self.step();
        }
        self.now() - start
    }

    /// Steps until `length` has passed.
    pub(super) fn pass(&mut self, length: Duration) {
        let end = self.now() + length;
        self.until(length * 2, |world| world.now() >= end);
    }
}

/// What an engine does with an offer, at one moment.
fn accept(
    shard: &mut RailShard,
    offer: &EndpointOffer,
    now: Duration,
) -> Result<EndpointAnswer, String> {
    let made = shard.make(offer).map_err(|error| error.to_string())?;
    let joined = Joiner::new(shard.setup.tuning.link).join(offer, made, || now);
    let adopted = shard.adopt(offer, joined, now);
    adopted.map_err(|error| error.to_string())
}

/// A device of 8 Gbit/s.
pub(super) fn plan(index: usize) -> DevicePlan {
    DevicePlan::new(&format!("sw{index}")).bits_per_second(8_000_000_000)
}
