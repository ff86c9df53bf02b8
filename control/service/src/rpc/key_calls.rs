//! Calls about keys. Each splits its batch by shard and answers in the order of the request.

use super::call::{CallCounts, CallRefusal, ReplyBuilder};
use super::codec::{column, finish_status, keys, part_checksums, places};
use super::put_requests::PutRequests;
use crate::cluster::{ControlShard, KeySubset, Replicas, StatusCodes};
use perigee_master::{GivenBack, KeyShard, StartedPuts};
use perigee_metrics::RpcKind;
use perigee_schemas::limits::BATCH_KEYS_MAX;
use perigee_schemas::message::decode;
use perigee_schemas::{Identity, master};
use perigee_shard::Environment;
use std::sync::Arc;

pub(super) async fn exist(
    shard: &ControlShard<impl Environment>,
    body: &[u8],
    builder: &mut ReplyBuilder,
) -> Result<CallCounts, CallRefusal> {
    let request = decode::<master::ExistRequest<'_>>(body)?;
    let keys = keys(request.keys(), body.len())?;
    shard.wait_for_keys(&keys).await;
    let codes: StatusCodes = shard
        .scatter(&keys, |owner, now, share, codes: &mut StatusCodes| {
            owner.exist(now, share.keys, &mut codes.0);
        })
        .await;
    let status = Some(builder.create_vector(&codes.0));
    let root = master::ExistReply::create(builder, &master::ExistReplyArgs { status });
    builder.finish_minimal(root);
    Ok(CallCounts::keys(RpcKind::ExistKey, request.single(), &codes.0))
}

pub(super) async fn get_replicas(
    shard: &ControlShard<impl Environment>,
    body: &[u8],
    builder: &mut ReplyBuilder,
) -> Result<CallCounts, CallRefusal> {
    let request = decode::<master::GetReplicasRequest<'_>>(body)?;
    let keys = keys(request.keys(), body.len())?;
    shard.wait_for_keys(&keys).await;
    let (peek, probe) = (request.peek(), request.probe());
    let unreadable = unreadable(&request, keys.len())?;
    let mut found: Replicas = shard
        .scatter(&keys, move |owner, now, share, found: &mut Replicas| {
            if !unreadable.is_empty() {
                owner.forget_unreadable(now, share.keys, &share.pick(&unreadable));
            }
            if peek {
                owner.peek(share.keys, &mut found.columns);
            } else if probe {
                owner.probe_replicas(now, share.keys, &mut found.columns);
            } else {
                owner.get_replicas(now, share.keys, &mut found.columns);
            }
        })
        .await;
    if !request.parts() {
        found.columns.hide_parts();
    }
    let columns = &found.columns;
    let places = places(builder, shard, &columns.locations);
    let args = master::GetReplicasReplyArgs {
        status: Some(builder.create_vector(&columns.status)),
        checksum: Some(builder.create_vector(&columns.checksum)),
        payload_bytes: Some(builder.create_vector(&columns.payload_bytes)),
        location_count: Some(builder.create_vector(&columns.location_count)),
        locations: Some(places.locations),
        segments: Some(places.segments),
        lease_ttl_ms: shard.keys.borrow().settings().lease_ttl_ms,
        lease: Some(builder.create_vector(&columns.lease)),
        part_checksum: part_checksums(builder, &columns.locations),
    };
    let root = master::GetReplicasReply::create(builder, &args);
    builder.finish_minimal(root);
    Ok(CallCounts::keys(RpcKind::GetReplicaList, request.single(), &columns.status))
}

/// The copies that the readers of keys could not read; empty if there are none.
fn unreadable(
    request: &master::GetReplicasRequest<'_>,
    keys: usize,
) -> Result<Arc<[master::UnreadableCopy]>, CallRefusal> {
    match request.unreadable() {
        Some(copies) => Ok(column(Some(copies.iter().copied()), keys, "unreadable")?.into()),
        None => Ok(Arc::default()),
    }
}

