//! Tasks: copies or moves of one object's replicas that a client asked for, and what is left to do
//! of them on the key's shard. Invariant: a task has an outcome once all its targets are served or
//! one of them cannot be, and keeps it.

use std::collections::{BTreeMap, VecDeque};

use perigee_schemas::Status;

use crate::destination::Destination;
use crate::limits::REPLICAS_MAX;
use crate::moving::Purpose;
use crate::pending::PendingPuts;
use crate::read_view::ReadView;
use crate::tries::{RetryRule, Tries};

/// What is to be done with the replicas of an object; segments go by their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskAction {
    /// One more replica in each of these segments that holds none.
    Copy {
        /// The segments.
        targets: Vec<String>,
    },
    /// The replica in one segment is to lie in another one instead.
    Move {
        /// Where it lies.
        source: String,
        /// Where it is to go.
        target: String,
    },
}

/// A task that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRequest {
    /// The key.
    pub key: Box<[u8]>,
    /// What is to be done.
    pub action: TaskAction,
}

/// What happened to a task on its shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskUpdate {
    /// A copy waits for this client to take it.
    Assigned(u128),
    /// The client has taken the copy.
    Taken,
    /// Nothing follows: everything was done, or this is why it cannot be.
    Ended(Result<(), Status>),
}

/// A task on the shard of its key.
#[derive(Debug)]
pub(crate) struct ShardTask {
    pub(crate) key: Box<[u8]>,
    /// Segment whose replica goes; `None` if the object gets one more.
    pub(crate) source: Option<String>,
    /// Segments that still wait for their replica.
    targets: VecDeque<String>,
    /// Of the present target.
    tries: Tries,
    rule: RetryRule,
    /// Whether a client has taken a copy of it.
    pub(crate) was_taken: bool,
}

impl ShardTask {
    pub(crate) fn new(request: TaskRequest, retries_max: u32) -> Self {
        let (source, targets) = match request.action {
            TaskAction::Copy { targets } => (None, targets.into()),
            TaskAction::Move { source, target } => (Some(source), VecDeque::from([target])),
        };
        Self {
            key: request.key,
            source,
            targets,
            tries: Tries::default(),
            rule: RetryRule { retries_max, pauses_grow: false, no_room_patience_ms: None },
            was_taken: false,
        }
    }

    /// The segment that is served next.
    pub(crate) fn target(&self) -> Option<&str> {
        self.targets.front().map(String::as_str)
    }

    /// What it came to, if nothing is left to do.
    pub(crate) fn outcome(&self) -> Option<Result<(), Status>> {
        let done = self.targets.is_empty().then_some(Ok(()));
        self.tries.given_up().map(Err).or(done)
    }

    /// Whether the next try may be made.
    pub(crate) fn may_try(&self, now_ms: u64) -> bool {
        self.tries.may_try(now_ms)
    }

    /// Tries of the present target that failed.
    pub(crate) fn failed(&self) -> u32 {
        self.tries.failed()
    }

    /// The segment that comes next has its replica.
    pub(crate) fn note_done(&mut self) {
        debug_assert!(!self.targets.is_empty(), "something was left to do");
        self.targets.pop_front();
        self.tries.note_done();
    }

    /// A try failed for a reason that may pass.
    pub(crate) fn note_failure(&mut self, now_ms: u64, status: Status) {
        self.tries.note_failure(now_ms, status, &self.rule);
    }

    /// The segment that comes next has no room.
    pub(crate) fn note_no_room(&mut self, now_ms: u64) {
        self.tries.note_no_room(now_ms, &self.rule);
    }

    /// It cannot be done.
    pub(crate) fn give_up(&mut self, status: Status) {
        self.tries.give_up(status);
    }

    /// What becomes of the replica that is copied.
    pub(crate) fn purpose(&self) -> Purpose {
        match self.source {
            Some(_) => Purpose::Move,
            None => Purpose::Copy,
        }
    }

