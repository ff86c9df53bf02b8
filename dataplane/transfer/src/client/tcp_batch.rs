//! A batch under way over TCP. Invariant: when it has ended, the caller's memory is not touched any
//! more.

use super::batch::JobBatch;
use super::plan::SlicePlan;
use super::slice::ObjectSlice;
use super::staged::StagedSlice;
use super::{TcpClient, suits_the_caller, terms};
use crate::error::TransferError;
use perigee_mover::Terms;
use perigee_shard::monotonic;
use std::sync::Arc;

type ChecksumResults = Vec<Result<u32, TransferError>>;

/// Jobs under way. It ends only when the caller's memory is not used any more, be it by a panic.
#[derive(Default)]
pub(crate) struct TcpBatch {
    under_way: Option<(Arc<JobBatch>, Arc<TcpClient>)>,
    /// What the calling thread moves itself.
    to_do: Option<(Vec<ObjectSlice>, Terms)>,
    refused: ChecksumResults,
}

impl TcpClient {
    /// Begins a batch. What the calling thread moves best is left to it, until it waits.
    pub(crate) fn submit(self: &Arc<Self>, plan: SlicePlan) -> TcpBatch {
        let terms = terms(monotonic(), self.options.deadline, &plan.slices);
        let SlicePlan { batch, slices } = plan;
        if suits_the_caller(&slices) {
            return TcpBatch::of(batch, self.clone(), Some((slices, terms)));
        }
        let under_way = TcpBatch::of(batch, self.clone(), None);
        self.hand_over(slices, terms);
        under_way
    }
}

impl TcpBatch {
    /// A batch that is about to be submitted; its caller moves `to_do` when it waits.
    fn of(
        batch: Arc<JobBatch>,
        tcp: Arc<TcpClient>,
        to_do: Option<(Vec<ObjectSlice>, Terms)>,
    ) -> Self {
        Self { under_way: Some((batch, tcp)), to_do, refused: Vec::new() }
    }

    /// One that never began.
    pub(crate) fn refused(error: &TransferError, jobs: usize) -> Self {
        Self { under_way: None, to_do: None, refused: vec![Err(error.clone()); jobs] }
    }

    /// Moves what is left to the calling thread.
    pub(crate) fn move_here(&mut self) {
        if let Some((_, tcp)) = &self.under_way
            && let Some((slices, terms)) = self.to_do.take()
        {
            tcp.move_here(slices, terms);
        }
    }

    /// Whether every slice has been answered.
    pub(crate) fn is_over(&self) -> bool {
        self.to_do.is_none() && self.under_way.as_ref().is_none_or(|(batch, _)| batch.is_over())
    }

    /// What owners have staged since the last call.
    pub(crate) fn take_staged(&self) -> Vec<StagedSlice> {
        self.under_way.as_ref().map(|(batch, _)| batch.take_staged()).unwrap_or_default()
    }

    /// Says so in the log if a shard takes no jobs.
    pub(crate) fn complain_if_stalled(&self) {
        self.under_way.iter().for_each(|(_, tcp)| tcp.complain_if_stalled());
    }

    /// Breaks off what is under way.
    pub(crate) fn cancel(&self) {
        self.under_way.iter().for_each(|(batch, tcp)| tcp.cancel(batch));
    }

    /// The CRC-32C of each job that was moved.
    pub(crate) fn wait(mut self) -> ChecksumResults {
        let moved = self.end();
        moved.unwrap_or_else(|| std::mem::take(&mut self.refused))
    }

    fn end(&mut self) -> Option<ChecksumResults> {
        self.move_here();
        let (batch, tcp) = self.under_way.take()?;
        Some(batch.wait(|| tcp.complain_if_stalled(), || tcp.cancel(&batch)))
    }
}

impl Drop for TcpBatch {
    fn drop(&mut self) {
        // What has not begun fails as its slices are dropped.
        self.to_do = None;
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::super::TcpOptions;
    use super::*;
    use perigee_schemas::Identity;
    use perigee_shard::Congestion;
    use std::sync::mpsc::{TryRecvError, channel};
    use std::time::Duration;

    #[test]
    fn a_batch_that_is_dropped_still_waits_for_its_slices() {
        let second = Duration::from_secs(1);
        let options = TcpOptions {
            identity: Identity(1),
            shards: 1,
            deadline: second,
            congestion: Congestion::Automatic,
            tenant: Arc::default(),
        };
        let tcp = TcpClient::start(options).unwrap();
        let (tcp, batch) = (Arc::new(tcp), Arc::new(JobBatch::new(&[], 1, &Arc::default())));
        let (sender, receiver) = channel();
        let under_way = {
            let (tcp, batch) = (tcp.clone(), batch.clone());
            move || TcpBatch::of(batch, tcp, None)
        };
        let unwinding = std::thread::spawn(move || {
            drop(under_way());
            sender.send(()).unwrap();
        });
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        batch.report(std::iter::empty());
        receiver.recv().unwrap();
        unwinding.join().unwrap();
        tcp.stop();
    }
}
