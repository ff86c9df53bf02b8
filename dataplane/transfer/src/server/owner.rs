//! What peers may read and write: the segments of this process, under the generations of their
//! objects, and what its disks have.
//! Invariant: a range exists only while its segment is kept mapped.

use super::disk_read::{read_disk, refused};
use crate::segments::SegmentTable;
use perigee_memory::Segment;
use perigee_memory::segment::Exhausted;
use perigee_mover::{
    FetchRequest, FetchedPieces, GrantedRange, Guard, MemoryOwner, PieceRequest, Scope,
};
use perigee_rdma::PeerSession;
use perigee_schemas::extent::GENERATION_BYTES;
use perigee_schemas::{Direction, Status};
use perigee_shard::Environment;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

impl MemoryOwner for SegmentTable {
    type Session = PeerSession;

    fn find(&self, request: &PieceRequest<'_>) -> Result<GrantedRange, Status> {
        let Scope::Segment(id) = request.scope else {
            return Err(Status::NotSupported);
        };
        let segment = self.get(id).ok_or(Status::SegmentNotFound)?;
        let (offset, bytes) = (request.piece.offset(), request.piece.bytes());
        let first = segment.range(offset, bytes);
        let first = first.ok_or(Status::InvalidParams)?;
        match request.direction {
            // The pages are made here, so that this process is charged for them and not killed for
            // them.
            Direction::Write => {
                segment.populate(offset, bytes).map_err(|Exhausted| Status::NoAvailableHandle)?;
            }
            Direction::Read if segment.is_populated(offset, bytes) => {}
            // What was never written is no object.
            Direction::Read => return Err(Status::InvalidReplica),
        }
        request.guard.map_or(Ok(()), |guard| check(&segment, guard))?;
        let kept = (Arc::as_ptr(&segment) as usize, segment as perigee_shard::Guard);
        // SAFETY: the range was checked against its segment, which is kept mapped.
        Ok(unsafe { GrantedRange::new(first, bytes, kept) })
    }

    async fn fetch<E: Environment>(
        &self,
        environment: &E,
        request: &FetchRequest<'_>,
    ) -> Option<FetchedPieces> {
        let Scope::Segment(id) = request.scope else {
            return None;
        };
        let disk = self.disk(id)?;
        match request.direction {
            Direction::Read => Some(read_disk(environment, &disk, request).await),
            Direction::Write => Some(refused(request, Status::NotSupported)),
        }
    }
}

/// Whether the word of a guard is still the one that the peer was promised.
fn check(segment: &Segment, guard: &Guard) -> Result<(), Status> {
    if !guard.offset().is_multiple_of(GENERATION_BYTES) {
        return Err(Status::InvalidParams);
    }
    let word = segment.range(guard.offset(), GENERATION_BYTES);
    let word = word.ok_or(Status::InvalidParams)?;
    if !segment.is_populated(guard.offset(), GENERATION_BYTES) {
        return Err(Status::InvalidReplica);
    }
    fence(Ordering::SeqCst);
    // SAFETY: the word was checked against the segment; the segment is kept for the read, begins at
    // a page border, and its words are written whole.
    let found = unsafe { AtomicU64::from_ptr(word.cast()) }.load(Ordering::Acquire);
    match u64::from_le(found) == guard.value() {
        true => Ok(()),
        false => Err(Status::InvalidReplica),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_memory::segment::SegmentOptions;
    use perigee_mover::Piece;
    use perigee_schemas::Identity;

    const BYTES: u64 = 8192;

    fn owner() -> (SegmentTable, Identity, Arc<Segment>) {
        let segment = Arc::new(Segment::create(BYTES, &SegmentOptions::default()).unwrap());
        segment.populate(0, BYTES).unwrap();
        let (table, id) = (SegmentTable::default(), Identity(7));
        table.insert(id, segment.clone());
        (table, id, segment)
    }

    #[test]
    fn a_piece_is_moved_only_if_its_guard_holds() {
        let (owner, id, segment) = owner();
        let word = segment.range(4096, 8).unwrap();
        // SAFETY: the word lies in the segment, at a multiple of 8 from a page border.
        unsafe { AtomicU64::from_ptr(word.cast()) }.store(5_u64.to_le(), Ordering::Release);
        let find = |offset, value| {
            let (piece, guard) = (Piece::new(0, 100), Guard::new(offset, value));
            let (scope, direction) = (Scope::Segment(id), Direction::Read);
            let (piece, guard) = (&piece, Some(&guard));
            let found = owner.find(&PieceRequest { scope, direction, piece, guard });
            found.map(|range| range.bytes())
        };
        assert_eq!(find(4096, 5), Ok(100));
        assert_eq!(find(4096, 6), Err(Status::InvalidReplica));
        assert_eq!(find(4100, 5), Err(Status::InvalidParams), "no whole word");
        for outside in [BYTES, BYTES - 4, u64::MAX - 7] {
            assert_eq!(find(outside, 0), Err(Status::InvalidParams), "{outside}");
        }
    }

    #[test]
    fn nothing_outside_of_a_segment_is_found() {
        let (owner, id, _segment) = owner();
        let find = |scope, offset, bytes| {
            let (direction, piece) = (Direction::Write, &Piece::new(offset, bytes));
            let found = owner.find(&PieceRequest { scope, direction, piece, guard: None });
            found.map(|range| range.bytes())
        };
        let own = Scope::Segment(id);
        assert_eq!(find(own, BYTES - 10, 10), Ok(10));
        for (offset, bytes) in [(BYTES - 10, 11), (u64::MAX, 2), (0, BYTES + 1)] {
            assert_eq!(find(own, offset, bytes), Err(Status::InvalidParams));
        }
        let other = Scope::Segment(Identity(8));
        assert_eq!(find(other, 0, 1), Err(Status::SegmentNotFound));
        let address = Scope::Registered;
        assert_eq!(find(address, 4096, 1), Err(Status::NotSupported));
    }
}
