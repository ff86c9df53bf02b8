//! A batch of jobs over rails. Invariant: a batch ends only when no device touches the memory of
//! its jobs any more, and a write that failed goes another way only when nothing of it can still
//! land.

use super::completion_wait::CompletionWait;
use super::rail_job::RailJob;
use super::rail_route::RailRoute;
use crate::client::FarJob;
use crate::error::TransferError;
use crate::limits::SLOWEST_PER_BYTE_NS;
use perigee_mover::PeerError;
use perigee_rails::{BatchTicket, RailError, RailRequest, Sink, deadline_in};
use perigee_rdma::{Rdma, StageLoan};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What became of a job.
#[derive(Debug)]
pub(super) enum Passed {
    /// It is through: its checksum, or what was found to be wrong.
    Through(Result<u32, TransferError>),
    /// Rails could not do it; it may go over TCP.
    Divert,
}

/// Why a job failed.
struct JobFault {
    error: RailError,
    /// Something of it may still be on its way: the rails could not have the broken queue pair
    /// taken down.
    is_loose: bool,
}

/// Jobs on their way.
pub(super) struct RailJobs {
    rdma: Arc<Rdma>,
    jobs: Vec<RailJob>,
    /// By job: why it failed.
    faults: HashMap<usize, JobFault>,
    /// Jobs by the peer that they lead to.
    by_peer: Vec<Vec<usize>>,
    waits: Vec<(Arc<CompletionWait>, BatchTicket)>,
    /// For each part of the jobs.
    deadline: Duration,
    /// Of the whole call.
    end: Instant,
    /// Whose bytes they are.
    tenant: Arc<str>,
    /// Given back after the last wait.
    _loan: StageLoan,
}

/// The two parts of a job.
#[derive(Clone, Copy)]
enum JobHalf {
    First,
    Last,
}

impl RailJobs {
    /// Begins those of the jobs that rails can carry, and returns the others.
    pub(super) fn begin<'a>(
        rdma: &Arc<Rdma>,
        far: impl Iterator<Item = (usize, &'a FarJob)>,
        deadline: Duration,
        tenant: &Arc<str>,
    ) -> (Self, Vec<usize>) {
        let mut loan = StageLoan::new(rdma.stages());
        let (mut jobs, mut others) = (Vec::new(), Vec::new());
        let mut endpoints = HashMap::new();
        for (index, job) in far {
            let name = job.place.segment.endpoint.as_str();
            let endpoint = endpoints.entry(name).or_insert_with(|| Arc::<str>::from(name));
            let in_memory = job.place.is_in_memory();
            let route = in_memory.then(|| RailRoute::to(rdma, endpoint, job)).flatten();
            let prepared = route.and_then(|to| RailJob::new(rdma, &mut loan, (index, job), to));
            match prepared {
                Some(prepared) => jobs.push(prepared),
                None => others.push(index),
            }
        }
        let bytes: u64 = jobs.iter().map(|job| job.bytes).sum();
        let for_bytes = Duration::from_nanos(SLOWEST_PER_BYTE_NS.saturating_mul(bytes));
        let mut batch = Self {
            rdma: rdma.clone(),
            by_peer: by_peer(&jobs),
            jobs,
            faults: HashMap::new(),
            waits: Vec::new(),
            // The other half is for TCP.
            deadline: deadline / 2 + for_bytes,
            end: Instant::now() + deadline + for_bytes,
            tenant: Arc::clone(tenant),
            _loan: loan,
        };
        let grouped: usize = batch.by_peer.iter().map(Vec::len).sum();
        debug_assert_eq!(grouped, batch.jobs.len(), "each job leads to one peer");
        batch.jobs.iter_mut().for_each(RailJob::load);
        batch.launch(JobHalf::First);
        (batch, others)
    }

    /// Sees the jobs through; what became of each, with its index.
    pub(super) fn wait(mut self) -> Vec<(usize, Passed)> {
        self.jobs.iter_mut().for_each(RailJob::sum_source);
        self.wait_for_part();
        self.launch(JobHalf::Last);
        let faults = &self.faults;
        let jobs = self.jobs.iter_mut().enumerate();
        let sound = jobs.filter(|(index, _)| !faults.contains_key(index));
        sound.for_each(|(_, job)| job.unload());
        self.wait_for_part();
        let fences = self.fence();
        let verdict = |(index, job): (usize, &RailJob)| {
            let passed = match (self.faults.get(&index), fences.get(&job.route.endpoint)) {
                (None, _) => Passed::Through(job.finish()),
                (Some(fault), Some(Err(error))) if fault.is_loose && job.is_write() => {
                    Passed::Through(Err(error.clone()))
                }
                (Some(fault), _) if matches!(fault.error, RailError::Canceled) => {
                    Passed::Through(Err(PeerError::Canceled.into()))
                }
                (Some(_), _) => Passed::Divert,
            };
            (job.index, passed)
        };
        self.jobs.iter().enumerate().map(verdict).collect()
    }

