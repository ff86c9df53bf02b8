//! The master's shards as one thing: starting them, asking them from other threads, stopping them.

mod addresses;
mod confirm;
pub(crate) mod control_shard;
mod copy_turns;
mod disk_wait;
mod disks;
mod drains;
pub(crate) mod followers;
mod following;
mod gather;
mod gather_turn;
mod give_back;
mod lending;
mod list_page;
mod listings;
mod log_budget;
mod log_pause;
mod master_shard;
mod merge;
mod rebuild;
mod rebuild_window;
mod registry_calls;
mod repair_notify;
mod repairs;
mod scatter;
mod segment_use;
mod settings;
mod shortage;
mod tasks;
mod tenant_room;
mod unsaved;
mod void_wait;

pub(crate) use control_shard::ControlShard;
pub use control_shard::Member;
pub(crate) use disks::FoundCopies;
pub(crate) use lending::Startable;
pub(crate) use list_page::Cursor;
pub use master_shard::{MasterShard, ShardStart};
pub(crate) use merge::{Placements, Replicas, StatusCodes};
pub(crate) use registry_calls::{BeatReport, MountRequest};
pub(crate) use scatter::KeySubset;
pub(crate) use segment_use::{SegmentNames, SegmentPage, SegmentUsage};
use settings::epoch_of_start;

use crate::config::MasterConfig;
use crate::quotas::{QuotaFileError, TenantQuotas};
use perigee_events::{EventPublisher, EventsError};
use perigee_metrics::MasterCells;
use perigee_shard::{
    Environment, ExecutorError, ShardEnvironment, ShardOf, ShardOptions, ShardStartError,
    SocketError, Watchdog,
};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Longest wait for shards to come up, to stop, or to answer another thread.
const SHARD_DEADLINE: Duration = Duration::from_secs(5);
/// Pause between ticks of a shard's state machines.
const TICK: Duration = Duration::from_millis(10);

