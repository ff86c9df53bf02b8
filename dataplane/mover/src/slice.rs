//! What a client moves in one exchange: pieces of one owner's memory, and the local memory that
//! belongs to them.
#![expect(unsafe_code, reason = "a slice vouches for its memory")]

use crate::error::PeerError;
use crate::reply::Reply;
use crate::scope::Scope;
use crate::stats::exchanged::Exchanged;
use perigee_activity::Request;
use perigee_memory::ByteRangeMut;
use perigee_schemas::Direction;
use perigee_schemas::mover::{Guard, Piece};
use std::fmt::Debug;

/// How the pieces of a slice are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceHeader {
    /// Which way its bytes go.
    pub direction: Direction,
    /// What names the pieces.
    pub scope: Scope,
}

/// What a slice says about the batch that it belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchState {
    /// Tells the batch from others; the same for the whole life of the batch.
    pub number: usize,
    /// Whether its caller has taken it back.
    pub is_canceled: bool,
}

/// Pieces that travel together in one exchange with one peer. A slice that is dropped has failed.
///
/// # Safety
/// The ranges of [`Slice::memory`] must stay valid for the kernel's access, reads for a write and
/// writes for a read, until the slice has settled or failed; those of a piece must have its length
/// in sum.
pub unsafe trait Slice: Debug + Send + 'static {
    /// Which way its bytes go, and what names its pieces.
    fn header(&self) -> SliceHeader;

    /// The owner's ranges, in order.
    fn pieces(&self) -> impl ExactSizeIterator<Item = Piece> + DoubleEndedIterator;

    /// One guard per piece, or none at all.
    fn guards(&self) -> impl ExactSizeIterator<Item = Guard> + DoubleEndedIterator {
        std::iter::empty()
    }

    /// The local ranges of one piece, in order.
    fn memory(&self, piece: usize) -> impl Iterator<Item = ByteRangeMut>;

    /// CRC-32C of the local bytes of each piece, for peers that check them; none if they are
    /// checked otherwise.
    fn checksums(&self) -> Vec<u32> {
        Vec::new()
    }

    /// The run of this process's rails, if the answer to a read may say where its bytes lie, so
    /// that they are read from there.
    fn reader(&self) -> Option<u64> {
        None
    }

    /// Called before its local memory is touched: what has to be staged or summed is staged and
    /// summed now.
    ///
    /// # Errors
    /// There is no memory to stage it in.
    fn prepare(&mut self) -> Result<(), PeerError>;

    /// The batch that it belongs to.
    fn batch_state(&self) -> BatchState;

    /// The request of the program that it is moved for, if that one is traced.
    fn traced(&self) -> Option<&Request> {
        None
    }

    /// Whose bytes they are; empty where there are no tenants.
    fn tenant(&self) -> &str {
        ""
    }

    /// The exchange is over, and the memory is not touched any more.
    fn settle(self, reply: &Reply, exchanged: &Exchanged<'_>);

    /// It did not move, and the memory is not touched any more.
    fn fail(self, error: &PeerError);

    /// Payload bytes.
    fn bytes(&self) -> u64 {
        self.pieces().map(|piece| piece.bytes()).sum()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A slice of no memory, for frames.
    #[derive(Clone, Debug)]
    pub(crate) struct Asked {
        pub(crate) header: SliceHeader,
        pub(crate) pieces: Vec<Piece>,
        pub(crate) guards: Vec<Guard>,
        pub(crate) reader: Option<u64>,
    }

    /// Pieces of 64 bytes.
    pub(crate) fn asked(direction: Direction, pieces: usize) -> Asked {
        Asked {
            header: SliceHeader { direction, scope: Scope::Registered },
            pieces: vec![Piece::new(1, 64); pieces],
            guards: Vec::new(),
            reader: None,
        }
    }

    // SAFETY: it has no memory.
    unsafe impl Slice for Asked {
        fn header(&self) -> SliceHeader {
            self.header
        }

        fn pieces(&self) -> impl ExactSizeIterator<Item = Piece> + DoubleEndedIterator {
            self.pieces.iter().copied()
        }

        fn guards(&self) -> impl ExactSizeIterator<Item = Guard> + DoubleEndedIterator {
            self.guards.iter().copied()
        }

        fn memory(&self, _: usize) -> impl Iterator<Item = ByteRangeMut> {
            std::iter::empty()
        }

        fn checksums(&self) -> Vec<u32> {
            vec![5; self.pieces.len()]
        }

        fn reader(&self) -> Option<u64> {
            self.reader
        }

        fn prepare(&mut self) -> Result<(), PeerError> {
            Ok(())
        }

        fn batch_state(&self) -> BatchState {
            BatchState::default()
        }

        fn settle(self, _: &Reply, _: &Exchanged<'_>) {}

        fn fail(self, _: &PeerError) {}
    }
}
