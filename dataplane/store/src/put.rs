//! Writing objects: reserve, move, commit. What cannot be written is revoked, so no key is left half-done.

use crate::api::{PutRequest, ReplicateConfig, SoftPinAction};
use crate::client::{Store, kind_of, refused};
use crate::limits::{KEYS_PER_CALL, PUT_ATTEMPTS};
use perigee_memory::Piece as Source;
use perigee_metrics::{Operation, RpcKind};
use perigee_rpc::{Placement, Started};
use perigee_schemas::Status;
use perigee_shard::monotonic;
use perigee_transfer::{Place, TransferError, WriteJob};

/// The keys of one attempt that were given places.
struct Writing {
    /// Index of the request.
    request: usize,
    places: Vec<Place>,
}

impl Store {
    /// Stores objects. A key that exists already is left as it is and counts as stored.
    pub fn put(&self, requests: &[PutRequest<'_>], config: &ReplicateConfig) -> Vec<Status> {
        self.write(requests, config, false)
    }

    /// Stores objects, replacing those that exist; readers see the old bytes or the new ones, never a mixture.
    pub fn upsert(&self, requests: &[PutRequest<'_>], config: &ReplicateConfig) -> Vec<Status> {
        self.write(requests, config, true)
    }

    fn write(
        &self,
        requests: &[PutRequest<'_>],
        config: &ReplicateConfig,
        upsert: bool,
    ) -> Vec<Status> {
        let start = monotonic();
        let mut results = vec![Status::InvalidParams; requests.len()];
        for first in (0..requests.len()).step_by(KEYS_PER_CALL) {
            let chunk: Vec<usize> = (first..requests.len().min(first + KEYS_PER_CALL)).collect();
            self.write_chunk(requests, chunk, config, upsert, &mut results);
        }
        let stored = requests
            .iter()
            .zip(&results)
            .filter(|(_, status)| **status == Status::Ok);
        let bytes = stored.map(|(request, _)| payload_bytes(request)).sum();
        let operation = if requests.len() == 1 {
            Operation::Put
        } else {
            Operation::BatchPut
        };
        self.cells
            .record_operation(operation, bytes, (monotonic() - start).as_nanos() as u64);
        results
    }

    /// Writes some of the requests; keys whose target could not be reached get new places, a few times.
    fn write_chunk(
        &self,
        requests: &[PutRequest<'_>],
        mut chunk: Vec<usize>,
        config: &ReplicateConfig,
        upsert: bool,
        results: &mut [Status],
    ) {
        for _ in 0..PUT_ATTEMPTS {
            if chunk.is_empty() {
                return;
            }
            let writings = match self.start(requests, &chunk, config, upsert, results) {
                Ok(writings) => writings,
                Err(status) => return chunk.iter().for_each(|index| results[*index] = status),
            };
            chunk = self.move_bytes(requests, &writings, results);
            self.cells.record_retries(chunk.len() as u64);
        }
    }

    /// Reserves space; keys that need no bytes get their verdict at once.
    fn start(
        &self,
        requests: &[PutRequest<'_>],
        chunk: &[usize],
        config: &ReplicateConfig,
        upsert: bool,
        results: &mut [Status],
    ) -> Result<Vec<Writing>, Status> {
        self.while_open()?;
        let keys: Vec<&str> = chunk.iter().map(|index| requests[*index].key).collect();
        let sizes: Vec<u64> = chunk
            .iter()
            .map(|index| payload_bytes(&requests[*index]))
            .collect();
        let grouped = chunk.iter().any(|index| requests[*index].group.is_some());
        let group = |index: &usize| requests[*index].group.unwrap_or_default();
        let groups: Vec<&str> = if grouped {
            chunk.iter().map(group).collect()
        } else {
            Vec::new()
        };
        let start = if upsert {
            RpcKind::UpsertStart
        } else {
            RpcKind::PutStart
        };
        let started = self.timed(kind_of(start, keys.len()), |master| {
            master.put_start(&keys, &sizes, &groups, &self.placement(config), upsert)
        });
        let started = started.map_err(|error| refused(&error))?;
        let mut writings = Vec::with_capacity(chunk.len());
        for (position, index) in chunk.iter().enumerate() {
            match started.status[position] {
                Status::Ok => writings.push(Writing {
                    request: *index,
                    places: self.places(&started, position),
                }),
                Status::ObjectAlreadyExists => results[*index] = Status::Ok,
                status => results[*index] = status,
            }
        }
        Ok(writings)
    }

    fn places(&self, started: &Started, position: usize) -> Vec<Place> {
        let segments = self.addresses.of(&started.segments);
        let place = |location: &perigee_rpc::Location| Place {
            segment: segments[location.segment as usize].clone(),
            offset: location.offset,
            payload_bytes: location.payload_bytes,
            generation: location.generation,
        };
        started.locations_of(position).iter().map(place).collect()
    }

    /// Writes all replicas, then commits or revokes each key; returns the requests that deserve another attempt.
    fn move_bytes(
        &self,
        requests: &[PutRequest<'_>],
        writings: &[Writing],
        results: &mut [Status],
    ) -> Vec<usize> {
        let sources: Vec<Vec<Source>> = writings
            .iter()
            .map(|writing| sources(&requests[writing.request]))
            .collect();
        let jobs: Vec<WriteJob<'_>> = writings
            .iter()
            .zip(&sources)
            .flat_map(|(writing, pieces)| {
                writing
                    .places
                    .iter()
                    .map(move |place| WriteJob { place, pieces })
            })
            .collect();
        // SAFETY: callers of the store keep their pieces valid and unchanged for the length of the call.
        let outcomes = unsafe { self.engine.write(&jobs) };
        let mut outcomes = outcomes.into_iter();
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        for writing in writings {
            let replicas: Vec<_> = outcomes.by_ref().take(writing.places.len()).collect();
            match verdict(replicas) {
                Ok(checksum) => good.push((writing.request, checksum)),
                Err(error) => bad.push((writing.request, error)),
            }
        }
        self.commit(requests, &good, results);
        self.revoke(requests, &bad, results)
    }

    fn commit(&self, requests: &[PutRequest<'_>], good: &[(usize, u32)], results: &mut [Status]) {
        if good.is_empty() {
            return;
        }
        let keys: Vec<&str> = good.iter().map(|(index, _)| requests[*index].key).collect();
        let checksums: Vec<u32> = good.iter().map(|(_, checksum)| *checksum).collect();
        let kind = kind_of(RpcKind::PutEnd, keys.len());
        let ended = self.timed(kind, |master| master.put_end(&keys, &checksums));
        let ended = ended.unwrap_or_else(|error| vec![refused(&error); good.len()]);
        for ((index, _), status) in good.iter().zip(ended) {
            results[*index] = status;
        }
    }

    fn revoke(
        &self,
        requests: &[PutRequest<'_>],
        bad: &[(usize, TransferError)],
        results: &mut [Status],
    ) -> Vec<usize> {
        if bad.is_empty() {
            return Vec::new();
        }
        let keys: Vec<&str> = bad.iter().map(|(index, _)| requests[*index].key).collect();
        let kind = kind_of(RpcKind::PutRevoke, keys.len());
        if let Err(error) = self.timed(kind, |master| master.put_revoke(&keys)) {
            tracing::debug!(%error, "Started puts were not revoked; the master discards them later");
        }
        for (index, error) in bad {
            tracing::debug!(key = requests[*index].key, %error, "An object could not be written");
            results[*index] = error.status();
        }
        bad.iter()
            .filter(|(_, error)| error.is_peer_fault())
            .map(|(index, _)| *index)
            .collect()
    }

    fn placement<'a>(&'a self, config: &'a ReplicateConfig) -> Placement<'a> {
        Placement {
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
            host_id: &self.host_id,
            host_name: self.host_name(),
        }
    }
}

fn payload_bytes(request: &PutRequest<'_>) -> u64 {
    request.pieces.iter().map(|piece| piece.bytes as u64).sum()
}

fn sources(request: &PutRequest<'_>) -> Vec<Source> {
    let source = |piece: &crate::api::Piece| Source {
        ptr: piece.address as *const u8,
        len: piece.bytes,
    };
    request.pieces.iter().map(source).collect()
}

/// All replicas carry the same bytes, so the same checksum; one that failed fails the object.
fn verdict(replicas: Vec<Result<u32, TransferError>>) -> Result<u32, TransferError> {
    let mut checksum = None;
    for replica in replicas {
        checksum = Some(replica?);
    }
    checksum.ok_or_else(|| TransferError::Engine("the master gave no place".to_owned()))
}
