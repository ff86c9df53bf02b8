//! Moving slices on the calling thread, over an idle connection of the target or a new one.
//!
//! Handing a small transfer to a shard would cost a sleep and a wake-up, which is more than its
//! round trip. The invariant: a slice goes again over another connection only if it is a read, or
//! was not sent, and none of the call was answered over the first.

use super::blocking_connection::BlockingConnection;
use super::call_bounds::CallBounds;
use super::unsettled::Unsettled;
use crate::error::PeerError;
use crate::slice::Slice;
use crate::stats::record_unreachable;
use crate::target::Target;
use perigee_activity::SlotKey;
use perigee_schemas::Identity;
use perigee_shard::{Congestion, monotonic};
use std::time::{Duration, Instant};

/// One blocking transfer: where its slices go and when it must be over.
pub struct BlockingCall<'a> {
    /// The peer.
    pub target: &'a Target,
    /// Of this process.
    pub identity: Identity,
    /// Congestion control of connections.
    pub congestion: &'a Congestion,
    /// Whether both sides sum the bytes of each piece.
    pub with_checksum: bool,
    /// When it must be over.
    pub deadline: Instant,
    /// The time it has in all, for messages.
    pub length: Duration,
    /// Whether this side has been closed since.
    pub is_closed: &'a dyn Fn() -> bool,
}

impl BlockingCall<'_> {
    /// Moves slices over a connection of the target; each slice reports by itself.
    pub fn run<S: Slice>(&self, slices: impl Iterator<Item = S>) {
        let mut slices = Unsettled::new(slices);
        if slices.is_empty() {
            return;
        }
        if let Err(error) = self.try_connections(&mut slices) {
            let first = slices.first().filter(|_| is_unreachable(&error));
            let peer = &self.target.peer().name;
            first.inspect(|slice| record_unreachable(*slice, peer, SlotKey::CALLER));
            slices.fail(&error);
        }
    }

    fn try_connections<S: Slice>(&self, slices: &mut Unsettled<S>) -> Result<(), PeerError> {
        if let Some(mut connection) = self.target.take_connection() {
            let answered = connection.answered();
            let ran = connection.run(&self.bounds(), slices);
            match ran.inspect_err(|error| self.target.note(error, monotonic())) {
                Ok(()) => {
                    self.target.keep_connection(connection);
                    return Ok(());
                }
                // An idle connection may have died just now: reads that went over it can go again.
                Err(PeerError::Broken { .. })
                    if connection.answered() == answered && slices.may_go_again() =>
                {
                    slices.rewind();
                }
                Err(error) => return Err(error),
            }
        }
        let mut connection = self.connect()?;
        let ran = connection.run(&self.bounds(), slices);
        ran.inspect_err(|error| self.target.note(error, monotonic()))?;
        self.target.keep_connection(connection);
        Ok(())
    }

    /// A new connection, unless one could not be made a moment ago.
    fn connect(&self) -> Result<BlockingConnection, PeerError> {
        if let Some(error) = self.target.breaker().refusal(monotonic) {
            return Err(error);
        }
        let opened = BlockingConnection::open(&self.bounds());
        opened.inspect_err(|error| self.target.note(error, monotonic()))
    }

    fn bounds(&self) -> CallBounds<'_> {
        CallBounds {
            peer: self.target.peer(),
            identity: self.identity,
            congestion: self.congestion,
            with_checksum: self.with_checksum,
            deadline: self.deadline,
            length: self.length,
            is_closed: self.is_closed,
        }
    }
}

fn is_unreachable(error: &PeerError) -> bool {
    matches!(error, PeerError::Unreachable { .. })
}
