//! Tasks: judged and led by the shard that owns the key, recorded by the registry on the first one.
//! Invariant: all shards together have no more copies for tasks under way than the settings allow,
//! and every task that is on a shard is known to the registry.

use super::control_shard::ControlShard;
use super::copy_turns::CopiesFor;
use perigee_master::{
    JobRefusal, Registry, TaskKind, TaskRecord, TaskRequest, TaskTurn, TaskUpdate, shard_of,
};
use perigee_schemas::{Identity, Status};
use perigee_shard::Environment;
use std::sync::Arc;

impl<E: Environment> ControlShard<E> {
    /// Takes up a task under an identity that the caller has drawn.
    ///
    /// # Errors
    /// As `Shard::check_task` and `Registry::create_task`.
    pub(crate) async fn create_task(
        &self,
        id: Identity,
        request: TaskRequest,
    ) -> Result<(), JobRefusal> {
        let owner = shard_of(&request.key, self.members().len());
        let asked = request.clone();
        let judged = self.on(owner, move |shard| shard.keys.borrow_mut().check_task(&asked));
        let client = judged.await.flatten().ok_or_else(ending)??;
        let kind = TaskKind::from(&request.action);
        let wall_ms = self.environment.wall_ms();
        let create = move |registry: &mut Registry, now: u64| {
            registry.create_task(now, wall_ms, id.0, kind, client)
        };
        let created = self.change_registry(create).await.ok_or_else(ending)?;
        let is_new = created.map_err(|status| JobRefusal {
            status,
            reason: "Too many tasks wait: raise max_total_pending_tasks or come back later"
                .to_owned(),
        })?;
        if is_new {
            self.on(owner, move |shard| {
                shard.keys.borrow_mut().begin_task(id.0, request);
            })
            .await;
        }
        Ok(())
    }

    /// A task, also one that ended not too long ago.
    pub(crate) async fn task(&self, id: Identity) -> Option<TaskRecord> {
        let ask = move |registry: &mut Registry, _| registry.task(id.0).cloned();
        self.change_registry(ask).await.flatten()
    }

    /// Makes a turn of all tasks; returns whether copies for them are under way. Runs on the first
    /// shard.
    pub(super) async fn turn_tasks(&self) -> bool {
        if self.ask_registry(|registry| registry.has_tasks()) != Some(true) {
            return false;
        }
        let count = self.members().len();
        for index in 0..count {
            let Some(turn) = self.turn_tasks_on(index).await else {
                // The shard is gone, so the master is ending.
                return false;
            };
            self.copies.note(CopiesFor::Tasks, index, turn.active);
            self.ask_registry(|registry| {
                for (id, news) in turn.news {
                    report_end(registry, id, news);
                    registry.note_task(self.now_ms(), self.environment.wall_ms(), id, news);
                }
            });
            let segments = turn.needs.len();
            self.borrow_room(index, turn.needs, segments).await;
        }
        self.drop_overdue_tasks(count).await;
        self.copies.is_active(CopiesFor::Tasks)
    }

    /// A shard's part of a turn. Between turns its copies only become fewer.
    async fn turn_tasks_on(&self, index: usize) -> Option<TaskTurn> {
        let allowance = self.ask_registry(|registry| registry.task_allowance())?;
        let shards = self.members().len();
        let allowance = self.copies.allowance(CopiesFor::Tasks, index, shards, allowance);
        let turn = move |shard: &Self| {
            let mut keys = shard.keys.borrow_mut();
            keys.task_turn(shard.now_ms(), allowance)
        };
        self.on(index, turn).await.flatten()
    }

    async fn drop_overdue_tasks(&self, count: usize) {
        let (now_ms, wall_ms) = (self.now_ms(), self.environment.wall_ms());
        let end = |registry: &mut Registry| registry.end_overdue_tasks(now_ms, wall_ms);
        let overdue = self.ask_registry(end).unwrap_or_default();
        let Some(first) = overdue.first() else {
            return;
        };
        tracing::warn!(tasks = overdue.len(), first = %Identity(*first), "Tasks took too long; they are given up");
        let overdue: Arc<[u128]> = overdue.into();
        for index in 0..count {
            let overdue = overdue.clone();
            self.on(index, move |shard| {
                let (mut keys, now) = (shard.keys.borrow_mut(), shard.now_ms());
                overdue.iter().for_each(|id| keys.drop_task(now, *id));
            })
            .await;
        }
    }
}

fn report_end(registry: &Registry, id: u128, news: TaskUpdate) {
    if let (TaskUpdate::Ended(Err(status)), Some(_)) = (news, registry.task(id)) {
        tracing::warn!(task = %Identity(id), %status, "A task failed");
    }
}

/// The refusal of a master whose shards are ending.
fn ending() -> JobRefusal {
    JobRefusal { status: Status::InternalError, reason: "The master is stopping".to_owned() }
}
