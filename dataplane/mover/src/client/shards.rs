//! Shards that move slices, each its share of a batch, and that servers may listen on.
//! Invariant: after [`Shards::stop`] no shard touches memory of a slice.

use super::peers::{PeerQueues, SliceOrder};
use crate::limits::{STOP_DEADLINE, TIMER_LOOK};
use crate::slice::Slice;
use perigee_schemas::Identity;
use perigee_shard::{
    Congestion, Environment, Mailbox, ShardEnvironment, ShardOf, ShardOptions, ShardStartError,
    Watchdog,
};
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

/// Where and how shards run.
#[derive(Clone, Debug)]
pub struct ShardsOptions {
    /// Name of their threads.
    pub name: &'static str,
    /// How many.
    pub count: usize,
    /// CPUs to pin them to, in order; shards beyond the list are not pinned.
    pub cpus: Vec<usize>,
    /// How long a shard polls after its last completion.
    pub poll: Duration,
    /// Of this process.
    pub identity: Identity,
    /// Congestion control of data connections.
    pub congestion: Congestion,
}

/// Running shards.
#[derive(Debug)]
pub struct Shards<S: Slice> {
    lanes: RwLock<Vec<ShardQueues<S>>>,
    next: AtomicUsize,
    watchdog: Mutex<Option<Watchdog>>,
}

type ShardQueues<S> = ShardOf<PeerQueues<ShardEnvironment, S>>;

/// Why shards could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShardsError {
    /// A shard could not be had.
    #[error(transparent)]
    Shard(#[from] ShardStartError<Infallible>),
    /// The thread that watches them cannot be started.
    #[error("The watchdog of data shards cannot start: {0}")]
    Watchdog(#[from] std::io::Error),
}

impl<S: Slice> Shards<S> {
    /// Starts them.
    ///
    /// # Errors
    /// An executor or thread cannot be started; the message says what to change.
    pub fn start(options: &ShardsOptions) -> Result<Self, ShardsError> {
        let lanes = (0..options.count.max(1)).map(|lane| start_shard(options, lane));
        let lanes: Vec<ShardQueues<S>> = lanes.collect::<Result<_, _>>()?;
        let mailboxes = lanes.iter().map(|lane| lane.mailbox()).collect();
        let watchdog = Watchdog::start(options.name, mailboxes)?;
        assert!(!lanes.is_empty(), "slices need a shard");
        Ok(Self {
            lanes: RwLock::new(lanes),
            next: AtomicUsize::new(0),
            watchdog: Mutex::new(Some(watchdog)),
        })
    }

    /// The way to each shard.
    pub fn mailboxes(&self) -> Vec<Mailbox> {
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner);
        lanes.iter().map(|lane| lane.mailbox()).collect()
    }

    /// Has something done at a moment of the monotonic clock; dropped if the shards are stopped
    /// before, or if it is not wanted any more.
    pub fn at(
        &self,
        due: Duration,
        is_wanted: impl Fn() -> bool + Send + 'static,
        work: impl FnOnce() + Send + 'static,
    ) {
        if let Some(first) = self.mailboxes().first() {
            first.post(Box::new(move |environment| {
                let clock = environment.clone();
                environment.spawn(async move {
                    while clock.now() < due {
                        clock.sleep(TIMER_LOOK.min(due - clock.now())).await;
                        if !is_wanted() {
                            return;
                        }
                    }
                    work();
                });
            }));
        }
    }

    /// Hands slices to the shards in turn; their batches learn the outcome.
    pub fn submit(&self, orders: impl Iterator<Item = SliceOrder<S>>) {
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner);
        if lanes.is_empty() {
            return;
        }
        let mut shares: Vec<Vec<SliceOrder<S>>> = lanes.iter().map(|_| Vec::new()).collect();
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        for (index, order) in orders.enumerate() {
            shares[(first + index) % lanes.len()].push(order);
        }
        for (lane, share) in lanes.iter().zip(shares) {
            if !share.is_empty() {
                lane.with(move |peers| peers.enqueue(share));
            }
        }
    }

    /// Breaks off what a canceled batch has under way; `batch` keeps its number from being another
    /// one's.
    pub fn cancel<B: Send + Sync + 'static>(&self, batch: &Arc<B>) {
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner);
        for lane in lanes.iter() {
            let batch = batch.clone();
            lane.with(move |peers| peers.cancel(Arc::as_ptr(&batch) as usize));
        }
    }

    /// Says so in the log if a shard takes no jobs: its callers can only wait on.
    pub fn complain_if_stalled(&self) {
        let watchdog = self.watchdog.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((shard, silent)) = watchdog.as_ref().and_then(Watchdog::stalled) {
            tracing::error!(shard, ?silent, "A transfer waits for a stalled shard");
        }
    }

    /// Breaks all connections and gives the executors back; slices in flight fail.
    pub fn stop(&self) {
        let lanes =
            std::mem::take(&mut *self.lanes.write().unwrap_or_else(PoisonError::into_inner));
        for lane in &lanes {
            lane.with(|peers| peers.stop());
        }
        for lane in lanes {
            if let Err(error) = lane.join(STOP_DEADLINE) {
                tracing::warn!(%error, "A data shard did not stop in time");
            }
        }
        *self.watchdog.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// What could not start leaves no shard at work.
impl<S: Slice> Drop for Shards<S> {
    fn drop(&mut self) {
        self.stop();
    }
}

fn start_shard<S: Slice>(
    options: &ShardsOptions,
    lane: usize,
) -> Result<ShardQueues<S>, ShardStartError<Infallible>> {
    let (identity, congestion) = (options.identity, options.congestion.clone());
    let placement = ShardOptions {
        name: options.name.to_owned(),
        cpu: options.cpus.get(lane).copied(),
        poll: options.poll,
    };
    let number = u16::try_from(lane).unwrap_or(u16::MAX);
    let make = async move |environment: &ShardEnvironment| {
        environment.set_congestion(congestion);
        let peers = PeerQueues::new(environment.clone(), identity, number);
        Ok((Rc::new(peers), ()))
    };
    let run = async |peers: Rc<PeerQueues<ShardEnvironment, S>>| peers.ended().await;
    let started = ShardOf::start(placement, STOP_DEADLINE, make, run);
    started.map(|(shard, ())| shard)
}
