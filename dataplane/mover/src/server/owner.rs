//! What a server asks of the owner of memory: which ranges a request may use, and what else its
//! port answers.
//! Invariant: a [`Range`] exists only with the right to use its memory.
#![expect(unsafe_code, reason = "an owner vouches for its memory")]

use crate::direction::Direction;
use crate::scope::Scope;
use crate::stats::RouteCounters;
use crate::wire::{Guard, Piece};
use perigee_schemas::frame::MessageKind;
use perigee_schemas::{Identity, Status};
use perigee_shard::{Environment, Guard as KeptMemory};
use std::future::Future;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// Memory of this process that peers may read and write.
pub trait MemoryOwner: Send + Sync + 'static {
    /// A piece that was checked.
    type Range: Range;
    /// What one connection has beside its moves.
    type Session: ConnectionState;

    /// Random identity of this run of the process.
    fn identity(&self) -> Identity;

    /// Checks a piece against bounds, rights and its guard.
    ///
    /// # Errors
    /// Why it must not be moved.
    fn find(
        &self,
        scope: Scope,
        direction: Direction,
        piece: &Piece,
        guard: Option<&Guard>,
    ) -> Result<Self::Range, Status>;

    /// For a new connection.
    fn session(&self) -> Self::Session;

    /// Counts of the NIC that a connection came through.
    fn counters(&self, socket: Option<BorrowedFd<'_>>) -> Arc<RouteCounters>;
}

/// A checked range and the right to use it. If its bytes are not where sockets reach them, they are
/// staged.
///
/// # Safety
/// The bytes at [`Range::host`] must be valid for the kernel's access as long as [`Range::keep`] is
/// kept. Memory that cannot be read or written must be an error there, which only the kernel's own
/// copies meet.
pub unsafe trait Range: 'static {
    /// First byte, in place or where it was staged.
    fn host(&self) -> *mut u8;

    /// Length.
    fn bytes(&self) -> u64;

    /// Keeps the memory, and the right to it.
    fn keep(&self) -> KeptMemory;

    /// Number of the memory that it is a range of, by which it can be revoked.
    fn memory(&self) -> usize;

    /// Before its bytes move: gives them a place that sockets reach, and brings them there if they
    /// are to be sent.
    ///
    /// # Errors
    /// They cannot be staged.
    fn stage(&mut self, direction: Direction) -> Result<(), Status> {
        let _ = direction;
        Ok(())
    }

    /// After its bytes have arrived: brings them to where they belong.
    ///
    /// # Errors
    /// They cannot be brought there.
    fn store(&self) -> Result<(), Status> {
        Ok(())
    }
}

/// What one connection has beside its moves. Dropped when the connection ends.
pub trait ConnectionState: 'static {
    /// Longest that the peer may be silent between two frames; `None` for as long as it likes.
    fn silence(&self) -> Option<Duration> {
        None
    }

    /// The whole frame that answers a frame of another kind than a move.
    ///
    /// # Errors
    /// This port does not serve it: the connection ends.
    fn answer<E: Environment>(
        &mut self,
        environment: &E,
        kind: MessageKind,
        body: &[u8],
    ) -> impl Future<Output = io::Result<Vec<u8>>>;
}

/// A port on which only moves are served.
impl ConnectionState for () {
    async fn answer<E: Environment>(
        &mut self,
        _: &E,
        _: MessageKind,
        _: &[u8],
    ) -> io::Result<Vec<u8>> {
        Err(io::Error::new(io::ErrorKind::InvalidData, "Only moves are served on this port"))
    }
}
