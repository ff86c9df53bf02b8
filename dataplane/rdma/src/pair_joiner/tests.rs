//! The joiner over the software fabric: who is given queue pairs, and for how long.

use super::*;
use perigee_memory::HostBuffer;
use perigee_rails::{
    ExchangeDone, OfferExchange, ParkSink, Preference, RailError, RailOptions, RailRequest,
    Registration, RemoteKeys, Sink, deadline_in,
};
use perigee_schemas::Direction;
use perigee_shard::monotonic;
use perigee_verbs::RegionAccess;
use perigee_verbs::software::{Clock, DevicePlan, SoftwareNetwork};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);
const BYTES: u64 = 4096;

/// Takes offers to whatever connection stands.
#[derive(Default)]
struct Line(Mutex<Option<PairLease>>);

impl OfferExchange for Line {
    fn exchange(&self, _peer: &str, offer: EndpointOffer, done: ExchangeDone) {
        match &*self.0.lock().unwrap() {
            Some(lease) => {
                let answer = lease.accept(offer);
                std::thread::spawn(move || done(wait(&answer)));
            }
            None => done(Err("the line is dead".to_owned())),
        }
    }
}

fn wait<T>(answer: &AnswerSlot<T>) -> T {
    let end = Instant::now() + LONG;
    loop {
        if let Some(value) = answer.take() {
            return value;
        }
        assert!(Instant::now() < end, "a joiner never answers");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

struct Side {
    engine: RailEngine,
    memory: Arc<Registration>,
    buffer: HostBuffer,
}

impl Side {
    fn start(network: &SoftwareNetwork, host: &str, line: Arc<Line>) -> Self {
        let fabric = network.host(host, &[DevicePlan::new("sw0")]).unwrap();
        let exchange: Arc<dyn OfferExchange> = line;
        let options = RailOptions::named(host);
        let engine = RailEngine::start(fabric.as_ref(), &options, &exchange).unwrap();
        let buffer = HostBuffer::allocate(BYTES as usize).unwrap();
        // SAFETY: the engine is closed before the buffer goes.
        let memory = unsafe {
            engine.register(buffer.base() as u64, BYTES, RegionAccess::ALL, &Preference::default())
        }
        .unwrap();
        Self { engine, memory, buffer }
    }

    fn fill(&self, byte: u8) {
        // SAFETY: the buffer has so many bytes, and nothing is under way on it.
        unsafe { self.buffer.base().write_bytes(byte, BYTES as usize) };
    }

    fn bytes(&self) -> Vec<u8> {
        // SAFETY: the buffer has so many bytes, and nothing is under way on it.
        unsafe { std::slice::from_raw_parts(self.buffer.base(), BYTES as usize) }.to_vec()
    }

    /// Begins to write all of its memory to the other side.
    fn write_to(&self, other: &Side) -> Arc<ParkSink> {
        let peer = self.engine.open_peer("owner", &other.engine.descriptor());
        let keys = RemoteKeys::new(&other.memory.descriptor(1, None), monotonic()).unwrap();
        let request = RailRequest {
            direction: Direction::Write,
            local: self.memory.clone(),
            local_address: self.buffer.base() as u64,
            keys: Arc::new(keys),
            remote_address: other.buffer.base() as u64,
            bytes: BYTES,
            tag: 0,
        };
        let sink = Arc::new(ParkSink::new(1));
        let shared: Arc<dyn Sink> = sink.clone();
        let deadline = deadline_in(Duration::from_secs(10));
        // SAFETY: the buffers outlive the engines.
        unsafe { self.engine.submit(&peer.unwrap(), &[request], deadline, &shared) }.unwrap();
        sink
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        self.engine.close();
    }
}

struct World {
    network: SoftwareNetwork,
    client: Side,
    owner: Side,
    line: Arc<Line>,
    joiner: Arc<PairJoiner>,
}

fn world() -> World {
    let network = SoftwareNetwork::new(Clock::Real).unwrap();
    let line = Arc::new(Line::default());
    let owner = Side::start(&network, "owner", Arc::default());
    let client = Side::start(&network, "client", line.clone());
    let joiner = PairJoiner::start(&owner.engine).unwrap();
    *line.0.lock().unwrap() = Some(joiner.lease(client.epoch()));
    World { network, client, owner, line, joiner }
}

impl Side {
    fn epoch(&self) -> u64 {
        self.engine.epoch()
    }
}

#[test]
fn a_late_write_of_a_client_whose_connection_is_gone_never_lands() {
    let world = world();
    let World { client, owner, .. } = &world;
    client.fill(1);
    assert_eq!(client.write_to(owner).wait(LONG), Some(Ok(())));
    assert!(owner.bytes().iter().all(|byte| *byte == 1));
    let delay = Duration::from_secs(2);
    world.network.faults("client", "sw0").unwrap().delay(delay);
    client.fill(2);
    let late = client.write_to(owner);
    drop(world.line.0.lock().unwrap().take());
    // The same thread does all work for one client in order.
    let next = world.joiner.lease(client.epoch());
    assert_eq!(wait(&next.fence()), Ok(()));
    owner.fill(9);
    let outcome = late.wait(LONG).unwrap();
    assert!(outcome.is_err(), "the write had no taker");
    assert!(owner.bytes().iter().all(|byte| *byte == 9));
}

#[test]
fn what_a_client_may_still_read_stays_until_its_queue_pairs_are_down() {
    let world = world();
    let World { client, owner, .. } = &world;
    client.fill(1);
    assert_eq!(client.write_to(owner).wait(LONG), Some(Ok(())));
    let (epoch, kept) = (client.epoch(), Arc::new(()));
    assert!(world.joiner.tickets_of(epoch ^ 1).is_none(), "only who has a connection is a reader");
    let tickets = world.joiner.tickets_of(epoch).unwrap();
    tickets.issue(kept.clone(), monotonic()).unwrap();
    drop(tickets);
    world.network.faults("client", "sw0").unwrap().delay(Duration::from_secs(2));
    let late = client.write_to(owner);
    drop(world.line.0.lock().unwrap().take());
    assert!(world.joiner.tickets_of(epoch).is_none());
    let end = Instant::now() + LONG;
    while Arc::strong_count(&kept) > 1 {
        assert!(Instant::now() < end, "it is never given back");
        std::thread::park_timeout(Duration::from_millis(1));
    }
    owner.fill(9);
    assert!(late.wait(LONG).unwrap().is_err(), "the queue pairs are down");
    assert!(owner.bytes().iter().all(|byte| *byte == 9));
}

#[test]
fn an_offer_that_outlived_its_connection_is_refused() {
    let world = world();
    let World { client, owner, .. } = &world;
    let offer = |epoch| EndpointOffer {
        name: "client".to_owned(),
        epoch,
        peer_epoch: owner.epoch(),
        shard: 0,
        pairs: Vec::new(),
        fenced: Vec::new(),
    };
    let first = world.joiner.lease(client.epoch());
    assert!(wait(&first.accept(offer(client.epoch()))).is_ok());
    let other = wait(&first.accept(offer(client.epoch() ^ 1))).unwrap_err();
    assert!(other.contains("another client"), "{other}");
    let second = world.joiner.lease(client.epoch());
    let late = wait(&first.accept(offer(client.epoch()))).unwrap_err();
    assert!(late.contains("gone"), "{late}");
    drop(first);
    assert!(wait(&second.accept(offer(client.epoch()))).is_ok());
}

#[test]
fn a_client_that_lost_its_connection_reconnects_and_goes_on() {
    let world = world();
    let World { client, owner, .. } = &world;
    client.fill(1);
    assert_eq!(client.write_to(owner).wait(LONG), Some(Ok(())));
    drop(world.line.0.lock().unwrap().take());
    *world.line.0.lock().unwrap() = Some(world.joiner.lease(client.epoch()));
    client.fill(3);
    let outcome = client.write_to(owner).wait(LONG).unwrap();
    assert!(
        outcome.is_ok() || matches!(outcome, Err((_, RailError::Unreachable { .. }))),
        "{outcome:?}"
    );
    assert_eq!(client.write_to(owner).wait(LONG), Some(Ok(())));
    assert!(owner.bytes().iter().all(|byte| *byte == 3));
}
