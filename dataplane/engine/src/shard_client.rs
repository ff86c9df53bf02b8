//! Transfers of one shard over any environment: batches, slices, connections and deadlines as a
//! [`TransferEngine`] runs them, without its threads, discovery and rails. Simulation drives this
//! under a seed.
//! Invariant: nothing is decided here; requests become the same slices on the same connections as
//! in an engine.
//!
//! [`TransferEngine`]: crate::TransferEngine

use crate::batch::Batch;
use crate::error::EngineError;
use crate::limits::SLOWEST_PER_BYTE_NS;
use crate::plan::BatchPlan;
use crate::request::{RequestStatus, TransferRequest};
use crate::slice::RequestSlice;
use perigee_mover::{Dialect, PeerAddress, PeerQueues, SliceOrder, Target, Terms};
use perigee_schemas::Identity;
use perigee_shard::Environment;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A peer in one of its runs.
#[derive(Clone, Debug)]
pub struct ShardTarget(Arc<Target>);

impl ShardTarget {
    /// The peer at an address whose run has this identity.
    pub fn new(address: SocketAddr, life: Identity) -> Self {
        let dialect = Dialect::Own { epoch: Some(life.low()) };
        let addresses = Box::new([PeerAddress { address, counters: Arc::default() }]);
        let name = address.to_string();
        Self(Arc::new(Target::new(&name, addresses, dialect)))
    }
}

/// One shard's connections to other engines.
pub struct ShardClient<E: Environment> {
    environment: E,
    peers: Rc<PeerQueues<E, RequestSlice>>,
    with_checksum: bool,
}

impl<E: Environment> ShardClient<E> {
    /// A client without connections. `with_checksum` sums every piece on both sides.
    pub fn new(environment: E, identity: Identity, with_checksum: bool) -> Self {
        let peers = Rc::new(PeerQueues::new(environment.clone(), identity, 0));
        Self { environment, peers, with_checksum }
    }

    /// Begins a batch, which is over after `deadline` and a nanosecond per byte.
    ///
    /// # Errors
    /// A request that cannot be carried out as it is.
    ///
    /// # Safety
    /// The local ranges must stay valid, those of writes unchanged and those of reads unused, until
    /// the batch is over.
    pub unsafe fn submit(
        &self,
        target: &ShardTarget,
        requests: &[TransferRequest],
        deadline: Duration,
    ) -> Result<SubmittedBatch, EngineError> {
        let plan = BatchPlan::new(requests)?;
        let bytes: u64 = requests.iter().map(|request| request.bytes).sum();
        let length = deadline + Duration::from_nanos(bytes.saturating_mul(SLOWEST_PER_BYTE_NS));
        let submitted = self.environment.now();
        let terms =
            Terms { submitted, due: submitted + length, length, with_checksum: self.with_checksum };
        let pieces = plan.pieces.into_iter();
        let batch = Arc::new(Batch::new(pieces, Vec::new(), None, None, None));
        let order = |(direction, pieces)| SliceOrder {
            target: target.0.clone(),
            slice: RequestSlice::new(direction, pieces, batch.clone()),
            terms,
        };
        self.peers.enqueue(plan.slices.into_iter().map(order).collect());
        Ok(SubmittedBatch(batch))
    }

    /// Takes a batch back; it is over as soon as its connections are broken.
    pub fn cancel(&self, batch: &SubmittedBatch) {
        batch.0.cancel();
        self.peers.cancel(Arc::as_ptr(&batch.0) as usize);
    }

    /// Panics if the records of its connections disagree: for tests and the simulation.
    pub fn check(&self) {
        self.peers.check();
    }

    /// Breaks every connection; what is under way fails.
    pub fn stop(&self) {
        self.peers.stop();
    }

    /// Resolves when the client was stopped and nothing of it is left.
    pub async fn ended(&self) {
        self.peers.ended().await;
    }
}

/// A batch under way.
#[derive(Clone, Debug)]
pub struct SubmittedBatch(Arc<Batch>);

impl SubmittedBatch {
    /// Whether every request is final: from then on the local memory is not touched.
    pub fn is_over(&self) -> bool {
        self.0.is_over()
    }

    /// How far one request is.
    pub fn request(&self, index: usize) -> Option<RequestStatus> {
        self.0.request(index)
    }

    /// The first error, or that all went well so far.
    ///
    /// # Errors
    /// What went wrong first.
    pub fn outcome(&self) -> Result<(), EngineError> {
        self.0.outcome()
    }
}
