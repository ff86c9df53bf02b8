//! What a load asks of a transfer engine. Invariant: it is the only seam between loads and the
//! engine, so tests can put plain memory behind it.

use crate::error::BenchError;
use perigee_schemas::Direction;

/// One piece of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Move {
    /// Which way.
    pub(crate) direction: Direction,
    /// Address in this process.
    pub(crate) local: u64,
    /// Offset from the start of the target's buffer.
    pub(crate) remote: u64,
    /// Length.
    pub(crate) bytes: u64,
}

/// A batch in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket(pub(crate) u64);

/// Bytes that went through one network card or route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CardCount {
    /// Name of the card or route.
    pub(crate) name: String,
    /// An RDMA device: a caller that uses one of them uses all.
    pub(crate) is_rdma: bool,
    /// Bytes read from the target since the mover was made.
    pub(crate) read_bytes: u64,
    /// Bytes written to the target since then.
    pub(crate) written_bytes: u64,
}

/// Moves bytes between this process and one target.
pub(crate) trait Mover: Send + Sync {
    /// Starts a batch.
    ///
    /// # Errors
    /// It is refused.
    fn submit(&self, moves: &[Move]) -> Result<Ticket, BenchError>;
    /// Waits until every piece of a batch has arrived, at most the deadline of the mover.
    ///
    /// # Errors
    /// It failed or took too long.
    fn wait(&self, ticket: Ticket) -> Result<(), BenchError>;
    /// Moves one piece and waits, on this thread where the mover can.
    ///
    /// # Errors
    /// It failed or took too long.
    fn transfer(&self, piece: &Move) -> Result<(), BenchError>;
    /// What each network card moved so far.
    fn cards(&self) -> Vec<CardCount>;
}

#[cfg(test)]
pub(crate) mod memory;
