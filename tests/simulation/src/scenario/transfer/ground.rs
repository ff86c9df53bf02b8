//! Segment servers, and what their memory must hold.
//! Invariant: a byte is compared unless a write that failed may still change it.

use crate::environment::SimulatedEnvironment;
use crate::network::HostId;
use crate::random::Random;
use crate::world::World;
use perigee_memory::segment::SegmentOptions;
use perigee_memory::{Segment, crc32c};
use perigee_schemas::Identity;
use perigee_schemas::extent::extent_bytes;
use perigee_shard::Environment;
use perigee_transfer::{ReplicaAddress, SegmentAddress, SegmentShardServer, SegmentTable};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

const PORT: u16 = 7000;
const SEGMENT_BYTES: (u64, u64) = (256 << 10, 1 << 20);
/// Bytes between extents that are never addressed.
const GAP_BYTES: u64 = 64;

/// An object as its writer made it.
#[derive(Clone)]
pub(super) struct Object {
    pub(super) place: ReplicaAddress,
    pub(super) payload: Rc<Vec<u8>>,
    pub(super) checksum: u32,
    /// Number of the server, and which of its lives this is.
    pub(super) server: usize,
    pub(super) life: u64,
    pub(super) slot: usize,
}

/// A part of a segment for one object at a time.
struct Slot {
    offset: u64,
    payload_bytes_max: u64,
    /// The object, once its write has gone well.
    object: Option<Object>,
    /// Whether a write that failed may still change it.
    is_tainted: bool,
    /// Who writes.
    writer: Option<HostId>,
}

struct Server {
    host: HostId,
    life: u64,
    segment: Arc<Segment>,
    address: Arc<SegmentAddress>,
    serving: Option<Rc<SegmentShardServer<SimulatedEnvironment>>>,
    slots: Vec<Slot>,
    /// What the segment must hold, where nothing is tainted.
    expected: Vec<u8>,
}

/// All servers.
pub(super) struct Ground {
    world: Rc<World>,
    random: Random,
    servers: RefCell<Vec<Server>>,
    generations: Cell<u64>,
    is_calm: bool,
    flips: bool,
}

impl Ground {
    pub(super) fn new(
        world: &Rc<World>,
        servers: usize,
        is_calm: bool,
        flips: bool,
    ) -> Result<Rc<Self>, String> {
        let random = world.fork_random();
        let made = (0..servers).map(|_| Server::new(world.add_host(), 1, &random));
        Ok(Rc::new(Self {
            world: world.clone(),
            servers: RefCell::new(made.collect::<Result<_, _>>()?),
            random,
            generations: Cell::new(0),
            is_calm,
            flips,
        }))
    }

    pub(super) fn is_calm(&self) -> bool {
        self.is_calm
    }

    pub(super) fn flips(&self) -> bool {
        self.flips
    }

    pub(super) fn hosts(&self) -> impl Iterator<Item = HostId> + use<> {
        let hosts: Vec<_> = self.servers.borrow().iter().map(|server| server.host).collect();
        hosts.into_iter()
    }

    pub(super) fn count(&self) -> usize {
        self.servers.borrow().len()
    }

    pub(super) fn begin_all(&self) {
        self.servers.borrow_mut().iter_mut().for_each(|server| server.begin(&self.world));
    }

    /// A server's process restarts, with an empty segment of another name, if this is the host of
    /// one.
    pub(super) fn begin_again(&self, host: HostId) {
        let mut servers = self.servers.borrow_mut();
        let Some(server) = servers.iter_mut().find(|server| server.host == host) else {
            return;
        };
        server.compare(&self.world);
        match Server::new(host, server.life + 1, &self.random) {
            Ok(new) => *server = new,
            Err(error) => return self.world.violate(error),
        }
        server.begin(&self.world);
    }

    pub(super) fn stop_all(&self) {
        let servers = self.servers.borrow();
        servers.iter().filter_map(|server| server.serving.as_ref()).for_each(|found| found.stop());
    }

    /// Drops what refers to the world.
    pub(super) fn forget(&self) {
        self.servers.borrow_mut().clear();
    }

    pub(super) fn compare_all(&self) {
        self.servers.borrow().iter().for_each(|server| server.compare(&self.world));
    }

    /// Reserves a slot of a server that is not being written, and makes an object for it.
    pub(super) fn reserve(&self, server: usize, writer: HostId, random: &Random) -> Option<Object> {
        let mut servers = self.servers.borrow_mut();
        let found = &mut servers[server];
        let count = found.slots.len();
        let first = random.below(count as u64) as usize;
        let mut tries = (0..count).map(|step| (first + step) % count);
        let number = tries.find(|number| found.slots[*number].writer.is_none())?;
        let slot = &mut found.slots[number];
        slot.writer = Some(writer);
        self.generations.set(self.generations.get() + 1);
        let bytes = random.between(1, slot.payload_bytes_max);
        let payload = random.bytes(bytes as usize);
        Some(Object {
            checksum: crc32c(&payload),
            place: ReplicaAddress {
                segment: found.address.clone(),
                offset: slot.offset,
                payload_bytes: bytes,
                generation: self.generations.get(),
            },
            payload: Rc::new(payload),
            server,
            life: found.life,
            slot: number,
        })
    }

    /// The writer of an object has heard how its write ended.
    pub(super) fn written(&self, object: &Object, went_well: bool) {
        let mut servers = self.servers.borrow_mut();
        let server = &mut servers[object.server];
        if server.life != object.life {
            return;
        }
        let slot = &mut server.slots[object.slot];
        slot.writer = None;
        slot.is_tainted |= !went_well || self.flips;
        slot.object = went_well.then(|| object.clone());
        if went_well && !slot.is_tainted {
            let range = object.place.offset as usize..;
            let found = server.memory()[range.clone()][..object.payload.len()].to_vec();
            self.world.check(found == *object.payload, || {
                format!("A write that went well left other bytes at {}", range.start)
            });
            server.remember(object);
        }
    }

