//! Reading objects: look up, choose a replica, move, check; then the next replica, then look up once more.

use crate::api::{GetRequest, Piece};
use crate::client::Store;
use crate::limits::GET_ATTEMPTS;
use crate::lookup::{Found, Lookup};
use perigee_memory::PieceMut;
use perigee_metrics::Operation;
use perigee_schemas::Status;
use perigee_shard::monotonic;
use perigee_transfer::{Place, ReadJob, TransferError};

/// One object on its way to the caller.
struct Reading<'a> {
    target: usize,
    found: &'a Found,
    pieces: Vec<PieceMut>,
    /// Replicas in the order they are tried.
    order: Vec<usize>,
    tried: usize,
}

impl Store {
    /// Reads whole objects into the callers' pieces; the result of each is its payload bytes.
    pub fn get(&self, requests: &[GetRequest<'_>]) -> Vec<Result<u64, Status>> {
        let keys: Vec<&str> = requests.iter().map(|request| request.key).collect();
        let targets: Vec<(usize, &[Piece])> = requests
            .iter()
            .enumerate()
            .map(|(index, request)| (index, request.pieces))
            .collect();
        self.read(&self.locate(&keys), &targets)
    }

    /// Reads objects of a lookup: pairs of an index in the lookup and the pieces its payload goes to.
    pub fn read(&self, lookup: &Lookup, targets: &[(usize, &[Piece])]) -> Vec<Result<u64, Status>> {
        let start = monotonic();
        let mut results = self.read_once(lookup, targets);
        for _ in 1..GET_ATTEMPTS {
            let retry: Vec<usize> = (0..targets.len())
                .filter(|i| is_worth_looking_up(&results[*i]))
                .collect();
            if retry.is_empty() || !self.is_open() {
                break;
            }
            self.cells.record_retries(retry.len() as u64);
            let keys: Vec<&str> = retry
                .iter()
                .map(|i| lookup.found(targets[*i].0).map_or("", |f| &f.key))
                .collect();
            let again = self.look_up(&keys, false);
            let moved: Vec<(usize, &[Piece])> = retry
                .iter()
                .enumerate()
                .map(|(index, i)| (index, targets[*i].1))
                .collect();
            for (i, result) in retry.into_iter().zip(self.read_once(&again, &moved)) {
                results[i] = result;
            }
        }
        self.count(&results, start);
        results
    }

    fn read_once(
        &self,
        lookup: &Lookup,
        targets: &[(usize, &[Piece])],
    ) -> Vec<Result<u64, Status>> {
        let mut results: Vec<Result<u64, Status>> = vec![Err(Status::InvalidParams); targets.len()];
        if !self.is_open() {
            return results;
        }
        let mut readings = Vec::with_capacity(targets.len());
        for (target, (index, pieces)) in targets.iter().enumerate() {
            match lookup
                .found(*index)
                .and_then(|found| Ok((found, trimmed(pieces, found.payload_bytes)?)))
            {
                Ok((found, pieces)) => {
                    let order = self.order(&found.places);
                    readings.push(Reading {
                        target,
                        found,
                        pieces,
                        order,
                        tried: 0,
                    });
                }
                Err(status) => results[target] = Err(status),
            }
        }
        while !readings.is_empty() {
            readings = self.try_replicas(readings, &mut results);
        }
        results
    }

    /// Tries the next replica of each object; returns the objects that have another one to try.
    fn try_replicas<'a>(
        &self,
        readings: Vec<Reading<'a>>,
        results: &mut [Result<u64, Status>],
    ) -> Vec<Reading<'a>> {
        let (ready, without): (Vec<_>, Vec<_>) =
            readings.into_iter().partition(|r| r.tried < r.order.len());
        for reading in without {
            results[reading.target] = Err(Status::ReplicaIsNotReady);
        }
        let jobs: Vec<ReadJob<'_>> = ready
            .iter()
            .map(|reading| ReadJob {
                place: &reading.found.places[reading.order[reading.tried]],
                checksum: reading.found.checksum,
                pieces: &reading.pieces,
            })
            .collect();
        // SAFETY: callers of the store keep their pieces valid and unshared for the length of the call.
        let outcomes = unsafe { self.engine.read(&jobs) };
        drop(jobs);
        let mut again = Vec::new();
        for (mut reading, outcome) in ready.into_iter().zip(outcomes) {
            match outcome {
                Ok(()) => results[reading.target] = Ok(reading.found.payload_bytes),
                Err(error) => {
                    self.note(&reading, &error);
                    results[reading.target] = Err(error.status());
                    reading.tried += 1;
                    if reading.tried < reading.order.len() {
                        again.push(reading);
                    }
                }
            }
        }
        again
    }

    fn note(&self, reading: &Reading<'_>, error: &TransferError) {
        let segment = reading.found.places[reading.order[reading.tried]]
            .segment
            .id;
        match error {
            TransferError::Checksum { .. } => {
                if let Some(unlogged) = self.refusals.admit(monotonic()) {
                    tracing::warn!(key = reading.found.key, %segment, %error, unlogged, "Bytes were refused");
                }
            }
            _ => {
                tracing::debug!(key = reading.found.key, %segment, %error, "A replica could not be read");
            }
        }
    }

    /// Nearest replicas first: those on this host, then the rest, starting at a place that differs between keys.
    pub(crate) fn order(&self, places: &[Place]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..places.len()).collect();
        if places.len() > 1 {
            let turn = places[0].generation as usize % places.len();
            order.rotate_left(turn);
            order.sort_by_key(|index| places[*index].segment.host_id != self.host_id);
        }
        order
    }

    fn count(&self, results: &[Result<u64, Status>], start: std::time::Duration) {
        let bytes = results
            .iter()
            .filter_map(|result| result.as_ref().ok())
            .sum();
        let operation = if results.len() == 1 {
            Operation::Get
        } else {
            Operation::BatchGet
        };
        self.cells
            .record_operation(operation, bytes, (monotonic() - start).as_nanos() as u64);
    }
}

/// The first `payload_bytes` of the pieces; an error if they have less room.
fn trimmed(pieces: &[Piece], payload_bytes: u64) -> Result<Vec<PieceMut>, Status> {
    let mut left = usize::try_from(payload_bytes).map_err(|_| Status::InvalidParams)?;
    let mut trimmed = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let bytes = piece.bytes.min(left);
        if bytes > 0 {
            trimmed.push(PieceMut {
                ptr: piece.address as *mut u8,
                len: bytes,
            });
        }
        left -= bytes;
    }
    if left == 0 {
        Ok(trimmed)
    } else {
        Err(Status::InvalidParams)
    }
}

/// Whether the place may just be out of date: the key can have been evicted and put again.
fn is_worth_looking_up(result: &Result<u64, Status>) -> bool {
    matches!(result, Err(Status::LeaseExpired | Status::InvalidReplica))
}
