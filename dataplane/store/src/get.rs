//! Reading objects: look up, choose a replica, move, check; then the next replica, then look up
//! once more.
#![expect(unsafe_code, reason = "it lends memory of callers to the engine")]

use crate::api::{CallerRange, GetRequest};
use crate::caller_memory::HostPieces;
use crate::client::Store;
use crate::limits::{FIRST_PART_BYTES, GET_ATTEMPTS, TWO_PARTS_KEYS_MIN};
use crate::lookup::{FoundObject, Lookup};
use crate::parts::PartPlaces;
use crate::read_failure::{ReadFailure, SuspectCopy};
use crate::traced_call::{TracedCall, verdict_on};
use perigee_activity::Operation;
use perigee_memory::ByteRangeMut;
use perigee_memory::reachable::{KnownMappings, Use};
use perigee_metrics::ClientCall;
use perigee_schemas::Status;
use perigee_schemas::master::UnreadableCopy;
use perigee_shard::monotonic;
use perigee_transfer::{ReadJob, ReplicaAddress, TransferError};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// One object, or a part of one, on its way to the caller.
struct ObjectRead<'a> {
    target: usize,
    found: &'a FoundObject,
    /// Its replicas.
    places: &'a [ReplicaAddress],
    checksum: u32,
    pieces: Vec<ByteRangeMut>,
    /// Replicas in the order they are tried.
    order: Vec<usize>,
    tried: usize,
}

impl ObjectRead<'_> {
    /// The replica whose turn it is.
    fn place(&self) -> &ReplicaAddress {
        &self.places[self.order[self.tried]]
    }
}

