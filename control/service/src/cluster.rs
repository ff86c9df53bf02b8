//! The master's shards as one thing: starting them, asking them from other threads, stopping them.

mod confirm;
mod control_shard;
mod drains;
mod gather;
mod give_back;
mod lending;
mod list_page;
mod listings;
mod log_budget;
mod merge;
mod registry_calls;
mod scatter;
mod segment_use;
mod shortage;
mod tasks;

pub(crate) use control_shard::ControlShard;
pub(crate) use lending::Startable;
pub(crate) use list_page::Cursor;
pub(crate) use listings::Listings;
pub(crate) use merge::{Codes, Placements, Replicas};
pub(crate) use scatter::Share;
pub(crate) use segment_use::{SegmentUse, combine};

use crate::config::{AllocationStrategy, MasterConfig, TaskConfig};
use crate::rpc::{RpcPort, RpcService, frame_budget, port_options};
use perigee_master::{
    GroupLedger, Registry, RegistrySettings, Shard as KeyShard, ShardSettings, Strategy,
    TaskSettings,
};
use perigee_metrics::MasterCells;
use perigee_port::{FrameBudget, Port};
use perigee_shard::{
    Environment, ExecutorError, Local, Mailbox, ShardEnvironment, ShardOf, ShardOptions,
    SocketError, StartError, Watchdog,
};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Longest wait for shards to come up, to stop, or to answer another thread.
const SHARD_DEADLINE: Duration = Duration::from_secs(5);
/// How long a taken RPC port is tried again.
const PORT_PATIENCE: Duration = Duration::from_secs(2);
/// Pause between those tries.
const PORT_PAUSE: Duration = Duration::from_millis(50);

/// Why the master's shards could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// No executor is to be had.
    #[error(transparent)]
    Executor(#[from] ExecutorError),
    /// The RPC port cannot be listened on.
    #[error("RPC port: {0}")]
    Socket(#[from] SocketError),
    /// A shard did not report in time.
    #[error("A shard did not come up within {SHARD_DEADLINE:?}")]
    Late,
    /// No thread is to be had.
    #[error("Cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// No random numbers are to be had.
    #[error("The system gives no random numbers: {0}")]
    Random(getrandom::Error),
}

/// Where a shard is and what it counts.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) mailbox: Mailbox,
    pub(crate) name: Local<ControlShard>,
    pub(crate) cells: Arc<MasterCells>,
}

/// The running shards.
#[derive(Debug)]
pub struct Cluster {
    shards: Mutex<Vec<ShardOf<RpcPort>>>,
    members: Arc<[Member]>,
    watchdog: Watchdog,
    address: SocketAddr,
    epoch: u64,
}

/// What a shard tells when it has come up.
type Report = (SocketAddr, Local<ControlShard>);

/// What each shard is started with.
struct ShardStart {
    keys: KeyShard,
    /// On the first shard.
    registry: Option<Registry>,
    address: SocketAddr,
    cells: Arc<MasterCells>,
    expiry_listener: Option<Sender<Vec<String>>>,
    budget: FrameBudget,
    listings: Listings,
    idle: Option<Duration>,
}

impl Cluster {
    /// Starts the shards and listens on the RPC port. `expiry_listener` is told names of segments of expired clients that no
    /// mounted segment has.
    ///
    /// # Errors
    /// The port is taken, or no executor can start; the message says what to change.
    pub fn start(
        config: &MasterConfig,
        address: SocketAddr,
        expiry_listener: Option<Sender<Vec<String>>>,
    ) -> Result<Self, ClusterError> {
        let epoch = getrandom::u64().map_err(ClusterError::Random)?;
        let count = config.rpc.shards.max(1);
        let groups = GroupLedger::new(count);
        let (budget, listings) = (frame_budget(), Listings::default());
        let mut shards = Vec::new();
        let mut members = Vec::new();
        let mut address = address;
        for index in 0..count {
            let cells = Arc::new(MasterCells::default());
            let start = ShardStart {
                keys: KeyShard::sharing(settings(config, index, count, epoch), &groups),
                registry: (index == 0).then(|| Registry::new(registry_settings(config))),
                address,
                cells: cells.clone(),
                expiry_listener: expiry_listener.clone(),
                budget: budget.clone(),
                listings: listings.clone(),
                idle: config.rpc.idle_timeout_ms.map(Duration::from_millis),
            };
            let (shard, (bound, name)) = start_shard(start, epoch)?;
            address = bound;
            members.push(Member {
                mailbox: shard.mailbox(),
                name,
                cells,
            });
            shards.push(shard);
        }
        let mailboxes = members.iter().map(|member: &Member| member.mailbox.clone());
        let watchdog =
            Watchdog::start("master", mailboxes.collect()).map_err(ClusterError::Thread)?;
        let cluster = Self {
            shards: Mutex::new(shards),
            members: members.into(),
            watchdog,
            address,
            epoch,
        };
        cluster.introduce();
        Ok(cluster)
    }

