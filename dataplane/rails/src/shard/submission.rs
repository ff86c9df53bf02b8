//! What a batch becomes when it is handed to a shard. Invariant: it is named by one ticket.

use crate::active_request::RailRequest;
use crate::error::RailError;
use crate::peer::PeerRecord;
use crate::sink::Sink;
use std::sync::Arc;
use std::time::Duration;

/// A part of a batch for one shard.
pub(crate) struct BatchPart {
    pub(crate) peer: Arc<PeerRecord>,
    pub(crate) batch: u64,
    pub(crate) requests: Vec<RailRequest>,
    pub(crate) deadline: Duration,
    pub(crate) sink: Arc<dyn Sink>,
}

impl Drop for BatchPart {
    /// A submission that never reached its shard: the shard is gone.
    fn drop(&mut self) {
        for request in std::mem::take(&mut self.requests) {
            self.sink.finished(request.tag, Err(RailError::Closed));
        }
    }
}