impl Store {
    /// Reads whole objects into the callers' pieces; the result of each is its payload bytes.
    pub fn get(&self, requests: &[GetRequest<'_>]) -> Vec<Result<u64, Status>> {
        let start = monotonic();
        let traced = TracedCall::begin_at(operation(requests.len()), start);
        let keys: Vec<&str> = requests.iter().map(|request| request.key).collect();
        let pieces: Vec<&[CallerRange]> = requests.iter().map(|request| request.pieces).collect();
        let results = match first_part(requests) {
            Some(first) => self.get_in_parts(&keys, &pieces, first),
            None => self.read_with_retry(&self.locate(&keys), &numbered(&pieces)),
        };
        debug_assert_eq!(results.len(), requests.len(), "one result per key");
        self.count(traced, keys.first().copied(), &results, start);
        results
    }

    /// The first keys are read while the master looks up the others. That pays where bytes are
    /// copied by this thread; over TCP all keys travel together.
    fn get_in_parts(
        &self,
        keys: &[&str],
        pieces: &[&[CallerRange]],
        first: usize,
    ) -> Vec<Result<u64, Status>> {
        debug_assert!(0 < first && first < keys.len(), "both parts have keys");
        let (first_keys, rest_keys) = keys.split_at(first);
        let mut lookup = self.locate(first_keys);
        let near = lookup.places().all(|place| self.engine.is_near(place));
        let asked = near.then(|| self.look_up_ahead(rest_keys)).flatten();
        let Some(asked) = asked else {
            lookup.extend(self.locate(rest_keys));
            return self.read_with_retry(&lookup, &numbered(pieces));
        };
        let (first_pieces, rest_pieces) = pieces.split_at(first);
        let mut results = self.read_with_retry(&lookup, &numbered(first_pieces));
        let rest = self.take_looked_up(rest_keys, asked);
        results.extend(self.read_with_retry(&rest, &numbered(rest_pieces)));
        results
    }

    /// Reads objects of a lookup: pairs of an index in the lookup and the pieces its payload goes
    /// to.
    pub fn read(
        &self,
        lookup: &Lookup,
        targets: &[(usize, &[CallerRange])],
    ) -> Vec<Result<u64, Status>> {
        let start = monotonic();
        let traced = TracedCall::begin_at(operation(targets.len()), start);
        let results = self.read_with_retry(lookup, targets);
        let found = targets.first().and_then(|(index, _)| lookup.found(*index).ok());
        self.count(traced, found.map(|found| found.key.as_str()), &results, start);
        results
    }

    fn read_with_retry(
        &self,
        lookup: &Lookup,
        targets: &[(usize, &[CallerRange])],
    ) -> Vec<Result<u64, Status>> {
        let mut results = self.read_once(lookup, targets);
        let mut suspects = Vec::new();
        for attempt in 1..=GET_ATTEMPTS {
            let retry = retries(&results, &mut suspects, attempt < GET_ATTEMPTS);
            if retry.is_empty() || !self.is_open() {
                break;
            }
            self.cells.record_retries(retry.len() as u64);
            let key = |i: usize| lookup.found(targets[i].0).map_or("", |found| &found.key);
            let keys: Vec<_> = retry.iter().map(|(i, copy)| (key(*i), *copy)).collect();
            let again = self.look_up_again(&keys);
            let moved: Vec<(usize, &[CallerRange])> =
                retry.iter().enumerate().map(|(index, (i, _))| (index, targets[*i].1)).collect();
            debug_assert_eq!(again.len(), retry.len(), "one answer per key");
            for ((i, _), result) in retry.into_iter().zip(self.read_once(&again, &moved)) {
                results[i] = result;
            }
        }
        results.into_iter().map(|result| result.map_err(|failure| failure.status)).collect()
    }

    fn read_once(
        &self,
        lookup: &Lookup,
        targets: &[(usize, &[CallerRange])],
    ) -> Vec<Result<u64, ReadFailure>> {
        let closed = ReadFailure::from(Status::InvalidParams);
        let mut results = vec![Err(closed); targets.len()];
        if !self.is_open() {
            return results;
        }
        let mut readings = Vec::with_capacity(targets.len());
        // Targets of parts: the first part of an object has the object's own result, the others
        // have one each behind the results of all objects.
        let mut joined = Vec::new();
        let mut known = KnownMappings::default();
        for (target, (index, pieces)) in targets.iter().enumerate() {
            match lookup
                .found(*index)
                .and_then(|found| Ok((found, self.room(pieces, found.payload_bytes, &mut known)?)))
            {
                Ok((found, pieces)) => {
                    let Some(parts) = &found.parts else {
                        readings.push(self.reading(target, found, 0..found.places.len(), pieces));
                        continue;
                    };
                    for (part, places) in parts.iter() {
                        let own = match part {
                            0 => target,
                            _ => targets.len() + joined.len(),
                        };
                        joined.extend((part > 0).then_some(target));
                        let pieces = part_of(&pieces, parts, part);
                        readings.push(self.reading(own, found, places, pieces));
                    }
                }
                Err(status) => results[target] = Err(status.into()),
            }
        }
        results.resize(targets.len() + joined.len(), Err(closed));
        let has_result = |it: &ObjectRead<'_>| it.target < results.len();
        debug_assert!(readings.iter().all(has_result), "each part has a result of its own");
        while !readings.is_empty() {
            readings = self.try_replicas(readings, &mut results);
        }
        for (extra, target) in joined.into_iter().enumerate() {
            if let (Ok(_), Err(failure)) = (results[target], results[targets.len() + extra]) {
                results[target] = Err(failure);
            }
        }
        results.truncate(targets.len());
        results
    }

    /// An object, or the part of it that these places hold, to be read into pieces.
    fn reading<'a>(
        &self,
        target: usize,
        found: &'a FoundObject,
        places: Range<usize>,
        pieces: Vec<ByteRangeMut>,
    ) -> ObjectRead<'a> {
        let checksum = found.checksum_at(places.start);
        let places = &found.places[places];
        let order = self.order(places, found.turn);
        ObjectRead { target, found, places, checksum, pieces, order, tried: 0 }
    }

    /// Tries the next replica of each object; returns the objects that have another one to try.
    fn try_replicas<'a>(
        &self,
        readings: Vec<ObjectRead<'a>>,
        results: &mut [Result<u64, ReadFailure>],
    ) -> Vec<ObjectRead<'a>> {
        let (ready, without): (Vec<_>, Vec<_>) =
            readings.into_iter().partition(|r| r.tried < r.order.len());
        for reading in without {
            results[reading.target] = Err(Status::ReplicaIsNotReady.into());
        }
        let outcomes = self.read_replicas(&ready);
        // A reading without an outcome would be forgotten.
        assert_eq!(outcomes.len(), ready.len(), "one outcome per reading");
        let mut again = Vec::new();
        for (mut reading, outcome) in ready.into_iter().zip(outcomes) {
            match outcome {
                Ok(()) => results[reading.target] = Ok(reading.found.payload_bytes),
                Err(error) => {
                    self.note(&reading, &error);
                    reading.found.leave_lease();
                    let (result, place) = (&mut results[reading.target], reading.place());
                    *result = result.map_or_else(|before| Err(before.and(place, &error)), Ok);
                    reading.tried += 1;
                    if reading.tried < reading.order.len() && !error.is_canceled() {
                        again.push(reading);
                    }
                }
            }
        }
        again
    }

    /// Reads the replica of each object whose turn it is.
    fn read_replicas(&self, readings: &[ObjectRead<'_>]) -> Vec<Result<(), TransferError>> {
        let mut outcomes = Vec::with_capacity(readings.len());
        while outcomes.len() < readings.len() {
            let left = &readings[outcomes.len()..];
            let objects = left.iter().map(|reading| reading.pieces.as_slice());
            let step = &left[..self.memory.staged_together(objects)];
            debug_assert!(!step.is_empty(), "each step reads some");
            outcomes.extend(self.read_step(step));
        }
        outcomes
    }

    fn read_step(&self, readings: &[ObjectRead<'_>]) -> Vec<Result<(), TransferError>> {
        debug_assert!(readings.iter().all(|it| it.tried < it.order.len()));
        let mut stage = self.memory.stage(readings.iter().map(|it| it.pieces.as_slice()));
        let targets =
            |reading: &ObjectRead<'_>| self.memory.targets(&mut stage, reading.pieces.clone());
        let targets: Vec<Result<HostPieces, TransferError>> =
            readings.iter().map(targets).collect();
        let there = readings.iter().zip(&targets);
        let jobs: Vec<ReadJob<'_>> = there
            .filter_map(|(reading, target)| {
                Some(ReadJob {
                    place: reading.place(),
                    checksum: reading.checksum,
                    pieces: target.as_ref().ok()?.as_targets(),
                })
            })
            .collect();
        self.count_disk_requests(jobs.iter().map(|job| job.place));
        // SAFETY: callers of the store keep their pieces valid and unshared for the length of the
        // call.
        let read = unsafe { self.engine.read(&jobs) };
        drop(jobs);
        self.memory.delivered(targets, read)
    }

    /// Counts the owners of disks among these places.
    pub(crate) fn count_disk_requests<'a>(&self, places: impl Iterator<Item = &'a ReplicaAddress>) {
        let on_disks = places.filter(|place| !place.is_in_memory());
        let owners: BTreeSet<&str> = on_disks.map(|place| &*place.segment.endpoint).collect();
        self.disk_requests.fetch_add(owners.len() as u64, Ordering::Relaxed);
    }

    /// The first `payload_bytes` of the pieces; an error if they have less room, or if there is no
    /// memory at one.
    fn room(
        &self,
        pieces: &[CallerRange],
        payload_bytes: u64,
        known: &mut KnownMappings,
    ) -> Result<Vec<ByteRangeMut>, Status> {
        let mut left = usize::try_from(payload_bytes).map_err(|_| Status::InvalidParams)?;
        let mut room = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let bytes = piece.bytes.min(left);
            if bytes > 0 {
                self.memory.check(&CallerRange { bytes, ..*piece }, Use::Write, known)?;
                room.push(ByteRangeMut { ptr: piece.address as *mut u8, len: bytes });
            }
            left -= bytes;
        }
        let room_bytes: usize = room.iter().map(|piece| piece.len).sum();
        debug_assert_eq!((room_bytes + left) as u64, payload_bytes);
        match left {
            0 => Ok(room),
            _ => Err(Status::InvalidParams),
        }
    }

    fn note(&self, reading: &ObjectRead<'_>, error: &TransferError) {
        let place = reading.place();
        let segment = place.segment.id;
        self.unreachable.note(place, error);
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

    /// In which order the places of a key are tried.
    pub(crate) fn order(&self, places: &[ReplicaAddress], turn: usize) -> Vec<usize> {
        nearest_first(places, &self.host_id, turn)
    }

    fn count(
        &self,
        traced: TracedCall,
        key: Option<&str>,
        results: &[Result<u64, Status>],
        start: Duration,
    ) {
        let (bytes, now) =
            (results.iter().filter_map(|result| result.as_ref().ok()).sum(), monotonic());
        let operation = if results.len() == 1 { ClientCall::Get } else { ClientCall::BatchGet };
        self.cells.record_operation(operation, bytes, (now - start).as_nanos() as u64);
        traced.end_at(&self.cells, key, results.iter().map(verdict_on), bytes, || now);
    }
}

