//! A node: a segment that is served, a heart that beats, and a mover that carries objects away when
//! the master says so.
//! Invariant: a process that begins again, and a node whose segment was emptied, lends another
//! segment.

use super::contract::Contract;
use super::link::Link;
use super::master::Master;
use super::size::Size;
use super::wire::{self, Offer, Put};
use crate::environment::SimulatedEnvironment;
use crate::network::HostId;
use crate::random::Random;
use crate::world::World;
use perigee_memory::segment::{Populate, SegmentOptions};
use perigee_memory::{ByteRange, ByteRangeMut, Segment};
use perigee_rpc::Moves;
use perigee_schemas::frame::MessageKind;
use perigee_schemas::{Identity, Status};
use perigee_shard::Environment;
use perigee_transfer::{
    ReadJob, ReplicaAddress, SegmentClient, SegmentShardServer, SegmentTable, TransferError,
    WriteJob,
};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const PORT: u16 = 7200;
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Pause of the mover while nothing is to be moved...
const REST: Duration = Duration::from_millis(500);
/// ... and while the master has nothing for it at the moment.
const MOVER_PAUSE: Duration = Duration::from_millis(50);
const MOVES_PER_FETCH: u32 = 4;
/// Tries to report the outcome of a move to the master.
const REPORT_TRIES: usize = 3;
const TRANSFER_DEADLINE: Duration = Duration::from_secs(10);

pub(super) struct Node {
    world: Rc<World>,
    master: Rc<Master>,
    contract: Rc<Contract>,
    size: Size,
    random: Random,
    host: HostId,
    /// The present life.
    life: RefCell<Option<Rc<Life>>>,
    is_stopped: Cell<bool>,
}

/// What a process of a node has.
struct Life {
    client: Identity,
    table: Arc<SegmentTable>,
    server: Rc<SegmentShardServer<SimulatedEnvironment>>,
    mover: SegmentClient<SimulatedEnvironment>,
    offer: RefCell<Offer>,
    /// Mount requests so far.
    mounts: Cell<u64>,
    has_moves: Cell<bool>,
    /// Whether the segment is to be given up for another one.
    must_renew: Cell<bool>,
}

impl Node {
    pub(super) fn new(
        world: &Rc<World>,
        master: &Rc<Master>,
        contract: &Rc<Contract>,
        size: Size,
    ) -> Self {
        Self {
            world: world.clone(),
            master: master.clone(),
            contract: contract.clone(),
            size,
            random: world.fork_random(),
            host: world.add_host(),
            life: RefCell::default(),
            is_stopped: Cell::new(false),
        }
    }

    pub(super) fn host(&self) -> HostId {
        self.host
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::new(self.world.environment(self.host).address(), PORT)
    }

    /// Name of its segments.
    pub(super) fn name(&self) -> String {
        self.address().to_string()
    }

    /// A process begins, with an empty segment.
    pub(super) fn begin(self: &Rc<Self>) {
        let environment = self.world.environment(self.host);
        let life = match self.make_life(&environment) {
            Ok(life) => Rc::new(life),
            Err(error) => return self.world.violate(error),
        };
        *self.life.borrow_mut() = Some(life.clone());
        let (server, beating) = (life.server.clone(), life.clone());
        environment.spawn(async move { server.serve().await });
        let (node, link) = (self.clone(), self.link(&environment, life.client));
        environment.spawn(async move { node.beat(&beating, &link).await });
        let (node, link) = (self.clone(), self.link(&environment, life.client));
        environment.spawn(async move { node.carry(&life, &link).await });
    }

    fn link(&self, environment: &SimulatedEnvironment, client: Identity) -> Link {
        Link::new(environment, self.master.address(), client)
    }

    fn make_life(&self, environment: &SimulatedEnvironment) -> Result<Life, String> {
        let client = Identity(u128::from(self.random.next()));
        let table = Arc::new(SegmentTable::default());
        let offer = self.make_segment(&table)?;
        let server = SegmentShardServer::listen(environment, self.address(), table.clone(), client);
        Ok(Life {
            client,
            table,
            server: Rc::new(server.map_err(|error| error.to_string())?),
            mover: SegmentClient::new(environment.clone(), client, TRANSFER_DEADLINE),
            offer: RefCell::new(offer),
            mounts: Cell::new(0),
            has_moves: Cell::new(false),
            must_renew: Cell::new(false),
        })
    }

    fn make_segment(&self, table: &SegmentTable) -> Result<Offer, String> {
        let (least, most) = self.size.segment_bytes;
        let bytes = self.random.between(least, most);
        let bytes = bytes.next_multiple_of(4096);
        let options = SegmentOptions { populate: Populate::OnRequest, ..SegmentOptions::default() };
        let segment = Segment::create(bytes, &options).map_err(|error| error.to_string())?;
        let id = Identity(u128::from(self.random.next()));
        table.insert(id, Arc::new(segment));
        Ok(Offer { id, name: self.name(), host_id: format!("host-{}", self.host), bytes })
    }

