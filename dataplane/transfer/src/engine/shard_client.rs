//! Transfers of one shard over any environment: batches, slices, connections and deadlines as an
//! [`Engine`] runs them, without its threads. Simulation drives this under a seed.
//! Invariant: nothing is decided here; jobs become the same slices on the same connections as in an
//! engine.
//!
//! [`Engine`]: super::Engine

use super::job::{ObjectJob, ReadJob, WriteJob};
use super::outcome::Outcome;
use crate::client::{JobBatch, ObjectSlice, SlicePlan, target_at, terms};
use crate::error::TransferError;
use perigee_mover::{CounterTable, PeerError, PeerQueues, Slice, SliceOrder, Target};
use perigee_schemas::Identity;
use perigee_shard::Environment;
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// One shard's connections to the owners of segments.
pub struct SegmentClient<E: Environment> {
    environment: E,
    deadline: Duration,
    peers: Rc<PeerQueues<E, ObjectSlice>>,
    targets: RefCell<HashMap<SocketAddr, Arc<Target>>>,
}

impl<E: Environment> SegmentClient<E> {
    /// A client without connections. `deadline` is the longest that a batch may take, before the
    /// time its bytes get.
    pub fn new(environment: E, identity: Identity, deadline: Duration) -> Self {
        let peers = Rc::new(PeerQueues::new(environment.clone(), identity, 0));
        Self { environment, deadline, peers, targets: RefCell::default() }
    }

    /// Begins to write objects. Endpoints are addresses; a name fails its objects.
    ///
    /// # Safety
    /// The pieces must be valid for reads and unchanged until the journey is over.
    pub unsafe fn write<'a>(&self, jobs: &'a [WriteJob<'a>]) -> SubmittedJobs<'a> {
        let batch = self.submit(jobs);
        SubmittedJobs {
            batch,
            judges: jobs.iter().map(|job| Box::new(|sum| job.judge(sum)) as _).collect(),
        }
    }

    /// Begins to read objects. Endpoints are addresses; a name fails its objects.
    ///
    /// # Safety
    /// The pieces must be valid for writes and not used by others until the journey is over.
    pub unsafe fn read<'a>(&self, jobs: &'a [ReadJob<'a>]) -> SubmittedJobs<'a> {
        let batch = self.submit(jobs);
        SubmittedJobs {
            batch,
            judges: jobs.iter().map(|job| Box::new(|sum| job.judge(sum)) as _).collect(),
        }
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

    fn submit<J: ObjectJob>(&self, jobs: &[J]) -> Arc<JobBatch> {
        let jobs: Vec<_> = jobs.iter().map(ObjectJob::far_job).collect();
        let SlicePlan { batch, slices } = SlicePlan::new(&jobs, &Arc::default());
        let terms = terms(self.environment.now(), self.deadline, &slices);
        let mut orders = Vec::with_capacity(slices.len());
        for slice in slices {
            match slice.endpoint().parse() {
                Ok(address) => {
                    orders.push(SliceOrder { target: self.target(address), slice, terms });
                }
                Err(_) => {
                    let peer = slice.endpoint().to_string();
                    let reason = "it is no address".to_owned();
                    slice.fail(&PeerError::Unreachable { peer, reason });
                }
            }
        }
        self.peers.enqueue(orders);
        batch
    }

    fn target(&self, address: SocketAddr) -> Arc<Target> {
        let make = || target_at(&address.to_string(), address, &CounterTable::default());
        let mut targets = self.targets.borrow_mut();
        targets.entry(address).or_insert_with(make).clone()
    }
}

type ChecksumCheck<'a> = Box<dyn Fn(u32) -> Result<u32, TransferError> + 'a>;

/// A batch under way.
pub struct SubmittedJobs<'a> {
    batch: Arc<JobBatch>,
    judges: Vec<ChecksumCheck<'a>>,
}

impl SubmittedJobs<'_> {
    /// Whether every slice has reported: from then on the memory of the jobs is not touched.
    pub fn is_over(&self) -> bool {
        self.batch.is_over()
    }

    /// As [`SubmittedJobs::is_over`], for a waiting task.
    pub fn watch(&self) -> impl Fn() -> bool + 'static {
        let batch = self.batch.clone();
        move || batch.is_over()
    }

    /// The CRC-32C of each object that was moved; `None` while the journey is not over. Handed out
    /// once.
    pub fn outcome(&self) -> Option<Outcome<u32>> {
        let sums = self.batch.outcome()?;
        let judged = sums.into_iter().zip(&self.judges);
        Some(judged.map(|(sum, judge)| judge(sum?)).collect())
    }
}
