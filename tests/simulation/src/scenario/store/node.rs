//! A node: a segment that is served and a heart that beats. Invariant: a process that begins again has another segment.

use super::master::Master;
use crate::environment::SimulatedEnvironment;
use crate::network::HostId;
use crate::random::Random;
use crate::world::World;
use perigee_master::SegmentSpec;
use perigee_memory::Segment;
use perigee_memory::segment::SegmentOptions;
use perigee_schemas::Identity;
use perigee_shard::Environment;
use perigee_transfer::{SegmentTable, ShardServer};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const PORT: u16 = 7200;
const SEGMENT_BYTES: (u64, u64) = (512 << 10, 2 << 20);
const HEARTBEAT: Duration = Duration::from_secs(1);

pub(super) struct Node {
    world: Rc<World>,
    master: Rc<Master>,
    random: Random,
    host: HostId,
    serving: RefCell<Option<Rc<ShardServer<SimulatedEnvironment>>>>,
    is_stopped: Cell<bool>,
}

impl Node {
    pub(super) fn new(world: &Rc<World>, master: &Rc<Master>) -> Self {
        Self {
            world: world.clone(),
            master: master.clone(),
            random: world.fork_random(),
            host: world.add_host(),
            serving: RefCell::default(),
            is_stopped: Cell::new(false),
        }
    }

    pub(super) fn host(&self) -> HostId {
        self.host
    }

    /// A process begins, with an empty segment.
    pub(super) fn begin(self: &Rc<Self>) {
        let environment = self.world.environment(self.host);
        let bytes = self
            .random
            .between(SEGMENT_BYTES.0, SEGMENT_BYTES.1)
            .next_multiple_of(4096);
        let options = SegmentOptions {
            populate: perigee_memory::segment::Populate::OnRequest,
            ..SegmentOptions::default()
        };
        let segment = match Segment::create(bytes, &options) {
            Ok(segment) => Arc::new(segment),
            Err(error) => return self.world.violate(error.to_string()),
        };
        let id = Identity(u128::from(self.random.next()));
        let table = Arc::new(SegmentTable::default());
        table.insert(id, segment);
        let port = SocketAddr::new(environment.address(), PORT);
        let server = match ShardServer::listen(&environment, port, table, id) {
            Ok(server) => Rc::new(server),
            Err(error) => return self.world.violate(error.to_string()),
        };
        *self.serving.borrow_mut() = Some(server.clone());
        let spec = SegmentSpec {
            id: id.0,
            name: port.to_string(),
            client: u128::from(self.random.next()),
            bytes,
            base: 0,
            endpoint: port.to_string(),
            host_id: format!("host-{}", self.host),
            rendezvous: String::new(),
            protocol: "tcp".to_owned(),
        };
        environment.spawn(async move { server.serve().await });
        let node = self.clone();
        environment.spawn(async move { node.beat(spec).await });
    }

    async fn beat(&self, spec: SegmentSpec) {
        while !self.is_stopped.get() {
            if self.master.ping(self.host, spec.client).await == Some(true) {
                self.master.mount(self.host, spec.clone()).await;
            }
            self.world.sleep(HEARTBEAT).await;
        }
    }

    pub(super) fn stop(&self) {
        self.is_stopped.set(true);
        if let Some(server) = &*self.serving.borrow() {
            server.stop();
        }
    }

    /// Drops what refers to the world.
    pub(super) fn forget(&self) {
        self.serving.take();
    }
}
