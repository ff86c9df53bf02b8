//! A copy that a client carries out, and what came of it. Invariant: a move is named by the
//! generation of its target.

use crate::columns::ReplicaLocation;

/// One object that the owner of its segment is to copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MoveTask {
    /// The key.
    pub key: Box<[u8]>,
    /// CRC-32C of the payload.
    pub checksum: u32,
    /// Where it lies, in a segment of who carries the move out.
    pub source: ReplicaLocation,
    /// Where the copy goes; its generation names the move.
    pub target: ReplicaLocation,
}

/// Moves that have ended one way or the other; all keys must belong to the shard.
#[derive(Debug, Clone, Copy)]
pub struct EndedMoves<'a> {
    /// Who carried them out.
    pub client: u128,
    /// The keys.
    pub keys: &'a [&'a [u8]],
    /// Generation of each target.
    pub generations: &'a [u64],
    /// `Ok`, or why there is no copy, as codes.
    pub status: &'a [i32],
    /// Whether bytes may still arrive at the target.
    pub in_flight: &'a [bool],
}