    /// The replica to copy for the next target of a task, and where to.
    pub(crate) fn next_copy(
        &self,
        view: ReadView<'_>,
        pending: &PendingPuts,
        object: u32,
    ) -> Result<(u32, Destination), TaskObstacle> {
        let named = view.space.named(self.target().unwrap_or_default());
        if named.is_empty() {
            return Err(TaskObstacle::Lasting(Status::SegmentNotFound));
        }
        if view.stored.is_striped(object) {
            return Err(TaskObstacle::Lasting(Status::InvalidParams));
        }
        let source = view.source_of(object, self.source.as_deref(), self.failed());
        let source = source.ok_or(TaskObstacle::Lasting(Status::ReplicaNotFound))?;
        let complete = view.stored.keys[object].first;
        let lies_in = |first: u32, segment: &u32| {
            view.stored.replicas.chain(first).any(|id| view.stored.replicas[id].segment == *segment)
        };
        if named.iter().any(|segment| lies_in(complete, segment)) {
            return Ok((source, Destination::Held));
        }
        let is_copy = self.source.is_none();
        if is_copy && view.stored.replicas.chain(complete).count() >= REPLICAS_MAX as usize {
            return Err(TaskObstacle::Lasting(Status::InvalidParams));
        }
        let is_open = |segment: &u32| {
            view.space.live().contains(segment)
                && !pending.is_written_in(view.stored, object, *segment)
        };
        let open: Vec<u32> = named.into_iter().filter(is_open).collect();
        match open.is_empty() {
            true => Err(TaskObstacle::Passing(Status::UnavailableInCurrentStatus)),
            false => Ok((source, Destination::Open(open))),
        }
    }
}

/// Why nothing comes next.
pub(crate) enum TaskObstacle {
    /// It may go away by itself.
    Passing(Status),
    /// It stays.
    Lasting(Status),
}

/// The tasks of a shard.
#[derive(Debug, Default)]
pub(crate) struct ShardTasks {
    by_id: BTreeMap<u128, ShardTask>,
    /// The one that was looked at last.
    cursor: u128,
}

impl ShardTasks {
    pub(crate) fn insert(&mut self, id: u128, task: ShardTask) {
        self.by_id.insert(id, task);
    }

    pub(crate) fn get_mut(&mut self, id: u128) -> Option<&mut ShardTask> {
        self.by_id.get_mut(&id)
    }

    pub(crate) fn remove(&mut self, id: u128) -> Option<ShardTask> {
        self.by_id.remove(&id)
    }

    /// Panics if a task goes on after its last try.
    pub(crate) fn check(&self) {
        self.by_id.values().for_each(|task| task.tries.check(&task.rule));
    }

    /// The next ones to be looked at, at most `limit`; all get their turn.
    pub(crate) fn next(&mut self, limit: usize) -> Vec<u128> {
        let from = self.cursor.wrapping_add(1);
        let (before, after) = (self.by_id.range(..from), self.by_id.range(from..));
        let ids = after.chain(before).map(|(id, _)| *id);
        let ids: Vec<u128> = ids.take(limit).collect();
        self.cursor = ids.last().copied().unwrap_or_default();
        ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::RETRY_PAUSE_MS;

    fn task(retries_max: u32) -> ShardTask {
        let targets = vec!["a".to_owned(), "b".to_owned()];
        let request =
            TaskRequest { key: b"k".as_slice().into(), action: TaskAction::Copy { targets } };
        ShardTask::new(request, retries_max)
    }

    #[test]
    fn a_target_is_tried_once_and_as_often_again_as_allowed() {
        let mut task = task(2);
        for failed in 1..=2 {
            task.note_failure(0, Status::TransferFail);
            assert_eq!((task.failed(), task.outcome()), (failed, None));
            assert!(!task.may_try(RETRY_PAUSE_MS - 1) && task.may_try(RETRY_PAUSE_MS));
        }
        task.note_done();
        assert_eq!((task.target(), task.failed()), (Some("b"), 0));
        for _ in 0..3 {
            task.note_failure(0, Status::TransferFail);
        }
        assert_eq!(task.outcome(), Some(Err(Status::TransferFail)));
        task.give_up(Status::ObjectNotFound);
        assert_eq!(task.outcome(), Some(Err(Status::TransferFail)));
    }

    #[test]
    fn all_tasks_get_their_turn_also_when_a_turn_looks_at_few() {
        let mut tasks = ShardTasks::default();
        for id in [1, 5, u128::MAX] {
            tasks.insert(id, task(0));
        }
        assert_eq!(tasks.next(2), [1, 5]);
        assert_eq!(tasks.next(2), [u128::MAX, 1]);
        assert_eq!(tasks.next(9), [5, u128::MAX, 1]);
        assert!(tasks.remove(5).is_some() && tasks.remove(5).is_none());
        assert_eq!(tasks.next(1), [u128::MAX]);
    }
}
