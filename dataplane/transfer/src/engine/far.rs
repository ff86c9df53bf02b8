//! Jobs whose segments this process cannot touch: over rails where they are proven, over TCP
//! otherwise, and over TCP what the rails gave back. Invariant: each job has one outcome, and the
//! route that it came by.

use super::rail_batch::{Passed, RailJobs};
use super::tcp_route::TcpRoute;
use crate::client::FarJob;
use crate::client::tcp_batch::TcpBatch;
use crate::error::TransferError;
use perigee_rdma::Rdma;
use perigee_schemas::Route;
use std::sync::Arc;

type RoutedResults = Vec<(Route, Result<u32, TransferError>)>;

/// Jobs on their way.
pub(super) struct RemoteBatch<'a> {
    route: &'a TcpRoute,
    jobs: &'a [FarJob],
    rails: Option<RailJobs>,
    tcp: TcpBatch,
    /// Which jobs go over TCP.
    over_tcp: Vec<usize>,
}

impl<'a> RemoteBatch<'a> {
    pub(super) fn begin(route: &'a TcpRoute, rdma: Option<&Arc<Rdma>>, jobs: &'a [FarJob]) -> Self {
        let all = || jobs.iter().enumerate();
        let Some(rdma) = rdma.filter(|_| !jobs.is_empty()) else {
            return Self {
                route,
                jobs,
                rails: None,
                tcp: route.begin(jobs),
                over_tcp: (0..jobs.len()).collect(),
            };
        };
        let (batch, over_tcp) = RailJobs::begin(rdma, all(), route.deadline());
        let tcp = route.begin(&picked(jobs, &over_tcp));
        Self { route, jobs, rails: Some(batch), tcp, over_tcp }
    }

    pub(super) fn wait(self) -> RoutedResults {
        let passed = self.rails.map(RailJobs::wait).unwrap_or_default();
        let landed = self.tcp.wait();
        let mut outcome: Vec<_> = self.jobs.iter().map(|_| None).collect();
        let mut diverted = Vec::new();
        for (job, passed) in passed {
            match passed {
                Passed::Through(result) => outcome[job] = Some((Route::Rdma, result)),
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