/// Takes read leases back. What cannot be understood is counted and left to end by time.
pub(super) fn give_back(shard: &ControlShard<impl Environment>, body: &[u8]) {
    let Ok(request) = decode::<master::GiveBack<'_>>(body) else {
        shard.cells.protocol_errors.add(1);
        return;
    };
    let leases = request.lease().into_iter().flatten();
    let generations = request.generation().into_iter().flatten();
    let given_back = leases.zip(generations);
    let given_back = given_back.map(|(lease, generation)| GivenBack { lease, generation });
    shard.take_back(&given_back.take(BATCH_KEYS_MAX).collect::<Vec<_>>());
}

pub(super) async fn put_start(
    shard: &ControlShard<impl Environment>,
    body: &[u8],
    builder: &mut ReplyBuilder,
) -> Result<CallCounts, CallRefusal> {
    let request = decode::<master::PutStartRequest<'_>>(body)?;
    let keys = keys(request.keys(), body.len())?;
    let wanted = Arc::new(PutRequests::decode(&request, keys.len())?);
    shard.wait_for_room().await;
    let started = shard.start_puts(&keys, wanted).await;
    let columns = &started.columns;
    let places = places(builder, shard, &columns.locations);
    let args = master::PutStartReplyArgs {
        status: Some(builder.create_vector(&columns.status)),
        location_count: Some(builder.create_vector(&columns.location_count)),
        locations: Some(places.locations),
        segments: Some(places.segments),
    };
    let root = master::PutStartReply::create(builder, &args);
    builder.finish_minimal(root);
    let kind = write_kind(RpcKind::PutStart, request.upsert());
    Ok(CallCounts::keys(kind, request.single(), &columns.status))
}

pub(super) async fn put_end(
    shard: &ControlShard<impl Environment>,
    body: &[u8],
    builder: &mut ReplyBuilder,
) -> Result<CallCounts, CallRefusal> {
    let request = decode::<master::PutEndRequest<'_>>(body)?;
    let keys = keys(request.keys(), body.len())?;
    let client = Identity::from_halves(request.client_high(), request.client_low());
    let checksums: Arc<[u32]> = column(request.checksum(), keys.len(), "checksum")?.into();
    let puts = EndedPuts::new(client, request.generation(), keys.len())?;
    let puts = puts.in_parts(request.part_count(), request.part_checksum())?;
    let end = move |owner: &mut KeyShard, now, share: &KeySubset<'_>, codes: &mut StatusCodes| {
        let picked = share.pick(&checksums);
        puts.of(share, |puts| {
            owner.put_end(now, puts, &picked, &mut codes.0);
        });
    };
    let codes: StatusCodes = shard.scatter(&keys, end).await;
    finish_status(builder, &codes.0);
    let kind = write_kind(RpcKind::PutEnd, request.upsert());
    Ok(CallCounts::keys(kind, request.single(), &codes.0))
}

pub(super) async fn put_revoke(
    shard: &ControlShard<impl Environment>,
    body: &[u8],
    builder: &mut ReplyBuilder,
) -> Result<CallCounts, CallRefusal> {
    let request = decode::<master::PutRevokeRequest<'_>>(body)?;
    let keys = keys(request.keys(), body.len())?;
    let client = Identity::from_halves(request.client_high(), request.client_low());
    let in_flight = request.in_flight();
    let puts = EndedPuts::new(client, request.generation(), keys.len())?;
    let revoke =
        move |owner: &mut KeyShard, now, share: &KeySubset<'_>, codes: &mut StatusCodes| {
            puts.of(share, |puts| {
                owner.put_revoke(now, puts, in_flight, &mut codes.0);
            });
        };
    let codes: StatusCodes = shard.scatter(&keys, revoke).await;
    finish_status(builder, &codes.0);
    let kind = write_kind(RpcKind::PutRevoke, request.upsert());
    Ok(CallCounts::keys(kind, request.single(), &codes.0))
}

