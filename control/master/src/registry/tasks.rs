//! The records of tasks: who was asked for what, how far it is, and for how long it may go on.
//! Invariant: a task that has ended changes no more, and the counts agree with the states.

use std::collections::{BTreeMap, BTreeSet};

use perigee_schemas::Status;

use crate::shard_task::TaskAction;

use super::remembered::Remembered;

/// What a task does, with Mooncake's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum TaskKind {
    /// Gives an object more replicas.
    Copy = 0,
    /// Moves a replica of an object.
    Move = 1,
}

impl From<&TaskAction> for TaskKind {
    fn from(action: &TaskAction) -> Self {
        match action {
            TaskAction::Copy { .. } => Self::Copy,
            TaskAction::Move { .. } => Self::Move,
        }
    }
}

/// How far a task is, with Mooncake's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum TaskState {
    /// No client has taken it.
    Pending = 0,
    /// A client copies.
    Processing = 1,
    /// It could not be done.
    Failed = 2,
    /// Everything was done.
    Succeeded = 3,
}

impl TaskState {
    /// Whether nothing follows.
    pub fn is_ended(self) -> bool {
        matches!(self, Self::Failed | Self::Succeeded)
    }
}

/// A copy or a move that a client asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRecord {
    /// What it does.
    pub kind: TaskKind,
    /// How far it is.
    pub state: TaskState,
    /// Milliseconds since 1970 when it was created.
    pub created_ms: u64,
    /// Milliseconds since 1970 of the last change.
    pub updated_ms: u64,
    /// The client that copies, or is to.
    pub client: u128,
    /// What came of it; empty before.
    pub message: String,
    /// When it is given up, if ever.
    deadline_ms: Option<u64>,
}

/// How many tasks there may be, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskSettings {
    /// Tasks that no client has taken.
    pub pending_max: usize,
    /// Tasks that clients carry out.
    pub processing_max: usize,
    /// Tasks that have ended and can still be asked about.
    pub finished_max: usize,
    /// Longest a task may wait for a client, in milliseconds; `None` forever.
    pub pending_timeout_ms: Option<u64>,
    /// Longest a task may go on after a client has taken it, in milliseconds; `None` forever.
    pub processing_timeout_ms: Option<u64>,
}

impl Default for TaskSettings {
    fn default() -> Self {
        Self {
            pending_max: 10_000,
            processing_max: 10_000,
            finished_max: 10_000,
            pending_timeout_ms: Some(300_000),
            processing_timeout_ms: Some(300_000),
        }
    }
}

/// All tasks that are remembered.
#[derive(Debug, Default)]
pub(super) struct TaskTable {
    tasks: Remembered<TaskRecord>,
    live: LiveTasks,
}

/// The tasks that have not ended, in orders and in numbers.
#[derive(Debug, Default, PartialEq, Eq)]
struct LiveTasks {
    by_deadline: BTreeSet<(u64, u128)>,
    /// Tasks that have not ended, by client.
    of_client: BTreeMap<u128, usize>,
    pending: usize,
    processing: usize,
}

impl TaskTable {
    pub(super) fn get(&self, id: u128) -> Option<&TaskRecord> {
        self.tasks.get(id)
    }

    pub(super) fn pending(&self) -> usize {
        self.live.pending
    }

    /// Tasks that have not ended.
    pub(super) fn active(&self) -> usize {
        self.live.pending + self.live.processing
    }

    /// Whether a client copies for a task, or is to.
    pub(super) fn concern(&self, client: u128) -> bool {
        self.live.of_client.contains_key(&client)
    }

    pub(super) fn insert(&mut self, id: u128, task: TaskRecord) {
        self.live.enter(id, &task);
        self.tasks.insert(id, task);
    }

