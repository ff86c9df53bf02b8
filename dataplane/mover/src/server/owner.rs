//! What a server asks of the owner of memory: which ranges a request may use, and bytes that lie
//! elsewhere.
//! Invariant: a range is found only with the right to use its memory.

use super::granted_range::GrantedRange;
use super::session::ConnectionState;
use crate::scope::Scope;
use crate::wire::{Guard, Piece};
use perigee_schemas::{Direction, Status};
use perigee_shard::{Environment, Guard as KeptMemory};
use std::future::Future;

/// A piece that a peer asks for.
#[derive(Clone, Copy, Debug)]
pub struct PieceRequest<'a> {
    /// What its offset counts from.
    pub scope: Scope,
    /// Which way its bytes go.
    pub direction: Direction,
    /// Where it lies, and its length.
    pub piece: &'a Piece,
    /// The word that must have its value, if the peer says so.
    pub guard: Option<&'a Guard>,
}

/// All pieces of a request.
#[derive(Clone, Copy, Debug)]
pub struct FetchRequest<'a> {
    /// What their offsets count from.
    pub scope: Scope,
    /// Which way their bytes go.
    pub direction: Direction,
    /// Where they lie, and their lengths.
    pub pieces: &'a [Piece],
    /// The word of each piece that must have its value; none, or one per piece.
    pub guards: &'a [Guard],
    /// Whether the peer can read by itself what is kept for it.
    pub is_of_reader: bool,
}

/// What an owner has brought.
#[derive(Debug)]
pub struct FetchedPieces {
    /// A verdict on each piece.
    pub ranges: Vec<Result<GrantedRange, Status>>,
    /// Keeps all of them for a peer that reads them by itself, if it may.
    pub kept: Option<KeptMemory>,
}

/// Memory of this process that peers may read and write.
pub trait MemoryOwner: Send + Sync + 'static {
    /// What one connection has beside its moves.
    type Session: ConnectionState;

    /// Checks a piece against bounds, rights and its guard.
    ///
    /// # Errors
    /// Why it must not be moved.
    fn find(&self, request: &PieceRequest<'_>) -> Result<GrantedRange, Status>;

    /// Brings pieces that do not lie in memory to where they can be sent from: a verdict on each,
    /// within a bounded time. `None`: there is nothing else that the request could mean. Asked only
    /// after [`MemoryOwner::find`] has found no such memory.
    fn fetch<E: Environment>(
        &self,
        environment: &E,
        request: &FetchRequest<'_>,
    ) -> impl Future<Output = Option<FetchedPieces>> {
        let _ = (environment, request);
        std::future::ready(None)
    }
}