/// The bytes of one part in the pieces of an object.
fn part_of(pieces: &[ByteRangeMut], parts: &PartPlaces, part: u8) -> Vec<ByteRangeMut> {
    let ranges = parts.pieces_of(part, pieces.iter().map(|piece| piece.len));
    let bytes: usize = ranges.iter().map(|(_, range)| range.len()).sum();
    debug_assert_eq!(bytes as u64, parts.layout.bytes_of(part), "there is room for all of a part");
    let piece = |(number, range): (usize, Range<usize>)| ByteRangeMut {
        ptr: pieces[number].ptr.wrapping_add(range.start),
        len: range.len(),
    };
    ranges.into_iter().map(piece).collect()
}

fn operation(keys: usize) -> Operation {
    if keys == 1 { Operation::Get } else { Operation::BatchGet }
}

/// Nearest replicas first: memory of this host, other memory, then disks. Of the nearest ones each
/// lookup of a key begins with another.
fn nearest_first(places: &[ReplicaAddress], host_id: &str, turn: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..places.len()).collect();
    if places.len() > 1 {
        let distance = |at: &usize| {
            let place = &places[*at];
            (!place.is_in_memory(), place.segment.host_id != host_id)
        };
        order.sort_by_key(distance);
        let nearest = order.partition_point(|at| distance(at) <= distance(&order[0]));
        order[..nearest].rotate_left(turn % nearest);
    }
    debug_assert_eq!(order.len(), places.len(), "each replica has its turn");
    order
}

