//! Calls about tasks: copies and moves of single objects that the master has nodes carry out.
//! Invariant: the caller draws a task's identity, so that asking for it may be repeated.

use super::{Builder, MasterClient};
use crate::error::CallError;
use crate::request::strings;
use perigee_schemas::frame::MessageKind;
use perigee_schemas::message::decode;
use perigee_schemas::{Identity, Status, master};

/// What is to be done with the replicas of an object; segments go by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskSpec<'a> {
    /// One more replica in each of these segments that holds none.
    Copy {
        /// The segments.
        targets: &'a [&'a str],
    },
    /// The replica in one segment is to lie in another one instead.
    Move {
        /// Where it lies.
        source: &'a str,
        /// Where it is to go.
        target: &'a str,
    },
}

/// Why the master does not accept a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRefusal {
    /// The code.
    pub status: Status,
    /// What to change.
    pub reason: String,
}

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// Gives an object more replicas.
    Copy,
    /// Moves a replica of an object.
    Move,
}

/// How far a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// No client has taken it.
    Pending,
    /// A client copies.
    Processing,
    /// It could not be done.
    Failed,
    /// Everything was done.
    Succeeded,
}

/// How a task is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// What it does.
    pub kind: TaskKind,
    /// How far it is.
    pub state: TaskState,
    /// Milliseconds since 1970 when it was created.
    pub created_ms: u64,
    /// Milliseconds since 1970 of its last change.
    pub updated_ms: u64,
    /// The client that copies, or is to.
    pub client: Identity,
    /// Outcome of the task, for people; empty before its end.
    pub message: String,
}

impl MasterClient {
    /// Asks for a copy or a move of an object under a random identity.
    ///
    /// # Errors
    /// No answer in time. A refusal is an answer.
    pub fn create_task(
        &self,
        id: Identity,
        key: &str,
        spec: &TaskSpec<'_>,
    ) -> Result<Result<(), TaskRefusal>, CallError> {
        let encode = |builder: &mut Builder| {
            let (kind, source, targets) = match spec {
                TaskSpec::Copy { targets } => (master::TaskKind::Copy, "", *targets),
                TaskSpec::Move { source, target } => {
                    (master::TaskKind::Move, *source, std::slice::from_ref(target))
                }
            };
            let args = master::CreateTaskRequestArgs {
                task_high: id.high(),
                task_low: id.low(),
                key: Some(builder.create_string(&self.options.tenant.stored(key))),
                kind,
                source: Some(builder.create_string(source)),
                targets: Some(strings(builder, targets)),
            };
            let root = master::CreateTaskRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call(MessageKind::CreateTask, true, encode, |body| {
            let reply = decode::<master::CreateTaskReply<'_>>(body)?;
            Ok(match Status::from_peer(reply.status()) {
                Status::Ok => Ok(()),
                status => Err(TaskRefusal {
                    status,
                    reason: reply.reason().unwrap_or_default().to_owned(),
                }),
            })
        })
    }

    /// How a task is; `None` if the master knows none of that identity, or not any more.
    ///
    /// # Errors
    /// No answer in time.
    pub fn query_task(&self, id: Identity) -> Result<Option<Task>, CallError> {
        let encode = |builder: &mut Builder| {
            let args = master::QueryTaskRequestArgs { task_high: id.high(), task_low: id.low() };
            let root = master::QueryTaskRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call(MessageKind::QueryTask, true, encode, |body| {
            let reply = decode::<master::QueryTaskReply<'_>>(body)?;
            let is_known = reply.status() == Status::Ok.code();
            Ok(is_known.then(|| Task {
                kind: match reply.kind() {
                    master::TaskKind::Move => TaskKind::Move,
                    _ => TaskKind::Copy,
                },
                state: state(reply.state()),
                created_ms: reply.created_ms(),
                updated_ms: reply.updated_ms(),
                client: Identity::from_halves(reply.client_high(), reply.client_low()),
                message: reply.message().unwrap_or_default().to_owned(),
            }))
        })
    }
}

/// A state that this build does not know is one that has not ended.
fn state(number: u8) -> TaskState {
    match number {
        0 => TaskState::Pending,
        2 => TaskState::Failed,
        3 => TaskState::Succeeded,
        _ => TaskState::Processing,
    }
}
