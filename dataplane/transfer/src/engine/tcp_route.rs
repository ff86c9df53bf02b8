//! The shards that move slices over TCP, started with the first such transfer. Invariant: a route
//! that was closed never starts.

use crate::client::tcp_batch::TcpBatch;
use crate::client::{FarJob, SlicePlan, TcpClient, TcpOptions};
use crate::error::TransferError;
use perigee_rdma::Rdma;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// TCP of one client.
#[derive(Debug)]
pub(super) struct TcpRoute {
    options: TcpOptions,
    shards: RwLock<TcpShards>,
}

#[derive(Debug, Default)]
enum TcpShards {
    #[default]
    Unused,
    Started(Arc<TcpClient>),
    Closed,
}

impl TcpRoute {
    pub(super) fn new(options: TcpOptions) -> Self {
        Self { options, shards: RwLock::default() }
    }

    /// Longest a batch may take, before the time its bytes get.
    pub(super) fn deadline(&self) -> Duration {
        self.options.deadline
    }

    /// Whose bytes are moved.
    pub(super) fn tenant(&self) -> &Arc<str> {
        &self.options.tenant
    }

    /// Begins to move jobs.
    pub(super) fn begin(&self, jobs: &[FarJob]) -> TcpBatch {
        self.submit(jobs, |plan| plan)
    }

    /// Begins to ask for what owners may stage, to be read over these rails then.
    pub(super) fn begin_staged(&self, jobs: &[FarJob], rdma: &Arc<Rdma>) -> TcpBatch {
        self.submit(jobs, |plan| plan.read_over(rdma))
    }

    fn submit(&self, jobs: &[FarJob], with: impl FnOnce(SlicePlan) -> SlicePlan) -> TcpBatch {
        if jobs.is_empty() {
            return TcpBatch::default();
        }
        match self.started() {
            Ok(tcp) => tcp.submit(with(SlicePlan::new(jobs, &self.options.tenant))),
            Err(error) => TcpBatch::refused(&error, jobs.len()),
        }
    }

    /// Closes idle connections that their peers have closed.
    pub(super) fn sweep(&self) {
        let shards = self.shards.read().unwrap_or_else(PoisonError::into_inner);
        if let TcpShards::Started(tcp) = &*shards {
            tcp.sweep();
        }
    }

    /// Breaks all connections; transfers in flight fail, and later ones too.
    pub(super) fn close(&self) {
        let mut shards = self.shards.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *shards, TcpShards::Closed);
        drop(shards);
        if let TcpShards::Started(tcp) = before {
            tcp.stop();
        }
    }

    fn started(&self) -> Result<Arc<TcpClient>, TransferError> {
        let shards = self.shards.read().unwrap_or_else(PoisonError::into_inner);
        if let TcpShards::Started(tcp) = &*shards {
            return Ok(tcp.clone());
        }
        drop(shards);
        let mut shards = self.shards.write().unwrap_or_else(PoisonError::into_inner);
        match &*shards {
            TcpShards::Started(tcp) => return Ok(tcp.clone()),
            TcpShards::Closed => {
                return Err(TransferError::Engine("it has been closed".to_owned()));
            }
            TcpShards::Unused => {}
        }
        let started = Arc::new(TcpClient::start(self.options.clone())?);
        *shards = TcpShards::Started(started.clone());
        Ok(started)
    }
}
