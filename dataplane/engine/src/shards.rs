//! The engine's shards: each serves peers and moves its share of asynchronous batches.
//! Invariant: after [`Shards::stop`] no shard touches memory of a batch.

use crate::batch::Batch;
use crate::client::{Order, Peers};
use crate::error::EngineError;
use crate::limits::{STOP_DEADLINE, TIMER_LOOK};
use crate::segments::Segments;
use perigee_schemas::Identity;
use perigee_shard::{
    Congestion, Environment, Local, Mailbox, Shard, ShardEnvironment, ShardOptions, Watchdog,
};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

/// Where and how shards run.
#[derive(Clone, Debug)]
pub(crate) struct ShardsOptions {
    pub(crate) count: usize,
    pub(crate) poll: Duration,
    pub(crate) identity: Identity,
    pub(crate) congestion: Congestion,
}

/// Running shards.
#[derive(Debug)]
pub(crate) struct Shards {
    lanes: RwLock<Vec<Lane>>,
    next: AtomicUsize,
    watchdog: Mutex<Option<Watchdog>>,
}

#[derive(Debug)]
struct Lane {
    shard: Shard,
    peers: Local<Peers<ShardEnvironment>>,
}

impl Shards {
    pub(crate) fn start(options: &ShardsOptions) -> Result<Self, EngineError> {
        let lanes: Vec<Lane> = (0..options.count)
            .map(|_| Lane::start(options))
            .collect::<Result<_, _>>()?;
        let mailboxes = lanes.iter().map(|lane| lane.shard.mailbox()).collect();
        let watchdog = Watchdog::start("engine", mailboxes).map_err(cannot)?;
        Ok(Self {
            lanes: RwLock::new(lanes),
            next: AtomicUsize::new(0),
            watchdog: Mutex::new(Some(watchdog)),
        })
    }

    /// The way to each shard.
    pub(crate) fn mailboxes(&self) -> Vec<Mailbox> {
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner);
        lanes.iter().map(|lane| lane.shard.mailbox()).collect()
    }

    /// Has idle connections of peers that have gone closed from now on.
    pub(crate) fn tend(&self, segments: &Arc<Segments>) {
        let segments = Arc::downgrade(segments);
        if let Some(first) = self.mailboxes().first() {
            first.post(Box::new(move |environment| {
                environment.spawn(Segments::sweep(segments, environment.clone()));
            }));
        }
    }

    /// Has something done at a moment of the monotonic clock; dropped if the shards are stopped before, or if it is not
    /// wanted any more.
    pub(crate) fn at(
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
    pub(crate) fn submit(&self, orders: impl Iterator<Item = Order>) {
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner);
        if lanes.is_empty() {
            return;
        }
        let mut shares: Vec<Vec<Order>> = lanes.iter().map(|_| Vec::new()).collect();
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        for (index, order) in orders.enumerate() {
            shares[(first + index) % lanes.len()].push(order);
        }
        for (lane, share) in lanes.iter().zip(shares) {
            if !share.is_empty() {
                lane.with_peers(move |peers| peers.enqueue(share));
            }
        }
    }

    /// Breaks off what a canceled batch has under way.
    pub(crate) fn cancel(&self, batch: &Arc<Batch>) {
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner);
        for lane in lanes.iter() {
            let batch = batch.clone();
            lane.with_peers(move |peers| peers.cancel(Arc::as_ptr(&batch) as usize));
        }
    }

    /// Says so in the log if a shard takes no jobs: whoever waits for it can only wait on.
    pub(crate) fn complain_if_stalled(&self) {
        let watchdog = self.watchdog.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((shard, silent)) = watchdog.as_ref().and_then(Watchdog::stalled) {
            tracing::error!(shard, ?silent, "A transfer waits for a stalled shard");
        }
    }

    /// Breaks all connections and gives the executors back; slices in flight fail.
    pub(crate) fn stop(&self) {
        let lanes =
            std::mem::take(&mut *self.lanes.write().unwrap_or_else(PoisonError::into_inner));
        lanes
            .iter()
            .for_each(|lane| lane.with_peers(|peers| peers.stop()));
        for lane in lanes {
            if let Err(error) = lane.shard.join(STOP_DEADLINE) {
                tracing::warn!(%error, "A shard of the engine is left behind");
            }
        }
        *self.watchdog.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// An engine that could not start leaves no shard at work.
impl Drop for Shards {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Lane {
    fn start(options: &ShardsOptions) -> Result<Self, EngineError> {
        let (tell, told) = channel();
        let (identity, congestion) = (options.identity, options.congestion.clone());
        let placement = ShardOptions {
            poll: options.poll,
            ..ShardOptions::named("perigee-engine")
        };
        let shard = Shard::start(placement, move |environment| async move {
            environment.set_congestion(congestion);
            let peers = Rc::new(Peers::new(environment.clone(), identity));
            let name = environment.keep(peers.clone());
            let _ = tell.send(name);
            peers.ended().await;
            environment.give_up(name);
        })
        .map_err(cannot)?;
        let peers = told.recv_timeout(STOP_DEADLINE).map_err(cannot)?;
        Ok(Self { shard, peers })
    }

    /// A job that cannot be handed over is dropped, which fails the slices in it.
    fn with_peers(&self, work: impl FnOnce(&Rc<Peers<ShardEnvironment>>) + Send + 'static) {
        let peers = self.peers;
        self.shard.post(Box::new(move |environment| {
            if let Some(peers) = environment.local(peers) {
                work(&peers);
            }
        }));
    }
}

fn cannot(error: impl std::fmt::Display) -> EngineError {
    EngineError::Start(error.to_string())
}
