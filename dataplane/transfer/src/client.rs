//! Transfers over TCP, on the side that asks: batches are planned into slices, slices go to shards, shards keep a few
//! connections to each peer.

mod batch;
mod exchange;
mod names;
mod peer;
mod plan;
mod slice;

pub(crate) use batch::Batch;
pub(crate) use names::Names;
pub(crate) use peer::{Addressed, Peers};
pub(crate) use plan::{Content, FarJob, Memory, Plan};

use crate::error::TransferError;
use crate::limits::{CONNECT_DEADLINE, STOP_DEADLINE};
use perigee_schemas::Identity;
use perigee_shard::{
    Congestion, Local, Shard, ShardEnvironment, ShardOptions, Watchdog, monotonic,
};
use slice::Slice;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// The shards that move slices over TCP.
#[derive(Debug)]
pub(crate) struct TcpClient {
    lanes: RwLock<Vec<Lane>>,
    next: AtomicUsize,
    names: Arc<Names>,
    watchdog: Watchdog,
}

#[derive(Debug)]
struct Lane {
    shard: Shard,
    peers: Local<Peers<ShardEnvironment>>,
}

impl TcpClient {
    /// Starts `count` shards.
    pub(crate) fn start(
        count: usize,
        identity: Identity,
        deadline: Duration,
        congestion: &Congestion,
    ) -> Result<Self, TransferError> {
        let start = |lane| Lane::start(lane, identity, deadline, congestion.clone());
        let lanes = (0..count.max(1)).map(|lane| start(u16::try_from(lane).unwrap_or(u16::MAX)));
        let lanes = lanes.collect::<Result<Vec<_>, _>>()?;
        let mailboxes = lanes.iter().map(|lane| lane.shard.mailbox()).collect();
        let watchdog = Watchdog::start("transfer", mailboxes)
            .map_err(|error| TransferError::Engine(error.to_string()))?;
        Ok(Self {
            lanes: RwLock::new(lanes),
            next: AtomicUsize::new(0),
            names: Names::new(CONNECT_DEADLINE),
            watchdog,
        })
    }

    /// The first shard that takes no jobs, and for how long it has taken none.
    pub(crate) fn stalled(&self) -> Option<(usize, Duration)> {
        self.watchdog.stalled()
    }

    /// Hands slices to the shards in turn; their batches learn the outcome. Names are resolved on this thread, and what
    /// needs no waiting goes first.
    pub(crate) fn submit(&self, slices: Vec<Slice>) {
        let (mut ready, mut waiting) = (Vec::with_capacity(slices.len()), Vec::new());
        for slice in slices {
            match self.names.at_hand(&slice.endpoint) {
                Some(address) => ready.push(Addressed { slice, address }),
                None => waiting.push(slice),
            }
        }
        self.hand_over(ready);
        for slice in waiting {
            match self.names.resolve(&slice.endpoint) {
                Ok(address) => self.hand_over(vec![Addressed { slice, address }]),
                Err(reason) => {
                    let peer = slice.endpoint.to_string();
                    slice.fail(&TransferError::Unreachable { peer, reason });
                }
            }
        }
    }

    fn hand_over(&self, slices: Vec<Addressed>) {
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner);
        if lanes.is_empty() {
            return;
        }
        let mut shares: Vec<Vec<Addressed>> = lanes.iter().map(|_| Vec::new()).collect();
        let first = self.next.fetch_add(slices.len(), Ordering::Relaxed);
        for (index, slice) in slices.into_iter().enumerate() {
            shares[(first + index) % lanes.len()].push(slice);
        }
        for (lane, share) in lanes
            .iter()
            .zip(shares)
            .filter(|(_, share)| !share.is_empty())
        {
            lane.submit(share);
        }
    }

    /// Breaks all connections and gives the executors back; slices in flight fail.
    pub(crate) fn stop(&self) {
        let lanes =
            std::mem::take(&mut *self.lanes.write().unwrap_or_else(PoisonError::into_inner));
        for lane in &lanes {
            let peers = lane.peers;
            lane.shard.post(Box::new(move |environment| {
                if let Some(peers) = environment.local(peers) {
                    peers.stop();
                }
            }));
        }
        for lane in lanes {
            if let Err(error) = lane.shard.join(STOP_DEADLINE) {
                tracing::warn!(%error, "A transfer shard is left behind");
            }
        }
    }
}

impl Lane {
    fn start(
        lane: u16,
        identity: Identity,
        deadline: Duration,
        congestion: Congestion,
    ) -> Result<Self, TransferError> {
        let (tell, told) = channel();
        let shard = Shard::start(
            ShardOptions::named("perigee-client"),
            move |environment| async move {
                environment.set_congestion(congestion);
                let peers = Rc::new(Peers::new(environment.clone(), lane, identity, deadline));
                let name = environment.keep(peers.clone());
                let _ = tell.send(name);
                peers.ended().await;
                environment.give_up(name);
            },
        )
        .map_err(|error| TransferError::Engine(error.to_string()))?;
        let peers = told
            .recv_timeout(STOP_DEADLINE)
            .map_err(|_| TransferError::Engine("a transfer shard did not come up".to_owned()))?;
        Ok(Self { shard, peers })
    }

    /// A slice that cannot be handed over is dropped, which fails it.
    fn submit(&self, slices: Vec<Addressed>) {
        let (peers, submitted) = (self.peers, monotonic());
        self.shard.post(Box::new(move |environment| {
            if let Some(peers) = environment.local(peers) {
                peers.enqueue(slices, submitted);
            }
        }));
    }
}
