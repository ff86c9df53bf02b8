//! Transfers over TCP, on the side that asks: batches are planned into slices; a small batch for
//! one peer moves on the calling thread, others on shards.
//! Invariant: nothing of a batch is touched any more when its [`TcpBatch`] is over.

mod batch;
mod part;
mod plan;
mod slice;
mod staged;
mod targets;
pub(crate) mod tcp_batch;
mod trailer;

pub(crate) use batch::JobBatch;
pub(crate) use plan::{Content, FarJob, SlicePlan};
pub(crate) use slice::ObjectSlice;
pub(crate) use staged::{StagedPart, StagedSlice};
pub(crate) use targets::target_at;

use crate::error::TransferError;
use crate::limits::{CALLER_READ_BYTES_MAX, CALLER_WRITE_BYTES_MAX, SLOWEST_PER_BYTE_NS};
use perigee_mover::{BlockingCall, Shards, ShardsOptions, Slice, SliceOrder, Target, Terms};
use perigee_schemas::{Direction, Identity};
use perigee_shard::{Congestion, POLL_DEFAULT, monotonic};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use targets::Targets;

/// How a client moves bytes over TCP.
#[derive(Clone, Debug)]
pub(crate) struct TcpOptions {
    pub(crate) identity: Identity,
    /// Number of shards.
    pub(crate) shards: usize,
    /// Longest a batch may take, before the time its bytes get.
    pub(crate) deadline: Duration,
    pub(crate) congestion: Congestion,
    /// Whose bytes are moved.
    pub(crate) tenant: Arc<str>,
}

/// The connections of a client to the owners of segments.
#[derive(Debug)]
pub(crate) struct TcpClient {
    options: TcpOptions,
    shards: Shards<ObjectSlice>,
    targets: Targets,
    closed: AtomicBool,
}

impl TcpClient {
    /// Starts the shards.
    pub(crate) fn start(options: TcpOptions) -> Result<Self, TransferError> {
        let shards = Shards::start(&ShardsOptions {
            name: "perigee-client",
            count: options.shards,
            cpus: Vec::new(),
            poll: POLL_DEFAULT,
            identity: options.identity,
            congestion: options.congestion.clone(),
        })?;
        Ok(Self { options, shards, targets: Targets::default(), closed: AtomicBool::new(false) })
    }

    /// Gives slices to the shards; their batches learn the outcome. Names are resolved on this
    /// thread, and what needs no waiting goes first.
    fn hand_over(&self, slices: Vec<ObjectSlice>, terms: Terms) {
        let (mut ready, mut waiting) = (Vec::with_capacity(slices.len()), Vec::new());
        for slice in slices {
            match self.targets.at_hand(slice.endpoint()) {
                Some(target) => ready.push(order(target, slice, terms)),
                None => waiting.push(slice),
            }
        }
        self.shards.submit(ready.into_iter());
        for slice in waiting {
            match self.targets.resolve(slice.endpoint()) {
                Ok(target) => self.shards.submit(std::iter::once(order(target, slice, terms))),
                Err(error) => slice.fail(&error),
            }
        }
    }

    /// Moves slices for one peer on the calling thread; their batch learns the outcome.
    fn move_here(&self, slices: Vec<ObjectSlice>, terms: Terms) {
        let Some(first) = slices.first() else {
            return;
        };
        let target = match self.targets.resolve(first.endpoint()) {
            Ok(target) => target,
            Err(error) => return slices.into_iter().for_each(|slice| slice.fail(&error)),
        };
        let left = terms.due.saturating_sub(monotonic());
        let call = BlockingCall {
            target: &target,
            identity: self.options.identity,
            congestion: &self.options.congestion,
            with_checksum: terms.with_checksum,
            deadline: Instant::now() + left,
            length: terms.length,
            is_closed: &|| self.closed.load(Ordering::Acquire),
        };
        call.run(slices.into_iter());
    }

    /// Breaks off what a batch has under way.
    pub(crate) fn cancel(&self, batch: &Arc<JobBatch>) {
        batch.cancel();
        self.shards.cancel(batch);
    }

    /// Says so in the log if a shard takes no jobs.
    pub(crate) fn complain_if_stalled(&self) {
        self.shards.complain_if_stalled();
    }

    /// Closes idle connections of owners that have gone.
    pub(crate) fn sweep(&self) {
        self.targets.sweep();
    }

    /// Breaks all connections and gives the executors back; slices under way fail.
    pub(crate) fn stop(&self) {
        self.closed.store(true, Ordering::Release);
        self.shards.stop();
        self.targets.close();
    }
}

/// When slices that are submitted now must be over: their time grows with their bytes, so that a
/// large batch on a slow network is not cut short.
pub(crate) fn terms(now: Duration, deadline: Duration, slices: &[ObjectSlice]) -> Terms {
    let bytes: u64 = slices.iter().map(Slice::bytes).sum();
    let length = deadline + Duration::from_nanos(bytes.saturating_mul(SLOWEST_PER_BYTE_NS));
    Terms {
        submitted: now,
        due: now + length,
        length,
        // Objects have sums of their own, which their readers check.
        with_checksum: false,
    }
}

/// Whether the calling thread moves a batch best: all of it goes to one peer, and the hand-over to
/// a shard would cost more than several connections gain.
fn suits_the_caller(slices: &[ObjectSlice]) -> bool {
    let Some(first) = slices.first() else {
        return false;
    };
    let limit = match first.header().direction {
        Direction::Read => CALLER_READ_BYTES_MAX,
        Direction::Write => CALLER_WRITE_BYTES_MAX,
    };
    let bytes: u64 = slices.iter().map(Slice::bytes).sum();
    let endpoint = first.endpoint();
    bytes <= limit && slices.iter().all(|slice| slice.endpoint() == endpoint)
}

fn order(target: Arc<Target>, slice: ObjectSlice, terms: Terms) -> SliceOrder<ObjectSlice> {
    SliceOrder { target, slice, terms }
}
