//! Pieces of objects that lie on a disk of this process, brought into memory for a peer.
//! Invariant: a piece is sent only if the disk has found the generation of its object beside it.
#![expect(unsafe_code, reason = "it vouches for memory of a disk's reads")]

use crate::disk_piece::disk_piece;
use crate::limits::DISK_READ_DEADLINE;
use perigee_mover::{FetchRequest, FetchedPieces, GrantedRange};
use perigee_schemas::Status;
use perigee_shard::{Environment, Guard};
use perigee_ssd::{Disk, DiskPiece, ReadError, StageHold, StagedBytes};
use std::sync::Arc;

/// The same refusal for each piece.
pub(super) fn refused(request: &FetchRequest<'_>, status: Status) -> FetchedPieces {
    FetchedPieces { ranges: request.pieces.iter().map(|_| Err(status)).collect(), kept: None }
}

/// Reads all pieces of a request at once.
pub(super) async fn read_disk<E: Environment>(
    environment: &E,
    disk: &Disk,
    request: &FetchRequest<'_>,
) -> FetchedPieces {
    let pieces: Option<Vec<DiskPiece>> = request
        .pieces
        .iter()
        .enumerate()
        .map(|(at, piece)| disk_piece(piece, request.guards.get(at)))
        .collect();
    let Some(pieces) = pieces else {
        return refused(request, Status::InvalidParams);
    };
    match disk.read(pieces).within(environment, DISK_READ_DEADLINE).await {
        Ok(read) => {
            let hold = || StageHold::of(read.iter().flatten());
            let hold = request.is_of_reader.then(hold).flatten();
            let kept = hold.map(|hold| Arc::new(hold) as Guard);
            FetchedPieces { ranges: read.into_iter().map(granted).collect(), kept }
        }
        Err(error) => {
            tracing::debug!(%error, "A disk has not read what a peer asked for");
            refused(request, Status::TransferFail)
        }
    }
}

fn granted(read: Result<StagedBytes, ReadError>) -> Result<GrantedRange, Status> {
    let staged = read.map_err(|error| match error {
        ReadError::Gone => Status::InvalidReplica,
        _ => Status::TransferFail,
    })?;
    let bytes = staged.as_slice();
    let (first, length) = (bytes.as_ptr().cast_mut(), bytes.len() as u64);
    // Nothing revokes it: what was read stays as it is until it is sent.
    let kept = (first as usize, staged.keep());
    // SAFETY: the bytes stay valid as long as the stage is kept, and they are only sent.
    Ok(unsafe { GrantedRange::new(first, length, kept) })
}
