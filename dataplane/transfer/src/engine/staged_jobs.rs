//! Jobs that read a disk of an owner over rails: the owner reads into memory that devices know and
//! says where the bytes lie, and each answer is read from there while the disk reads on. What an
//! owner sends instead is in place already.
//! Invariant: bytes count only if they were read while their ticket held, and the jobs end only
//! when no device touches their memory any more.
#![expect(unsafe_code, reason = "it lends memory of callers to devices")]

use super::completion_wait::CompletionWait;
use super::rail_batch::{Passed, is_of_peer};
use super::rail_route::RailRoute;
use super::staged_job::StagedJob;
use super::tcp_route::TcpRoute;
use crate::client::tcp_batch::TcpBatch;
use crate::client::{FarJob, StagedSlice};
use crate::limits::{SLOWEST_PER_BYTE_NS, STAGED_BYTES_MIN, STAGED_TIME_MIN};
use perigee_mover::{BatchWait, SPIN};
use perigee_rails::{BatchTicket, RailError, RailRequest, Sink, deadline_in};
use perigee_rdma::{Rdma, StageLoan};
use perigee_schemas::Route;
use perigee_shard::{SpinWait, monotonic};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// What became of jobs: number of each in the call, and the way that it came.
type EndedJobs = Vec<(usize, Route, Passed)>;

/// Bytes on their way out of an owner's memory.
struct StageRead {
    wait: Arc<CompletionWait>,
    batch: BatchTicket,
    slice: StagedSlice,
}

/// Jobs on their way.
pub(super) struct StagedJobs {
    rdma: Arc<Rdma>,
    jobs: Vec<StagedJob>,
    asked: TcpBatch,
    reads: Vec<StageRead>,
    /// Of what is asked and read; the rest of a call's time is for TCP.
    end: Duration,
    /// Whose bytes they are.
    tenant: Arc<str>,
    /// Given back after the last wait.
    _loan: StageLoan,
}

impl StagedJobs {
    /// Begins those of the jobs whose owner has a disk's stage on its rails, and returns the
    /// others.
    pub(super) fn begin<'a>(
        rdma: &Arc<Rdma>,
        far: impl Iterator<Item = (usize, &'a FarJob)>,
        tcp: &TcpRoute,
    ) -> (Self, Vec<usize>) {
        let mut loan = StageLoan::new(rdma.stages());
        let (mut jobs, mut others) = (Vec::new(), Vec::new());
        let mut endpoints = HashMap::new();
        for (index, job) in far {
            let name = job.place.segment.endpoint.as_str();
            let endpoint = endpoints.entry(name).or_insert_with(|| Arc::<str>::from(name));
            let route = suits(job).then(|| RailRoute::to(rdma, endpoint, job)).flatten();
            match route.and_then(|route| StagedJob::new(rdma, &mut loan, (index, job), route)) {
                Some(job) => jobs.push(job),
                None => others.push(index),
            }
        }
        let bytes: u64 = jobs.iter().map(|job| job.bytes).sum();
        let for_bytes = Duration::from_nanos(SLOWEST_PER_BYTE_NS.saturating_mul(bytes));
        let asked: Vec<_> = jobs.iter().map(|job| job.asked.clone()).collect();
        let begun = Self {
            rdma: rdma.clone(),
            jobs,
            asked: tcp.begin_staged(&asked, rdma),
            reads: Vec::new(),
            end: monotonic() + tcp.deadline() + for_bytes,
            tenant: Arc::clone(tcp.tenant()),
            _loan: loan,
        };
        (begun, others)
    }

    /// Sees the jobs through; what became of each.
    pub(super) fn wait(mut self) -> EndedJobs {
        self.asked.move_here();
        let (mut patience, mut wait) = (SpinWait::new(SPIN), BatchWait::default());
        loop {
            // Before what has come is looked at: nothing comes after the last answer.
            let is_answered = self.asked.is_over();
            let staged = self.asked.take_staged();
            let moves = !staged.is_empty();
            staged.into_iter().for_each(|slice| self.read(slice));
            let moves = self.end_reads() || moves;
            if is_answered && self.reads.is_empty() {
                break;
            }
            if moves {
                patience = SpinWait::new(SPIN);
            } else if !patience.watch_on() {
                std::thread::park_timeout(wait.step());
                wait.look(|| self.complain_if_stalled(), || self.cancel());
            }
        }
        let answered = std::mem::take(&mut self.asked).wait();
        debug_assert_eq!(answered.len(), self.jobs.len(), "one answer per job");
        self.jobs.iter_mut().zip(answered).map(|(job, result)| job.end(result)).collect()
    }