/// Why the master's shards could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The executor cannot be started.
    #[error(transparent)]
    Executor(#[from] ExecutorError),
    /// The RPC port cannot be listened on.
    #[error("RPC port: {0}")]
    Socket(#[from] SocketError),
    /// KV events cannot be published.
    #[error(transparent)]
    Events(#[from] EventsError),
    /// Quotas of tenants cannot be read.
    #[error(transparent)]
    Quotas(#[from] QuotaFileError),
    /// A shard did not report in time.
    #[error("A shard did not come up within {SHARD_DEADLINE:?}")]
    Late,
    /// The thread cannot be started.
    #[error("Cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// The system gives no random numbers.
    #[error("The system gives no random numbers: {0}")]
    Random(getrandom::Error),
}

/// The running shards.
#[derive(Debug)]
pub struct Cluster {
    shards: Mutex<Vec<ShardOf<MasterShard>>>,
    members: Arc<[Member]>,
    watchdog: Watchdog,
    address: SocketAddr,
    epoch: u64,
    events: Option<EventPublisher>,
    quotas: Option<TenantQuotas>,
}

impl Cluster {
    /// Starts the shards and listens on the RPC port. `expiry_listener` gets names of segments of
    /// expired clients that no mounted segment has.
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
        let events = config.events.as_ref();
        let events = events.map(|settings| EventPublisher::start(settings, count)).transpose()?;
        let watermark_ratio = config.eviction.high_watermark_ratio;
        let quotas = config.quota_file.as_deref();
        let quotas = quotas.map(|path| TenantQuotas::open(path, watermark_ratio)).transpose()?;
        let mut shards = Vec::new();
        let mut members = Vec::new();
        let mut address = address;
        let starts =
            ShardStart::all(config, epoch, epoch_of_start(), TICK, expiry_listener.as_ref());
        for (index, mut start) in starts.into_iter().enumerate() {
            if let Some(queue) = events.as_ref().and_then(|events| events.queue(index)) {
                start.report_to(queue);
            }
            if let Some(quotas) = &quotas {
                start.charge_to(quotas.ledger());
            }
            let (shard, bound, member) = start_shard(start, address)?;
            address = bound;
            members.push(member);
            shards.push(shard);
        }
        debug_assert_eq!(members.len(), count, "each shard has started");
        let mailboxes = members.iter().map(|member: &Member| member.mailbox.clone());
        let watchdog =
            Watchdog::start("master", mailboxes.collect()).map_err(ClusterError::Thread)?;
        let cluster = Self {
            shards: Mutex::new(shards),
            members: members.into(),
            watchdog,
            address,
            epoch,
            events,
            quotas,
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

    /// Where changes of keys are published.
    pub(crate) fn events(&self) -> Option<&EventPublisher> {
        self.events.as_ref()
    }

    /// What tenants may hold.
    pub(crate) fn quotas(&self) -> Option<&TenantQuotas> {
        self.quotas.as_ref()
    }

    /// Random number of this master's life.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What each shard counts.
    pub(crate) fn shared_cells(&self) -> Vec<Arc<MasterCells>> {
        self.members.iter().map(|member| member.cells.clone()).collect()
    }

    /// Runs `work` on every shard and collects the results in order; `None` where a shard did not
    /// answer in time.
    pub(crate) fn ask_all<R: Send + 'static>(
        &self,
        work: impl Fn(&ControlShard) -> R + Clone + Send + 'static,
    ) -> Vec<Option<R>> {
        let waiting: Vec<_> =
            self.members.iter().map(|member| post(member, work.clone())).collect();
        waiting.into_iter().map(|answer| answer.recv_timeout(SHARD_DEADLINE).ok()).collect()
    }

    /// Runs `work` on the shard that keeps the registry.
    pub(crate) fn ask_first<R: Send + 'static>(
        &self,
        work: impl FnOnce(&ControlShard) -> R + Send + 'static,
    ) -> Option<R> {
        post(self.members.first()?, work).recv_timeout(SHARD_DEADLINE).ok()
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
        post(self.members.get(index)?, work).recv_timeout(SHARD_DEADLINE).ok()
    }

    /// Runs asynchronous `work` on the shard that keeps the registry.
    pub(crate) fn run_first<R: Send + 'static, W: Future<Output = R> + 'static>(
        &self,
        work: impl FnOnce(Rc<ControlShard>) -> W + Send + 'static,
    ) -> Option<R> {
        let member = self.members.first()?;
        let (send, receive) = channel();
        let name = member.name;
        member.mailbox.post(Box::new(move |environment: &ShardEnvironment| {
            if let Some(shard) = environment.local(name) {
                let work = work(shard);
                environment.spawn(async move {
                    let _ = send.send(work.await);
                });
            }
        }));
        receive.recv_timeout(SHARD_DEADLINE).ok()
    }

    /// Breaks all connections and ends the shards. Later questions find no shard.
    pub fn stop(&self) {
        let shards =
            std::mem::take(&mut *self.shards.lock().unwrap_or_else(PoisonError::into_inner));
        for shard in &shards {
            shard.with(|shard| shard.stop());
        }
        for shard in shards {
            if let Err(error) = shard.join(SHARD_DEADLINE) {
                tracing::warn!(%error, "A shard of the master did not stop in time");
            }
        }
        if let Some(events) = &self.events {
            events.stop();
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
    member.mailbox.post(Box::new(move |environment: &ShardEnvironment| {
        if let Some(shard) = environment.local(name) {
            let _ = send.send(work(&shard));
        }
    }));
    receive
}

fn start_shard(
    start: ShardStart,
    address: SocketAddr,
) -> Result<(ShardOf<MasterShard>, SocketAddr, Member), ClusterError> {
    let make = async move |environment: &ShardEnvironment| {
        let shard = MasterShard::start(environment, start, address).await?;
        let report = (shard.address(), shard.member());
        Ok::<_, SocketError>((shard, report))
    };
    let serve = async |shard: Rc<MasterShard>| shard.serve().await;
    let options = ShardOptions::named("perigee-master");
    let (shard, (bound, member)) = ShardOf::start(options, SHARD_DEADLINE, make, serve)?;
    Ok((shard, bound, member))
}

impl From<ShardStartError<SocketError>> for ClusterError {
    fn from(error: ShardStartError<SocketError>) -> Self {
        match error {
            ShardStartError::Executor(error) => Self::Executor(error),
            ShardStartError::Value(error) => Self::Socket(error),
            ShardStartError::Late(_) => Self::Late,
        }
    }
}
