//! Reading ranges of objects with the same checks as whole ones.

use crate::api::RangeRequest;
use crate::client::Store;
use crate::lookup::{Found, Lookup};
use perigee_memory::PieceMut;
use perigee_schemas::Status;
use perigee_transfer::{Place, RangeJob, TransferError};

impl Store {
    /// Reads ranges; the result of each is its length. A range beyond the end of its object is an error.
    pub fn read_ranges(&self, requests: &[RangeRequest<'_>]) -> Vec<Result<u64, Status>> {
        let mut keys: Vec<&str> = Vec::new();
        let mut index_of = std::collections::HashMap::new();
        let indices: Vec<usize> = requests
            .iter()
            .map(|request| {
                *index_of.entry(request.key).or_insert_with(|| {
                    keys.push(request.key);
                    keys.len() - 1
                })
            })
            .collect();
        self.read_located_ranges(&self.locate(&keys), &indices, requests)
    }

    fn read_located_ranges(
        &self,
        lookup: &Lookup,
        indices: &[usize],
        requests: &[RangeRequest<'_>],
    ) -> Vec<Result<u64, Status>> {
        let mut results: Vec<Result<u64, Status>> =
            vec![Err(Status::InvalidParams); requests.len()];
        let mut waiting: Vec<(usize, &Found, usize)> = Vec::new();
        for (position, index) in indices.iter().enumerate() {
            match lookup.found(*index) {
                Ok(found) if found.places.is_empty() => {
                    results[position] = Err(Status::ReplicaIsNotReady);
                }
                Ok(found) => waiting.push((position, found, 0)),
                Err(status) => results[position] = Err(status),
            }
        }
        while !waiting.is_empty() && self.is_open() {
            let jobs: Vec<RangeJob<'_>> = waiting
                .iter()
                .map(|(position, found, tried)| self.job(found, *tried, &requests[*position]))
                .collect();
            // SAFETY: callers of the store keep their targets valid and unshared for the length of the call.
            let outcomes = unsafe { self.engine.read_ranges(&jobs) };
            drop(jobs);
            let mut again = Vec::new();
            for ((position, found, tried), outcome) in waiting.into_iter().zip(outcomes) {
                if let Err(error) = &outcome {
                    self.note_unreachable(self.place(found, tried), error);
                }
                results[position] = outcome
                    .as_ref()
                    .map(|()| requests[position].target.bytes as u64)
                    .map_err(TransferError::status);
                let wrong_size = matches!(&outcome, Err(TransferError::BufferSize { .. }));
                let lost = outcome.is_err() && !wrong_size;
                if lost && tried + 1 < found.places.len() {
                    again.push((position, found, tried + 1));
                }
            }
            waiting = again;
        }
        results
    }

    fn place<'a>(&self, found: &'a Found, tried: usize) -> &'a Place {
        &found.places[self.order(&found.places)[tried]]
    }

    fn job<'a>(&self, found: &'a Found, tried: usize, request: &RangeRequest<'_>) -> RangeJob<'a> {
        RangeJob {
            place: self.place(found, tried),
            checksum: found.checksum,
            source_offset: request.source_offset,
            target: PieceMut {
                ptr: request.target.address as *mut u8,
                len: request.target.bytes,
            },
        }
    }
}
