//! Copies and moves of single objects between segments. Invariant: this client only asks; the owner
//! of the source copies.

use crate::calls::check_key;
use crate::client::{Store, refused};
use crate::host::random_identity;
use perigee_metrics::RpcKind;
use perigee_rpc::{Task, TaskSpec};
use perigee_schemas::{Identity, Status};

impl Store {
    /// Asks for a copy or a move of an object; returns the identity of the task, which runs by
    /// itself.
    ///
    /// # Errors
    /// `ObjectNotFound`, `ReplicaIsNotReady`; `InvalidParams`: no target, a target that is the
    /// source, a segment that is not mounted, or a source without a replica;
    /// `UnavailableInCurrentStatus`: a target takes no objects; `TaskPendingLimitExceeded`; or no
    /// answer.
    pub fn create_task(&self, key: &str, spec: &TaskSpec<'_>) -> Result<Identity, Status> {
        self.while_open()?;
        check_key(key)?;
        let id = random_identity().map_err(|_| Status::InternalError)?;
        let kind = match spec {
            TaskSpec::Copy { .. } => RpcKind::CreateCopyTask,
            TaskSpec::Move { .. } => RpcKind::CreateMoveTask,
        };
        let answer = self.timed(kind, |master| master.create_task(id, key, spec));
        match answer.map_err(|error| refused(&error))? {
            Ok(()) => Ok(id),
            Err(refusal) => {
                let (status, reason) = (refusal.status, refusal.reason);
                tracing::warn!(key, %status, "The task was not accepted: {reason}");
                Err(status)
            }
        }
    }

    /// The state of a task of any client.
    ///
    /// # Errors
    /// `TaskNotFound`, also for one that ended long ago or under another life of the master; or no
    /// answer.
    pub fn query_task(&self, id: Identity) -> Result<Task, Status> {
        self.while_open()?;
        let answer = self.timed(RpcKind::QueryTask, |master| master.query_task(id));
        let task = answer.map_err(|error| refused(&error))?;
        task.ok_or(Status::TaskNotFound)
    }
}
