//! From a frame's kind to the call that answers it, with the numbers each call leaves.

use super::call::{CallCounts, CallRefusal, ReplyBuilder};
use super::{
    RpcConnection, address_calls, disk_calls, follow_calls, key_calls, move_calls, segment_calls,
    set_calls, task_calls,
};
use crate::cluster::ControlShard;
use perigee_metrics::RpcKind;
use perigee_schemas::Status;
use perigee_schemas::frame::MessageKind;
use perigee_shard::Environment;
use std::time::Duration;

/// Answers one call into `builder`, and says what is to be counted of it.
pub(super) async fn answer<E: Environment>(
    shard: &ControlShard<E>,
    caller: &RpcConnection<E>,
    kind: MessageKind,
    body: &[u8],
    builder: &mut ReplyBuilder,
) -> Result<CallCounts, CallRefusal> {
    Ok(match kind {
        MessageKind::Exist => key_calls::exist(shard, body, builder).await?,
        MessageKind::GetReplicas => key_calls::get_replicas(shard, body, builder).await?,
        MessageKind::PutStart => key_calls::put_start(shard, body, builder).await?,
        MessageKind::PutEnd => key_calls::put_end(shard, body, builder).await?,
        MessageKind::PutRevoke => key_calls::put_revoke(shard, body, builder).await?,
        MessageKind::Remove => key_calls::remove(shard, body, builder).await?,
        MessageKind::ReplicaClear => key_calls::replica_clear(shard, body, builder).await?,
        MessageKind::RemoveByRegex => set_calls::remove_by_regex(shard, body, builder).await?,
        MessageKind::RemoveAll => set_calls::remove_all(shard, body, builder).await?,
        MessageKind::ListByRegex => set_calls::list_by_regex(shard, body, builder).await?,
        MessageKind::Mount => segment_calls::mount(shard, caller, body, builder).await?,
        MessageKind::Unmount => segment_calls::unmount(shard, body, builder).await?,
        MessageKind::Ping => segment_calls::ping(shard, caller, body, builder).await?,
        MessageKind::Leave => segment_calls::leave(shard, body, builder).await?,
        MessageKind::QuerySegments => segment_calls::query_segments(shard, body, builder).await?,
        MessageKind::FetchMoves => move_calls::fetch(shard, body, builder).await?,
        MessageKind::EndMoves => move_calls::end(shard, body, builder).await?,
        MessageKind::CreateTask => task_calls::create(shard, body, builder).await?,
        MessageKind::QueryTask => task_calls::query(shard, body, builder).await?,
        MessageKind::QueryAddresses => address_calls::query(shard, body, builder).await?,
        MessageKind::Follow => follow_calls::follow(shard, caller, body, builder)?,
        MessageKind::Announce => follow_calls::announce(shard, caller, body, builder)?,
        MessageKind::FetchDemotions => disk_calls::fetch_demotions(shard, body, builder).await?,
        MessageKind::EndDemotions => disk_calls::end_demotions(shard, body, builder).await?,
        MessageKind::FetchTombstones => disk_calls::fetch_tombstones(shard, body, builder).await?,
        MessageKind::ConfirmTombstones => {
            disk_calls::confirm_tombstones(shard, body, builder).await?
        }
        MessageKind::AnnounceCopies => disk_calls::announce_copies(shard, body, builder).await?,
        MessageKind::Recycled => disk_calls::recycled(shard, body, builder).await?,
        MessageKind::GiveBack
        | MessageKind::Hello
        | MessageKind::Welcome
        | MessageKind::Failure
        | MessageKind::Move
        | MessageKind::Rails
        | MessageKind::Pairs
        | MessageKind::Records
        | MessageKind::Reply => {
            return Err(CallRefusal::new(
                Status::InvalidParams,
                format!("The master answers no {kind:?} frames"),
            ));
        }
    })
}

/// Counts a call that was answered.
pub(super) fn count<E: Environment>(
    shard: &ControlShard<E>,
    counts: &CallCounts,
    took: Duration,
) -> RpcKind {
    let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    shard.cells.record_batch(counts.kind, counts.items, counts.failed, took_ns);
    shard.cells.busy_ns.add(took_ns);
    counts.kind
}
