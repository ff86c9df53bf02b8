//! Calls of clients with disks: what is to be written there, how it went, what is void and what is
//! there.

use super::call::{CallCounts, CallRefusal, ReplyBuilder};
use super::codec::{Strings, column, finish_status, keys, places};
use super::limits::{DEMOTIONS_PER_FETCH_MAX, TOMBSTONES_PER_FETCH_MAX};
use crate::cluster::{ControlShard, FoundCopies, KeySubset, StatusCodes};
use perigee_master::{EndedDemotions, KeyShard, ReplicaLocation, ReplicaState, hash_key};
use perigee_metrics::RpcKind;
use perigee_schemas::message::decode;
use perigee_schemas::{Identity, Status, master};
use perigee_shard::Environment;
use std::sync::Arc;

pub(super) async fn fetch_demotions(
    shard: &ControlShard<impl Environment>,
    body: &[u8],
    builder: &mut ReplyBuilder,
) -> Result<CallCounts, CallRefusal> {
    let request = decode::<master::FetchDemotionsRequest<'_>>(body)?;
    let client = Identity::from_halves(request.client_high(), request.client_low());
    let limit = DEMOTIONS_PER_FETCH_MAX.min(request.limit() as usize);
    let (tasks, left) = match request.leaves() {
        true => shard.take_last_demotions(client, limit).await,
        false => (shard.take_demotions(client, limit).await, 0),
    };
    let disk = |segment| ReplicaLocation {
        segment,
        state: ReplicaState::Processing,
        offset: 0,
        payload_bytes: 0,
        generation: 0,
        part: None,
        part_checksum: 0,
    };
    let locations: Vec<ReplicaLocation> =
        tasks.iter().flat_map(|task| [task.source, disk(task.disk)]).collect();
    // Keys came in as strings, so that they are strings.
    let keys: Vec<_> = tasks
        .iter()
        .map(|task| builder.create_string(&String::from_utf8_lossy(&task.key)))
        .collect();
    let groups: Vec<_> =
        tasks.iter().map(|task| builder.create_shared_string(&task.group)).collect();
    let checksums: Vec<u32> = tasks.iter().map(|task| task.checksum).collect();
    let hashes: Vec<u64> = tasks.iter().map(|task| hash_key(&task.key)).collect();
    let places = places(builder, shard, &locations);
    let args = master::FetchDemotionsReplyArgs {
        keys: Some(builder.create_vector(&keys)),
        groups: Some(builder.create_vector(&groups)),
        checksum: Some(builder.create_vector(&checksums)),
        locations: Some(places.locations),
        segments: Some(places.segments),
        hash: Some(builder.create_vector(&hashes)),
        left,
    };
    let root = master::FetchDemotionsReply::create(builder, &args);
    builder.finish_minimal(root);
    Ok(CallCounts::one(RpcKind::FetchDemotions, true))
}

pub(super) async fn end_demotions(
    shard: &ControlShard<impl Environment>,
    body: &[u8],
    builder: &mut ReplyBuilder,
) -> Result<CallCounts, CallRefusal> {
    let request = decode::<master::EndDemotionsRequest<'_>>(body)?;
    let keys = keys(request.keys(), body.len())?;
    let client = Identity::from_halves(request.client_high(), request.client_low());
    let generations: Arc<[u64]> = column(request.generation(), keys.len(), "generation")?.into();
    let status: Arc<[i32]> = column(request.status(), keys.len(), "status")?.into();
    let addresses: Arc<[u64]> = column(request.address(), keys.len(), "address")?.into();
    let end = move |owner: &mut KeyShard, now, share: &KeySubset<'_>, codes: &mut StatusCodes| {
        let ended = EndedDemotions {
            client: client.0,
            keys: share.keys,
            generations: &share.pick(&generations),
            status: &share.pick(&status),
            addresses: &share.pick(&addresses),
        };
        owner.end_demotions(now, &ended, &mut codes.0);
    };
    let codes: StatusCodes = shard.scatter(&keys, end).await;
    finish_status(builder, &codes.0);
    let ended = codes.0.iter().all(|code| *code == 0);
    Ok(CallCounts::one(RpcKind::EndDemotions, ended))
}

