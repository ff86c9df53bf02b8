//! A batch as its trace tells of it: one call of the program, whichever threads move it.

use crate::error::EngineError;
use crate::target::PeerSegment;
use perigee_activity::{CallOutcome, DetachedCall, Operation, Request};
use perigee_shard::monotonic;
use std::sync::Arc;
use std::time::Duration;

/// The call that a batch is.
pub(crate) struct TracedBatch {
    call: DetachedCall,
    target: Arc<PeerSegment>,
    requests: usize,
}

impl TracedBatch {
    /// A batch of the calling thread, which was submitted at this moment.
    pub(crate) fn begin(target: &Arc<PeerSegment>, requests: usize, submitted: Duration) -> Self {
        let call = DetachedCall::begin(Operation::Transfer, submitted);
        Self { call, target: target.clone(), requests }
    }

    pub(crate) fn request(&self) -> &Request {
        self.call.request()
    }

    /// All of it is final: what came of it, and how many bytes have moved.
    pub(super) fn end(&self, outcome: &Result<(), EngineError>, bytes: u64) {
        let status = outcome.as_ref().map_or_else(|error| error.status().code(), |()| 0);
        let outcome = CallOutcome { key: self.target.name(), keys: self.requests, bytes, status };
        self.call.end(&outcome, monotonic());
    }
}