/// How many keys of a batch are read while the others are looked up; nothing for small batches and
/// small objects.
fn first_part(requests: &[GetRequest<'_>]) -> Option<usize> {
    if requests.len() < TWO_PARTS_KEYS_MIN {
        return None;
    }
    let mut bytes = 0usize;
    for (index, request) in requests.iter().enumerate().take(requests.len() / 4) {
        let room = request.pieces.iter().map(|piece| piece.bytes);
        bytes = room.fold(bytes, usize::saturating_add);
        if bytes >= FIRST_PART_BYTES {
            return Some(index + 1);
        }
    }
    None
}

/// Targets of a lookup of the same keys.
fn numbered<'a>(pieces: &[&'a [CallerRange]]) -> Vec<(usize, &'a [CallerRange])> {
    pieces.iter().copied().enumerate().collect()
}

/// The reads that are worth a new lookup, each with the copy that the master is to forget. Once no
/// further try is left, only those that have one.
fn retries(
    results: &[Result<u64, ReadFailure>],
    suspects: &mut Vec<Option<SuspectCopy>>,
    is_try_left: bool,
) -> Vec<(usize, Option<UnreadableCopy>)> {
    let mut retry = Vec::new();
    if results.iter().all(Result::is_ok) {
        return retry;
    }
    suspects.resize(results.len(), None);
    for (i, (result, suspect)) in results.iter().zip(suspects).enumerate() {
        let Some(failure) = result.err().filter(|failure| failure.is_outdated) else {
            continue;
        };
        let before = std::mem::replace(suspect, failure.suspect);
        let unreadable = failure.suspect.and_then(|suspect| suspect.named(before));
        if is_try_left || unreadable.is_some() {
            retry.push((i, unreadable));
        }
    }
    retry
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_schemas::{Identity, SegmentKind};
    use perigee_transfer::SegmentAddress;
    use std::sync::Arc;

    fn place(host_id: &str, kind: SegmentKind) -> ReplicaAddress {
        let segment = SegmentAddress {
            id: Identity(1),
            bytes: 1 << 20,
            endpoint: String::new(),
            host_id: host_id.to_owned(),
            rendezvous: String::new(),
            kind: Some(kind),
        };
        ReplicaAddress { segment: Arc::new(segment), offset: 0, payload_bytes: 1, generation: 7 }
    }

    #[test]
    fn lookups_take_turns_among_replicas_that_are_equally_near() {
        let [memory, disk] = [SegmentKind::Memory, SegmentKind::Disk];
        let places = [place("a", memory), place("b", memory), place("c", disk)];
        let first = |host_id, turns: std::ops::Range<usize>| -> Vec<usize> {
            turns.map(|turn| nearest_first(&places, host_id, turn)[0]).collect()
        };
        assert_eq!(first("z", 0..6), [0, 1, 0, 1, 0, 1], "a disk has no turn");
        assert_eq!(nearest_first(&places, "z", 1), [1, 0, 2], "it comes last");
        assert_eq!(first("b", 0..6), [1; 6], "nothing is nearer than memory of this host");
    }
}
