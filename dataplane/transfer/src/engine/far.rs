//! Jobs whose bytes do not lie in memory that this process can touch: from a disk of its own, over
//! rails where they are proven, from memory or from what disks have read into, over TCP otherwise,
//! and over TCP what the rails gave back.
//! Invariant: each job has one outcome, and the route that it came by.

use super::disk_jobs::DiskJobs;
use super::rail_batch::{Passed, RailJobs};
use super::staged_jobs::StagedJobs;
use super::tcp_route::TcpRoute;
use crate::client::FarJob;
use crate::client::tcp_batch::TcpBatch;
use crate::error::TransferError;
use crate::segments::SegmentTable;
use perigee_rdma::Rdma;
use perigee_schemas::Route;
use std::sync::Arc;

type RoutedResults = Vec<(Route, Result<u32, TransferError>)>;

/// The ways that jobs may take.
pub(super) struct FarRoutes<'a> {
    /// Whose disks are read without a connection, if any.
    pub(super) own: Option<&'a SegmentTable>,
    pub(super) rdma: Option<&'a Arc<Rdma>>,
    pub(super) tcp: &'a TcpRoute,
}

/// Jobs on their way.
pub(super) struct RemoteBatch<'a> {
    route: &'a TcpRoute,
    jobs: &'a [FarJob],
    disks: Option<DiskJobs<'a>>,
    rails: Option<RailJobs>,
    staged: Option<StagedJobs>,
    tcp: TcpBatch,
    /// Which jobs go over TCP.
    over_tcp: Vec<usize>,
}

impl<'a> RemoteBatch<'a> {
    pub(super) fn begin(routes: &FarRoutes<'a>, jobs: &'a [FarJob]) -> Self {
        let (route, deadline) = (routes.tcp, routes.tcp.deadline());
        let (mut disks, mut rails, mut staged) = (None, None, None);
        let mut left: Vec<usize> = (0..jobs.len()).collect();
        if let Some(own) = routes.own.filter(|_| !left.is_empty()) {
            let (begun, others) = DiskJobs::begin(own, jobs, deadline);
            (disks, left) = (Some(begun), others);
        }
        if let Some(rdma) = routes.rdma.filter(|_| !left.is_empty()) {
            let of = left.iter().map(|index| (*index, &jobs[*index]));
            let (begun, others) = RailJobs::begin(rdma, of, deadline, routes.tcp.tenant());
            (rails, left) = (Some(begun), others);
        }
        if let Some(rdma) = routes.rdma.filter(|_| !left.is_empty()) {
            let of = left.iter().map(|index| (*index, &jobs[*index]));
            let (begun, others) = StagedJobs::begin(rdma, of, route);
            (staged, left) = (Some(begun), others);
        }
        let tcp = match left.len() == jobs.len() {
            true => route.begin(jobs),
            false => route.begin(&picked(jobs, &left)),
        };
        Self { route, jobs, disks, rails, staged, tcp, over_tcp: left }
    }

    /// Waits for all. What this thread copies itself comes first; the others move by themselves.
    pub(super) fn wait(self) -> RoutedResults {
        let from_disks = self.disks.map(DiskJobs::wait).unwrap_or_default();
        let passed = self.rails.map(RailJobs::wait).unwrap_or_default();
        let staged = self.staged.map(StagedJobs::wait).unwrap_or_default();
        let landed = self.tcp.wait();
        let mut outcome: Vec<_> = self.jobs.iter().map(|_| None).collect();
        for (job, result) in from_disks {
            outcome[job] = Some((Route::SameProcess, result));
        }
        let mut diverted = Vec::new();
        let passed = passed.into_iter().map(|(job, passed)| (job, Route::Rdma, passed));
        for (job, route, passed) in passed.chain(staged) {
            match passed {
                Passed::Through(result) => outcome[job] = Some((route, result)),
                Passed::Divert => diverted.push(job),
            }
        }
        let again = picked(self.jobs, &diverted);
        let again = self.route.begin(&again).wait();
        debug_assert_eq!(landed.len(), self.over_tcp.len(), "one outcome per job");
        debug_assert_eq!(again.len(), diverted.len(), "one outcome per job");
        let by_tcp = self.over_tcp.into_iter().zip(landed);
        for (job, result) in by_tcp.chain(diverted.into_iter().zip(again)) {
            outcome[job] = Some((Route::Tcp, result));
        }
        let lost = || {
            let error = TransferError::Engine("a transfer was lost".to_owned());
            (Route::Tcp, Err(error))
        };
        let outcome = outcome.into_iter();
        outcome.map(|one| one.unwrap_or_else(lost)).collect()
    }
}

fn picked(jobs: &[FarJob], which: &[usize]) -> Vec<FarJob> {
    which.iter().map(|index| jobs[*index].clone()).collect()
}
