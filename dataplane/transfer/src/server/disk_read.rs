//! Pieces of objects that lie on a disk of this process, brought into memory for a peer.
//! Invariant: a piece is sent only if the disk has found the generation of its object beside it.
#![expect(unsafe_code, reason = "it vouches for memory of a disk's reads")]

use crate::limits::DISK_READ_DEADLINE;
use perigee_mover::{FetchRequest, GrantedRange, Guard, Piece};
use perigee_schemas::Status;
use perigee_schemas::disk_address::DiskAddress;
use perigee_shard::Environment;
use perigee_ssd::{Disk, DiskPiece, ReadError, StagedBytes};

type Fetched = Vec<Result<GrantedRange, Status>>;

/// The same refusal for each piece.
pub(super) fn refused(request: &FetchRequest<'_>, status: Status) -> Fetched {
    request.pieces.iter().map(|_| Err(status)).collect()
}

/// Reads all pieces of a request at once.
pub(super) async fn read_disk<E: Environment>(
    environment: &E,
    disk: &Disk,
    request: &FetchRequest<'_>,
) -> Fetched {
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
        Ok(read) => read.into_iter().map(granted).collect(),
        Err(error) => {
            tracing::debug!(%error, "A disk has not read what a peer asked for");
            refused(request, Status::TransferFail)
        }
    }
}

/// A piece as a disk knows it; `None` if it can be none of a log.
fn disk_piece(piece: &Piece, guard: Option<&Guard>) -> Option<DiskPiece> {
    let address = DiskAddress::unpack(piece.offset());
    let guard = match guard {
        None => None,
        Some(guard) => {
            let word = DiskAddress::unpack(guard.offset());
            let is_beside = word.sequence == address.sequence && word.offset.is_multiple_of(8);
            is_beside.then_some(())?;
            Some((word, guard.value()))
        }
    };
    Some(DiskPiece { address, bytes: u32::try_from(piece.bytes()).ok()?, guard })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_and_its_guard_lie_in_the_same_segment_of_a_log() {
        let at = |sequence, offset| DiskAddress { sequence, offset }.pack();
        let read =
            disk_piece(&Piece::new(at(3, 64), 10), Some(&Guard::new(at(3, 128), 9))).unwrap();
        assert_eq!((read.address.sequence, read.address.offset, read.bytes), (3, 64, 10));
        assert_eq!(read.guard.unwrap().1, 9);
        assert!(disk_piece(&Piece::new(at(3, 64), 10), None).is_some());
        for word in [at(4, 128), at(3, 129)] {
            let guard = Guard::new(word, 9);
            assert!(disk_piece(&Piece::new(at(3, 64), 10), Some(&guard)).is_none());
        }
        assert!(disk_piece(&Piece::new(at(3, 64), u64::MAX), None).is_none());
    }
}