pub(super) async fn fetch_tombstones(
    shard: &ControlShard<impl Environment>,
    body: &[u8],
    builder: &mut ReplyBuilder,
) -> Result<CallCounts, CallRefusal> {
    let request = decode::<master::FetchTombstonesRequest<'_>>(body)?;
    let client = Identity::from_halves(request.client_high(), request.client_low());
    let disk = Identity::from_halves(request.disk_high(), request.disk_low());
    let limit = TOMBSTONES_PER_FETCH_MAX.min(request.limit() as usize);
    let found = shard.tombstones(client, disk, limit).await;
    let status = found.as_ref().err().copied().unwrap_or(Status::Ok);
    let found = found.unwrap_or_default();
    let number: Vec<u64> = found.iter().map(|(one, _)| one.number).collect();
    let hash: Vec<u64> = found.iter().map(|(one, _)| one.hash).collect();
    let generation: Vec<u64> = found.iter().map(|(one, _)| one.generation).collect();
    let suspects = found.iter().zip(0..).filter_map(|((_, place), position)| {
        let place = (*place)?;
        let payload_bytes = u32::try_from(place.payload_bytes).ok()?;
        Some(master::SuspectPlace::new(position, payload_bytes, place.address))
    });
    let suspects: Vec<master::SuspectPlace> = suspects.collect();
    let args = master::FetchTombstonesReplyArgs {
        status: status.code(),
        number: Some(builder.create_vector(&number)),
        hash: Some(builder.create_vector(&hash)),
        generation: Some(builder.create_vector(&generation)),
        suspects: Some(builder.create_vector(&suspects)),
    };
    let root = master::FetchTombstonesReply::create(builder, &args);
    builder.finish_minimal(root);
    Ok(CallCounts::one(RpcKind::FetchTombstones, status == Status::Ok))
}

pub(super) async fn confirm_tombstones(
    shard: &ControlShard<impl Environment>,
    body: &[u8],
    builder: &mut ReplyBuilder,
) -> Result<CallCounts, CallRefusal> {
    let request = decode::<master::ConfirmTombstonesRequest<'_>>(body)?;
    let client = Identity::from_halves(request.client_high(), request.client_low());
    let disk = Identity::from_halves(request.disk_high(), request.disk_low());
    let numbers: Vec<u64> = request.number().into_iter().flatten().collect();
    shard.confirm_tombstones(client, disk, numbers).await;
    finish_status(builder, &[Status::Ok.code()]);
    Ok(CallCounts::one(RpcKind::ConfirmTombstones, true))
}

pub(super) async fn announce_copies(
    shard: &ControlShard<impl Environment>,
    body: &[u8],
    builder: &mut ReplyBuilder,
) -> Result<CallCounts, CallRefusal> {
    let request = decode::<master::AnnounceCopiesRequest<'_>>(body)?;
    let client = Identity::from_halves(request.client_high(), request.client_low());
    let disk = Identity::from_halves(request.disk_high(), request.disk_low());
    let keys = keys(request.keys(), body.len())?;
    let groups = request.groups().map(|groups: Strings<'_>| groups.iter().map(Arc::from));
    let copies = FoundCopies {
        client,
        disk,
        groups: column(groups, keys.len(), "groups")?.into(),
        generation: column(request.generation(), keys.len(), "generation")?.into(),
        payload_bytes: column(request.payload_bytes(), keys.len(), "payload_bytes")?.into(),
        checksum: column(request.checksum(), keys.len(), "checksum")?.into(),
        address: column(request.address(), keys.len(), "address")?.into(),
    };
    let codes = shard.announce_copies(&keys, copies, request.is_last()).await;
    finish_status(builder, &codes);
    let learnt = codes.iter().all(|code| *code == 0);
    Ok(CallCounts::one(RpcKind::AnnounceCopies, learnt))
}

pub(super) async fn recycled(
    shard: &ControlShard<impl Environment>,
    body: &[u8],
    builder: &mut ReplyBuilder,
) -> Result<CallCounts, CallRefusal> {
    let request = decode::<master::RecycledRequest<'_>>(body)?;
    let client = Identity::from_halves(request.client_high(), request.client_low());
    let disk = Identity::from_halves(request.disk_high(), request.disk_low());
    let status = shard.recycle(client, disk, request.oldest()).await;
    finish_status(builder, &[status.code()]);
    Ok(CallCounts::one(RpcKind::Recycled, status == Status::Ok))
}