    /// Begins to read what was staged; jobs that it is too late for, or that rails refuse, go over
    /// TCP.
    fn read(&mut self, slice: StagedSlice) {
        let left = slice.until.min(self.end).saturating_sub(monotonic());
        let mut requests: Vec<RailRequest> = Vec::new();
        for part in &slice.parts {
            let job = &mut self.jobs[part.job];
            let may = left >= STAGED_TIME_MIN && job.requests(part, &mut requests);
            if !may {
                job.divert();
            }
        }
        let Some(first) = requests.first().map(|request| request.tag as usize) else {
            return;
        };
        let wait = Arc::new(CompletionWait::new(requests.len(), &self.tenant));
        let sink: Arc<dyn Sink> = wait.clone();
        let peer = self.jobs[first].route.rails.peer();
        let engine = self.rdma.engine();
        // SAFETY: the jobs wait for all requests before the caller's memory and the stages are
        // given up.
        match unsafe { engine.submit(peer, &requests, deadline_in(left), &sink) } {
            Ok(batch) => self.reads.push(StageRead { wait, batch, slice }),
            Err(error) => self.fail(&slice, &error),
        }
    }

    /// Takes what has been read; whether there was anything. Its ticket goes back.
    fn end_reads(&mut self) -> bool {
        let (ended, reads) =
            std::mem::take(&mut self.reads).into_iter().partition(|read| read.wait.is_over());
        self.reads = reads;
        let ended: Vec<StageRead> = ended;
        ended.iter().for_each(|read| self.end_read(read));
        !ended.is_empty()
    }

    fn end_read(&mut self, read: &StageRead) {
        let failures = read.wait.wait(|| None, || ());
        // Seen now, it was over before: if the ticket holds now, it has held all the time.
        let is_late = monotonic() >= read.slice.until;
        for (job, error) in failures {
            self.fail_job(job as usize, &error);
        }
        for part in &read.slice.parts {
            let job = &mut self.jobs[part.job];
            match is_late {
                true => job.divert(),
                false => job.land(part.bytes),
            }
        }
    }

    fn fail(&mut self, slice: &StagedSlice, error: &RailError) {
        slice.parts.iter().for_each(|part| self.fail_job(part.job, error));
    }

    fn fail_job(&mut self, job: usize, error: &RailError) {
        let job = &mut self.jobs[job];
        let endpoint = &job.route.endpoint;
        tracing::debug!(%error, peer = %endpoint, "A read of a stage leaves RDMA");
        if is_of_peer(error) {
            self.rdma.suspend(endpoint);
        }
        match error {
            RailError::Canceled => job.cancel(),
            _ => job.divert(),
        }
    }

    fn complain_if_stalled(&self) {
        self.asked.complain_if_stalled();
        if !self.reads.is_empty()
            && let Some((shard, silent)) = self.rdma.engine().stalled()
        {
            tracing::error!(shard, ?silent, "A transfer waits for a stalled shard of rails");
        }
    }

    fn cancel(&self) {
        self.asked.cancel();
        self.reads.iter().for_each(|read| self.rdma.engine().cancel(read.batch));
    }
}

impl Drop for StagedJobs {
    fn drop(&mut self) {
        let engine = self.rdma.engine();
        let cancel = || self.reads.iter().for_each(|read| engine.cancel(read.batch));
        for read in &self.reads {
            read.wait.wait(|| engine.stalled(), cancel);
        }
    }
}

/// Whether a job is one for a disk's stage.
fn suits(job: &FarJob) -> bool {
    job.read_piece().is_some() && !job.place.is_in_memory() && job.bytes() >= STAGED_BYTES_MIN
}
