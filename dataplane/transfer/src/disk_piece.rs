//! What is asked of a segment, as the disk that the segment is knows it.
//! Invariant: a piece and its guard lie in one segment of the log.

use perigee_mover::{Guard, Piece};
use perigee_schemas::disk_address::DiskAddress;
use perigee_ssd::DiskPiece;

/// A piece as a disk knows it; `None` if it can be none of a log.
pub(crate) fn disk_piece(piece: &Piece, guard: Option<&Guard>) -> Option<DiskPiece> {
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
