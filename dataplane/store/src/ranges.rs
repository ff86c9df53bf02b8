//! Reading ranges of objects with the same checks as whole ones.
#![expect(unsafe_code, reason = "it lends memory of callers to the engine")]

use crate::api::RangeRequest;
use crate::caller_memory::HostPieces;
use crate::client::Store;
use crate::lookup::{FoundObject, Lookup};
use crate::parts::PartPlaces;
use crate::read_failure::{SuspectCopy, status_of};
use crate::traced_call::{TracedCall, verdict_on};
use perigee_activity::Operation;
use perigee_memory::ByteRangeMut;
use perigee_memory::reachable::{KnownMappings, Use};
use perigee_schemas::Status;
use perigee_transfer::{RangeJob, ReplicaAddress, TransferError};
use std::ops::Range;

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
        let mut waiting: Vec<RangeRead<'_>> = Vec::new();
        let mut known = KnownMappings::default();
        // As with whole objects: what a range has in further parts has results behind all others.
        let mut joined = Vec::new();
        for (position, index) in indices.iter().enumerate() {
            let request = &requests[position];
            let found = lookup.found(*index).and_then(|found| match found.places.is_empty() {
                true => Err(Status::ReplicaIsNotReady),
                false => self.memory.check(&request.target, Use::Write, &mut known).map(|()| found),
            });
            match found {
                Ok(found) => match &found.parts {
                    None => waiting.push(RangeRead::whole(position, found, request)),
                    Some(parts) => match in_parts(found, parts, request) {
                        Ok(reads) if reads.is_empty() => results[position] = Ok(0),
                        Ok(reads) => {
                            for (at, read) in reads.into_iter().enumerate() {
                                let extra = requests.len() + joined.len();
                                joined.extend((at > 0).then_some(position));
                                let slot = if at == 0 { position } else { extra };
                                waiting.push(RangeRead { slot, ..read });
                            }
                        }
                        Err(status) => results[position] = Err(status),
                    },
                },
                Err(status) => results[position] = Err(status),
            }
        }
        results.resize(requests.len() + joined.len(), Err(Status::InvalidParams));
        self.read_all(waiting, &mut results);
        for (extra, position) in joined.into_iter().enumerate() {
            if let (Ok(_), Err(status)) = (results[position], results[requests.len() + extra]) {
                results[position] = Err(status);
            }
        }
        results.truncate(requests.len());
        results
    }

    /// Reads ranges from one replica after the other, until each was read or has none left.
    fn read_all(&self, mut waiting: Vec<RangeRead<'_>>, results: &mut [Result<u64, Status>]) {
        let has_result = |read: &RangeRead<'_>| read.slot < results.len();
        debug_assert!(waiting.iter().all(has_result), "each range has a result of its own");
        let mut unreadable = Vec::new();
        while !waiting.is_empty() && self.is_open() {
            let outcomes = self.read_waiting(&waiting);
            // A range without an outcome would be forgotten.
            assert_eq!(outcomes.len(), waiting.len(), "one outcome per range");
            let mut again = Vec::new();
            for (read, outcome) in waiting.into_iter().zip(outcomes) {
                if let Err(error) = &outcome {
                    let place = self.place(&read);
                    self.unreachable.note(place, error);
                    let suspect = SuspectCopy::of(place, error);
                    let copy = suspect.and_then(|suspect| suspect.named(None));
                    unreadable.extend(copy.map(|copy| (read.found.key.as_str(), Some(copy))));
                    read.found.leave_lease();
                }
                results[read.slot] =
                    outcome.as_ref().map(|()| read.wanted_bytes).map_err(status_of);
                let wrong_size = matches!(&outcome, Err(TransferError::BufferSize { .. }));
                let lost = outcome.is_err() && !wrong_size;
                if lost && read.tried + 1 < read.places.len() {
                    again.push(RangeRead { tried: read.tried + 1, ..read });
                }
            }
            waiting = again;
        }
        if !unreadable.is_empty() {
            drop(self.look_up_again(&unreadable));
        }
    }

    fn place<'a>(&self, read: &RangeRead<'a>) -> &'a ReplicaAddress {
        let places = &read.found.places[read.places.clone()];
        &places[self.order(places, read.found.turn)[read.tried]]
    }

    /// Reads each range from the replica whose turn it is.
    fn read_waiting(&self, waiting: &[RangeRead<'_>]) -> Vec<Result<(), TransferError>> {
        let mut outcomes = Vec::with_capacity(waiting.len());
        while outcomes.len() < waiting.len() {
            let from = outcomes.len();
            let objects = waiting[from..].iter().map(|read| read.target.as_slice());
            let until = from + self.memory.staged_together(objects);
            debug_assert!(from < until && until <= waiting.len(), "each step reads some");
            outcomes.extend(self.read_ranges_step(&waiting[from..until]));
        }
        outcomes
    }

    fn read_ranges_step(&self, waiting: &[RangeRead<'_>]) -> Vec<Result<(), TransferError>> {
        let mut stage = self.memory.stage(waiting.iter().map(|read| read.target.as_slice()));
        let host = |read: &RangeRead<'_>| self.memory.targets(&mut stage, read.target.to_vec());
        let hosts: Vec<Result<HostPieces, TransferError>> = waiting.iter().map(host).collect();
        let there = waiting.iter().zip(&hosts);
        let jobs: Vec<RangeJob<'_>> = there
            .filter_map(|(read, host)| {
                Some(RangeJob {
                    place: self.place(read),
                    checksum: read.found.checksum_at(read.places.start),
                    source_offset: read.source_offset,
                    target: *host.as_ref().ok()?.as_targets().first()?,
                })
            })
            .collect();
        self.count_disk_requests(jobs.iter().map(|job| job.place));
        // SAFETY: callers of the store keep their targets valid and unshared for the length of the
        // call.
        let read = unsafe { self.engine.read_ranges(&jobs) };
        drop(jobs);
        self.memory.delivered(hosts, read)
    }
}

/// One range, or what it has in one part of its object, on its way to the caller.
struct RangeRead<'a> {
    /// Where its result goes.
    slot: usize,
    found: &'a FoundObject,
    /// The replicas of what it is read from.
    places: Range<usize>,
    /// First byte to read there.
    source_offset: u64,
    target: [ByteRangeMut; 1],
    /// Length of the whole range in bytes.
    wanted_bytes: u64,
    tried: usize,
}

