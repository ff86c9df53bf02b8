//! Calls of clients that carry out moves: taking some, telling how they went.

use super::call::{CallCounts, CallRefusal, ReplyBuilder};
use super::codec::{column, finish_status, keys, places};
use super::limits::MOVES_PER_FETCH_MAX;
use crate::cluster::{ControlShard, KeySubset, StatusCodes};
use perigee_master::{EndedMoves, KeyShard, ReplicaLocation};
use perigee_metrics::RpcKind;
use perigee_schemas::message::decode;
use perigee_schemas::{Identity, master};
use perigee_shard::Environment;
use std::sync::Arc;

pub(super) async fn fetch(
    shard: &ControlShard<impl Environment>,
    body: &[u8],
    builder: &mut ReplyBuilder,
) -> Result<CallCounts, CallRefusal> {
    let request = decode::<master::FetchMovesRequest<'_>>(body)?;
    let client = Identity::from_halves(request.client_high(), request.client_low());
    let limit = MOVES_PER_FETCH_MAX.min(request.limit() as usize);
    let tasks = shard.take_moves(client, limit).await;
    let locations: Vec<ReplicaLocation> =
        tasks.iter().flat_map(|task| [task.source, task.target]).collect();
    // Keys came in as strings, so that they are strings.
    let keys: Vec<_> = tasks
        .iter()
        .map(|task| builder.create_string(&String::from_utf8_lossy(&task.key)))
        .collect();
    let checksums: Vec<u32> = tasks.iter().map(|task| task.checksum).collect();
    let places = places(builder, shard, &locations);
    let args = master::FetchMovesReplyArgs {
        keys: Some(builder.create_vector(&keys)),
        checksum: Some(builder.create_vector(&checksums)),
        locations: Some(places.locations),
        segments: Some(places.segments),
    };
    let root = master::FetchMovesReply::create(builder, &args);
    builder.finish_minimal(root);
    Ok(CallCounts::one(RpcKind::FetchTasks, true))
}

pub(super) async fn end(
    shard: &ControlShard<impl Environment>,
    body: &[u8],
    builder: &mut ReplyBuilder,
) -> Result<CallCounts, CallRefusal> {
    let request = decode::<master::EndMovesRequest<'_>>(body)?;
    let keys = keys(request.keys(), body.len())?;
    let client = Identity::from_halves(request.client_high(), request.client_low());
    let generations: Arc<[u64]> = column(request.generation(), keys.len(), "generation")?.into();
    let status: Arc<[i32]> = column(request.status(), keys.len(), "status")?.into();
    let in_flight: Arc<[bool]> = column(request.in_flight(), keys.len(), "in_flight")?.into();
    let end = move |owner: &mut KeyShard, now, share: &KeySubset<'_>, codes: &mut StatusCodes| {
        let ended = EndedMoves {
            client: client.0,
            keys: share.keys,
            generations: &share.pick(&generations),
            status: &share.pick(&status),
            in_flight: &share.pick(&in_flight),
        };
        owner.end_moves(now, &ended, &mut codes.0);
    };
    let codes: StatusCodes = shard.scatter(&keys, end).await;
    finish_status(builder, &codes.0);
    let ended = codes.0.iter().all(|code| *code == 0);
    Ok(CallCounts::one(RpcKind::UpdateTask, ended))
}