    /// A writer has died: what it was writing may hold anything.
    pub(super) fn writer_died(&self, writer: HostId) {
        for server in self.servers.borrow_mut().iter_mut() {
            let slots = server.slots.iter_mut().filter(|slot| slot.writer == Some(writer));
            slots.for_each(|slot| {
                slot.writer = None;
                slot.is_tainted = true;
                slot.object = None;
            });
        }
    }

    /// Whether an object is the one that its slot holds, with no write under way.
    pub(super) fn is_current(&self, object: &Object) -> bool {
        let servers = self.servers.borrow();
        let server = &servers[object.server];
        let slot = server.slots.get(object.slot).filter(|_| server.life == object.life);
        slot.is_some_and(|slot| {
            let held = slot.object.as_ref().map(|held| held.place.generation);
            slot.writer.is_none() && held == Some(object.place.generation)
        })
    }

    /// Whether an object cannot be there any more: its segment is gone, or it was overwritten for
    /// good.
    pub(super) fn is_past(&self, object: &Object) -> bool {
        let servers = self.servers.borrow();
        let server = &servers[object.server];
        if server.life != object.life {
            return true;
        }
        let slot = &server.slots[object.slot];
        let held = slot.object.as_ref().map(|held| held.place.generation);
        !slot.is_tainted && held.is_some_and(|held| held > object.place.generation)
    }

    /// A place that lies partly or wholly outside of a server's segment.
    pub(super) fn outside(&self, server: usize, random: &Random) -> ReplicaAddress {
        let segment = self.servers.borrow()[server].address.clone();
        let payload_bytes = random.between(1, 100_000);
        let first = segment.bytes - random.below(payload_bytes);
        ReplicaAddress { offset: first.next_multiple_of(8), payload_bytes, generation: 1, segment }
    }
}

impl Server {
    fn new(host: HostId, life: u64, random: &Random) -> Result<Self, String> {
        let bytes = random.between(SEGMENT_BYTES.0, SEGMENT_BYTES.1).next_multiple_of(4096);
        let options = SegmentOptions {
            populate: perigee_memory::segment::Populate::OnRequest,
            ..SegmentOptions::default()
        };
        let segment = Segment::create(bytes, &options).map_err(|error| error.to_string())?;
        let id = Identity(u128::from(random.next()) << 64 | u128::from(random.next()));
        let address = SegmentAddress {
            id,
            bytes,
            endpoint: String::new(),
            host_id: String::new(),
            rendezvous: String::new(),
            kind: Some(perigee_schemas::SegmentKind::Memory),
        };
        Ok(Self {
            host,
            life,
            segment: Arc::new(segment),
            address: Arc::new(address),
            serving: None,
            slots: slots(bytes, random),
            expected: vec![0; bytes as usize],
        })
    }

    fn begin(&mut self, world: &Rc<World>) {
        let environment = world.environment(self.host);
        let table = Arc::new(SegmentTable::default());
        table.insert(self.address.id, self.segment.clone());
        let port = SocketAddr::new(environment.address(), PORT);
        let server = match SegmentShardServer::listen(&environment, port, table, self.address.id) {
            Ok(server) => Rc::new(server),
            Err(error) => return world.violate(error.to_string()),
        };
        let endpoint = server.address().to_string();
        self.address =
            Arc::new(SegmentAddress { endpoint, ..SegmentAddress::clone(&self.address) });
        self.serving = Some(server.clone());
        environment.spawn(async move { server.serve().await });
    }

    fn memory(&self) -> &[u8] {
        // SAFETY: the segment is mapped for as long as `self` has it, and all that writes there
        // runs on this thread, at no time while the slice is borrowed.
        unsafe { std::slice::from_raw_parts(self.segment.base(), self.segment.len()) }
    }

    /// From now on the memory of an object must stay as it is.
    fn remember(&mut self, object: &Object) {
        let first = object.place.offset as usize;
        let range = first..first + extent_bytes(object.place.payload_bytes) as usize;
        let bytes = self.memory()[range.clone()].to_vec();
        self.expected[range].copy_from_slice(&bytes);
    }

    fn compare(&self, world: &World) {
        let memory = self.memory();
        let mut from = 0;
        let undefined = self.slots.iter().filter(|slot| slot.is_tainted || slot.writer.is_some());
        let skipped = undefined.map(|slot| {
            let first = slot.offset as usize;
            (first, first + extent_bytes(slot.payload_bytes_max) as usize)
        });
        for (first, end) in skipped.chain([(memory.len(), memory.len())]) {
            world.check(memory[from..first] == self.expected[from..first], || {
                format!("Bytes changed that no client addressed, between {from} and {first}")
            });
            from = end;
        }
    }
}

/// Cuts a segment into slots with gaps between them.
fn slots(bytes: u64, random: &Random) -> Vec<Slot> {
    let sizes = [1, 200, 4096, 65_535, 65_536, 65_537, 150_000];
    let mut slots = Vec::new();
    let mut offset = GAP_BYTES * random.below(3);
    loop {
        let payload_bytes_max = *random.pick(&sizes);
        let end = offset + extent_bytes(payload_bytes_max);
        if end > bytes {
            return slots;
        }
        slots.push(Slot {
            offset,
            payload_bytes_max,
            object: None,
            is_tainted: false,
            writer: None,
        });
        offset = (end + GAP_BYTES).next_multiple_of(64);
    }
}
