//! Cutting a batch into slices: large requests into several, small ones together. Pure arithmetic.
//! Invariant: the pieces of a request cover it exactly once, in order.

use crate::error::EngineError;
use crate::limits::{
    BATCH_BYTES_MAX, BATCH_REQUESTS_MAX, SLICE_BYTES_MAX, SLICE_BYTES_MIN, SLICES_PER_BATCH,
};
use crate::request::{Direction, TransferRequest};
use crate::request_piece::RequestPiece;
use perigee_mover::PIECES_MAX;
use perigee_settings::SettingError;

/// A batch cut into slices.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct BatchPlan {
    /// Number of pieces of each request.
    pub(crate) pieces: Vec<u32>,
    /// Direction and pieces of each slice.
    pub(crate) slices: Vec<(Direction, Vec<RequestPiece>)>,
}

impl BatchPlan {
    /// Cuts requests into slices.
    pub(crate) fn new(requests: &[TransferRequest]) -> Result<Self, EngineError> {
        let total = check(requests)?;
        let slice_bytes = slice_bytes(total);
        let mut plan = BatchPlan { pieces: Vec::with_capacity(requests.len()), slices: Vec::new() };
        let mut room = 0;
        for (number, request) in requests.iter().enumerate() {
            let mut done = 0;
            let mut pieces = 0;
            while done < request.bytes {
                if room == 0 || !plan.takes(request.direction) {
                    plan.begin(request.direction, requests.len() - number);
                    room = slice_bytes;
                }
                let bytes = room.min(request.bytes - done);
                plan.push(RequestPiece {
                    request: number as u32,
                    local: request.local + done,
                    remote: request.remote + done,
                    bytes,
                    is_first: done == 0,
                });
                done += bytes;
                room -= bytes;
                pieces += 1;
            }
            plan.pieces.push(pieces);
        }
        plan.check(requests.len(), total);
        Ok(plan)
    }

    /// The pieces are all of so many requests of so many bytes.
    fn check(&self, requests: usize, total: u64) {
        let pieces = || self.slices.iter().flat_map(|(_, pieces)| pieces);
        debug_assert_eq!(self.pieces.len(), requests, "each request has its number of pieces");
        let counted: u64 = self.pieces.iter().map(|count| u64::from(*count)).sum();
        debug_assert_eq!(pieces().count() as u64, counted, "each piece is one of a request");
        let bytes: u64 = pieces().map(|piece| piece.bytes).sum();
        debug_assert_eq!(bytes, total, "each byte is in one piece");
    }

    fn takes(&self, direction: Direction) -> bool {
        let fits = |(other, pieces): &(Direction, Vec<RequestPiece>)| {
            *other == direction && pieces.len() < PIECES_MAX
        };
        self.slices.last().is_some_and(fits)
    }

    fn begin(&mut self, direction: Direction, requests_left: usize) {
        let pieces = Vec::with_capacity(requests_left.min(PIECES_MAX).min(64));
        self.slices.push((direction, pieces));
    }

    fn push(&mut self, piece: RequestPiece) {
        if let Some((_, pieces)) = self.slices.last_mut() {
            pieces.push(piece);
        }
    }
}

/// Total bytes of requests that can be carried out as they are.
fn check(requests: &[TransferRequest]) -> Result<u64, EngineError> {
    if requests.len() > BATCH_REQUESTS_MAX {
        return Err(EngineError::TooMany {
            what: "requests in one batch",
            limit: BATCH_REQUESTS_MAX,
            remedy: "submit several batches",
        });
    }
    let mut total = 0u64;
    for request in requests {
        let in_range = request.local.checked_add(request.bytes).is_some()
            && request.remote.checked_add(request.bytes).is_some();
        let sum = total.checked_add(request.bytes).filter(|_| in_range);
        total = sum.ok_or_else(|| {
            let reason = "the range runs past the end of the address space";
            SettingError::new("length", request.bytes.to_string(), reason)
        })?;
    }
    if total > BATCH_BYTES_MAX {
        let reason =
            format!("a batch moves at most {BATCH_BYTES_MAX} bytes; submit several batches");
        return Err(SettingError::new("length", total.to_string(), reason).into());
    }
    Ok(total)
}

fn slice_bytes(total: u64) -> u64 {
    let share = total.div_ceil(SLICES_PER_BATCH).next_multiple_of(4096);
    share.clamp(SLICE_BYTES_MIN, SLICE_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_small_batch_is_one_slice_and_a_large_request_is_several() {
        let request = |remote, bytes| TransferRequest {
            direction: Direction::Write,
            local: 1 << 40,
            remote,
            bytes,
        };
        let small = BatchPlan::new(&[request(4096, 4096), request(65_536, 100)]).unwrap();
        assert_eq!((small.slices.len(), small.pieces), (1, vec![1, 1]));
        let large = BatchPlan::new(&[request(4096, 64 << 20)]).unwrap();
        assert_eq!((large.slices.len(), large.pieces), (64, vec![64]));
    }

    #[test]
    fn ranges_past_the_end_of_the_address_space_are_refused() {
        for (local, remote) in [(u64::MAX - 1, 1), (1, u64::MAX - 1)] {
            let request =
                TransferRequest { direction: Direction::Read, local, remote, bytes: 2 << 20 };
            assert!(BatchPlan::new(&[request]).is_err());
        }
    }

    #[test]
    fn lengths_that_no_host_has_are_refused_before_anything_is_cut() {
        for shift in 41..63 {
            let request = TransferRequest {
                direction: Direction::Read,
                local: 1 << 20,
                remote: 1 << 20,
                bytes: 1 << shift,
            };
            assert!(BatchPlan::new(&[request]).is_err(), "2^{shift}");
        }
        let half = TransferRequest {
            direction: Direction::Read,
            local: 1 << 20,
            remote: 1 << 20,
            bytes: BATCH_BYTES_MAX / 2 + 1,
        };
        assert!(BatchPlan::new(&[half, half]).is_err(), "together");
    }

    proptest! {
        #[test]
        fn pieces_cover_every_request_exactly_once(
            wanted in proptest::collection::vec((any::<bool>(), 0u64..3 << 20), 0..40),
        ) {
            let mut at = 1u64 << 32;
            let requests: Vec<TransferRequest> = wanted.iter().map(|(read, bytes)| {
                at += 16 << 20;
                let direction = if *read { Direction::Read } else { Direction::Write };
                TransferRequest { direction, local: at, remote: at << 1, bytes: *bytes }
            }).collect();
            let plan = BatchPlan::new(&requests).unwrap();
            let mut covered = vec![0; requests.len()];
            let mut counted = vec![0; requests.len()];
            for (direction, pieces) in &plan.slices {
                prop_assert!(!pieces.is_empty() && pieces.len() <= PIECES_MAX);
                let bytes: u64 = pieces.iter().map(|piece| piece.bytes).sum();
                prop_assert!(bytes <= SLICE_BYTES_MAX);
                for piece in pieces {
                    let index = piece.request as usize;
                    let request = requests[index];
                    prop_assert_eq!(*direction, request.direction);
                    prop_assert_eq!(piece.local, request.local + covered[index]);
                    prop_assert_eq!(piece.remote, request.remote + covered[index]);
                    covered[index] += piece.bytes;
                    counted[index] += 1;
                }
            }
            prop_assert_eq!(covered, requests.iter().map(|r| r.bytes).collect::<Vec<_>>());
            prop_assert_eq!(counted, plan.pieces);
        }
    }
}
