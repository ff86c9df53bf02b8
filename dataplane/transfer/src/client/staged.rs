//! What an owner has staged for this process: where it lies, and the ticket that keeps it there.
//! Invariant: each ticket is returned once, when nothing reads what it keeps any more.

use perigee_memory::ByteRangeMut;
use perigee_rdma::Rdma;
use std::sync::Arc;
use std::time::Duration;

/// The right to bytes that an owner has staged. Returned when it is dropped.
#[derive(Debug)]
pub(crate) struct StageTicket {
    rdma: Arc<Rdma>,
    endpoint: Arc<str>,
    number: u64,
}

/// What one exchange has brought of a disk, to be read from there.
#[derive(Debug)]
pub(crate) struct StagedSlice {
    pub(crate) parts: Vec<StagedPart>,
    /// Until when it is there for certain.
    pub(crate) until: Duration,
    pub(crate) _ticket: StageTicket,
}

/// A part of a job: where it lies at the owner, and the memory that it is read into.
#[derive(Debug)]
pub(crate) struct StagedPart {
    pub(crate) job: usize,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) memory: Vec<ByteRangeMut>,
}

impl StageTicket {
    pub(crate) fn new(rdma: &Arc<Rdma>, endpoint: &Arc<str>, number: u64) -> Self {
        Self { rdma: rdma.clone(), endpoint: endpoint.clone(), number }
    }
}

impl Drop for StageTicket {
    fn drop(&mut self) {
        self.rdma.return_ticket(&self.endpoint, self.number);
    }
}
