//! From a frame's kind to the call that answers it, with the numbers each call leaves.

use super::{Caller, key_calls, move_calls, segment_calls, set_calls, task_calls};
use crate::cluster::ControlShard;
use flatbuffers::FlatBufferBuilder;
use perigee_metrics::RpcKind;
use perigee_schemas::Status;
use perigee_schemas::frame::Kind;
use perigee_schemas::message::MessageError;
use perigee_shard::Environment;

/// The builder an answer is written with.
pub(super) type Builder = FlatBufferBuilder<'static>;

/// Why a call is refused as a whole. The connection stays usable.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: Status,
    pub(super) message: String,
}

/// What a call was about, for the counters.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) kind: RpcKind,
    pub(super) items: u64,
    pub(super) failed: u64,
}

impl Tally {
    /// A call about one thing.
    pub(super) fn one(kind: RpcKind, ok: bool) -> Self {
        Self {
            kind,
            items: 1,
            failed: u64::from(!ok),
        }
    }

    /// A call about keys: the single or the batch kind, with one code per key.
    pub(super) fn keys(kind: RpcKind, single: bool, codes: &[i32]) -> Self {
        let kind = if single { kind } else { kind.batched() };
        let failed = codes.iter().filter(|code| **code < 0).count() as u64;
        Self {
            kind,
            items: codes.len() as u64,
            failed,
        }
    }
}

impl Refusal {
    pub(super) fn new(status: Status, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }
}

impl From<MessageError> for Refusal {
    fn from(error: MessageError) -> Self {
        Self::new(Status::DeserializeFail, error.to_string())
    }
}

/// Answers one call into `builder`.
pub(super) async fn answer<E: Environment>(
    shard: &ControlShard<E>,
    caller: &Caller<E>,
    kind: Kind,
    body: &[u8],
    builder: &mut Builder,
) -> Result<(), Refusal> {
    let start = shard.environment.now();
    let tally = match kind {
        Kind::Exist => key_calls::exist(shard, body, builder).await?,
        Kind::GetReplicas => key_calls::get_replicas(shard, body, builder).await?,
        Kind::PutStart => key_calls::put_start(shard, body, builder).await?,
        Kind::PutEnd => key_calls::put_end(shard, body, builder).await?,
        Kind::PutRevoke => key_calls::put_revoke(shard, body, builder).await?,
        Kind::Remove => key_calls::remove(shard, body, builder).await?,
        Kind::ReplicaClear => key_calls::replica_clear(shard, body, builder).await?,
        Kind::RemoveByRegex => set_calls::remove_by_regex(shard, body, builder).await?,
        Kind::RemoveAll => set_calls::remove_all(shard, body, builder).await?,
        Kind::ListByRegex => set_calls::list_by_regex(shard, body, builder).await?,
        Kind::Mount => segment_calls::mount(shard, caller, body, builder).await?,
        Kind::Unmount => segment_calls::unmount(shard, body, builder).await?,
        Kind::Ping => segment_calls::ping(shard, caller, body, builder).await?,
        Kind::Leave => segment_calls::leave(shard, body, builder).await?,
        Kind::QuerySegments => segment_calls::query_segments(shard, body, builder).await?,
        Kind::FetchMoves => move_calls::fetch(shard, body, builder).await?,
        Kind::EndMoves => move_calls::end(shard, body, builder).await?,
        Kind::CreateTask => task_calls::create(shard, body, builder).await?,
        Kind::QueryTask => task_calls::query(shard, body, builder).await?,
        Kind::GiveBack
        | Kind::Hello
        | Kind::Welcome
        | Kind::Failure
        | Kind::Move
        | Kind::Rails
        | Kind::Pairs
        | Kind::Reply => {
            return Err(Refusal::new(
                Status::InvalidParams,
                format!("The master answers no {kind:?} frames"),
            ));
        }
    };
    let elapsed = shard.environment.now() - start;
    let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
    shard
        .cells
        .record_batch(tally.kind, tally.items, tally.failed, elapsed_ns);
    shard.cells.busy_ns.add(elapsed_ns);
    Ok(())
}
