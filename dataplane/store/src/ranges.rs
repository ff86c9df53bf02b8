//! Reading ranges of objects with the same checks as whole ones.
#![expect(unsafe_code, reason = "it lends memory of callers to the engine")]

use crate::api::RangeRequest;
use crate::caller_memory::HostPieces;
use crate::client::Store;
use crate::lookup::{FoundObject, Lookup};
use crate::read_failure::status_of;
use crate::traced_call::{TracedCall, verdict_on};
use perigee_activity::Operation;
use perigee_memory::ByteRangeMut;
use perigee_memory::reachable::Use;
use perigee_schemas::Status;
use perigee_transfer::{RangeJob, ReplicaAddress, TransferError};

impl Store {
    /// Reads ranges; the result of each is its length. A range beyond the end of its object is an
    /// error.
    pub fn read_ranges(&self, requests: &[RangeRequest<'_>]) -> Vec<Result<u64, Status>> {
        let traced = TracedCall::begin(Operation::ReadRanges);
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
        let results = self.read_located_ranges(&self.locate(&keys), &indices, requests);
        let bytes = results.iter().filter_map(|result| result.as_ref().ok()).sum();
        traced.end(&self.cells, keys.first().copied(), results.iter().map(verdict_on), bytes);
        results
    }

    fn read_located_ranges(
        &self,
        lookup: &Lookup,
        indices: &[usize],
        requests: &[RangeRequest<'_>],
    ) -> Vec<Result<u64, Status>> {
        debug_assert_eq!(indices.len(), requests.len(), "one index per range");
        let mut results: Vec<Result<u64, Status>> =
            vec![Err(Status::InvalidParams); requests.len()];
        let mut waiting: Vec<(usize, &FoundObject, usize)> = Vec::new();
        for (position, index) in indices.iter().enumerate() {
            match lookup.found(*index) {
                Ok(found) if found.places.is_empty() => {
                    results[position] = Err(Status::ReplicaIsNotReady);
                }
                Ok(found) => match self.memory.check(&requests[position].target, Use::Write) {
                    Ok(()) => waiting.push((position, found, 0)),
                    Err(status) => results[position] = Err(status),
                },
                Err(status) => results[position] = Err(status),
            }
        }
        while !waiting.is_empty() && self.is_open() {
            let outcomes = self.read_waiting(&waiting, requests);
            // A range without an outcome would be forgotten.
            assert_eq!(outcomes.len(), waiting.len(), "one outcome per range");
            let mut again = Vec::new();
            for ((position, found, tried), outcome) in waiting.into_iter().zip(outcomes) {
                if let Err(error) = &outcome {
                    self.unreachable.note(self.place(found, tried), error);
                }
                results[position] = outcome
                    .as_ref()
                    .map(|()| requests[position].target.bytes as u64)
                    .map_err(status_of);
                if outcome.is_err() {
                    found.leave_lease();
                }
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

    fn place<'a>(&self, found: &'a FoundObject, tried: usize) -> &'a ReplicaAddress {
        &found.places[self.order(&found.places, found.turn)[tried]]
    }

    /// Reads each range from the replica whose turn it is.
    fn read_waiting(
        &self,
        waiting: &[(usize, &FoundObject, usize)],
        requests: &[RangeRequest<'_>],
    ) -> Vec<Result<(), TransferError>> {
        let target = |(position, ..): &(usize, _, _)| target(&requests[*position]);
        let targets: Vec<[ByteRangeMut; 1]> = waiting.iter().map(target).collect();
        let mut outcomes = Vec::with_capacity(waiting.len());
        while outcomes.len() < waiting.len() {
            let from = outcomes.len();
            let objects = targets[from..].iter().map(<[ByteRangeMut; 1]>::as_slice);
            let until = from + self.memory.staged_together(objects);
            debug_assert!(from < until && until <= waiting.len(), "each step reads some");
            outcomes.extend(self.read_ranges_step(&waiting[from..until], requests));
        }
        outcomes
    }

    fn read_ranges_step(
        &self,
        waiting: &[(usize, &FoundObject, usize)],
        requests: &[RangeRequest<'_>],
    ) -> Vec<Result<(), TransferError>> {
        let pieces = |(position, ..): &(usize, _, _)| target(&requests[*position]);
        let pieces: Vec<[ByteRangeMut; 1]> = waiting.iter().map(pieces).collect();
        let mut stage = self.memory.stage(pieces.iter().map(<[ByteRangeMut; 1]>::as_slice));
        let host = |piece: &[ByteRangeMut; 1]| self.memory.targets(&mut stage, piece.to_vec());
        let hosts: Vec<Result<HostPieces, TransferError>> = pieces.iter().map(host).collect();
        let there = waiting.iter().zip(&hosts);
        let jobs: Vec<RangeJob<'_>> = there
            .filter_map(|((position, found, tried), host)| {
                Some(RangeJob {
                    place: self.place(found, *tried),
                    checksum: found.checksum,
                    source_offset: requests[*position].source_offset,
                    target: *host.as_ref().ok()?.as_targets().first()?,
                })
            })
            .collect();
        // SAFETY: callers of the store keep their targets valid and unshared for the length of the
        // call.
        let read = unsafe { self.engine.read_ranges(&jobs) };
        drop(jobs);
        self.memory.delivered(hosts, read)
    }
}

fn target(request: &RangeRequest<'_>) -> [ByteRangeMut; 1] {
    [ByteRangeMut { ptr: request.target.address as *mut u8, len: request.target.bytes }]
}