impl<'a> RangeRead<'a> {
    fn whole(slot: usize, found: &'a FoundObject, request: &RangeRequest<'_>) -> Self {
        Self {
            slot,
            found,
            places: 0..found.places.len(),
            source_offset: request.source_offset,
            target: target(request),
            wanted_bytes: request.target.bytes as u64,
            tried: 0,
        }
    }
}

/// What a range has in each part of its object.
fn in_parts<'a>(
    found: &'a FoundObject,
    parts: &PartPlaces,
    request: &RangeRequest<'_>,
) -> Result<Vec<RangeRead<'a>>, Status> {
    let (start, wanted) = (request.source_offset, request.target.bytes as u64);
    let end = start.checked_add(wanted).filter(|end| *end <= found.payload_bytes);
    let payload_bytes = found.payload_bytes;
    let too_long = TransferError::BufferSize { buffers: wanted, wanted: payload_bytes };
    let end = end.ok_or_else(|| status_of(&too_long))?;
    let [target] = target(request);
    let read = |(part, places): (u8, Range<usize>)| {
        let first = parts.layout.offset_of(part);
        let from = start.max(first);
        let to = end.min(first + parts.layout.bytes_of(part));
        let len = to.checked_sub(from).filter(|len| *len > 0)? as usize;
        let ptr = target.ptr.wrapping_add((from - start) as usize);
        Some(RangeRead {
            places,
            source_offset: from - first,
            target: [ByteRangeMut { ptr, len }],
            ..RangeRead::whole(0, found, request)
        })
    };
    let reads: Vec<RangeRead<'_>> = parts.iter().filter_map(read).collect();
    let bytes: u64 = reads.iter().map(|read| read.target[0].len as u64).sum();
    debug_assert_eq!(bytes, wanted, "the parts have all of a range together");
    Ok(reads)
}

fn target(request: &RangeRequest<'_>) -> [ByteRangeMut; 1] {
    [ByteRangeMut { ptr: request.target.address as *mut u8, len: request.target.bytes }]
}