    /// The address of the RPC port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The first shard that takes no jobs any more, and for how long.
    pub(crate) fn stalled(&self) -> Option<(usize, Duration)> {
        self.watchdog.stalled()
    }

    /// Random number of this master's life.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What each shard counts.
    pub(crate) fn shared_cells(&self) -> Vec<Arc<MasterCells>> {
        self.members
            .iter()
            .map(|member| member.cells.clone())
            .collect()
    }

    /// Runs `work` on every shard and collects the results in order; `None` where a shard did not answer in time.
    pub(crate) fn ask_all<R: Send + 'static>(
        &self,
        work: impl Fn(&ControlShard) -> R + Clone + Send + 'static,
    ) -> Vec<Option<R>> {
        let waiting: Vec<_> = self
            .members
            .iter()
            .map(|member| post(member, work.clone()))
            .collect();
        waiting
            .into_iter()
            .map(|answer| answer.recv_timeout(SHARD_DEADLINE).ok())
            .collect()
    }

    /// Runs `work` on the shard that keeps the registry.
    pub(crate) fn ask_first<R: Send + 'static>(
        &self,
        work: impl FnOnce(&ControlShard) -> R + Send + 'static,
    ) -> Option<R> {
        post(self.members.first()?, work)
            .recv_timeout(SHARD_DEADLINE)
            .ok()
    }

    /// Number of shards.
    pub(crate) fn count(&self) -> usize {
        self.members.len()
    }

    /// Runs `work` on one shard.
    pub(crate) fn ask<R: Send + 'static>(
        &self,
        index: usize,
        work: impl FnOnce(&ControlShard) -> R + Send + 'static,
    ) -> Option<R> {
        post(self.members.get(index)?, work)
            .recv_timeout(SHARD_DEADLINE)
            .ok()
    }

    /// Runs asynchronous `work` on the shard that keeps the registry.
    pub(crate) fn run_first<R: Send + 'static, W: Future<Output = R> + 'static>(
        &self,
        work: impl FnOnce(Rc<ControlShard>) -> W + Send + 'static,
    ) -> Option<R> {
        let member = self.members.first()?;
        let (send, receive) = channel();
        let name = member.name;
        member
            .mailbox
            .post(Box::new(move |environment: &ShardEnvironment| {
                if let Some(shard) = environment.local(name) {
                    let work = work(shard);
                    environment.spawn(async move {
                        let _ = send.send(work.await);
                    });
                }
            }));
        receive.recv_timeout(SHARD_DEADLINE).ok()
    }

    /// Breaks all connections and ends the shards. Later questions find nobody.
    pub fn stop(&self) {
        let shards =
            std::mem::take(&mut *self.shards.lock().unwrap_or_else(PoisonError::into_inner));
        for shard in &shards {
            shard.with(|port| port.stop());
        }
        for shard in shards {
            if let Err(error) = shard.join(SHARD_DEADLINE) {
                tracing::warn!(%error, "A shard is left behind");
            }
        }
    }

    fn introduce(&self) {
        for member in self.members.iter() {
            let (name, members) = (member.name, self.members.clone());
            member.mailbox.post(Box::new(move |environment| {
                if let Some(shard) = environment.local(name) {
                    shard.meet(members);
                }
            }));
        }
    }
}

