//! A node: a segment that is served, a heart that beats, a ledger of what lies there, and a mover
//! that carries objects away when the master says so.
//! Invariant: a process that begins again, and a node whose segment was emptied, lends another
//! segment.

mod carrier;
mod disk;
mod disk_notify;
mod disk_return;
mod membership;

use self::disk_notify::DiskNotify;
use super::contract::Contract;
use super::link::Link;
use super::master::Master;
use super::size::Size;
use super::wire::Offer;
use crate::environment::SimulatedEnvironment;
use crate::network::HostId;
use crate::random::Random;
use crate::world::World;
use perigee_memory::Segment;
use perigee_memory::segment::{Populate, SegmentOptions};
use perigee_schemas::{Identity, SegmentKind};
use perigee_shard::Environment;
use perigee_store::ledger::{SegmentLedger, VoidCopies};
use perigee_transfer::{SegmentClient, SegmentShardServer, SegmentTable};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const PORT: u16 = 7200;
const TRANSFER_DEADLINE: Duration = Duration::from_secs(10);

type Ledger = SegmentLedger<SimulatedEnvironment>;

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
    ledger: Rc<Ledger>,
    /// Copies on its disk that the master has said are void.
    void: VoidCopies,
    /// What it lends; memory first.
    offers: RefCell<Vec<Offer>>,
    /// Mount requests so far.
    mounts: Cell<u64>,
    has_moves: Cell<bool>,
    /// The life of the master in which the segment was emptied, to be given up for another one.
    must_renew: Cell<Option<u64>>,
    /// The master has broken off.
    hurry: Rc<Cell<bool>>,
    /// Has work for its disk done; nothing without one.
    signals: Rc<DiskNotify>,
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
        if self.size.has_disks {
            environment.spawn(self.clone().keep_disk(life.clone()));
        }
        let (node, link) = (self.clone(), self.link(&environment, life.client));
        environment.spawn(async move { node.carry(&life, &link).await });
    }

    fn link(&self, environment: &SimulatedEnvironment, client: Identity) -> Link {
        Link::new(environment, self.master.address(), client)
    }

    fn make_life(&self, environment: &SimulatedEnvironment) -> Result<Life, String> {
        let client = Identity(u128::from(self.random.next()));
        let table = Arc::new(SegmentTable::default());
        let (hurry, void) = (Rc::new(Cell::new(false)), VoidCopies::default());
        let (master, lost) = (self.master.address(), hurry.clone());
        let is_lost = move || lost.set(true);
        let ledger = Ledger::new(environment, client, move || vec![master], is_lost, &void, &table);
        let offer = self.make_segment(&table, &ledger)?;
        let server = SegmentShardServer::listen(environment, self.address(), table.clone(), client);
        Ok(Life {
            client,
            table,
            server: Rc::new(server.map_err(|error| error.to_string())?),
            mover: SegmentClient::new(environment.clone(), client, TRANSFER_DEADLINE),
            ledger,
            void,
            offers: RefCell::new(vec![offer]),
            mounts: Cell::new(0),
            has_moves: Cell::new(false),
            must_renew: Cell::new(None),
            hurry,
            signals: Rc::default(),
        })
    }

    fn make_segment(&self, table: &SegmentTable, ledger: &Rc<Ledger>) -> Result<Offer, String> {
        let (least, most) = self.size.segment_bytes;
        let bytes = self.random.between(least, most);
        let bytes = bytes.next_multiple_of(4096);
        let options = SegmentOptions { populate: Populate::OnRequest, ..SegmentOptions::default() };
        let segment = Segment::create(bytes, &options).map_err(|error| error.to_string())?;
        let id = Identity(u128::from(self.random.next()));
        table.insert(id, Arc::new(segment));
        ledger.add(id, bytes).map_err(|error| error.to_string())?;
        let host_id = format!("host-{}", self.host);
        Ok(Offer { id, name: self.name(), host_id, bytes, kind: SegmentKind::Memory })
    }

    /// Has another segment in place of the one that was emptied in this life of the master.
    pub(super) fn must_renew(&self, epoch: u64) {
        if let Some(life) = &*self.life.borrow() {
            life.must_renew.set(Some(epoch));
        }
    }

    /// Panics if records of its mover disagree.
    pub(super) fn check(&self) {
        if let Some(life) = &*self.life.borrow() {
            life.mover.check();
        }
    }

    /// Ends the run unless its ledger knows that its segment is empty.
    pub(super) fn check_nothing_is_kept(&self) {
        if let Some(life) = &*self.life.borrow() {
            let kept = life.ledger.objects();
            self.world.check(kept == 0, || {
                format!("Node {} would bring {kept} objects back to an empty store", self.host)
            });
        }
    }

    pub(super) fn stop(&self) {
        self.is_stopped.set(true);
        if let Some(life) = &*self.life.borrow() {
            life.ledger.stop();
            life.signals.stop();
            life.server.stop();
            life.mover.stop();
        }
    }

    /// Drops what refers to the world.
    pub(super) fn forget(&self) {
        self.life.take();
    }
}
