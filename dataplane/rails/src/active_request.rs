//! A request under way on a shard, and what callers ask for.

use crate::error::RailError;
use crate::keys::RemoteKeys;
use crate::pairing::AddressPair;
use crate::registration::Registration;
use crate::request::Progress;
use crate::sink::Sink;
use perigee_activity::Direction;
use std::sync::Arc;
use std::time::Duration;

/// One request of a batch.
#[derive(Clone, Debug)]
pub struct RailRequest {
    /// Which way.
    pub direction: Direction,
    /// The registration that the local range lies in.
    pub local: Arc<Registration>,
    /// First local byte.
    pub local_address: u64,
    /// The keys of the region that the remote range lies in.
    pub keys: Arc<RemoteKeys>,
    /// First byte at the peer.
    pub remote_address: u64,
    /// Length.
    pub bytes: u64,
    /// Comes back to the sink.
    pub tag: u64,
}

impl RailRequest {
    /// Whether the devices at both ends of `route` know the memory on their side.
    pub(crate) fn fits(&self, route: AddressPair) -> bool {
        let ours = self.local.local_key(route.local, self.local_address);
        let theirs = self.keys.key(route.remote, self.remote_address);
        ours.is_some() && theirs.is_some()
    }

    /// Checks that both ranges lie inside of what is registered.
    pub(crate) fn check(&self) -> Result<(), RailError> {
        let bytes = self.bytes;
        let refuse = |address| Err(RailError::OutOfBounds { address, bytes });
        if !self.local.contains(self.local_address, bytes) || self.local.is_revoked() {
            return refuse(self.local_address);
        }
        if !self.keys.contains(self.remote_address, bytes) {
            return refuse(self.remote_address);
        }
        Ok(())
    }
}

/// A request under way.
pub(crate) struct ActiveRequest {
    pub(crate) peer: u64,
    pub(crate) batch: u64,
    pub(crate) request: RailRequest,
    pub(crate) progress: Progress<RailError>,
    pub(crate) slice_bytes: u64,
    /// When its shard took it.
    pub(crate) submitted: Duration,
    pub(crate) deadline: Duration,
    pub(crate) sink: Arc<dyn Sink>,
    /// What it last met, in words; empty when all went well.
    pub(crate) last_fault: String,
    /// When it was given up; what is on the wire has to end soon after.
    pub(crate) given_up: Option<Duration>,
}

impl std::fmt::Debug for ActiveRequest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Flight")
            .field("peer", &self.peer)
            .field("request", &self.request)
            .field("progress", &self.progress)
            .finish_non_exhaustive()
    }
}

impl ActiveRequest {
    /// Bytes from the cursor to the next border of either region.
    pub(crate) fn room(&self) -> u64 {
        let cursor = self.progress.cursor();
        let local = self.request.local.room(self.request.local_address + cursor);
        let remote = self.request.keys.room(self.request.remote_address + cursor);
        local.min(remote)
    }

    /// Gives the request up; the first reason is kept.
    pub(crate) fn give_up(&mut self, now: Duration, reason: RailError) {
        self.progress.fail(reason);
        self.given_up.get_or_insert(now);
    }
}