fn post<R: Send + 'static>(
    member: &Member,
    work: impl FnOnce(&ControlShard) -> R + Send + 'static,
) -> Receiver<R> {
    let (send, receive) = channel();
    let name = member.name;
    member
        .mailbox
        .post(Box::new(move |environment: &ShardEnvironment| {
            if let Some(shard) = environment.local(name) {
                let _ = send.send(work(&shard));
            }
        }));
    receive
}

fn start_shard(start: ShardStart, epoch: u64) -> Result<(ShardOf<RpcPort>, Report), ClusterError> {
    let make = async move |environment: &ShardEnvironment| {
        let shared = start.keys.settings().count > 1;
        let state = Rc::new(ControlShard::new(
            environment.clone(),
            start.keys,
            start.registry,
            start.cells,
            epoch,
            start.expiry_listener,
            start.listings,
        ));
        let name = environment.keep(state.clone());
        let service = || RpcService::new(&state, name, &start.budget);
        let port = match listen(environment, (start.address, shared), start.idle, service).await {
            Ok(port) => port,
            Err(error) => {
                environment.give_up(name);
                return Err(error);
            }
        };
        environment.spawn(async move { state.tick().await });
        let address = port.address();
        Ok((port, (address, name)))
    };
    let options = ShardOptions::named("perigee-master");
    Ok(ShardOf::start(options, SHARD_DEADLINE, make, serve)?)
}

async fn serve(port: Rc<RpcPort>) {
    port.serve().await;
    let service = port.service();
    service.shard.stop();
    service.shard.environment.give_up(service.name);
}

fn registry_settings(config: &MasterConfig) -> RegistrySettings {
    RegistrySettings {
        client_ttl_ms: config.client_ttl_ms,
        confirms: config.rpc.verify_segments,
        tasks: task_settings(&config.tasks),
    }
}

fn task_settings(config: &TaskConfig) -> TaskSettings {
    TaskSettings {
        pending_max: config.pending_max,
        processing_max: config.processing_max,
        finished_max: config.finished_max,
        pending_timeout_ms: config.pending_timeout_ms,
        processing_timeout_ms: config.processing_timeout_ms,
    }
}

fn settings(config: &MasterConfig, index: usize, count: usize, epoch: u64) -> ShardSettings {
    ShardSettings {
        index,
        count,
        lease_ttl_ms: config.leases.read_ttl_ms,
        soft_pin_ttl_ms: config.leases.soft_pin_ttl_ms,
        soft_pin_ttl_max_ms: config.leases.soft_pin_ttl_ms_max,
        evict_soft_pinned: config.eviction.allow_soft_pinned,
        eviction_ratio: config.eviction.ratio,
        watermark_ratio: config.eviction.high_watermark_ratio,
        put_discard_timeout_ms: config.writes.discard_timeout_ms,
        put_release_timeout_ms: config.writes.release_timeout_ms,
        task_retries_max: config.tasks.retries_max,
        strategy: match config.allocation {
            AllocationStrategy::Random => Strategy::Random,
            AllocationStrategy::LocalFirst => Strategy::LocalFirst,
            AllocationStrategy::FreeRatioFirst => Strategy::FreeRatioFirst,
        },
        seed: epoch,
        // The high bits are random and the low 40 count, so generations of two lives of the master meet only by a
        // chance of one in 2^23; the bit that is always set keeps every generation from being 0.
        generation_base: epoch & !0xff_ffff_ffff | 1 << 40,
    }
}

/// The kernel frees the port of a killed master a moment after the process is gone: a supervisor that restarts at once
/// must not fail for that.
async fn listen(
    environment: &ShardEnvironment,
    place: (SocketAddr, bool),
    idle: Option<Duration>,
    service: impl Fn() -> RpcService,
) -> Result<Rc<RpcPort>, SocketError> {
    let deadline = environment.now() + PORT_PATIENCE;
    loop {
        match Port::listen(environment, place, port_options(idle), service()) {
            Err(error) if error.is_address_in_use() && environment.now() < deadline => {
                environment.sleep(PORT_PAUSE).await;
            }
            other => return other,
        }
    }
}

impl From<StartError<SocketError>> for ClusterError {
    fn from(error: StartError<SocketError>) -> Self {
        match error {
            StartError::Executor(error) => Self::Executor(error),
            StartError::Value(error) => Self::Socket(error),
            StartError::Late(_) => Self::Late,
        }
    }
}
