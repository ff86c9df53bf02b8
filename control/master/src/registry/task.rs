//! Tasks as calls see them: created, asked about, led to their end by what shards tell. Invariant:
//! so many tasks wait, are under way and are remembered as the settings say, and none waits forever
//! unless they say so.

use perigee_schemas::Status;

use crate::shard_task::TaskUpdate;

use super::Registry;
use super::tasks::{TaskKind, TaskRecord, TaskState};

impl Registry {
    /// Notes a task under an identity drawn by the requester; `client` is to copy first. `wall_ms`
    /// is only shown. Returns whether it is new: asking again for a known one is fine.
    ///
    /// # Errors
    /// `TaskPendingLimitExceeded`.
    pub fn create_task(
        &mut self,
        now_ms: u64,
        wall_ms: u64,
        id: u128,
        kind: TaskKind,
        client: u128,
    ) -> Result<bool, Status> {
        self.advance(now_ms);
        if self.tasks.get(id).is_some() {
            return Ok(false);
        }
        if self.tasks.pending() >= self.settings.tasks.pending_max {
            return Err(Status::TaskPendingLimitExceeded);
        }
        let deadline_ms = self.after(self.settings.tasks.pending_timeout_ms);
        let task = TaskRecord::pending(kind, client, wall_ms, deadline_ms);
        self.tasks.insert(id, task);
        Ok(true)
    }

    /// A task, also one that ended not too long ago.
    pub fn task(&self, id: u128) -> Option<&TaskRecord> {
        self.tasks.get(id)
    }

    /// Whether there are tasks that have not ended.
    pub fn has_tasks(&self) -> bool {
        self.tasks.active() > 0
    }

    /// Copies for tasks that may be under way on all shards together.
    pub fn task_allowance(&self) -> u32 {
        u32::try_from(self.settings.tasks.processing_max).unwrap_or(u32::MAX)
    }

    /// Takes in what a shard says of a task.
    pub fn note_task(&mut self, now_ms: u64, wall_ms: u64, id: u128, news: TaskUpdate) {
        self.advance(now_ms);
        let deadline_ms = self.after(self.settings.tasks.processing_timeout_ms);
        let ended_max = self.settings.tasks.finished_max;
        self.tasks.change(id, ended_max, |task| {
            match news {
                TaskUpdate::Assigned(client) if task.client == client => return,
                TaskUpdate::Assigned(client) => task.client = client,
                TaskUpdate::Taken if task.state == TaskState::Processing => return,
                TaskUpdate::Taken => task.take(deadline_ms),
                TaskUpdate::Ended(outcome) => task.end(outcome),
            }
            task.updated_ms = wall_ms;
        });
    }

    /// Ends tasks that took too long; the shards are to drop those that are returned.
    pub fn end_overdue_tasks(&mut self, now_ms: u64, wall_ms: u64) -> Vec<u128> {
        self.advance(now_ms);
        let mut overdue = Vec::new();
        while let Some(id) = self.tasks.overdue(self.now_ms) {
            let late = TaskUpdate::Ended(Err(Status::RpcTimeout));
            self.note_task(now_ms, wall_ms, id, late);
            overdue.push(id);
        }
        overdue
    }

    fn after(&self, timeout_ms: Option<u64>) -> Option<u64> {
        timeout_ms.map(|timeout_ms| self.now_ms.saturating_add(timeout_ms))
    }
}
