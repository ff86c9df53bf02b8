//! Writing objects: reserve, move, commit. What cannot be written is revoked, so no key is left
//! half-done.

mod places;

use crate::api::{PutRequest, ReplicateConfig, SoftPinAction};
use crate::calls::{check_key, in_calls};
use crate::client::{Store, refused};
use crate::limits::PUT_ATTEMPTS;
use crate::parts::PartPlaces;
use crate::traced_call::TracedCall;
use perigee_activity::Operation;
use perigee_memory::crc32c_combine;
use perigee_memory::reachable::{KnownMappings, Use};
use perigee_metrics::{ClientCall, RpcKind};
use perigee_rpc::{StartedBatch, WirePlacement, WriteForm};
use perigee_schemas::{Identity, Status};
use perigee_shard::monotonic;
use perigee_transfer::{ReplicaAddress, TransferError};
use std::collections::HashMap;
use std::ops::Range;

/// The keys of one attempt that were given places.
struct Writing {
    /// Index of the request.
    request: usize,
    places: Vec<ReplicaAddress>,
    /// Which places are of which part, if no segment is large enough for the object.
    parts: Option<Box<PartPlaces>>,
}

impl Writing {
    /// What names this put among all puts of its key; no allocation has 0.
    fn generation(&self) -> u64 {
        self.places.first().map_or(0, |place| place.generation)
    }
}

/// A put whose bytes could not all be moved.
struct Failed {
    request: usize,
    generation: u64,
    error: TransferError,
    /// A target broke off or was late, or the caller did not wait, so bytes may still arrive there.
    in_flight: bool,
}

/// What the replicas of one object came to.
struct PutOutcome {
    checksum: Result<WrittenSums, TransferError>,
    in_flight: bool,
}

/// CRC-32C of what was written.
#[derive(Debug, PartialEq, Eq)]
struct WrittenSums {
    whole: u32,
    /// Of each part; empty for an object in one piece.
    parts: Vec<u32>,
}