fn write_kind(kind: RpcKind, upsert: bool) -> RpcKind {
    if upsert { kind.replacing() } else { kind }
}

/// Started puts that their writer ends, owned so that they can go to other shards.
#[derive(Clone)]
struct EndedPuts {
    client: Identity,
    generations: Arc<[u64]>,
    /// Empty if no object is in parts.
    parts: Arc<[Vec<u32>]>,
}

impl EndedPuts {
    fn new(
        client: Identity,
        generations: Option<flatbuffers::Vector<'_, u64>>,
        keys: usize,
    ) -> Result<Self, CallRefusal> {
        let generations = column(generations, keys, "generation")?.into();
        Ok(Self { client, generations, parts: Arc::default() })
    }

    /// The same, with the checksums of the parts of each object.
    fn in_parts(
        self,
        counts: Option<flatbuffers::Vector<'_, u8>>,
        checksums: Option<flatbuffers::Vector<'_, u32>>,
    ) -> Result<Self, CallRefusal> {
        let Some(counts) = counts else {
            return Ok(self);
        };
        let keys = self.generations.len();
        let counts: Vec<u8> = column(Some(counts), keys, "part_count")?;
        let wanted = counts.iter().map(|count| usize::from(*count)).sum();
        let checksums: Vec<u32> = column(checksums, wanted, "part_checksum")?;
        let mut left = checksums.as_slice();
        let mut take = |count: &u8| {
            let (own, rest) = left.split_at(usize::from(*count));
            left = rest;
            own.to_vec()
        };
        let parts = counts.iter().map(&mut take).collect();
        debug_assert!(left.is_empty(), "each sum is that of a part");
        Ok(Self { parts, ..self })
    }

    fn of(&self, share: &KeySubset<'_>, end: impl FnOnce(&StartedPuts<'_>)) {
        let positions = share.positions.iter().filter(|_| !self.parts.is_empty());
        let parts: Vec<&[u32]> = positions.map(|at| self.parts[*at].as_slice()).collect();
        end(&StartedPuts {
            client: self.client.0,
            keys: share.keys,
            generations: &share.pick(&self.generations),
            parts: &parts,
        });
    }
}

pub(super) async fn remove(
    shard: &ControlShard<impl Environment>,
    body: &[u8],
    builder: &mut ReplyBuilder,
) -> Result<CallCounts, CallRefusal> {
    let request = decode::<master::RemoveRequest<'_>>(body)?;
    let keys = keys(request.keys(), body.len())?;
    shard.wait_for_keys(&keys).await;
    let force = request.force();
    let codes: StatusCodes = shard
        .scatter(&keys, move |owner, now, share, codes: &mut StatusCodes| {
            owner.remove(now, share.keys, force, &mut codes.0);
        })
        .await;
    finish_status(builder, &codes.0);
    Ok(CallCounts::keys(RpcKind::Remove, request.single(), &codes.0))
}

pub(super) async fn replica_clear(
    shard: &ControlShard<impl Environment>,
    body: &[u8],
    builder: &mut ReplyBuilder,
) -> Result<CallCounts, CallRefusal> {
    let request = decode::<master::ReplicaClearRequest<'_>>(body)?;
    let keys = keys(request.keys(), body.len())?;
    shard.wait_for_keys(&keys).await;
    let client = Identity::from_halves(request.client_high(), request.client_low());
    let segment: Arc<str> = request.segment_name().unwrap_or_default().into();
    let codes: StatusCodes = shard
        .scatter(&keys, move |owner, now, share, codes: &mut StatusCodes| {
            owner.replica_clear(now, client.0, share.keys, &segment, &mut codes.0);
        })
        .await;
    finish_status(builder, &codes.0);
    Ok(CallCounts::keys(RpcKind::BatchReplicaClear, false, &codes.0))
}
