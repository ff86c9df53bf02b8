//! What a server asks of the owner of memory: which ranges a request may use.
//! Invariant: a range is found only with the right to use its memory.

use super::granted_range::GrantedRange;
use super::session::ConnectionState;
use crate::scope::Scope;
use crate::wire::{Guard, Piece};
use perigee_schemas::{Direction, Status};

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

/// Memory of this process that peers may read and write.
pub trait MemoryOwner: Send + Sync + 'static {
    /// What one connection has beside its moves.
    type Session: ConnectionState;

    /// Checks a piece against bounds, rights and its guard.
    ///
    /// # Errors
    /// Why it must not be moved.
    fn find(&self, request: &PieceRequest<'_>) -> Result<GrantedRange, Status>;
}