    /// Panics unless the orders and the numbers agree with the tasks, and no more than so many
    /// ended tasks are remembered.
    pub(super) fn check(&self, ended_max: usize) {
        self.tasks.check(ended_max, |task| task.state.is_ended());
        let mut live = LiveTasks::default();
        for (id, task) in self.tasks.live(|task| task.state.is_ended()) {
            live.enter(id, task);
        }
        assert_eq!(self.live, live);
    }

    /// Changes a task that has not ended. If it ends, so many ended ones are remembered.
    pub(super) fn change(
        &mut self,
        id: u128,
        ended_max: usize,
        change: impl FnOnce(&mut TaskRecord),
    ) {
        let Some(task) = self.tasks.get_mut(id).filter(|task| !task.state.is_ended()) else {
            return;
        };
        self.live.depart(id, task);
        change(task);
        match task.state.is_ended() {
            true => self.tasks.end(id, ended_max),
            false => self.live.enter(id, task),
        }
    }

    /// A task that should have ended by now.
    pub(super) fn overdue(&self, now_ms: u64) -> Option<u128> {
        let &(deadline_ms, id) = self.live.by_deadline.first()?;
        (deadline_ms <= now_ms).then_some(id)
    }
}

impl LiveTasks {
    fn enter(&mut self, id: u128, task: &TaskRecord) {
        match task.state {
            TaskState::Pending => self.pending += 1,
            TaskState::Processing => self.processing += 1,
            TaskState::Failed | TaskState::Succeeded => return,
        }
        if let Some(deadline_ms) = task.deadline_ms {
            self.by_deadline.insert((deadline_ms, id));
        }
        *self.of_client.entry(task.client).or_default() += 1;
    }

    fn depart(&mut self, id: u128, task: &TaskRecord) {
        match task.state {
            TaskState::Pending => self.pending -= 1,
            TaskState::Processing => self.processing -= 1,
            TaskState::Failed | TaskState::Succeeded => return,
        }
        if let Some(deadline_ms) = task.deadline_ms {
            self.by_deadline.remove(&(deadline_ms, id));
        }
        debug_assert!(self.of_client.contains_key(&task.client));
        if let Some(count) = self.of_client.get_mut(&task.client) {
            *count -= 1;
            if *count == 0 {
                self.of_client.remove(&task.client);
            }
        }
    }
}

impl TaskRecord {
    /// A task that waits for a client.
    pub(super) fn pending(
        kind: TaskKind,
        client: u128,
        wall_ms: u64,
        deadline_ms: Option<u64>,
    ) -> Self {
        Self {
            kind,
            state: TaskState::Pending,
            created_ms: wall_ms,
            updated_ms: wall_ms,
            client,
            message: String::new(),
            deadline_ms,
        }
    }

    /// A client has taken it; it has until `deadline_ms`.
    pub(super) fn take(&mut self, deadline_ms: Option<u64>) {
        self.state = TaskState::Processing;
        self.deadline_ms = deadline_ms;
    }

    /// Nothing follows.
    pub(super) fn end(&mut self, outcome: Result<(), Status>) {
        (self.state, self.message) = match outcome {
            Ok(()) => (TaskState::Succeeded, "Task completed successfully".to_owned()),
            Err(status) => (TaskState::Failed, why(status)),
        };
    }
}

/// The reason shown for a failed task.
fn why(status: Status) -> String {
    let reason = match status {
        Status::ObjectNotFound => "the object was removed or evicted",
        Status::ReplicaNotFound => "the source segment holds no replica of the object any more",
        Status::SegmentNotFound => "the target segment was unmounted",
        Status::NoAvailableHandle => "the target segment has no room; free some or add segments",
        Status::UnavailableInCurrentStatus => "the target segment is being emptied",
        Status::InvalidParams => "the object has as many replicas as it may have",
        Status::RpcTimeout => {
            "no client carried it out in time; check that the source's owner is alive"
        }
        _ => "the copy failed each time it was tried",
    };
    format!("Task failed with {status}: {reason}")
}
