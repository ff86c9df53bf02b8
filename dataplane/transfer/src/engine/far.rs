//! Jobs whose segments this process cannot touch: over rails where they are proven, over TCP
//! otherwise, and over TCP what the rails gave back. Invariant: each job has one outcome, and the
//! route that it came by.

use super::ObjectEngine;
use super::rail_batch::{Passed, RailJobs};
use crate::client::FarJob;
use crate::client::tcp_batch::TcpBatch;
use crate::error::TransferError;
use crate::route::Route;

type RoutedResults = Vec<(Route, Result<u32, TransferError>)>;

/// Jobs on their way.
pub(super) struct RemoteBatch<'a> {
    engine: &'a ObjectEngine,
    jobs: &'a [FarJob],
    rails: Option<RailJobs>,
    tcp: TcpBatch,
    /// Which jobs go over TCP.
    over_tcp: Vec<usize>,
}

impl<'a> RemoteBatch<'a> {
    pub(super) fn begin(engine: &'a ObjectEngine, jobs: &'a [FarJob]) -> Self {
        let all = || jobs.iter().enumerate();
        let Some(rdma) = engine.options.rdma.as_ref().filter(|_| !jobs.is_empty()) else {
            return Self {
                engine,
                jobs,
                rails: None,
                tcp: engine.over_tcp(jobs),
                over_tcp: (0..jobs.len()).collect(),
            };
        };
        let (batch, over_tcp) = RailJobs::begin(rdma, all(), engine.options.deadline);
        let tcp = engine.over_tcp(&picked(jobs, &over_tcp));
        Self { engine, jobs, rails: Some(batch), tcp, over_tcp }
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
        let again = self.engine.over_tcp(&again).wait();
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
