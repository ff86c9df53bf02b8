//! Calls about tasks: copies and moves of single objects.

use super::call::{CallCounts, CallRefusal, ReplyBuilder};
use crate::cluster::ControlShard;
use perigee_master::{JobRefusal, TaskAction, TaskRequest};
use perigee_metrics::RpcKind;
use perigee_schemas::message::decode;
use perigee_schemas::{Identity, Status, master};
use perigee_shard::Environment;

pub(super) async fn create(
    shard: &ControlShard<impl Environment>,
    body: &[u8],
    builder: &mut ReplyBuilder,
) -> Result<CallCounts, CallRefusal> {
    let request = decode::<master::CreateTaskRequest<'_>>(body)?;
    let id = Identity::from_halves(request.task_high(), request.task_low());
    let kind = match request.kind() {
        master::TaskKind::Move => RpcKind::CreateMoveTask,
        _ => RpcKind::CreateCopyTask,
    };
    let created = match action(&request) {
        Ok(action) => {
            let key = request.key().unwrap_or_default().as_bytes().into();
            shard.create_task(id, TaskRequest { key, action }).await
        }
        Err(refusal) => Err(refusal),
    };
    let refusal = created.err();
    let status = refusal.as_ref().map_or(Status::Ok, |refusal| refusal.status);
    let reason = refusal.map(|refusal| builder.create_string(&refusal.reason));
    let args = master::CreateTaskReplyArgs { status: status.code(), reason };
    let root = master::CreateTaskReply::create(builder, &args);
    builder.finish_minimal(root);
    Ok(CallCounts::one(kind, status == Status::Ok))
}

fn action(request: &master::CreateTaskRequest<'_>) -> Result<TaskAction, JobRefusal> {
    let targets = request.targets().into_iter().flatten().map(str::to_owned);
    let mut targets: Vec<String> = targets.collect();
    let source = request.source().unwrap_or_default().to_owned();
    match (request.kind(), targets.pop()) {
        (master::TaskKind::Copy, last) => {
            targets.extend(last);
            Ok(TaskAction::Copy { targets })
        }
        (master::TaskKind::Move, Some(target)) if targets.is_empty() => {
            Ok(TaskAction::Move { source, target })
        }
        _ => Err(JobRefusal {
            status: Status::InvalidParams,
            reason: "A task is a copy, or a move with one target".to_owned(),
        }),
    }
}

pub(super) async fn query(
    shard: &ControlShard<impl Environment>,
    body: &[u8],
    builder: &mut ReplyBuilder,
) -> Result<CallCounts, CallRefusal> {
    let request = decode::<master::QueryTaskRequest<'_>>(body)?;
    let id = Identity::from_halves(request.task_high(), request.task_low());
    let task = shard.task(id).await;
    let is_known = task.is_some();
    let args = match task {
        None => {
            master::QueryTaskReplyArgs { status: Status::TaskNotFound.code(), ..Default::default() }
        }
        Some(task) => {
            let client = Identity(task.client);
            master::QueryTaskReplyArgs {
                status: Status::Ok.code(),
                kind: master::TaskKind(task.kind as u8),
                state: task.state as u8,
                created_ms: task.created_ms,
                updated_ms: task.updated_ms,
                client_high: client.high(),
                client_low: client.low(),
                message: Some(builder.create_string(&task.message)),
            }
        }
    };
    let root = master::QueryTaskReply::create(builder, &args);
    builder.finish_minimal(root);
    Ok(CallCounts::one(RpcKind::QueryTask, is_known))
}