impl Store {
    /// Stores objects. A key that exists already is left as it is and counts as stored.
    pub fn put(&self, requests: &[PutRequest<'_>], config: &ReplicateConfig) -> Vec<Status> {
        self.write(requests, config, WriteForm::default())
    }

    /// Stores objects, replacing those that exist; readers see the old bytes or the new ones, never
    /// a mixture. After `Ok` the key has these bytes, or those of an upsert that began later; it
    /// never goes back to those of an earlier one.
    pub fn upsert(&self, requests: &[PutRequest<'_>], config: &ReplicateConfig) -> Vec<Status> {
        let form = WriteForm { upsert: true, single: false };
        self.write(requests, config, form)
    }

    /// [`Store::put`] or [`Store::upsert`], as `form` says.
    pub fn write(
        &self,
        requests: &[PutRequest<'_>],
        config: &ReplicateConfig,
        form: WriteForm,
    ) -> Vec<Status> {
        let start = monotonic();
        let traced = TracedCall::begin_at(operation(form, requests.len()), start);
        let mut results = vec![Status::InvalidParams; requests.len()];
        let stand_ins = form.upsert.then(|| last_of_each_key(requests));
        let is_written = |index: &usize| stand_ins.as_ref().is_none_or(|of| of[*index] == *index);
        let mut known = KnownMappings::default();
        let is_there = |index: &usize| {
            let pieces = requests[*index].pieces;
            self.memory.check_all(pieces, Use::Read, &mut known).is_ok()
        };
        let written = (0..requests.len()).filter(is_written).filter(is_there);
        let mut written: Vec<usize> = written.collect();
        written.retain(|index| {
            let checked = check_key(requests[*index].key);
            checked.map_err(|status| results[*index] = status).is_ok()
        });
        for chunk in in_calls(&written, |index| requests[*index].key.len()) {
            self.write_chunk(requests, chunk.to_vec(), config, form, &mut results);
        }
        for (index, stand_in) in stand_ins.into_iter().flatten().enumerate() {
            debug_assert!(stand_in >= index, "the last of a key stands in");
            results[index] = results[stand_in];
        }
        let stored = requests.iter().zip(&results).filter(|(_, status)| **status == Status::Ok);
        let bytes = stored.map(|(request, _)| payload_bytes(request)).sum();
        let operation = if requests.len() == 1 { ClientCall::Put } else { ClientCall::BatchPut };
        let now = monotonic();
        self.cells.record_operation(operation, bytes, (now - start).as_nanos() as u64);
        let key = requests.first().map(|request| request.key);
        traced.end_at(&self.cells, key, results.iter().copied(), bytes, || now);
        results
    }

    /// Writes some of the requests; keys whose segment could not be reached, or was unmounted, get
    /// a new place, a few times.
    fn write_chunk(
        &self,
        requests: &[PutRequest<'_>],
        mut chunk: Vec<usize>,
        config: &ReplicateConfig,
        form: WriteForm,
        results: &mut [Status],
    ) {
        debug_assert!(chunk.iter().all(|index| *index < requests.len()));
        let mut excluded = Vec::new();
        for _ in 0..PUT_ATTEMPTS {
            if chunk.is_empty() {
                return;
            }
            let placement = self.placement(config, &excluded);
            let writings = match self.start(requests, &chunk, &placement, form, results) {
                Ok(writings) => writings,
                Err(status) => return chunk.iter().for_each(|index| results[*index] = status),
            };
            chunk = self.move_bytes(requests, &writings, form, &mut excluded, results);
            self.cells.record_retries(chunk.len() as u64);
        }
    }

    /// Reserves space; keys that need no bytes get their verdict at once.
    fn start(
        &self,
        requests: &[PutRequest<'_>],
        chunk: &[usize],
        placement: &WirePlacement<'_>,
        form: WriteForm,
        results: &mut [Status],
    ) -> Result<Vec<Writing>, Status> {
        self.while_open()?;
        let keys: Vec<&str> = chunk.iter().map(|index| requests[*index].key).collect();
        let sizes: Vec<u64> = chunk.iter().map(|index| payload_bytes(&requests[*index])).collect();
        let grouped = chunk.iter().any(|index| requests[*index].group.is_some());
        let group = |index: &usize| requests[*index].group.unwrap_or_default();
        let groups: Vec<&str> =
            if grouped { chunk.iter().map(group).collect() } else { Vec::new() };
        let started = self.timed(kind(RpcKind::PutStart, form), |master| {
            master.put_start(&keys, &sizes, &groups, placement, form)
        });
        let started = started.map_err(|error| refused(&error))?;
        debug_assert_eq!(started.status.len(), chunk.len(), "one answer per key");
        let mut writings = Vec::with_capacity(chunk.len());
        for (position, index) in chunk.iter().enumerate() {
            match started.status[position] {
                Status::Ok => {
                    let locations = started.locations_of(position);
                    match PartPlaces::of(locations, sizes[position]) {
                        Ok(parts) => {
                            let places = self.places(&started, position);
                            writings.push(Writing { request: *index, places, parts });
                        }
                        Err(status) => results[*index] = status,
                    }
                }
                Status::ObjectAlreadyExists => results[*index] = Status::Ok,
                status => results[*index] = status,
            }
        }
        Ok(writings)
    }

    fn places(&self, started: &StartedBatch, position: usize) -> Vec<ReplicaAddress> {
        let segments = self.addresses.of(&started.segments);
        let place = |location: &perigee_rpc::Location| ReplicaAddress {
            segment: segments[location.segment as usize].clone(),
            offset: location.offset,
            payload_bytes: location.payload_bytes,
            generation: location.generation,
        };
        started.locations_of(position).iter().map(place).collect()
    }

    /// Writes all replicas, then commits or revokes each key; returns the requests that deserve
    /// another attempt and adds the segments that failed to `excluded`.
    fn move_bytes(
        &self,
        requests: &[PutRequest<'_>],
        writings: &[Writing],
        form: WriteForm,
        excluded: &mut Vec<Identity>,
        results: &mut [Status],
    ) -> Vec<usize> {
        let outcomes = self.write_places(requests, writings);
        // A key without an outcome would be neither committed nor revoked.
        assert_eq!(outcomes.len(), writings.len(), "one outcome per key");
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        for (writing, replicas) in writings.iter().zip(outcomes) {
            assert_eq!(replicas.len(), writing.places.len(), "one per replica");
            exclude_faulty(&writing.places, &replicas, excluded);
            for (place, replica) in writing.places.iter().zip(&replicas) {
                if let Err(error) = replica {
                    self.unreachable.note(place, error);
                }
            }
            let PutOutcome { checksum, in_flight } = verdict(replicas, writing.parts.as_deref());
            match checksum {
                Ok(sums) => good.push((writing, sums)),
                Err(error) => bad.push(Failed {
                    request: writing.request,
                    generation: writing.generation(),
                    error,
                    in_flight,
                }),
            }
        }
        let mut again = self.commit(requests, &good, form, results);
        again.extend(self.revoke(requests, &bad, form, results));
        debug_assert!(again.len() <= writings.len(), "a key is committed or revoked, not both");
        let is_open = |index: &usize| results[*index] != Status::Ok;
        debug_assert!(again.iter().all(is_open), "what is tried again is not stored yet");
        again
    }

    /// Makes objects visible; returns the requests whose put the master has given up.
    fn commit(
        &self,
        requests: &[PutRequest<'_>],
        good: &[(&Writing, WrittenSums)],
        form: WriteForm,
        results: &mut [Status],
    ) -> Vec<usize> {
        if good.is_empty() {
            return Vec::new();
        }
        let key = |writing: &Writing| requests[writing.request].key;
        let keys: Vec<&str> = good.iter().map(|(writing, _)| key(writing)).collect();
        let generations: Vec<u64> = good.iter().map(|(put, _)| put.generation()).collect();
        let checksums: Vec<u32> = good.iter().map(|(_, sums)| sums.whole).collect();
        let parts: Vec<Vec<u32>> = match good.iter().any(|(_, sums)| !sums.parts.is_empty()) {
            true => good.iter().map(|(_, sums)| sums.parts.clone()).collect(),
            false => Vec::new(),
        };
        let ended = self.timed(kind(RpcKind::PutEnd, form), |master| {
            master.put_end(&keys, &generations, &checksums, &parts, form)
        });
        let ended = ended.unwrap_or_else(|error| vec![refused(&error); good.len()]);
        debug_assert_eq!(ended.len(), good.len(), "one answer per key");
        let mut again = Vec::new();
        for ((writing, _), status) in good.iter().zip(ended) {
            if is_given_up(status) {
                again.push(writing.request);
            }
            results[writing.request] = match status {
                // An upsert that began later can be read already: it has replaced this one.
                Status::ObjectAlreadyExists => Status::Ok,
                status => status,
            };
        }
        again
    }

    /// Revokes puts; those whose place failed and whose revocation the master confirmed deserve
    /// another attempt. Without that, a next attempt would find the own unfinished put and take it
    /// for a stored object.
    fn revoke(
        &self,
        requests: &[PutRequest<'_>],
        bad: &[Failed],
        form: WriteForm,
        results: &mut [Status],
    ) -> Vec<usize> {
        for failed in bad {
            let (key, error) = (requests[failed.request].key, &failed.error);
            tracing::debug!(key, %error, "An object could not be written");
            results[failed.request] = status_of(error);
        }
        let mut again = Vec::new();
        for in_flight in [false, true] {
            let puts = bad.iter().filter(|failed| failed.in_flight == in_flight);
            again.extend(self.revoke_alike(requests, &puts.collect::<Vec<_>>(), in_flight, form));
        }
        again
    }

    fn revoke_alike(
        &self,
        requests: &[PutRequest<'_>],
        puts: &[&Failed],
        in_flight: bool,
        form: WriteForm,
    ) -> Vec<usize> {
        if puts.is_empty() {
            return Vec::new();
        }
        let keys: Vec<&str> = puts.iter().map(|put| requests[put.request].key).collect();
        let generations: Vec<u64> = puts.iter().map(|put| put.generation).collect();
        let revoked = self.timed(kind(RpcKind::PutRevoke, form), |master| {
            master.put_revoke(&keys, &generations, in_flight, form)
        });
        let revoked = revoked.unwrap_or_else(|error| {
            tracing::debug!(%error, "Started puts were not revoked; the master discards them later");
            vec![error.status(); puts.len()]
        });
        debug_assert_eq!(revoked.len(), puts.len(), "one answer per key");
        puts.iter()
            .zip(revoked)
            .filter(|(put, status)| is_revoked(*status) && put.error.is_place_fault())
            .map(|(put, _)| put.request)
            .collect()
    }

    fn placement<'a>(
        &'a self,
        config: &'a ReplicateConfig,
        excluded: &'a [Identity],
    ) -> WirePlacement<'a> {
        WirePlacement {
            replica_num: config.replica_num,
            soft_pin_action: match config.soft_pin_action {
                SoftPinAction::Preserve => 0,
                SoftPinAction::Enable => 1,
                SoftPinAction::Disable => 2,
            },
            soft_pin_ttl_ms: config.soft_pin_ttl_ms,
            with_soft_pin: config.with_soft_pin,
            with_hard_pin: config.with_hard_pin,
            prefer_alloc_in_same_node: config.prefer_alloc_in_same_node,
            data_type: config.data_type,
            preferred_segments: &config.preferred_segments,
            excluded,
            host_id: &self.host_id,
            host_name: self.host_name(),
            parts: true,
        }
    }
}

fn operation(form: WriteForm, keys: usize) -> Operation {
    match (form.upsert, keys) {
        (false, 1) => Operation::Put,
        (false, _) => Operation::BatchPut,
        (true, 1) => Operation::Upsert,
        (true, _) => Operation::BatchUpsert,
    }
}

/// The kind that counts a call of a write.
fn kind(kind: RpcKind, form: WriteForm) -> RpcKind {
    let kind = if form.upsert { kind.replacing() } else { kind };
    if form.single { kind } else { kind.batched() }
}

/// For each request the last one of its key: an upsert of a key that the same batch replaces again
/// need not be written.
fn last_of_each_key(requests: &[PutRequest<'_>]) -> Vec<usize> {
    let keys = requests.iter().enumerate();
    let last: HashMap<&str, usize> = keys.map(|(index, it)| (it.key, index)).collect();
    requests.iter().map(|request| last[request.key]).collect()
}

fn payload_bytes(request: &PutRequest<'_>) -> u64 {
    request.pieces.iter().map(|piece| piece.bytes as u64).sum()
}

/// All replicas of an object, or of a part of it, carry the same bytes, so the same checksum; one
/// that failed fails the object.
fn verdict(replicas: Vec<Result<u32, TransferError>>, parts: Option<&PartPlaces>) -> PutOutcome {
    let in_flight = replicas
        .iter()
        .filter_map(|replica| replica.as_ref().err())
        .any(TransferError::may_still_arrive);
    let none = Err(TransferError::Engine("the master gave no place".to_owned()));
    let checksum = match parts {
        None => replicas.into_iter().reduce(|all, replica| all.and(replica)).unwrap_or(none),
        Some(parts) => {
            let sums: Result<Vec<u32>, TransferError> = replicas.into_iter().collect();
            let joined = sums.map(|sums| joined_sums(&sums, parts));
            return PutOutcome { checksum: joined, in_flight };
        }
    };
    let checksum = checksum.map(|whole| WrittenSums { whole, parts: Vec::new() });
    PutOutcome { checksum, in_flight }
}

/// The checksums of an object's parts, of which each place has one, and of the object.
fn joined_sums(places: &[u32], parts: &PartPlaces) -> WrittenSums {
    let (mut whole, mut sums) = (0, Vec::new());
    let is_written = |(_, range): (u8, Range<usize>)| range.end <= places.len();
    debug_assert!(parts.iter().all(is_written), "each place has a checksum");
    for (part, range) in parts.iter() {
        let sum = places[range.start];
        whole = crc32c_combine(whole, sum, parts.layout.bytes_of(part));
        sums.push(sum);
    }
    WrittenSums { whole, parts: sums }
}

/// Whether the master knows nothing of the put any more.
fn is_revoked(status: Status) -> bool {
    matches!(status, Status::Ok | Status::ObjectNotFound)
}

/// Whether a put whose bytes are all there has ended without them: its segments are gone, a forced
/// removal took the object that it was to replace, or it took so long that others were let in.
/// Nothing of it is left.
fn is_given_up(status: Status) -> bool {
    matches!(status, Status::ObjectNotFound | Status::InvalidWrite | Status::IllegalClient)
}

/// The status that the caller of a put gets: one for all bytes that did not arrive, as Mooncake has
/// it, whether their owner was out of reach, broke off or has lost the place.
fn status_of(error: &TransferError) -> Status {
    match error.status() {
        known @ (Status::InvalidParams | Status::RpcTimeout | Status::NoAvailableHandle) => known,
        _ => Status::TransferFail,
    }
}

/// Adds the segments whose owner failed or has not got them (any more).
fn exclude_faulty(
    places: &[ReplicaAddress],
    replicas: &[Result<u32, TransferError>],
    excluded: &mut Vec<Identity>,
) {
    debug_assert_eq!(places.len(), replicas.len());
    for (place, replica) in places.iter().zip(replicas) {
        let faulty = matches!(replica, Err(error) if error.is_place_fault());
        if faulty && !excluded.contains(&place.segment.id) {
            excluded.push(place.segment.id);
        }
    }
}

#[cfg(test)]
mod tests;