    async fn beat(&self, life: &Life, link: &Link) {
        while !self.is_stopped.get() {
            if life.must_renew.get() {
                self.renew(life, link).await;
            }
            let lent = life.offer.borrow().clone();
            let ping = wire::ping(life.client, Some(&lent), life.mounts.get());
            if let Some(answer) = link.ask(MessageKind::Ping, &ping).await
                && let Some(pong) = wire::pong(&answer.body)
            {
                life.has_moves.set(pong.has_moves);
                if pong.must_mount {
                    self.mount(life, link, true).await;
                }
            }
            self.world.sleep(HEARTBEAT).await;
        }
        link.close();
    }

    async fn mount(&self, life: &Life, link: &Link, remount: bool) {
        if remount && life.mounts.get() > 0 {
            self.contract.note_upheaval();
        }
        life.mounts.set(life.mounts.get() + 1);
        let offer = life.offer.borrow().clone();
        let mount = wire::mount(life.client, &offer, remount, life.mounts.get());
        link.ask(MessageKind::Mount, &mount).await;
    }

    /// Has another segment in place of the one that was emptied.
    pub(super) fn must_renew(&self) {
        if let Some(life) = &*self.life.borrow() {
            life.must_renew.set(true);
        }
    }

    async fn renew(&self, life: &Life, link: &Link) {
        let old = life.offer.borrow().id;
        let unmount = wire::unmount(life.client, old, 0);
        if link.ask(MessageKind::Unmount, &unmount).await.is_none() {
            return;
        }
        life.table.remove(old);
        match self.make_segment(&life.table) {
            Ok(offer) => *life.offer.borrow_mut() = offer,
            Err(error) => return self.world.violate(error),
        }
        life.must_renew.set(false);
        self.mount(life, link, false).await;
    }

    /// Carries objects to other segments while the master wants it.
    async fn carry(&self, life: &Life, link: &Link) {
        while !self.is_stopped.get() {
            let pause = match life.has_moves.get() {
                true if self.carry_some(life, link).await => Duration::ZERO,
                true => MOVER_PAUSE,
                false => REST,
            };
            self.world.sleep(pause).await;
        }
        link.close();
        life.mover.ended().await;
    }

    /// Takes some moves and carries them out; false if there are none.
    async fn carry_some(&self, life: &Life, link: &Link) -> bool {
        let fetch = wire::fetch_moves(life.client, MOVES_PER_FETCH);
        let Some(answer) = link.ask(MessageKind::FetchMoves, &fetch).await else {
            return false;
        };
        let Some(moves) = wire::sound(&self.world, Moves::decode(&answer.body)) else {
            return false;
        };
        for (index, key) in moves.keys.iter().enumerate() {
            let (source, target) = moves.places[index];
            let places = [source, target].map(|at| wire::place(&moves.segments, &at));
            let copied = self.copy(life, &places, moves.checksum[index]).await;
            let status = copied.as_ref().err().map_or(Status::Ok, TransferError::status);
            let in_flight = copied.err().is_some_and(|error| error.is_peer_fault());
            let put = Put { client: life.client, key, generation: target.generation };
            let end = wire::end_move(&put, status, in_flight);
            for _ in 0..REPORT_TRIES {
                if link.ask(MessageKind::EndMoves, &end).await.is_some() {
                    break;
                }
            }
        }
        !moves.keys.is_empty()
    }

    async fn copy(
        &self,
        life: &Life,
        [source, target]: &[ReplicaAddress; 2],
        checksum: u32,
    ) -> Result<(), TransferError> {
        let mut bytes = vec![0; source.payload_bytes as usize];
        {
            let pieces = [ByteRangeMut::from(bytes.as_mut_slice())];
            let jobs = [ReadJob { place: source, checksum, pieces: &pieces }];
            // SAFETY: the bytes outlive the journey; should the task be dropped before its end, its
            // host has died and the network has forgotten its operations.
            let batch = unsafe { life.mover.read(&jobs) };
            self.world.until(batch.watch()).await;
            first(batch.outcome())?;
        }
        let pieces = [ByteRange::from(bytes.as_slice())];
        let jobs = [WriteJob { place: target, pieces: &pieces }];
        // SAFETY: as above.
        let batch = unsafe { life.mover.write(&jobs) };
        self.world.until(batch.watch()).await;
        first(batch.outcome()).map(drop)
    }

    /// Panics if records of its mover disagree.
    pub(super) fn check(&self) {
        if let Some(life) = &*self.life.borrow() {
            life.mover.check();
        }
    }

    pub(super) fn stop(&self) {
        self.is_stopped.set(true);
        if let Some(life) = &*self.life.borrow() {
            life.server.stop();
            life.mover.stop();
        }
    }

    /// Drops what refers to the world.
    pub(super) fn forget(&self) {
        self.life.take();
    }
}

/// The result of the only job of a batch.
fn first(outcome: Option<Vec<Result<u32, TransferError>>>) -> Result<u32, TransferError> {
    let lost = || Err(TransferError::Engine("A batch without an outcome".to_owned()));
    let first = outcome.into_iter().flatten().next();
    first.unwrap_or_else(lost)
}
