//! Drain jobs as the first shard drives them: turn by turn, every shard does its part.
//! Invariant: one turn is made at a time, and all shards together have no more moves of a job under
//! way than it allows.

use super::control_shard::ControlShard;
use super::copy_turns::CopiesFor;
use perigee_master::{DrainJobRequest, DrainOrder, DrainReport, JobRefusal, MoveTask, Registry};
use perigee_schemas::{Identity, Status};
use perigee_shard::Environment;
use std::time::Duration;

/// Pause between two looks whether a turn, or the moves of a job, have ended.
const TURN_PAUSE: Duration = Duration::from_millis(1);
/// Longest wait for that before the operator gets "try again".
const CANCEL_PATIENCE: Duration = Duration::from_secs(3);

impl<E: Environment> ControlShard<E> {
    /// Makes a turn of every job; returns whether moves are under way. Runs on the first shard.
    pub(super) async fn turn_drains(&self) -> bool {
        let jobs = self.ask_registry(|registry| registry.active_drains().to_vec());
        let jobs = jobs.unwrap_or_default();
        if jobs.is_empty() || !self.copies.begin() {
            return false;
        }
        let mut moving = false;
        for job in jobs {
            moving |= self.turn_drain(job, None).await;
        }
        self.copies.end();
        moving
    }

    /// Creates a job under a random identity. Runs on the first shard.
    ///
    /// # Errors
    /// As `Registry::create_drain`.
    pub(crate) async fn create_drain(
        &self,
        id: u128,
        request: DrainJobRequest,
    ) -> Result<(), JobRefusal> {
        let wall_ms = self.environment.wall_ms();
        let create = |registry: &mut Registry| registry.create_drain(wall_ms, id, request);
        let created = self.ask_registry(create);
        // Every shard hears of it before the first turn asks it for its part.
        self.publish_events();
        created.unwrap_or_else(|| Err(Status::InternalError.into()))
    }

    /// Ends a job, after the moves that are under way. Runs on the first shard.
    ///
    /// # Errors
    /// As `Registry::cancel_drain`, if moves take too long; `RpcTimeout` if the shards are too
    /// busy.
    pub(crate) async fn cancel_drain(&self, id: u128) -> Result<(), Status> {
        let end = self.environment.now() + CANCEL_PATIENCE;
        while !self.copies.begin() {
            if self.environment.now() >= end {
                return Err(Status::RpcTimeout);
            }
            self.environment.sleep(TURN_PAUSE).await;
        }
        // As long as the turn is taken no moves begin.
        while self.turn_drain(id, Some(0)).await && self.environment.now() < end {
            self.environment.sleep(TURN_PAUSE).await;
        }
        let wall_ms = self.environment.wall_ms();
        let cancel = |registry: &mut Registry| registry.cancel_drain(wall_ms, id);
        let canceled = self.ask_registry(cancel).unwrap_or(Err(Status::InternalError));
        if canceled.is_ok() {
            self.end_drain(id).await;
        }
        self.copies.end();
        canceled
    }

    /// One turn of a job on all shards; returns whether moves are under way.
    async fn turn_drain(&self, id: u128, allowance: Option<u32>) -> bool {
        let order = self.ask_registry(|registry| registry.drain_order(id));
        let Some(mut order) = order.flatten() else {
            return false;
        };
        debug_assert!(self.copies.is_turning(), "one turn of drain jobs is made at a time");
        order.allowance = allowance.unwrap_or(order.allowance);
        let mut whole = DrainReport { is_done: true, ..DrainReport::default() };
        for index in 0..self.members().len() {
            let Some(report) = self.turn_on(index, &order).await else {
                // The shard is gone, so the master is ending.
                return false;
            };
            whole.merge(&report);
        }
        let moving = whole.active > 0;
        let wall_ms = self.environment.wall_ms();
        let ended = self.ask_registry(|registry| registry.note_drain(wall_ms, id, whole));
        if ended == Some(true) {
            self.end_drain(id).await;
        }
        moving
    }

    /// A shard's part of a turn.
    async fn turn_on(&self, index: usize, order: &DrainOrder) -> Option<DrainReport> {
        let shards = self.members().len();
        let copies_for = CopiesFor::Drain(order.job);
        let order = DrainOrder {
            allowance: self.copies.allowance(copies_for, index, shards, order.allowance),
            ..order.clone()
        };
        let turn = move |shard: &Self| shard.keys.borrow_mut().drain_turn(shard.now_ms(), &order);
        let mut report = self.on(index, turn).await.flatten()?;
        self.copies.note(copies_for, index, report.active);
        let needs = std::mem::take(&mut report.needs);
        let segments = needs.len();
        self.borrow_room(index, needs, segments).await;
        Some(report)
    }

    async fn end_drain(&self, id: u128) {
        self.copies.forget(id);
        self.publish_events();
        for index in 0..self.members().len() {
            self.on(index, move |shard| shard.keys.borrow_mut().end_drain(id)).await;
        }
        let job = self.ask_registry(|registry| registry.drain_job(id).cloned());
        if let Some(job) = job.flatten() {
            tracing::info!(
                job = %Identity(id),
                state = job.state.name(),
                moved = job.report.succeeded,
                bytes = job.report.migrated_bytes,
                message = job.message,
                "A drain job has ended"
            );
        }
    }

    /// Moves for a client, from all shards.
    pub(crate) async fn take_moves(&self, client: Identity, limit: usize) -> Vec<MoveTask> {
        let take = move |shard: &Self, room| {
            shard.keys.borrow_mut().take_moves(shard.now_ms(), client.0, room)
        };
        self.take_from_all(limit, take).await
    }

    /// Asks the registry, which only the first shard has.
    pub(super) fn ask_registry<R>(&self, ask: impl FnOnce(&mut Registry) -> R) -> Option<R> {
        let registry = self.registry.as_ref()?;
        Some(ask(&mut registry.borrow_mut()))
    }
}