    /// Hands the requests of one part to the rails, peer by peer.
    fn launch(&mut self, part: JobHalf) {
        let deadline = deadline_in(self.deadline);
        for jobs in &self.by_peer {
            let sound = jobs.iter().filter(|index| !self.faults.contains_key(*index));
            let sound: Vec<usize> = sound.copied().collect();
            let Some(first) = sound.first().map(|index| &self.jobs[*index]) else {
                continue;
            };
            let peer = first.route.rails.peer();
            let mut requests: Vec<RailRequest> = Vec::new();
            for index in &sound {
                match part {
                    JobHalf::First => self.jobs[*index].first(&mut requests, *index as u64),
                    JobHalf::Last => self.jobs[*index].last(&mut requests, *index as u64),
                }
            }
            if requests.is_empty() {
                continue;
            }
            let wait = Arc::new(CompletionWait::new(requests.len(), &self.tenant));
            let sink: Arc<dyn Sink> = wait.clone();
            let engine = self.rdma.engine();
            // SAFETY: the batch waits for all requests before the caller's memory and the stages
            // are given up.
            match unsafe { engine.submit(peer, &requests, deadline, &sink) } {
                Ok(ticket) => self.waits.push((wait, ticket)),
                Err(error) => {
                    let fault = || JobFault { error: error.clone(), is_loose: false };
                    let faults = sound.into_iter().map(|index| (index, fault()));
                    self.faults.extend(faults);
                }
            }
        }
    }

    fn wait_for_part(&mut self) {
        let (waits, engine) = (std::mem::take(&mut self.waits), self.rdma.engine());
        let cancel = || waits.iter().for_each(|(_, ticket)| engine.cancel(*ticket));
        for (wait, _) in &waits {
            for (tag, error) in wait.wait(|| engine.stalled(), cancel) {
                debug_assert!((tag as usize) < self.jobs.len(), "a tag names a job");
                let is_loose = matches!(error, RailError::Unfenced { .. });
                // All requests of a job have its tag: one that may still land counts, whichever
                // failed first.
                self.faults
                    .entry(tag as usize)
                    .and_modify(|fault| fault.is_loose |= is_loose)
                    .or_insert(JobFault { error, is_loose });
            }
        }
    }

    /// After a fault a peer's rails are left for a while. If something of a write may still land,
    /// all queue pairs there are taken down first.
    fn fence(&self) -> HashMap<Arc<str>, Result<(), TransferError>> {
        let mut loose: Vec<Arc<str>> = Vec::new();
        for (index, fault) in &self.faults {
            let job = &self.jobs[*index];
            let endpoint = &job.route.endpoint;
            tracing::debug!(error = %fault.error, peer = %endpoint, "A transfer leaves RDMA");
            if is_of_peer(&fault.error) {
                self.rdma.suspend(endpoint);
            }
            if fault.is_loose && job.is_write() && !loose.contains(endpoint) {
                loose.push(endpoint.clone());
            }
        }
        let fenced = self.rdma.fence_and_wait(&loose, self.end);
        // A peer without a verdict would pass for fenced, and its write go elsewhere too early.
        assert_eq!(fenced.len(), loose.len(), "one verdict per peer");
        let fenced = fenced.into_iter().map(|fenced| fenced.map_err(TransferError::from));
        loose.into_iter().zip(fenced).collect()
    }
}

impl Drop for RailJobs {
    fn drop(&mut self) {
        self.wait_for_part();
    }
}

/// Groups jobs by their peers.
fn by_peer(jobs: &[RailJob]) -> Vec<Vec<usize>> {
    let mut of_endpoint: HashMap<&str, usize> = HashMap::new();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        let group = *of_endpoint.entry(&job.route.endpoint).or_insert(groups.len());
        if group == groups.len() {
            groups.push(Vec::new());
        }
        groups[group].push(index);
    }
    groups
}

/// Whether other transfers with the peer are likely to fail as well.
pub(super) fn is_of_peer(error: &RailError) -> bool {
    !matches!(
        error,
        RailError::LocalMemory { .. }
            | RailError::OutOfBounds { .. }
            | RailError::Expired { .. }
            | RailError::Full { .. }
            | RailError::Canceled
    )
}
